// Building an engine from its identity.
#include "online/native_engine.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "models/checkpoint.h"
#include "models/compile.h"
#include "tables/lane_order.h"
#include "tables/systems_paths.h"
#include "tables/versions.h"

namespace infercast {

namespace {

// Whatever keeps a model from being built for this target counts as one kind of failure.
template <typename T>
Result<T> OrUnsupported(Result<T> result) {
  if (!result) {
    return Fail(ErrorKind::kUnsupportedModel, "no native engine: " + result.error().message);
  }
  return result;
}

Result<BuildOptions> OptionsOf(const EngineConfig& config, Backend backend) {
  BuildOptions options;
  options.backend = backend;
  options.layout.tp = config.tp_size;
  options.layout.pp = config.pp_size;
  options.layout.dp = config.attention_dp_size.value_or(1);
  options.layout.cp = config.cp_size.value_or(1);
  options.layout.moe_tp = config.moe_tp_size.value_or(1);
  options.layout.moe_ep = config.moe_ep_size.value_or(1);
  options.nextn = config.nextn.value_or(0);
  options.quant = QuantFromDataTypes(config);
  options.system = config.system_name;
  if (!config.forward_model || *config.forward_model == "op_level") return options;
  if (*config.forward_model == "fpm") {
    options.forward_model = ForwardModel::kWholeForward;
    return options;
  }
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("unknown forward_model '{}'; valid values: op_level, fpm",
                          *config.forward_model));
}

Result<TransferPolicy> PolicyOf(const EngineConfig& config) {
  if (!config.transfer_policy) return TransferPolicy{};
  TransferPolicy policy{false, false, false, false};
  for (const std::string& kind : *config.transfer_policy) {
    if (kind == "xshape") {
      policy.xshape = true;
    } else if (kind == "xquant") {
      policy.xquant = true;
    } else if (kind == "xprofile") {
      policy.xprofile = true;
    } else if (kind == "xop") {
      policy.xop = true;
    } else {
      return Fail(ErrorKind::kInvalidEngineConfig,
                  fmt::format("unknown kind of transfer '{}'", kind));
    }
  }
  return policy;
}

Result<std::string> VersionOf(const SystemsCatalog& catalog, const EngineConfig& config,
                              Backend backend) {
  if (config.backend_version) {
    const char* unlisted = std::getenv("AIC_ALLOW_UNLISTED_VERSIONS");
    const bool allow = unlisted != nullptr && std::string_view(unlisted) == "1";
    return catalog.ResolveVersion(config.system_name, backend, *config.backend_version, allow);
  }
  if (auto latest = catalog.LatestVersion(config.system_name, backend)) return *std::move(latest);
  return Fail(ErrorKind::kPerfDatabase,
              fmt::format("nothing was measured for {} on {}", config.backend, config.system_name));
}

Result<AttentionLaneOrders> LanesOf(const Database& db) {
  AttentionLaneOrders lanes;
  IC_ASSIGN(lanes.context, ResolveLaneOrder(db, TableId::kContextAttention, std::nullopt));
  IC_ASSIGN(lanes.generation, ResolveLaneOrder(db, TableId::kGenerationAttention, std::nullopt));
  return lanes;
}

}  // namespace

Result<std::shared_ptr<const Engine>> BuildNativeEngine(
    const EngineConfig& config, const std::vector<std::filesystem::path>& systems_roots,
    Behaviour behaviour) {
  const auto backend = ParseEnum<Backend>(config.backend);
  if (!backend) {
    return Fail(ErrorKind::kInvalidEngineConfig,
                fmt::format("unknown backend '{}'", config.backend));
  }
  const SystemsCatalog catalog(systems_roots);
  const auto root = catalog.RootOf(config.system_name);
  if (!root) return Fail(ErrorKind::kIo, root.error().message);

  IC_ASSIGN(const BuildOptions options, OrUnsupported(OptionsOf(config, *backend)));
  IC_ASSIGN(const ModelConfig model,
            OrUnsupported(LoadModelConfig(config.model_name, {ModelConfigPaths(systems_roots)})));
  IC_ASSIGN(ModelPlan plan, OrUnsupported(BuildModelPlan(model, options)));
  IC_ASSIGN(const std::string version, OrUnsupported(VersionOf(catalog, config, *backend)));

  // The reference drops the mode on this way.
  const DatabaseMode mode =
      behaviour == Behaviour::kReference ? DatabaseMode::kSilicon : config.database_mode;
  DatabaseIdentity identity;
  identity.systems_root = *root;
  identity.system = config.system_name;
  identity.backend = *backend;
  identity.version = version;
  identity.shared_layer = config.enable_shared_layer.value_or(mode == DatabaseMode::kSilicon ||
                                                              mode == DatabaseMode::kHybrid);
  identity.strict_provenance = config.strict_provenance;
  identity.tolerate_missing_dir = config.tolerate_dirless_version || mode == DatabaseMode::kSol ||
                                  mode == DatabaseMode::kSolFull;
  IC_ASSIGN(const TransferPolicy policy, PolicyOf(config));
  IC_ASSIGN(auto store, TableStore::Open(identity));
  const Database db(std::move(store), mode, policy, behaviour);
  IC_ASSIGN(const AttentionLaneOrders lanes, OrUnsupported(LanesOf(db)));
  EngineTarget target = TargetOf(db);
  target.kv_block_size = config.kv_block_size;
  IC_ASSIGN(const EngineSpec spec,
            OrUnsupported(CompileEngineSpec(std::move(plan), target, lanes)));
  return Engine::Bind(spec, db);
}

}  // namespace infercast
