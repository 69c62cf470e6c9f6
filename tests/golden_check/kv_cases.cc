// Cases of the stand-alone KV capacity: integers compare exactly, errors by kind and field.
#include "golden_check/kv_cases.h"

#include <filesystem>

#include "golden_check/adapters.h"
#include "golden_check/comparer.h"

namespace infercast::golden {

namespace {

using Json = nlohmann::json;

template <typename T>
std::optional<T> Optional(const Json& args, const char* key) {
  const auto it = args.find(key);
  if (it == args.end() || it->is_null()) return std::nullopt;
  return it->get<T>();
}

// A mode by name. An unknown name makes the model unbuildable, as a missing version does.
template <typename E>
void ReadMode(const Json& args, const char* key, std::optional<E>& mode, KvCapacityRequest& r) {
  const auto text = Optional<std::string>(args, key);
  if (!text) return;
  mode = ParseEnum<E>(*text);
  if (!mode) r.version = std::nullopt;
}

KvCapacityRequest Request(const Json& args, const Environment& environment) {
  KvCapacityRequest r = CapacityLimits(args);
  r.model = args.at("model_path");
  if (r.model.starts_with("kv/models/")) r.model = (environment.golden_root() / r.model).string();
  r.system = args.at("system");
  r.backend = args.at("backend");
  r.version = Optional<std::string>(args, "backend_version");
  r.layout.tp = Optional<std::int64_t>(args, "tp_size").value_or(1);
  r.layout.pp = Optional<std::int64_t>(args, "pp_size").value_or(1);
  r.layout.dp = Optional<std::int64_t>(args, "attention_dp_size").value_or(1);
  r.layout.moe_tp = Optional<std::int64_t>(args, "moe_tp_size");
  r.layout.moe_ep = Optional<std::int64_t>(args, "moe_ep_size");
  ReadMode(args, "gemm_quant_mode", r.quant.gemm, r);
  ReadMode(args, "moe_quant_mode", r.quant.moe, r);
  ReadMode(args, "kvcache_quant_mode", r.quant.kv, r);
  ReadMode(args, "fmha_quant_mode", r.quant.fmha, r);
  ReadMode(args, "comm_quant_mode", r.quant.comm, r);
  r.nextn = Optional<double>(args, "nextn").value_or(0);
  return r;
}

}  // namespace

KvCapacityRequest CapacityLimits(const Json& args) {
  KvCapacityRequest r;
  r.max_num_tokens = args.at("max_num_tokens");
  r.max_batch_size = args.at("max_batch_size");
  r.fraction_kind = args.at("memory_fraction_kind");
  r.fraction = args.at("memory_fraction_value");
  r.capacity_override_bytes = Optional<double>(args, "gpu_memory_capacity_bytes_override");
  r.tolerance = Optional<double>(args, "tolerance_fraction");
  r.naive_reservation = Optional<double>(args, "naive_kv_reservation").value_or(0.80);
  r.allow_naive = Optional<bool>(args, "allow_naive_fallback").value_or(false);
  return r;
}

Json CapacityJson(const KvCapacity& c) {
  Json json = {{"total_gpu_capacity_bytes", c.gpu_capacity_bytes},
               {"total_kv_size_bytes", c.kv_bytes},
               {"kv_size_per_token_bytes", c.bytes_per_token},
               {"total_kv_size_tokens", c.tokens},
               {"source", c.naive ? "naive_fallback" : "native"},
               {"memory_breakdown", nullptr},
               {"tolerance_adjusted", nullptr}};
  if (c.parts) {
    json["memory_breakdown"] = {{"weights_bytes", c.parts->weights},
                                {"activations_bytes", c.parts->activations},
                                {"runtime_overhead_bytes", c.parts->runtime},
                                {"comm_overhead_bytes", c.parts->communication}};
  }
  if (c.adjusted) {
    json["tolerance_adjusted"] = {{"tolerance_fraction", c.adjusted->tolerance},
                                  {"total_kv_size_bytes", c.adjusted->kv_bytes},
                                  {"total_kv_size_tokens", c.adjusted->tokens}};
  }
  return json;
}

std::vector<Outcome> RunKvCase(const Json& document, Environment& environment) {
  Outcome outcome{"kv", document.at("call"), document.at("id"), {}, 0};
  Comparer compare(outcome, environment.tolerance());
  const Json& args = document.at("args");
  const Json& expect = document.at("expect");
  const Result<std::filesystem::path> root = environment.SystemsRoot("");
  if (!root) {
    compare.ErrorInsteadOfAnswer("systems", "a systems root", root.error());
    return {outcome};
  }
  const SystemsCatalog systems({*root});
  CheckpointSearch checkpoints;
  checkpoints.config_dirs.push_back(root->parent_path() / "model_configs");
  const KvCapacityRequest request = Request(args, environment);
  Result<Json> answer = std::unexpected(Error{});
  if (outcome.variant == "estimate_num_gpu_blocks") {
    const Result<std::int64_t> blocks =
        EstimateKvBlocks(request, args.at("scheduler_block_size"), systems, checkpoints);
    answer = blocks ? Result<Json>(Json(*blocks)) : std::unexpected(blocks.error());
  } else {
    const Result<KvCapacity> capacity = EstimateKvCapacity(request, systems, checkpoints);
    answer = capacity ? Result<Json>(CapacityJson(*capacity)) : std::unexpected(capacity.error());
  }
  if (const auto error = expect.find("error"); error != expect.end()) {
    if (answer) {
      compare.AnswerInsteadOfError("", *error, answer->dump());
      return {outcome};
    }
    compare.ErrorKindOf("", *error, answer.error());
    if (const auto field = error->find("field"); field != error->end()) {
      const std::string& message = answer.error().message;
      compare.Exact("field", *field, message.substr(0, message.find(':')));
    }
    return {outcome};
  }
  if (!answer) {
    compare.ErrorInsteadOfAnswer("", expect.at("value").dump(), answer.error());
    return {outcome};
  }
  compare.Exact("", expect.at("value"), *answer);
  return {outcome};
}

}  // namespace infercast::golden
