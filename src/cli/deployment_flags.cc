#include "cli/deployment_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "cli/named_option.h"

namespace infercast {

namespace {

template <NamedEnum E>
Status ParseOptional(const std::optional<std::string>& text, std::optional<E>& out) {
  if (!text) return {};
  IC_ASSIGN(out, ParseNamed<E>(*text));
  return {};
}

}  // namespace

void DeclareIgnored(CLI::App& command) {
  // Hidden: other programs' scripts pass them.
  command.add_flag("--debug,--no-color")->group("");
  command.add_option("--log-level,--engine-step-backend")->group("");
}

void DeploymentFlags::Declare(CLI::App& command) {
  command
      .add_option(
          "--model,--model-path", model,
          "Model: a bundled name, a directory, a config.json, or organisation/name on the Hub")
      ->required();
  database.Declare(command);
  command.add_option("--gemm-quant-mode", gemm, "Number format of dense products");
  command.add_option("--moe-quant-mode", moe, "Number format of experts");
  command.add_option("--kvcache-quant-mode", kv, "Number format of the KV cache");
  command.add_option("--fmha-quant-mode", fmha, "Number format of prefill attention");
  command.add_option("--comm-quant-mode", comm, "Number format of communication");
  command.add_option("--nextn", nextn, "Draft tokens per step, or auto")->capture_default_str();
  command.add_option("--nextn-accepted", nextn_accepted, "Draft tokens accepted per step");
  command.add_option("--attention-backend", attention_backend,
                     "Attention kernel: fa3, triton, trtllm_mha, flashinfer, fla, default");
  command.add_option("--moe-backend", moe_backend, "Expert kernel: deepep_moe, megamoe");
  command
      .add_option("--forward-model", forward_model,
                  "op_level (sum of operators) or fpm (whole forward passes as measured)")
      ->capture_default_str();
  command.add_flag("--disable-encoder-dp", encoder_tensor_parallel,
                   "Shard the image encoder instead of splitting its batch");
  DeclareIgnored(command);
}

Result<DeploymentRequest> DeploymentFlags::Request(const CliContext& context) const {
  DeploymentRequest request;
  request.model = model;
  IC_ASSIGN(const SystemsCatalog::OpenRequest open, database.Request(context));
  request.system = open.system;
  request.backend = open.backend;
  request.version = open.version;
  request.mode = open.mode;
  request.policy = open.policy;
  request.behaviour = open.behaviour;
  request.allow_unlisted = open.allow_unlisted;
  BuildOptions& build = request.build;
  IC_RETURN_IF_ERROR(ParseOptional(gemm, build.quant.gemm));
  IC_RETURN_IF_ERROR(ParseOptional(moe, build.quant.moe));
  IC_RETURN_IF_ERROR(ParseOptional(kv, build.quant.kv));
  IC_RETURN_IF_ERROR(ParseOptional(fmha, build.quant.fmha));
  IC_RETURN_IF_ERROR(ParseOptional(comm, build.quant.comm));
  build.attention_backend = attention_backend;
  if (moe_backend && *moe_backend != "deepep_moe") build.moe_backend = moe_backend;
  return request;
}

Result<std::optional<std::int64_t>> DeploymentFlags::DraftTokens() const {
  if (nextn == "auto") return std::nullopt;
  std::int64_t tokens = 0;
  const char* end = nextn.data() + nextn.size();
  const auto [stop, problem] = std::from_chars(nextn.data(), end, tokens);
  if (problem != std::errc() || stop != end || tokens < 0 || tokens > 1000) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("--nextn is '{}': expected a number of draft tokens or auto", nextn));
  }
  return tokens;
}

Result<std::optional<std::int64_t>> DeploymentFlags::Nextn() const {
  IC_ASSIGN(const std::optional<std::int64_t> tokens, DraftTokens());
  if (tokens.value_or(0) > 0 && !nextn_accepted) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("--nextn {} needs --nextn-accepted: the expected number of accepted "
                            "draft tokens per step (0 to {})",
                            *tokens, *tokens));
  }
  return tokens;
}

Result<ForwardModel> DeploymentFlags::Forward() const {
  if (forward_model == "op_level") return ForwardModel::kOperators;
  if (forward_model == "fpm") return ForwardModel::kWholeForward;
  return Fail(ErrorKind::kUnknownName,
              fmt::format("unknown forward model '{}'; known: op_level, fpm", forward_model));
}

void WorkloadFlags::Declare(CLI::App& command) {
  command.add_option("--isl", workload.isl, "Input tokens of a request")->capture_default_str();
  command.add_option("--osl", workload.osl, "Output tokens of a request")->capture_default_str();
  command.add_option("--prefix", workload.prefix, "Input tokens whose KV is already cached")
      ->capture_default_str();
  command.add_option("--image-height", workload.image_height, "Height of an image in pixels");
  command.add_option("--image-width", workload.image_width, "Width of an image in pixels");
  command.add_option("--num-images", workload.num_images, "Images per request")
      ->capture_default_str();
}

void LayoutFlags::Declare(CLI::App& command) {
  command.add_option("--tp-size,--tp", tp, "Tensor parallelism");
  command.add_option("--pp-size,--pp", pp, "Pipeline parallelism");
  command.add_option("--attention-dp-size,--dp", dp, "Attention data parallelism");
  command.add_option("--moe-tp-size,--etp", moe_tp, "Tensor parallelism of the experts");
  command.add_option("--moe-ep-size,--ep", moe_ep, "Expert parallelism");
  command.add_option("--cp-size,--cp", cp, "Context parallelism (sglang)");
}

ParallelLayout LayoutFlags::Layout() const {
  ParallelLayout layout;
  layout.tp = tp.value_or(1);
  layout.pp = pp.value_or(1);
  layout.dp = dp.value_or(1);
  layout.cp = cp.value_or(1);
  layout.moe_tp = moe_tp;
  layout.moe_ep = moe_ep;
  return layout;
}

Result<Surroundings> OpenSurroundings(const CliContext& context) {
  return OpenSurroundings(context.systems_paths, context.behaviour);
}

}  // namespace infercast
