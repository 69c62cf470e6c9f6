#include "cli/search_flags.h"

#include <fmt/format.h>
#include <tbb/global_control.h>

#include <CLI/CLI.hpp>
#include <cmath>

#include "cli/named_option.h"

namespace infercast {

namespace {

struct ModeChoice {
  const char* name;
  std::vector<ServingMode> modes;
};

// In the order in which experiments run.
const std::vector<ModeChoice>& ModeChoices() {
  static const std::vector<ModeChoice> choices = {
      {"auto", {ServingMode::kAggregated, ServingMode::kDisaggregated}},
      {"all", {ServingMode::kAggregated, ServingMode::kAfd, ServingMode::kDisaggregated}},
      {"agg", {ServingMode::kAggregated}},
      {"disagg", {ServingMode::kDisaggregated}},
      {"afd", {ServingMode::kAfd}},
  };
  return choices;
}

Result<std::vector<ServingMode>> ModesOf(const std::string& name) {
  std::vector<std::string> known;
  for (const ModeChoice& choice : ModeChoices()) {
    if (name == choice.name) return choice.modes;
    known.emplace_back(choice.name);
  }
  return Fail(ErrorKind::kUnknownName, fmt::format("unknown serving mode '{}'{}; known: {}", name,
                                                   DidYouMean(name, known), JoinNames(known)));
}

}  // namespace

Status CheckPositive(double value, const char* flag) {
  if (std::isfinite(value) && value > 0) return {};
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("{} is {}: expected a positive number", flag, value));
}

Status CheckTopN(std::size_t top_n) {
  if (top_n > 0) return {};
  return Fail(ErrorKind::kUsage, "--top-n is 0: expected at least 1");
}

void SearchFlags::Declare(CLI::App& command, bool pools) {
  deployment.Declare(command);
  workload.Declare(command);
  command.add_option("--ttft", ttft, "Target: time to first token, ms")->capture_default_str();
  command.add_option("--tpot", tpot, "Target: time per output token, ms")->capture_default_str();
  command.add_option("--request-latency", request_latency,
                     "Target: whole request, ms (instead of --tpot)");
  command.add_flag("--strict,--strict-sla", strict, "Leave out what misses the targets");
  command.add_option("--decode-system", decode_system,
                     "GPU system of decode workers (default: --system)");
  command.add_flag("--chunked-prefill,--enable-chunked-prefill", chunked_prefill,
                   "Try prefill chunks smaller than a request");
  command.add_option("--free-gpu-memory-fraction,--memory-fraction", memory_fraction,
                     "Share of GPU memory for the engine (default: the backend's)");
  command.add_option("--max-seq-len", max_seq_len,
                     "Longest sequence that KV memory is reserved for");
  command.add_flag("--enable-wideep", wideep)->group("");
  if (!pools) return;
  command
      .add_option("--serving-mode,--mode", serving_mode,
                  "auto (agg and disagg), all (and afd), agg, disagg or afd")
      ->capture_default_str();
  command.add_flag("--encoder-pool,--enable-epd", encoder_pool,
                   "Encode images on workers of their own");
  command.add_option("--encoder-tp", encoder_tp, "Tensor parallelism of encode workers to try");
  command.add_option("--encoder-system", encoder_system, "GPU system of encode workers");
  command.add_option("--encoder-latency-correction", encoder_latency_correction,
                     "Factor on the latency of encode workers");
  command.add_option("--afd-max-a-batch-size", afd_max_a_batch, "Largest attention batch (afd)")
      ->capture_default_str();
  command.add_option("--afd-max-candidates", afd_max_candidates, "Most topologies tried (afd)")
      ->capture_default_str();
  command
      .add_option("--afd-candidate-overflow", afd_overflow, "Beyond that: error or truncate (afd)")
      ->capture_default_str();
}

Result<RunRequest> SearchFlags::Request(const CliContext& context, std::size_t top_n) const {
  IC_RETURN_IF_ERROR(CheckPositive(ttft, "--ttft"));
  IC_RETURN_IF_ERROR(CheckPositive(tpot, "--tpot"));
  if (request_latency) IC_RETURN_IF_ERROR(CheckPositive(*request_latency, "--request-latency"));
  if (context.behaviour == Behaviour::kNative) IC_RETURN_IF_ERROR(CheckTopN(top_n));
  if (!encoder_pool &&
      (!encoder_tp.empty() || encoder_system || encoder_latency_correction != 1.0)) {
    return Fail(ErrorKind::kUsage,
                "--encoder-tp, --encoder-system and --encoder-latency-correction describe a pool "
                "of encode workers: add --encoder-pool");
  }
  RunRequest request;
  // "auto" and "all" are no backends of their own.
  DeploymentFlags flags = deployment;
  const bool every_backend = flags.database.backend == "auto" || flags.database.backend == "all";
  if (every_backend) flags.database.backend = ToString(Backend::kTrtllm);
  IC_ASSIGN(const DeploymentRequest deploy, flags.Request(context));
  request.model = deploy.model;
  request.system = deploy.system;
  request.decode_system = decode_system;
  request.backend = every_backend ? std::nullopt : std::optional(deploy.backend);
  request.version = deploy.version;
  request.database_mode = deploy.mode;
  request.policy = deploy.policy;
  request.workload = workload.workload;
  request.encoder_data_parallel = !flags.encoder_tensor_parallel;
  request.epd.enabled = encoder_pool;
  request.epd.tp = encoder_tp;
  request.epd.system = encoder_system;
  request.epd.latency_correction = encoder_latency_correction;
  request.ttft = ttft;
  request.tpot = tpot;
  request.request_latency = request_latency;
  request.strict = strict;
  IC_ASSIGN(request.nextn, flags.Nextn());
  request.nextn_accepted = flags.nextn_accepted;
  request.chunked_prefill = chunked_prefill;
  request.memory_fraction = memory_fraction;
  request.max_seq_len = max_seq_len;
  request.moe_backend = flags.moe_backend;
  request.attention_backend = flags.attention_backend;
  IC_ASSIGN(request.forward_model, flags.Forward());
  request.quant = deploy.build.quant;
  request.afd.max_a_batch = afd_max_a_batch;
  request.afd.max_candidates = afd_max_candidates;
  IC_ASSIGN(request.afd.candidate_overflow, ParseNamed<CandidateOverflow>(afd_overflow));
  if (context.behaviour == Behaviour::kNative) {
    // The same limits hold for the prefill workers in front, of which there are many, too: the
    // reference's limit of 256 refuses every mixture-of-experts model.
    request.afd.prefill_max_candidates = afd_max_candidates;
    request.afd.prefill_candidate_overflow = request.afd.candidate_overflow;
  }
  IC_ASSIGN(request.modes, ModesOf(serving_mode));
  request.top_n = top_n;
  request.behaviour = context.behaviour;
  request.allow_unlisted_versions = deploy.allow_unlisted;
  if (wideep) {
    context.Note("note: --enable-wideep changes nothing: wide expert parallelism is always tried");
  }
  return request;
}

struct ThreadLimit::Control {
  tbb::global_control control;
};

ThreadLimit::ThreadLimit(std::int64_t threads) {
  if (threads <= 0) return;
  control_ = std::make_unique<Control>(
      Control{{tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads)}});
}

ThreadLimit::~ThreadLimit() = default;

}  // namespace infercast
