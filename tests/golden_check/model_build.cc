// Configurations of golden engines to builds of ours.
#include "golden_check/model_build.h"

#include <fmt/format.h>

#include <string>

#include "engine/spec_json.h"
#include "golden_check/kv_cases.h"
#include "models/checkpoint.h"
#include "models/compile.h"
#include "serving/worker.h"
#include "tables/lane_order.h"
#include "tables/systems_paths.h"

namespace infercast::golden {
namespace {

using Json = nlohmann::json;

template <typename E>
Result<std::optional<E>> EnumOf(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::optional<E>();
  const auto value = ParseEnum<E>(found->get<std::string>());
  if (!value) return Fail(ErrorKind::kInvalidArgument, fmt::format("{} is unknown", key));
  return value;
}

std::optional<std::int64_t> IntegerOf(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::nullopt;
  return found->get<std::int64_t>();
}

std::optional<std::string> TextOf(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::nullopt;
  return found->get<std::string>();
}

Result<BuildOptions> OptionsOf(const Json& document) {
  const Json& config = document.at("config");
  BuildOptions options;
  IC_ASSIGN(options.backend, ParseBackend(document.at("backend").get<std::string>()));
  options.layout.tp = config.value("tp_size", 1);
  options.layout.pp = config.value("pp_size", 1);
  options.layout.dp = config.value("attention_dp_size", 1);
  options.layout.cp = config.value("cp_size", 1);
  options.layout.moe_tp = IntegerOf(config, "moe_tp_size");
  options.layout.moe_ep = IntegerOf(config, "moe_ep_size");
  options.nextn = config.value("nextn", 0);
  IC_ASSIGN(options.quant.gemm, EnumOf<GemmQuant>(config, "gemm_quant_mode"));
  IC_ASSIGN(options.quant.moe, EnumOf<MoeQuant>(config, "moe_quant_mode"));
  IC_ASSIGN(options.quant.kv, EnumOf<KvQuant>(config, "kvcache_quant_mode"));
  IC_ASSIGN(options.quant.fmha, EnumOf<FmhaQuant>(config, "fmha_quant_mode"));
  IC_ASSIGN(options.quant.comm, EnumOf<CommQuant>(config, "comm_quant_mode"));
  if (const auto comm = config.find("moe_comm_backend"); comm != config.end()) {
    options.moe_comm.context = TextOf(*comm, "context");
    options.moe_comm.generation = TextOf(*comm, "generation");
  }
  options.gpus_per_node = IntegerOf(config, "num_gpus_per_node");
  options.system = TextOf(config, "system");
  options.enable_eplb = config.value("enable_eplb", false);
  return options;
}

Result<Database> OpenDatabase(const Json& document, const std::filesystem::path& root,
                              Backend backend, Environment& environment) {
  const auto mode = ParseEnum<DatabaseMode>(document.at("mode").get<std::string>());
  if (!mode) return Fail(ErrorKind::kInvalidArgument, "unknown mode");
  TransferPolicy policy;
  if (const Json& preset = document.at("transfer_policy_preset"); !preset.is_null()) {
    const std::string name = preset;
    const bool conservative = name == "conservative" || name == "balanced";
    const bool all = name == "aggressive";
    policy = {conservative || all, name == "balanced" || all, all, all};
  }
  DatabaseIdentity identity;
  identity.systems_root = root;
  identity.system = document.at("system");
  identity.backend = backend;
  identity.version = document.at("version");
  identity.shared_layer = *mode == DatabaseMode::kSilicon || *mode == DatabaseMode::kHybrid;
  identity.tolerate_missing_dir = *mode == DatabaseMode::kSol;
  IC_ASSIGN(auto store, environment.Store(identity));
  return Database(std::move(store), *mode, policy, Environment::kBehaviour);
}

}  // namespace

Result<BuiltModel> BuildGoldenModel(const Json& document, Environment& environment) {
  IC_ASSIGN(const BuildOptions options, OptionsOf(document));
  IC_ASSIGN(const std::filesystem::path root, environment.SystemsRoot(""));
  IC_ASSIGN(const ModelConfig config,
            LoadModelConfig(document.at("model").get<std::string>(), {ModelConfigPaths({root})}));
  IC_ASSIGN(ModelPlan plan, BuildModelPlan(config, options));
  IC_ASSIGN(Database db, OpenDatabase(document, root, options.backend, environment));
  EngineTarget target = TargetOf(db);
  target.tolerate_dirless_version = false;  // asked for by no case; rooflines need no directory
  AttentionLaneOrders lanes;
  IC_ASSIGN(lanes.context,
            ResolveLaneOrder(db, TableId::kContextAttention, options.attention_backend));
  IC_ASSIGN(lanes.generation,
            ResolveLaneOrder(db, TableId::kGenerationAttention, options.attention_backend));
  IC_ASSIGN(EngineSpec spec, CompileEngineSpec(plan, target, lanes));
  return BuiltModel{std::move(plan), std::move(spec), std::move(db)};
}

void CheckBuiltSpec(const Json& document, const Result<BuiltModel>& built, Comparer& compare) {
  if (const auto error = document.find("error"); error != document.end()) {
    if (built) {
      compare.AnswerInsteadOfError("", *error, "a description");
    } else {
      compare.ErrorKindOf("error", *error, built.error());
    }
    return;
  }
  if (!built) return compare.ErrorInsteadOfAnswer("", "a description", built.error());
  const Json& quant = document.at("resolved_quant");
  const QuantModes& modes = built->plan.quant;
  compare.Exact("gemm_quant_mode", quant.at("gemm_quant_mode"), ToString(modes.gemm));
  compare.Exact("moe_quant_mode", quant.at("moe_quant_mode"), ToString(modes.moe));
  compare.Exact("kvcache_quant_mode", quant.at("kvcache_quant_mode"), ToString(modes.kv));
  compare.Exact("fmha_quant_mode", quant.at("fmha_quant_mode"), ToString(modes.fmha));
  compare.Exact("comm_quant_mode", quant.at("comm_quant_mode"), ToString(modes.comm));
  // Members that the producer leaves out are null in the full form: compare full forms.
  const auto expected = ParseEngineSpecJson(document.at("spec").dump());
  if (!expected) return compare.ErrorInsteadOfAnswer("spec", "a description", expected.error());
  compare.Tree("spec", Json::parse(WriteEngineSpecJson(*expected)),
               Json::parse(WriteEngineSpecJson(built->spec)));
}

namespace {

// GiB by part for one shape.
void CheckUsage(const Json& usage, const Worker& worker, Comparer& compare) {
  const Json& args = usage.at("args");
  MemoryQuery query;
  query.batch = args.at("batch_size");
  query.beam = args.at("beam_width");
  query.isl = args.at("isl");
  query.osl = args.at("osl");
  query.num_tokens = args.value("num_tokens", 0);
  query.prefix = args.value("prefix", 0);
  query.max_seq_len = IntegerOf(args, "max_seq_len");
  const auto memory = EstimateMemory(worker.memory(), worker.system(), query);
  if (!memory) return compare.ErrorInsteadOfAnswer("", "GiB", memory.error());
  compare.Tree("gib", usage.at("gib"),
               Json{{"total", memory->total},
                    {"weights", memory->weights},
                    {"activations", memory->activations},
                    {"kvcache", memory->kvcache},
                    {"nccl", memory->nccl},
                    {"others", memory->others}});
}

}  // namespace

void CheckBuiltMemory(const Json& document, const Result<BuiltModel>& built,
                      Environment& environment, std::vector<Outcome>& outcomes) {
  const std::string variant = document.at("family");
  const auto add = [&](const char* kind, const std::string& what) -> Outcome& {
    return outcomes.emplace_back(Outcome{
        kind, variant, fmt::format("{} {}", document.at("id").get<std::string>(), what), {}, 0});
  };
  Result<std::shared_ptr<const Worker>> worker = std::unexpected(Error{});
  worker = built ? Worker::Create(built->plan, built->database) : std::unexpected(built.error());
  const Json& memory = document.at("memory");
  for (const Json& usage : memory.at("usage")) {
    Outcome& outcome = add("engine memory", usage.at("args").dump());
    Comparer compare(outcome, environment.tolerance());
    if (worker) {
      CheckUsage(usage, **worker, compare);
    } else {
      compare.ErrorInsteadOfAnswer("", "GiB", worker.error());
    }
  }
  {
    Outcome& outcome = add("engine KV bytes", "");
    Comparer compare(outcome, environment.tolerance());
    for (const Json& pair : memory.at("kv_bytes_per_sequence")) {
      const std::int64_t length = pair.at(0);
      if (worker) {
        compare.Number(fmt::format("sequence of {}", length), pair.at(1),
                       (*worker)->plan().facts.kv.Bytes(length));
      } else {
        compare.ErrorInsteadOfAnswer("", "bytes", worker.error());
        break;
      }
    }
  }
  for (const Json& capacity : memory.at("capacity")) {
    Outcome& outcome = add("engine KV capacity", capacity.at("args").dump());
    Comparer compare(outcome, environment.tolerance());
    const Result<KvCapacity> ours = built ? KvCapacityOfPlan(built->plan, built->database.system(),
                                                             CapacityLimits(capacity.at("args")))
                                          : Result<KvCapacity>(std::unexpected(built.error()));
    if (const auto error = capacity.find("error"); error != capacity.end()) {
      if (ours) {
        compare.AnswerInsteadOfError("", *error, CapacityJson(*ours).dump());
      } else {
        compare.ErrorKindOf("", *error, ours.error());
      }
    } else if (!ours) {
      compare.ErrorInsteadOfAnswer("", "a capacity", ours.error());
    } else {
      compare.Exact("", capacity.at("value"), CapacityJson(*ours));
    }
  }
}

}  // namespace infercast::golden
