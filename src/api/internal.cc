// Names, options and results across the border.
#include "api/internal.h"

#include "models/model_config.h"

namespace infercast::v1 {

const char* Version() { return INFERCAST_VERSION; }

std::string_view ToString(ErrorKind kind) {
  return infercast::ToString(static_cast<infercast::ErrorKind>(kind));
}

namespace internal {

Result<Surroundings> OpenSurroundings(const std::string& systems_paths,
                                      infercast::Behaviour behaviour) {
  std::optional<std::string_view> list;
  if (!systems_paths.empty()) list = systems_paths;
  API_ASSIGN(Surroundings around, infercast::OpenSurroundings(list, behaviour));
  return around;
}

Result<Surroundings> OpenSurroundings(const DatabaseOptions& options) {
  API_ASSIGN(const infercast::Behaviour behaviour,
             ParseName<infercast::Behaviour>(options.behaviour));
  return OpenSurroundings(options.systems_paths, behaviour);
}

Result<infercast::SystemsCatalog::OpenRequest> OpenRequestOf(const DatabaseOptions& options) {
  infercast::SystemsCatalog::OpenRequest request;
  request.system = options.system;
  API_ASSIGN(request.backend, ParseName<infercast::Backend>(options.backend));
  if (!options.version.empty()) request.version = options.version;
  std::string mode = options.mode.empty() ? "SILICON" : options.mode;
  for (char& c : mode) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  API_ASSIGN(request.mode, ParseName<infercast::DatabaseMode>(mode));
  if (!options.transfer_policy.empty()) {
    API_ASSIGN(request.policy, infercast::ParseTransferPolicy(options.transfer_policy));
  }
  API_ASSIGN(request.behaviour, ParseName<infercast::Behaviour>(options.behaviour));
  request.allow_unlisted = options.allow_unlisted_versions;
  return request;
}

namespace {
template <infercast::NamedEnum E>
Result<std::optional<E>> ParseOptional(const std::string& text) {
  if (text.empty()) return std::optional<E>();
  API_ASSIGN(const E value, ParseName<E>(text));
  return std::optional<E>(value);
}
}  // namespace

Result<infercast::QuantOverrides> FormatsOf(const NumberFormats& formats) {
  infercast::QuantOverrides quant;
  API_ASSIGN(quant.gemm, ParseOptional<infercast::GemmQuant>(formats.gemm));
  API_ASSIGN(quant.moe, ParseOptional<infercast::MoeQuant>(formats.moe));
  API_ASSIGN(quant.kv, ParseOptional<infercast::KvQuant>(formats.kvcache));
  API_ASSIGN(quant.fmha, ParseOptional<infercast::FmhaQuant>(formats.fmha));
  API_ASSIGN(quant.comm, ParseOptional<infercast::CommQuant>(formats.comm));
  return quant;
}

infercast::ParallelLayout LayoutOf(const Parallelism& p, bool is_moe) {
  infercast::ParallelLayout layout{p.tp, p.pp, p.dp, p.cp, p.moe_tp, p.moe_ep};
  if (is_moe && !layout.moe_tp && !layout.moe_ep) layout.moe_tp = 1;
  return layout;
}

Parallelism ParallelismOf(const infercast::ParallelLayout& l) {
  return {l.tp, l.pp, l.dp, l.cp, l.moe_tp, l.moe_ep};
}

NumberFormats FormatsOf(const infercast::QuantModes& quant) {
  return {std::string(infercast::ToString(quant.gemm)), std::string(infercast::ToString(quant.moe)),
          std::string(infercast::ToString(quant.kv)), std::string(infercast::ToString(quant.fmha)),
          std::string(infercast::ToString(quant.comm))};
}

Result<OpenedModel> OpenModel(const ModelOptions& options) {
  API_ASSIGN(const Surroundings around, OpenSurroundings(options.data));
  API_ASSIGN(const infercast::SystemsCatalog::OpenRequest open, OpenRequestOf(options.data));
  infercast::DeploymentRequest request;
  request.model = options.model;
  request.system = open.system;
  request.backend = open.backend;
  request.version = open.version;
  request.mode = open.mode;
  request.policy = open.policy;
  request.behaviour = open.behaviour;
  request.allow_unlisted = open.allow_unlisted;
  API_ASSIGN(request.build.quant, FormatsOf(options.formats));
  if (!options.attention_backend.empty()) {
    request.build.attention_backend = options.attention_backend;
  }
  if (!options.moe_backend.empty()) request.build.moe_backend = options.moe_backend;
  API_ASSIGN(infercast::ModelConfig config,
             infercast::LoadModelConfig(options.model, around.checkpoints));
  request.build.nextn = options.nextn.value_or(config.draft_layers);
  if (request.build.nextn < 0) {
    return Refuse(ErrorKind::kInvalidArgument,
                  fmt::format("nextn is {}: expected 0 or more draft tokens", request.build.nextn));
  }
  OpenedModel opened;
  opened.layout = LayoutOf(options.parallelism, config.IsMoe());
  API_ASSIGN(opened.deployment,
             infercast::Deployment::Open(
                 request, around.systems,
                 std::make_shared<const infercast::ModelConfig>(std::move(config))));
  return opened;
}

StepCost CostOf(const infercast::StepCost& c) { return {c.latency_ms, c.energy_wms, c.powered_ms}; }

Breakdown BreakdownOf(const infercast::Breakdown& breakdown) {
  Breakdown out;
  out.reserve(breakdown.entries.size());
  for (const infercast::OpEntry& e : breakdown.entries) {
    OperatorCost& cost = out.emplace_back();
    cost.name = e.name;
    cost.latency_ms = e.latency_ms;
    cost.energy_wms = e.energy_wms;
    cost.source = infercast::ToString(e.source);
    cost.origin = infercast::ToString(e.origin.kind);
    cost.octaves = e.origin.octaves;
    if (e.origin.source != nullptr) cost.version = e.origin.source->version;
    if (e.origin.donor != nullptr) cost.donor = *e.origin.donor;
  }
  return out;
}

}  // namespace internal
}  // namespace infercast::v1
