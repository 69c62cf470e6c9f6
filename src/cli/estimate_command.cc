// Options of an estimate, and which sizes the user left open.
#include "cli/estimate_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/deployment_flags.h"
#include "cli/estimate_output.h"
#include "cli/load_flags.h"
#include "cli/named_option.h"
#include "cli/search_output.h"
#include "search/open_estimate.h"
#include "search/workbench.h"

namespace infercast {

namespace {

struct EstimateFlags {
  DeploymentFlags deployment;
  WorkloadFlags workload{1024, 1024};
  LayoutFlags layout;
  std::string mode = "agg";
  std::optional<std::string> decode_system;
  std::int64_t batch = 128;
  std::optional<std::int64_t> ctx_tokens;
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> max_seq_len;
  std::uint32_t stride = kDecodeStride;
  PoolSizes prefill, decode;
  AfdSizes afd;
  std::string pipeline = "optimistic";
  std::string phase = "decode";
  bool boundary_on_ffn = false;
  bool encoder_pool = false;
  std::optional<std::int64_t> encoder_tp, encoder_batch, encoder_workers, language_workers;
  BenchmarkLoadFlags load;
  std::optional<std::string> score;
  std::string detail;
  // Options that only make sense in some modes.
  std::vector<CLI::Option*> pool_options, afd_options, static_options, encoder_options;
  CLI::Option* detail_option = nullptr;
};

void DeclarePool(CLI::App& command, const std::string& role, PoolSizes& sizes,
                 std::vector<CLI::Option*>& options) {
  const std::string p = role.substr(0, 1);
  const std::string group = "Pool of " + role + " workers (disagg)";
  const auto add = [&](const char* name, const char* alias, auto& value, const char* text) {
    options.push_back(
        command.add_option(fmt::format("--{}-{},--{}-{}", role, name, p, alias), value, text)
            ->group(group));
  };
  add("tp-size", "tp", sizes.tp, "Tensor parallelism (default: --tp-size)");
  add("pp-size", "pp", sizes.pp, "Pipeline parallelism (default: --pp-size)");
  add("attention-dp-size", "dp", sizes.dp, "Attention data parallelism");
  add("moe-tp-size", "etp", sizes.moe_tp, "Tensor parallelism of the experts");
  add("moe-ep-size", "ep", sizes.moe_ep, "Expert parallelism");
  add("batch-size", "bs", sizes.batch, "Requests in flight per rank");
  add("num-workers", "workers", sizes.workers, "Workers of the pool");
  add("free-gpu-memory-fraction", "memory-fraction", sizes.memory_fraction,
      "Share of GPU memory for the engine");
  add("max-seq-len", "max-seq", sizes.max_seq_len, "Longest sequence");
}

void DeclareAfd(CLI::App& command, EstimateFlags& flags) {
  const auto add = [&](const char* names, auto& value, const char* text) {
    CLI::Option* option =
        command.add_option(names, value, text)->group("Attention/FFN disaggregation (afd)");
    flags.afd_options.push_back(option);
    return option;
  };
  add("--n-a-nodes", flags.afd.n_a_nodes, "Nodes of the attention side");
  add("--n-f-nodes", flags.afd.n_f_nodes, "Nodes of the feed-forward side");
  add("--a-tp-size", flags.afd.a_tp, "GPUs of one attention worker")->capture_default_str();
  add("--a-batch-size", flags.afd.a_batch, "Requests of one attention worker")
      ->capture_default_str();
  add("--f-moe-ep-size", flags.afd.f_moe_ep, "Expert parallelism")->capture_default_str();
  add("--num-microbatches", flags.afd.microbatches, "Micro-batches that take turns")
      ->capture_default_str();
  add("--pipeline-model", flags.pipeline, "optimistic, conservative or serial")
      ->capture_default_str();
  add("--comm-overhead-factor", flags.afd.comm_overhead_factor, "Factor on the transfers")
      ->capture_default_str();
  add("--afd-phase", flags.phase, "prefill, decode or both")->capture_default_str();
  const auto flag = [&](const char* names, bool& value, const char* text) {
    flags.afd_options.push_back(
        command.add_flag(names, value, text)->group("Attention/FFN disaggregation (afd)"));
  };
  flag("--afd-combined-with-pd,!--no-afd-combined-with-pd", flags.afd.combined_with_pd,
       "Ordinary workers serve the other phase (default)");
  flag("--boundary-on-ffn", flags.boundary_on_ffn, "Norms and logits on the feed-forward side");
}

// Options that were given though the mode has no use for them.
Status CheckModeOptions(const EstimateFlags& flags, EstimateMode mode) {
  const auto refuse = [](const std::vector<CLI::Option*>& options, const char* needs) -> Status {
    for (const CLI::Option* option : options) {
      if (option->count() > 0) {
        return Fail(ErrorKind::kUsage,
                    fmt::format("{} goes with {} only", option->get_name(), needs));
      }
    }
    return {};
  };
  if (mode != EstimateMode::kDisagg) {
    IC_RETURN_IF_ERROR(refuse(flags.pool_options, "--estimate-mode disagg"));
  }
  if (mode != EstimateMode::kAfd) {
    IC_RETURN_IF_ERROR(refuse(flags.afd_options, "--estimate-mode afd"));
  }
  if (mode == EstimateMode::kAgg || mode == EstimateMode::kDisagg) {
    IC_RETURN_IF_ERROR(refuse(flags.static_options, "the static modes"));
  }
  if (!flags.encoder_pool) IC_RETURN_IF_ERROR(refuse(flags.encoder_options, "--encoder-pool"));
  if (!HasBenchmark(mode) && flags.load.given()) {
    return Fail(ErrorKind::kUsage,
                "a load (--concurrency, --rate ...) goes with the modes agg and disagg only");
  }
  if (flags.encoder_pool && mode != EstimateMode::kAgg && mode != EstimateMode::kDisagg) {
    return Fail(ErrorKind::kUsage, "--encoder-pool goes with the modes agg and disagg only");
  }
  return {};
}

Result<EstimateRequest> RequestOf(const EstimateFlags& flags, const CliContext& context) {
  EstimateRequest request;
  IC_ASSIGN(request.mode, ParseNamed<EstimateMode>(flags.mode));
  IC_RETURN_IF_ERROR(CheckModeOptions(flags, request.mode));
  IC_ASSIGN(const DeploymentRequest deploy, flags.deployment.Request(context));
  request.model = deploy.model;
  request.system = deploy.system;
  request.decode_system = flags.decode_system;
  request.backend = deploy.backend;
  request.version = deploy.version;
  request.database_mode = deploy.mode;
  request.policy = deploy.policy;
  request.workload = flags.workload.workload;
  request.encoder_data_parallel = !flags.deployment.encoder_tensor_parallel;
  request.layout = flags.layout.Layout();
  request.batch = flags.batch;
  request.ctx_tokens = flags.ctx_tokens;
  request.stride = flags.stride;
  request.prefill = flags.prefill;
  request.decode = flags.decode;
  request.afd = flags.afd;
  IC_ASSIGN(request.afd.pipeline, ParseNamed<AfdPipeline>(flags.pipeline));
  IC_ASSIGN(request.afd.phase, ParseNamed<AfdPhase>(flags.phase));
  request.afd.boundary_on_attn = !flags.boundary_on_ffn;
  request.epd.enabled = flags.encoder_pool;
  request.encoder_tp = flags.encoder_tp;
  request.encoder_batch = flags.encoder_batch;
  request.encoder_workers = flags.encoder_workers;
  request.language_workers = flags.language_workers.value_or(1);
  request.quant = deploy.build.quant;
  IC_ASSIGN(request.nextn, flags.deployment.Nextn());
  request.nextn_accepted = flags.deployment.nextn_accepted;
  request.memory_fraction = flags.memory_fraction;
  request.max_seq_len = flags.max_seq_len;
  request.attention_backend = flags.deployment.attention_backend;
  request.moe_backend = flags.deployment.moe_backend;
  IC_ASSIGN(request.forward_model, flags.deployment.Forward());
  request.behaviour = context.behaviour;
  request.allow_unlisted_versions = deploy.allow_unlisted;
  return request;
}

Result<int> Run(const EstimateFlags& flags, const CliContext& context) {
  IC_ASSIGN(EstimateRequest request, RequestOf(flags, context));
  IC_ASSIGN(const ScoredBy score, ScoreAsked(flags.score, context));
  EstimateDetail detail;
  if (flags.detail_option->count() > 0) {
    IC_ASSIGN(detail, ParseEstimateDetail(flags.detail.empty() ? "all" : flags.detail));
  }
  request.bounds = detail.any();
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  Workbench bench(around.systems, around.checkpoints);

  EstimateAnswer answer;
  const bool native = context.behaviour == Behaviour::kNative;
  const bool pools = request.mode == EstimateMode::kDisagg;
  if (native && pools) FillPools(request, answer.notes);
  OpenChoices choices;
  choices.layout = !flags.layout.given() && !pools && request.mode != EstimateMode::kAfd && native;
  const auto open = [](const PoolSizes& sizes) { return !sizes.moe_tp && !sizes.moe_ep; };
  choices.experts = native && flags.layout.experts_open() &&
                    (!pools || (open(flags.prefill) && open(flags.decode)));
  choices.estimates = native && !flags.deployment.database.mode;
  IC_ASSIGN(ChosenEstimate chosen, EstimateWithChoices(request, choices, bench));
  request = std::move(chosen.request);
  const PointEstimate* point = &chosen.point;
  answer.notes.insert(answer.notes.end(), chosen.notes.begin(), chosen.notes.end());

  IC_ASSIGN(const ScoredEstimate scored,
            ScoreEstimate(request, *point, flags.load.load, score, flags.load.given()));
  answer.scored = &scored;
  answer.notes.insert(answer.notes.end(), scored.notes.begin(), scored.notes.end());
  std::optional<LoadAnswer> load;
  if (scored.run) {
    IC_ASSIGN(load, flags.load.Answer(request, *point, *scored.run));
    answer.load = &*load;
    answer.notes.insert(answer.notes.end(), load->notes.begin(), load->notes.end());
  }
  answer.request = &request;
  answer.point = point;
  for (const std::string& note : point->notes) {
    if (std::find(answer.notes.begin(), answer.notes.end(), note) == answer.notes.end()) {
      answer.notes.push_back(note);
    }
  }
  if (point->out_of_memory) answer.notes.push_back("this does not fit in GPU memory");
  if (point->kv_warning) answer.notes.push_back(*point->kv_warning);
  if (!context.json) {
    for (const std::string& note : answer.notes) context.Note("note: " + note);
  }
  context.Print(context.json  ? EstimateJson(answer, detail)
                : context.csv ? EstimateCsv(answer)
                              : EstimateText(answer, detail));
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
      .add_option("--estimate-mode,--mode", flags->mode,
                  "agg (continuous batching), disagg (prefill and decode pools), afd (attention "
                  "and feed-forward nodes), static, static_ctx or static_gen (one batch)")
      ->capture_default_str();
  command.add_option("--batch-size,--bs", flags->batch, "Requests in flight per rank")
      ->capture_default_str();
  command.add_option("--ctx-tokens", flags->ctx_tokens, "Prefill tokens per step (default: isl)");
  command.add_option("--free-gpu-memory-fraction,--memory-fraction", flags->memory_fraction,
                     "Share of GPU memory for the engine (default: the backend's)");
  command.add_option("--max-seq-len", flags->max_seq_len,
                     "Longest sequence that KV memory is reserved for");
  flags->static_options.push_back(
      command.add_option("--stride", flags->stride, "Decode steps between samples (static modes)")
          ->capture_default_str());
  flags->pool_options.push_back(command
                                    .add_option("--decode-system", flags->decode_system,
                                                "GPU system of decode workers (default: --system)")
                                    ->group("Pool of decode workers (disagg)"));
  DeclarePool(command, "prefill", flags->prefill, flags->pool_options);
  DeclarePool(command, "decode", flags->decode, flags->pool_options);
  DeclareAfd(command, *flags);
  const char* group = "Pool of image encoders (agg, disagg)";
  command
      .add_flag("--encoder-pool,--enable-epd", flags->encoder_pool,
                "Encode images on workers of their own")
      ->group(group);
  const auto encoder = [&](const char* name, std::optional<std::int64_t>& value, const char* text) {
    flags->encoder_options.push_back(command.add_option(name, value, text)->group(group));
  };
  encoder("--encoder-tp", flags->encoder_tp, "Tensor parallelism of an encode worker");
  encoder("--encoder-batch-size", flags->encoder_batch, "Requests it encodes at once (default: 1)");
  encoder("--encoder-num-workers", flags->encoder_workers, "Encode workers (default: 1)");
  encoder("--language-num-workers", flags->language_workers,
          "Workers behind them (agg; default: 1)");
  flags->load.Declare(command);
  command.add_option("--score", flags->score,
                     "What the figures are: those of the run in virtual time (closed-loop; the "
                     "default but for reference behaviour) or of the formula");
  flags->detail_option =
      command
          .add_option("--detail", flags->detail,
                      "Show operators: time, energy, source, or all (default: all)")
          ->expected(0, 1);
  OnRun(command, context, [flags, &context] { return Run(*flags, context); });
}

}  // namespace infercast
