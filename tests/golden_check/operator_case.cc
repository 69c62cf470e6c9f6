// The data and the question of an operator case.
#include "golden_check/operator_case.h"

#include <optional>
#include <string>
#include <vector>

namespace infercast::golden {

using Json = nlohmann::json;

namespace {

Result<Database> OpenDatabase(const Json& document, Environment& environment) {
  const std::string mode_name = document.at("mode");
  const auto mode =
      IsDecomposition(document) ? DatabaseMode::kSilicon : ParseEnum<DatabaseMode>(mode_name);
  if (!mode) return Fail(ErrorKind::kInvalidEngineConfig, "unknown mode " + mode_name);
  const Json& db = document.at("db");
  DatabaseIdentity identity;
  IC_ASSIGN(identity.systems_root, environment.SystemsRoot(document.value("systems_root", "")));
  identity.system = document.at("system");
  IC_ASSIGN(identity.backend, ParseBackend(document.at("backend").get<std::string>()));
  identity.version = document.at("version");
  identity.shared_layer = db.at("enable_shared_layer").is_null()
                              ? *mode == DatabaseMode::kSilicon || *mode == DatabaseMode::kHybrid
                              : db.at("enable_shared_layer").get<bool>();
  identity.tolerate_missing_dir =
      db.at("tolerate_dirless_version").get<bool>() || *mode == DatabaseMode::kSol;
  std::optional<std::vector<std::string>> kinds;
  if (const Json& policy = db.at("transfer_policy"); !policy.is_null()) {
    kinds = policy.get<std::vector<std::string>>();
  }
  IC_ASSIGN(const TransferPolicy policy, ParsePolicy(kinds));
  IC_ASSIGN(auto store, environment.Store(identity));
  return Database(std::move(store), *mode, policy, Environment::kBehaviour);
}

}  // namespace

bool IsDecomposition(const Json& document) { return document.at("mode") == "SOL_FULL"; }

QueryContext ParseContext(const Json& ctx) {
  QueryContext query;
  query.batch_size = ctx.at("batch_size");
  query.beam_width = ctx.at("beam_width");
  query.s = ctx.at("s");
  query.prefix = ctx.at("prefix");
  query.num_tokens = ctx.at("num_tokens");
  query.seq_imbalance_correction_scale = ctx.at("seq_imbalance_correction_scale");
  query.gen_seq_imbalance_correction_scale = ctx.at("gen_seq_imbalance_correction_scale");
  query.num_image_tokens = ctx.at("num_image_tokens");
  return query;
}

Result<BoundOperator> BindCase(const Json& document, const Operator& op, Environment& environment) {
  IC_ASSIGN(const Database db, OpenDatabase(document, environment));
  return BoundOperator::Bind(op,
                             IsDecomposition(document) ? db.WithMode(DatabaseMode::kSolFull) : db);
}

}  // namespace infercast::golden
