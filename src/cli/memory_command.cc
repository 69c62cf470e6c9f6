#include "cli/memory_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/deployment_flags.h"
#include "cli/grouped_number.h"
#include "serving/kv_capacity.h"
#include "serving/memory_report.h"

namespace infercast {

namespace {

using nlohmann::ordered_json;

struct MemoryFlags {
  DeploymentFlags deployment;
  LayoutFlags layout;
  MemoryReportRequest request;
  std::optional<double> kv_gib;
  std::optional<double> gpu_gib;
  bool no_hybrid = false;
  std::optional<std::int64_t> context_length;
  std::optional<std::int64_t> batch;
  double tolerance = 0;
  bool allow_naive = false;
};

// Experts go to expert parallelism unless the layout says otherwise.
ParallelLayout LayoutFor(const LayoutFlags& flags, bool moe) {
  ParallelLayout layout = flags.Layout();
  if (moe && !layout.moe_tp && !layout.moe_ep) {
    layout.moe_tp = 1;
    layout.moe_ep = layout.AttentionWidth();
  }
  return layout;
}

std::string FormatsText(const QuantModes& quant, bool moe) {
  std::string text = fmt::format("weights {}", ToString(quant.gemm));
  if (moe) text += fmt::format(", experts {}", ToString(quant.moe));
  return text + fmt::format(", KV cache {}", ToString(quant.kv));
}

ordered_json PartsJson(const MemoryReport& r) {
  return {{"weights", r.weights / kGiB},         {"draft_weights", r.draft_weights / kGiB},
          {"activations", r.activations / kGiB}, {"communication", r.communication / kGiB},
          {"runtime", r.runtime / kGiB},         {"kv_cache", r.kv_bytes / kGiB},
          {"capacity", r.capacity / kGiB}};
}

std::string Line(std::string_view what, double bytes, std::string_view remark = {}) {
  return fmt::format("  {:<16}{:>9.2f} GiB{}{}\n", what, bytes / kGiB, remark.empty() ? "" : "   ",
                     remark);
}

int PrintReport(const MemoryReport& r, const Deployment& deployment, std::int64_t length,
                std::int64_t batch, const CliContext& context) {
  const CacheLayout& cache = r.cache;
  const std::int64_t limit =
      r.plan.facts.context_length > 0 ? r.plan.facts.context_length : std::int64_t{1} << 40;
  const std::int64_t largest = cache.MaxBatch(length);
  const std::int64_t longest = cache.MaxTokens(batch, limit);
  const ParallelLayout& layout = r.plan.layout;
  if (context.json) {
    ordered_json pools = ordered_json::array();
    for (const CachePool& pool : cache.pools) {
      pools.push_back({{"name", pool.name},
                       {"blocks", pool.blocks},
                       {"block_bytes", pool.block_bytes},
                       {"layer_groups", pool.uses.size()}});
    }
    ordered_json json = {
        {"model", r.plan.model},
        {"architecture", r.plan.facts.architecture},
        {"system", deployment.request().system},
        {"backend", ToString(r.plan.backend)},
        {"backend_version", deployment.version()},
        {"parallel", ParallelText(layout)},
        {"gpus_per_worker", layout.GpusPerWorker()},
        {"gemm_quant_mode", ToString(r.plan.quant.gemm)},
        {"moe_quant_mode", ToString(r.plan.quant.moe)},
        {"kvcache_quant_mode", ToString(r.plan.quant.kv)},
        {"memory_gib", PartsJson(r)},
        {"memory_fraction", r.fraction},
        {"memory_fraction_kind", r.fraction_of_free ? "of_free" : "of_total"},
        {"kv_cache",
         {{"tokens", cache.tokens},
          {"block_size", cache.block_size},
          {"bytes_per_token", cache.bytes_per_token},
          {"bytes_per_sequence", cache.bytes_per_sequence},
          {"pools", std::move(pools)}}},
        {"max_batch_size", {{"context_length", length}, {"batch_size", largest}}},
        {"max_context_length", {{"batch_size", batch}, {"context_length", longest}}},
        {"assumptions", r.assumptions}};
    if (cache.tokens_by_concurrency) {
      json["kv_cache"]["tokens_by_concurrency"] = *cache.tokens_by_concurrency;
    }
    for (const std::string& note : cache.assumptions) json["assumptions"].push_back(note);
    context.Print(json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    return kExitAnswer;
  }
  if (context.csv) {
    context.Print(fmt::format(
        "weights_gib,draft_weights_gib,activations_gib,communication_gib,runtime_gib,kv_cache_gib,"
        "kv_tokens,max_batch_size,max_context_length\n{},{},{},{},{},{},{},{},{}\n",
        r.weights / kGiB, r.draft_weights / kGiB, r.activations / kGiB, r.communication / kGiB,
        r.runtime / kGiB, r.kv_bytes / kGiB, cache.tokens, largest, longest));
    return kExitAnswer;
  }
  std::string text = fmt::format("{} on {}, {} {}, {} ({} GPU{} a worker)\n", r.plan.model,
                                 deployment.request().system, ToString(r.plan.backend),
                                 deployment.version(), ParallelText(layout), layout.GpusPerWorker(),
                                 layout.GpusPerWorker() == 1 ? "" : "s");
  text += FormatsText(r.plan.quant, r.plan.facts.is_moe) + "\n\nOne GPU\n";
  text += Line("weights", r.weights);
  if (r.draft_weights > 0) text += Line("draft weights", r.draft_weights);
  text += Line("activations", r.activations);
  text += Line("communication", r.communication);
  text += Line("runtime", r.runtime);
  text += Line("KV cache", r.kv_bytes,
               fmt::format("the engine may use {:g} of {}", r.fraction,
                           r.fraction_of_free ? "what is free beside the rest" : "the memory"));
  text += Line("capacity", r.capacity);
  text += fmt::format("\nKV cache: {} tokens", Grouped(cache.tokens));
  if (cache.block_size > 1) text += fmt::format(" in blocks of {}", cache.block_size);
  text += "\n";
  if (cache.tokens_by_concurrency) {
    text += fmt::format("  {} tokens as newer vLLM counts them (sequences of the longest length)\n",
                        Grouped(*cache.tokens_by_concurrency));
  }
  text += fmt::format("  {} bytes a token", Grouped(cache.bytes_per_token));
  if (cache.bytes_per_sequence > 0) {
    text += fmt::format(", and {:.2f} MiB a sequence", cache.bytes_per_sequence / 1048576.0);
  }
  text += fmt::format("\n  largest batch at {} tokens: {}\n", Grouped(length), Grouped(largest));
  text += fmt::format("  longest context at batch {}: {} tokens{}\n", batch, Grouped(longest),
                      longest == limit ? " (the model's limit)" : "");
  if (!context.quiet) {
    text += "\nAssumptions\n";
    for (const std::string& note : r.assumptions) text += fmt::format("  {}\n", note);
    for (const std::string& note : cache.assumptions) text += fmt::format("  {}\n", note);
  }
  context.Print(text);
  return kExitAnswer;
}

// The reference's stand-alone estimate, with its figures and its kinds of errors.
Result<int> PrintCapacity(const MemoryFlags& flags, const DeploymentRequest& deployment,
                          const std::optional<std::string>& version, const Surroundings& around,
                          const CliContext& context) {
  KvCapacityRequest request;
  request.model = deployment.model;
  request.system = deployment.system;
  request.backend = std::string(ToString(deployment.backend));
  request.version = version;
  request.layout = flags.layout.Layout();
  request.quant = deployment.build.quant;
  request.nextn = static_cast<double>(deployment.build.nextn);
  request.max_num_tokens = flags.request.cache.max_num_tokens;
  request.fraction_kind =
      BackendMemoryOf(deployment.backend).fraction_of_free ? "of_free" : "of_total";
  request.fraction = flags.request.fraction.value_or(
      DefaultAggregateFraction(deployment.backend, version.value_or("")));
  if (flags.gpu_gib) request.capacity_override_bytes = *flags.gpu_gib * kGiB;
  if (flags.tolerance > 0) request.tolerance = flags.tolerance;
  request.allow_naive = flags.allow_naive;
  IC_ASSIGN(const KvCapacity kv, EstimateKvCapacity(request, around.systems, around.checkpoints));
  if (context.json || context.csv) {
    ordered_json json = {{"model", request.model},
                         {"system", request.system},
                         {"backend", request.backend},
                         {"estimate", kv.naive ? "naive" : "modelled"},
                         {"gpu_memory_capacity_bytes", kv.gpu_capacity_bytes},
                         {"kv_cache_bytes", kv.kv_bytes},
                         {"kv_bytes_per_token", kv.bytes_per_token},
                         {"kv_tokens", kv.tokens}};
    if (kv.parts) {
      json["weights_bytes"] = kv.parts->weights;
      json["activations_bytes"] = kv.parts->activations;
      json["runtime_bytes"] = kv.parts->runtime;
      json["communication_bytes"] = kv.parts->communication;
    }
    if (kv.adjusted) {
      json["adjusted"] = {{"tolerance_fraction", kv.adjusted->tolerance},
                          {"kv_cache_bytes", kv.adjusted->kv_bytes},
                          {"kv_tokens", kv.adjusted->tokens}};
    }
    if (context.json) {
      context.Print(json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    } else {
      context.Print(fmt::format("kv_cache_bytes,kv_bytes_per_token,kv_tokens\n{},{},{}\n",
                                kv.kv_bytes, kv.bytes_per_token, kv.tokens));
    }
    return kExitAnswer;
  }
  std::string text =
      fmt::format("{} on {}, {}\n\nOne GPU\n", request.model, request.system, request.backend);
  if (kv.parts) {
    text += Line("weights", static_cast<double>(kv.parts->weights));
    text += Line("activations", static_cast<double>(kv.parts->activations));
    text += Line("communication", static_cast<double>(kv.parts->communication));
    text += Line("runtime", static_cast<double>(kv.parts->runtime));
  }
  text += Line("KV cache", static_cast<double>(kv.kv_bytes));
  text += Line("capacity", static_cast<double>(kv.gpu_capacity_bytes));
  text += fmt::format("\nKV cache: {} tokens of {} bytes\n", Grouped(kv.tokens),
                      Grouped(kv.bytes_per_token));
  if (kv.adjusted) {
    text += fmt::format("  {} tokens with {:g} held back\n", Grouped(kv.adjusted->tokens),
                        kv.adjusted->tolerance);
  }
  if (kv.naive) text += "  from the configuration alone: no operator model was built\n";
  context.Print(text);
  return kExitAnswer;
}

Status CheckPositive(const char* name, const std::optional<std::int64_t>& value) {
  if (!value || (*value >= 1 && *value <= (std::int64_t{1} << 40))) return {};
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("{} is {}: expected a positive number", name, *value));
}

Result<int> Run(MemoryFlags flags, CliContext& context) {
  IC_RETURN_IF_ERROR(CheckPositive("--context-length", flags.context_length));
  IC_RETURN_IF_ERROR(CheckPositive("--batch-size", flags.batch));
  IC_RETURN_IF_ERROR(CheckPositive("--max-num-tokens", flags.request.cache.max_num_tokens));
  for (const auto& [name, gib] :
       {std::pair{"--kv-cache-memory", flags.kv_gib}, {"--gpu-memory", flags.gpu_gib}}) {
    if (gib && !(*gib > 0 && *gib < 1e6)) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("{} is {}: expected GiB above 0", name, *gib));
    }
  }
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  IC_ASSIGN(DeploymentRequest request, flags.deployment.Request(context));
  IC_ASSIGN(ModelConfig model, LoadModelConfig(request.model, around.checkpoints));
  IC_ASSIGN(const std::optional<std::int64_t> drafts, flags.deployment.DraftTokens());
  request.build.nextn = drafts.value_or(model.draft_layers);
  const auto shared = std::make_shared<const ModelConfig>(std::move(model));
  Result<std::shared_ptr<const Deployment>> deployment =
      Deployment::Open(request, around.systems, shared);
  if (context.behaviour == Behaviour::kReference || (!deployment && flags.allow_naive)) {
    std::optional<std::string> version;
    if (deployment) version = (*deployment)->version();
    return PrintCapacity(flags, request, version, around, context);
  }
  if (!deployment) return std::unexpected(deployment.error());
  flags.request.cache.hybrid_manager = !flags.no_hybrid;
  if (flags.kv_gib) flags.request.kv_bytes = *flags.kv_gib * kGiB;
  if (flags.gpu_gib) flags.request.capacity_bytes = *flags.gpu_gib * kGiB;
  const Result<MemoryReport> report =
      ReportMemory(**deployment, LayoutFor(flags.layout, shared->IsMoe()), flags.request);
  if (!report) {
    if (flags.allow_naive) return PrintCapacity(flags, request, std::nullopt, around, context);
    return std::unexpected(report.error());
  }
  return PrintReport(*report, **deployment, flags.context_length.value_or(8192),
                     flags.batch.value_or(1), context);
}

}  // namespace

