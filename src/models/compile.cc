// Engine identity and lane binding.
#include "models/compile.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "tables/lane_order.h"

namespace infercast {

namespace {

struct Spelling {
  std::string_view mode;
  DataType type;
};

constexpr std::array<Spelling, 17> kDataTypes = {{
    {"bfloat16", DataType::kBfloat16},
    {"half", DataType::kFloat16},
    {"float16", DataType::kFloat16},
    {"fp8", DataType::kFp8},
    {"fp8_ootb", DataType::kFp8},
    {"fp8_static", DataType::kFp8Static},
    {"fp8_block", DataType::kFp8Block},
    {"nvfp4", DataType::kNvfp4},
    {"w4a16_nvfp4", DataType::kW4a16Nvfp4},
    {"int8", DataType::kInt8},
    {"int8_wo", DataType::kInt8},
    {"sq", DataType::kInt8},
    {"int4", DataType::kInt4},
    {"int4_wo", DataType::kInt4},
    {"w4afp8", DataType::kInt4},
    {"w4a16_mxfp4", DataType::kInt4},
    {"w4a8_mxfp4_mxfp8", DataType::kInt4},
}};

std::optional<DataType> Named(std::string_view mode) {
  for (const Spelling& spelling : kDataTypes) {
    if (spelling.mode == mode) return spelling.type;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> Narrow(std::optional<std::int64_t> value) {
  if (!value) return std::nullopt;
  return static_cast<std::uint32_t>(*value);
}

std::optional<std::vector<std::string>> PolicyTokens(const TransferPolicy& policy) {
  if (policy == TransferPolicy{}) return std::nullopt;
  std::vector<std::string> tokens;  // in alphabetical order
  if (policy.xop) tokens.emplace_back("xop");
  if (policy.xprofile) tokens.emplace_back("xprofile");
  if (policy.xquant) tokens.emplace_back("xquant");
  if (policy.xshape) tokens.emplace_back("xshape");
  return tokens;
}

// Operators inside composites keep the plain order; those of a whole forward pass are bound.
void BindLanes(std::vector<Operator>& ops, const AttentionLaneOrders& lanes) {
  for (Operator& op : ops) {
    if (auto* context = std::get_if<ContextAttention>(&op.kind)) {
      context->lane_order = lanes.context;
    } else if (auto* generation = std::get_if<GenerationAttention>(&op.kind)) {
      generation->lane_order = lanes.generation;
    } else if (auto* whole = std::get_if<FpmForward>(&op.kind)) {
      BindLanes(whole->sol_ops, lanes);
    }
  }
}

// Whether a list has attention operators of a kind whose lanes are bound.
template <typename Attention>
bool HasBound(const std::vector<Operator>& ops) {
  for (const Operator& op : ops) {
    if (std::holds_alternative<Attention>(op.kind)) return true;
    const auto* whole = std::get_if<FpmForward>(&op.kind);
    if (whole != nullptr && HasBound<Attention>(whole->sol_ops)) return true;
  }
  return false;
}

bool HasRetiredDispatch(const std::vector<Operator>& ops);

bool IsRetired(const Operator& op) {
  if (const auto* dispatch = std::get_if<MoeDispatch>(&op.kind)) {
    return dispatch->flavor == DispatchFlavor::kRetiredDeepEp;
  }
  if (const auto* overlap = std::get_if<Overlap>(&op.kind)) {
    return HasRetiredDispatch(overlap->group_a) || HasRetiredDispatch(overlap->group_b);
  }
  if (const auto* fallback = std::get_if<Fallback>(&op.kind)) {
    return IsRetired(*fallback->primary) || HasRetiredDispatch(fallback->fallback);
  }
  if (const auto* whole = std::get_if<FpmForward>(&op.kind)) {
    return HasRetiredDispatch(whole->sol_ops);
  }
  return false;
}

bool HasRetiredDispatch(const std::vector<Operator>& ops) {
  for (const Operator& op : ops) {
    if (IsRetired(op)) return true;
  }
  return false;
}

}  // namespace

EngineTarget TargetOf(const Database& database) {
  const DatabaseIdentity& id = database.store().identity();
  return {.system = id.system,
          .backend_version = id.version,
          .systems_path = std::nullopt,
          .kv_block_size = std::nullopt,
          .shared_layer = id.shared_layer,
          .strict_provenance = id.strict_provenance,
          .tolerate_dirless_version = id.tolerate_missing_dir,
          .mode = database.mode(),
          .policy = database.policy()};
}

std::optional<DataType> WeightDataType(GemmQuant mode) { return Named(ToString(mode)); }

std::optional<DataType> MoeDataType(MoeQuant mode) {
  switch (mode) {
    case MoeQuant::kW4afp8:
      return DataType::kW4afp8;
    case MoeQuant::kW4a16Mxfp4:
      return DataType::kW4a16Mxfp4;
    case MoeQuant::kW4a8Mxfp4Mxfp8:
      return DataType::kW4a8Mxfp4Mxfp8;
    case MoeQuant::kW4a8Mxfp4Mxfp8Trtllm:
      return DataType::kW4a8Mxfp4Mxfp8Trtllm;
    case MoeQuant::kW4a16Mxfp4Cutlass:
      return DataType::kW4a16Mxfp4Cutlass;
    default:
      return Named(ToString(mode));
  }
}

std::optional<DataType> ActivationDataType(FmhaQuant mode) { return Named(ToString(mode)); }

std::optional<DataType> KvDataType(KvQuant mode) { return Named(ToString(mode)); }

QuantOverrides QuantFromDataTypes(const EngineConfig& config) {
  QuantOverrides out;
  if (config.weight_dtype) {
    switch (*config.weight_dtype) {
      case DataType::kInt8:
        out.gemm = GemmQuant::kInt8Wo;
        break;
      case DataType::kInt4:
        out.gemm = GemmQuant::kInt4Wo;
        break;
      case DataType::kBfloat16:
      case DataType::kFp8:
      case DataType::kFp8Static:
      case DataType::kFp8Block:
      case DataType::kNvfp4:
      case DataType::kW4a16Nvfp4:
        out.gemm = ParseEnum<GemmQuant>(ToString(*config.weight_dtype));
        break;
      default:
        break;
    }
  }
  if (config.moe_dtype) {
    switch (*config.moe_dtype) {
      case DataType::kInt4:
        out.moe = MoeQuant::kInt4Wo;
        break;
      case DataType::kBfloat16:
      case DataType::kFp8:
      case DataType::kFp8Block:
      case DataType::kNvfp4:
      case DataType::kW4afp8:
      case DataType::kW4a16Mxfp4:
      case DataType::kW4a8Mxfp4Mxfp8:
      case DataType::kW4a16Nvfp4:
        out.moe = ParseEnum<MoeQuant>(ToString(*config.moe_dtype));
        break;
      default:
        break;
    }
  }
  if (config.activation_dtype) out.fmha = ParseEnum<FmhaQuant>(ToString(*config.activation_dtype));
  if (config.kv_cache_dtype) out.kv = ParseEnum<KvQuant>(ToString(*config.kv_cache_dtype));
  return out;
}

Result<EngineSpec> CompileEngineSpec(ModelPlan plan, const EngineTarget& target,
                                     const std::optional<AttentionLaneOrders>& lanes) {
  const bool attends = HasBound<ContextAttention>(plan.context_ops) ||
                       HasBound<GenerationAttention>(plan.generation_ops);
  if (!lanes && attends && plan.attention_backend && *plan.attention_backend != "default") {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("attention backend {} cannot be chosen without measured attention",
                            *plan.attention_backend));
  }
  if (HasRetiredDispatch(plan.context_ops) || HasRetiredDispatch(plan.generation_ops)) {
    return Fail(ErrorKind::kUnsupportedModel,
                fmt::format("{}: this expert backend has no native variant any more", plan.model));
  }
  EngineSpec spec;
  EngineConfig& e = spec.engine;
  e.model_name = plan.model;
  e.system_name = target.system;
  e.systems_path = target.systems_path;
  e.backend = std::string(ToString(plan.backend));
  e.backend_version = target.backend_version;
  e.kv_block_size = target.kv_block_size;
  e.tp_size = static_cast<std::uint32_t>(plan.layout.tp);
  e.pp_size = static_cast<std::uint32_t>(plan.layout.pp);
  e.attention_dp_size = static_cast<std::uint32_t>(plan.layout.dp);
  e.moe_tp_size = Narrow(plan.layout.moe_tp);
  e.moe_ep_size = Narrow(plan.layout.moe_ep);
  e.cp_size = static_cast<std::uint32_t>(plan.layout.cp);
  e.weight_dtype = WeightDataType(plan.quant.gemm);
  e.moe_dtype = MoeDataType(plan.quant.moe);
  e.activation_dtype = ActivationDataType(plan.quant.fmha);
  e.kv_cache_dtype = KvDataType(plan.quant.kv);
  if (plan.nextn > 0) e.nextn = static_cast<std::uint32_t>(plan.nextn);
  e.enable_shared_layer = target.shared_layer;
  e.strict_provenance = target.strict_provenance;
  e.database_mode = target.mode;
  e.tolerate_dirless_version = target.tolerate_dirless_version;
  e.transfer_policy = PolicyTokens(target.policy);
  spec.context_ops = std::move(plan.context_ops);
  spec.generation_ops = std::move(plan.generation_ops);
  if (lanes) {
    BindLanes(spec.context_ops, *lanes);
    BindLanes(spec.generation_ops, *lanes);
  }
  return spec;
}

Result<EngineSpec> CompileEngineSpec(ModelPlan plan, const Database& database) {
  AttentionLaneOrders lanes;
  if (HasBound<ContextAttention>(plan.context_ops)) {
    IC_ASSIGN(lanes.context,
              ResolveLaneOrder(database, TableId::kContextAttention, plan.attention_backend));
  }
  if (HasBound<GenerationAttention>(plan.generation_ops)) {
    IC_ASSIGN(lanes.generation,
              ResolveLaneOrder(database, TableId::kGenerationAttention, plan.attention_backend));
  }
  return CompileEngineSpec(std::move(plan), TargetOf(database), lanes);
}

}  // namespace infercast
