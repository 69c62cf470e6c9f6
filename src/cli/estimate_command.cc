#include "cli/estimate_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/deployment_flags.h"
#include "serving/deployment.h"
#include "serving/disaggregated.h"

namespace infercast {

namespace {

using nlohmann::ordered_json;

struct EstimateFlags {
  DeploymentFlags deployment;
  WorkloadFlags workload{1024, 1024};
  LayoutFlags layout;
  std::string mode = "agg";
  std::int64_t batch = 128;
  std::optional<std::int64_t> ctx_tokens;
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> max_seq_len;
  std::uint32_t stride = kDecodeStride;
  bool detail = false;
};

// A phase of the answer with its operators, for --detail.
struct Section {
  std::string title;
  Breakdown operators;
};

ordered_json LayoutJson(const ParallelLayout& layout) {
  return {{"tp_size", layout.tp},
          {"pp_size", layout.pp},
          {"attention_dp_size", layout.dp},
          {"cp_size", layout.cp},
          {"moe_tp_size", layout.moe_tp.value_or(1)},
          {"moe_ep_size", layout.moe_ep.value_or(1)},
          {"parallel", ParallelText(layout)}};
}

ordered_json OperatorsJson(const Breakdown& breakdown) {
  ordered_json list = ordered_json::array();
  for (const OpEntry& e : breakdown.entries) {
    ordered_json op = {{"name", e.name},
                       {"latency_ms", e.latency_ms},
                       {"energy_wms", e.energy_wms},
                       {"source", ToString(e.source)},
                       {"origin", ToString(e.origin.kind)}};
    if (e.origin.octaves > 0) op["octaves_beyond_measurements"] = e.origin.octaves;
    if (e.origin.source != nullptr) {
      op["measured_in"] = {{"version", e.origin.source->version},
                           {"channel", ToString(e.origin.source->channel)}};
    }
    if (e.tier != Tier::kSilicon) op["estimation_tier"] = ToString(e.tier);
    list.push_back(std::move(op));
  }
  return list;
}

std::string OperatorTable(const Section& section) {
  const double total = section.operators.TotalLatency();
  std::string text = fmt::format("\n{} ({:.3f} ms)\n", section.title, total);
  text += fmt::format("  {:<34} {:>11} {:>7}  {}\n", "operator", "ms", "share", "from");
  for (const OpEntry& e : section.operators.entries) {
    std::string from(ToString(e.origin.kind));
    if (e.origin.octaves > 0) from += fmt::format(" by 2^{:.1f}", e.origin.octaves);
    if (e.origin.source != nullptr && e.origin.source->channel != SourceChannel::kPrimary) {
      from += fmt::format(", version {}", e.origin.source->version);
    }
    text += fmt::format("  {:<34} {:>11.4f} {:>6.1f}%  {}\n", e.name, e.latency_ms,
                        total > 0 ? e.latency_ms / total * 100 : 0, from);
  }
  return text;
}

std::string Head(const Deployment& deployment, const WorkerRow& row, const Workload& workload) {
  const WorkerIdentity& id = *row.worker;
  return fmt::format(
      "{} on {} x {} ({} {}), {}\n  isl {}, osl {}{}, weights {}, KV cache {}\n\n",
      deployment.model().name, row.num_total_gpus, id.system, ToString(id.backend), id.version,
      id.parallel, workload.isl, workload.osl,
      workload.prefix > 0 ? fmt::format(", prefix {}", workload.prefix) : std::string(),
      ToString(id.quant.gemm), ToString(id.quant.kv));
}

std::string MemoryText(const MemoryUsage& m, double capacity_gib) {
  return fmt::format(
      "\nmemory per GPU (GiB)\n"
      "  weights       {:>9.2f}\n  activations   {:>9.2f}\n  KV cache      {:>9.2f}\n"
      "  communication {:>9.2f}\n  runtime       {:>9.2f}\n  total         {:>9.2f} of {:.2f}\n",
      m.weights, m.activations, m.kvcache, m.nccl, m.others, m.total, capacity_gib);
}

ordered_json MemoryJson(const MemoryUsage& m, double capacity_gib) {
  return {{"total", m.total},        {"weights", m.weights}, {"activations", m.activations},
          {"kvcache", m.kvcache},    {"nccl", m.nccl},       {"others", m.others},
          {"capacity", capacity_gib}};
}

ordered_json FiguresJson(const WorkerRow& row) {
  return {{"ttft_ms", row.ttft},
          {"tpot_ms", row.tpot},
          {"request_latency_ms", row.request_latency},
          {"tokens_per_s", row.tokens_s},
          {"tokens_per_s_per_gpu", row.tokens_s_gpu},
          {"tokens_per_s_per_user", row.tokens_s_user},
          {"requests_per_s", row.seq_s},
          {"concurrency", row.concurrency},
          {"encoder_latency_ms", row.encoder_latency},
          {"power_w", row.power_coverage >= 0.9 ? ordered_json(row.power_w) : ordered_json()},
          {"num_total_gpus", row.num_total_gpus}};
}

std::string FiguresText(const WorkerRow& row) {
  return fmt::format(
      "  time to first token   {:>12.3f} ms\n"
      "  time per output token {:>12.3f} ms\n"
      "  request latency       {:>12.3f} ms\n"
      "  tokens/s              {:>12.2f}   ({:.2f} per GPU, {:.2f} per user)\n"
      "  requests/s            {:>12.3f}   (concurrency {:.0f})\n",
      row.ttft, row.tpot, row.request_latency, row.tokens_s, row.tokens_s_gpu, row.tokens_s_user,
      row.seq_s, row.concurrency);
}

Result<std::vector<Section>> Explain(const Worker& worker, const Workload& workload,
                                     std::int64_t batch, std::int64_t ctx, StaticMode mode,
                                     bool aggregated, const AggregatedRow* row,
                                     std::uint32_t stride) {
  std::vector<Section> sections;
  const auto isl = static_cast<std::uint32_t>(workload.isl + worker.VisualTokensOf(workload));
  const auto osl = static_cast<std::uint32_t>(workload.osl);
  if (mode != StaticMode::kGeneration) {
    IC_ASSIGN(Breakdown encoder, worker.Encode(workload, batch));
    if (!encoder.entries.empty()) sections.push_back({"encoder", std::move(encoder)});
  }
  if (aggregated) {
    MixedShape mixed;
    mixed.context_tokens = static_cast<std::uint32_t>(ctx);
    mixed.decodes = static_cast<std::uint32_t>(row->mixed_decodes);
    mixed.isl = isl;
    mixed.osl = osl;
    mixed.prefix = static_cast<std::uint32_t>(workload.prefix);
    IC_ASSIGN(MixedBreakdown steps, worker.engine().ExplainMixedStep(mixed));
    Breakdown all = std::move(steps.shared);
    for (const Breakdown* part : {&steps.context_attention, &steps.decode_attention}) {
      for (const OpEntry& e : part->entries) all.Add(e);
    }
    sections.push_back({"step with prefill", std::move(all)});
    if (row->decode_batch > 0) {
      IC_ASSIGN(Breakdown decode, worker.engine().ExplainDecodeStep(
                                      static_cast<std::uint32_t>(row->decode_batch), isl, osl));
      sections.push_back({"decode step", std::move(decode)});
    }
    return sections;
  }
  RuntimeShape shape;
  shape.batch_size = static_cast<std::uint32_t>(batch);
  shape.isl = isl;
  shape.osl = osl;
  shape.prefix = static_cast<std::uint32_t>(workload.prefix);
  IC_ASSIGN(StaticBreakdown breakdown, worker.engine().ExplainStatic(shape, mode, stride));
  if (mode != StaticMode::kGeneration) {
    sections.push_back({"prefill", std::move(breakdown.context)});
  }
  if (mode != StaticMode::kContext) {
    sections.push_back({"decode, all output tokens", std::move(breakdown.generation)});
  }
  return sections;
}

Result<int> Run(const EstimateFlags& flags, CliContext& context) {
  std::optional<StaticMode> mode;
  if (flags.mode == "static") mode = StaticMode::kBoth;
  if (flags.mode == "static_ctx") mode = StaticMode::kContext;
  if (flags.mode == "static_gen") mode = StaticMode::kGeneration;
  if (!mode && flags.mode != "agg") {
    return Fail(ErrorKind::kUsage,
                fmt::format("unknown --estimate-mode '{}': use agg, static, static_ctx, static_gen",
                            flags.mode));
  }
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  IC_ASSIGN(DeploymentRequest request, flags.deployment.Request(context));
  IC_ASSIGN(ModelConfig config, LoadModelConfig(request.model, around.checkpoints));
  IC_ASSIGN(const Speculation speculation, flags.deployment.SpeculationOf(config));
  request.build.nextn = speculation.nextn;
  IC_ASSIGN(const std::shared_ptr<const Deployment> deployment,
            Deployment::Open(request, around.systems,
                             std::make_shared<const ModelConfig>(std::move(config))));

  const Workload& workload = flags.workload.workload;
  const std::int64_t ctx = flags.ctx_tokens.value_or(workload.isl);
  EvaluationOptions options;
  options.memory_fraction = flags.memory_fraction;
  options.max_seq_len = flags.max_seq_len;
  options.stride = flags.stride;
  if (speculation.nextn > 0) options.decode_progress = speculation.progress();

  ParallelLayout layout = flags.layout.Layout();
  std::vector<std::string> notes = deployment->model().notes;
  if (!flags.layout.given()) {
    IC_ASSIGN(layout, SmallestFittingLayout(*deployment, workload, flags.batch, ctx, options));
    notes.push_back(fmt::format(
        "no parallelism given: {} is the smallest that holds the weights and {} requests",
        ParallelText(layout), flags.batch));
  }
  IC_ASSIGN(const std::shared_ptr<const Worker> worker, deployment->MakeWorker(layout));

  ordered_json json = {{"model", deployment->model().name},
                       {"system", request.system},
                       {"backend", ToString(request.backend)},
                       {"backend_version", deployment->version()},
                       {"mode", flags.mode},
                       {"database_mode", ToString(request.mode)},
                       {"behaviour", ToString(context.behaviour)},
                       {"isl", workload.isl},
                       {"osl", workload.osl},
                       {"prefix", workload.prefix},
                       {"batch_size", flags.batch},
                       {"layout", LayoutJson(worker->identity().layout)},
                       {"quantisation",
                        {{"gemm", ToString(worker->identity().quant.gemm)},
                         {"moe", ToString(worker->identity().quant.moe)},
                         {"kvcache", ToString(worker->identity().quant.kv)},
                         {"fmha", ToString(worker->identity().quant.fmha)},
                         {"comm", ToString(worker->identity().quant.comm)}}}};
  std::string text;
  MemoryVerdict verdict;
  const double capacity = static_cast<double>(worker->capacity_bytes()) / kGiB;
  std::vector<Section> sections;
  const auto finish = [&](const WorkerRow& row) {
    verdict = row.verdict;
    json["figures"] = FiguresJson(row);
    json["memory_gib"] = MemoryJson(row.memory, capacity);
    text = Head(*deployment, row, workload) + FiguresText(row) + MemoryText(row.memory, capacity);
  };
  if (mode) {
    IC_ASSIGN(StaticRow row, EvaluateStatic(*worker, workload, flags.batch, *mode, options));
    if (*mode == StaticMode::kGeneration) ProjectSpeculation(row, speculation.accepted, false);
    finish(row);
    json["figures"]["context_latency_ms"] = row.context_latency;
    json["figures"]["generation_latency_ms"] = row.generation_latency;
    if (flags.detail) {
      IC_ASSIGN(sections,
                Explain(*worker, workload, flags.batch, ctx, *mode, false, nullptr, flags.stride));
    }
  } else {
    IC_ASSIGN(const AggregatedRow row,
              EvaluateAggregated(*worker, workload, flags.batch, ctx, options));
    finish(row);
    json["ctx_tokens"] = ctx;
    json["schedule"] = {{"steps_with_prefill", row.num_mixed_steps},
                        {"decode_only_steps", row.num_decode_steps},
                        {"step_with_prefill_ms", row.mixed_step_ms},
                        {"decode_only_step_ms", row.decode_step_ms}};
    if (flags.detail) {
      IC_ASSIGN(sections, Explain(*worker, workload, flags.batch, ctx, StaticMode::kBoth, true,
                                  &row, flags.stride));
    }
  }
  for (const Section& section : sections) {
    json["operators"][section.title] = OperatorsJson(section.operators);
    text += OperatorTable(section);
  }
  json["fits"] = verdict.fits();
  json["notes"] = notes;
  if (verdict.oom && !mode) {
    return Fail(ErrorKind::kDoesNotFit,
                fmt::format("{} does not fit: {} needs more than the {:.1f} GiB of a {}; use more "
                            "GPUs (--tp-size) or a smaller --batch-size",
                            deployment->model().name, worker->identity().parallel, capacity,
                            request.system));
  }
  if (!verdict.fits()) {
    notes.push_back(verdict.oom ? "this does not fit in GPU memory"
                                : "the KV cache of this batch exceeds the engine's KV budget");
    json["notes"] = notes;
  }
  if (context.json) {
    context.Print(json.dump(2) + "\n");
  } else {
    for (const std::string& note : notes) context.Note("note: " + note);
    context.Print(text);
  }
  return kExitAnswer;
}

}  // namespace

void AddEstimateCommand(CLI::App& app, CliContext& context) {
  CLI::App& command =
      *app.add_subcommand("estimate", "Forecast of one configuration: latency, throughput, memory");
  auto flags = std::make_shared<EstimateFlags>();
  flags->deployment.Declare(command);
  flags->workload.Declare(command);
  flags->layout.Declare(command);
  command
      .add_option("--estimate-mode", flags->mode,
                  "agg (continuous batching), static, static_ctx or static_gen")
      ->capture_default_str();
  command.add_option("--batch-size,--bs", flags->batch, "Requests in flight per rank")
      ->capture_default_str();
  command.add_option("--ctx-tokens", flags->ctx_tokens, "Prefill tokens per step (default: isl)");
  command.add_option("--free-gpu-memory-fraction", flags->memory_fraction,
                     "Share of GPU memory for the engine (default: the backend's)");
  command.add_option("--max-seq-len", flags->max_seq_len,
                     "Longest sequence that KV memory is reserved for");
  command.add_option("--stride", flags->stride, "Decode steps between samples (static modes)")
      ->capture_default_str();
  command.add_flag("--detail", flags->detail, "Show every operator: latency, share, origin");
  OnRun(command, context, [flags, &context] { return Run(*flags, context); });
}

}  // namespace infercast