void AddMemoryCommand(CLI::App& app, CliContext& context) {
  CLI::App& memory =
      *app.add_subcommand("memory", "What fills a GPU's memory, and what its KV cache holds");
  auto flags = std::make_shared<MemoryFlags>();
  flags->deployment.Declare(memory);
  flags->layout.Declare(memory);
  CacheOptions& cache = flags->request.cache;
  memory.add_option("--context-length,--seq-len", flags->context_length,
                    "Tokens of a sequence, for the largest batch (default: 8192)");
  memory.add_option("--batch-size,--bs", flags->batch,
                    "Sequences at once, for the longest context (default: 1)");
  memory.add_option(
      "--memory-fraction,--gpu-memory-utilization,--mem-fraction-static,"
      "--free-gpu-memory-fraction",
      flags->request.fraction,
      "Share of memory for the engine, in the backend's own meaning (default: the backend's)");
  memory.add_option("--kv-cache-memory", flags->kv_gib,
                    "Memory of the KV cache in GiB, instead of what is left");
  memory.add_option("--gpu-memory", flags->gpu_gib,
                    "Memory of a GPU in GiB (default: the system's)");
  memory
      .add_option("--max-num-tokens,--max-num-batched-tokens", cache.max_num_tokens,
                  "Token budget of a step")
      ->capture_default_str();
  memory.add_option("--max-seq-len,--max-model-len", cache.max_seq_len,
                    "Longest sequence (default: the model's)");
  memory.add_option("--block-size,--page-size", cache.block_size,
                    "Tokens of a cache block (default: the backend's)");
  memory.add_option("--max-batch-size,--max-num-seqs", cache.max_sequences,
                    "Largest batch: a state slot each (trtllm)");
  memory.add_flag("--no-hybrid-manager,--disable-hybrid-kv-cache-manager", flags->no_hybrid,
                  "Sliding layers keep every token (vllm, sglang)");
  memory.add_flag("--max-attention-window", cache.window_pools,
                  "Sliding layers keep their window (trtllm)");
  memory.add_option("--tolerance", flags->tolerance,
                    "Share of the KV cache held back (reference behaviour)");
  memory.add_flag("--allow-naive", flags->allow_naive,
                  "Where no model can be built, estimate from the configuration alone");
  OnRun(memory, context, [flags, &context] { return Run(*flags, context); });
}

}  // namespace infercast
