// Builds the models that are described on standard input, one JSON object a line (the head of an
// engine golden case: model, system, backend, version, config), and writes one JSON object a line
// with the resolved modes, the engine description, the encoder's operators and KV figures, or the
// error. compare_specs.py drives it.
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/spec_json.h"
#include "models/checkpoint.h"
#include "models/compile.h"
#include "models/model_plan.h"
#include "operators/bound_operator.h"
#include "tables/systems_paths.h"

namespace infercast {
namespace {

using Json = nlohmann::ordered_json;

std::optional<std::int64_t> Integer(const Json& config, const char* key) {
  const auto it = config.find(key);
  if (it == config.end() || it->is_null()) return std::nullopt;
  return it->get<std::int64_t>();
}

std::optional<std::string> Text(const Json& config, const char* key) {
  const auto it = config.find(key);
  if (it == config.end() || it->is_null()) return std::nullopt;
  return it->get<std::string>();
}

template <typename E>
Result<std::optional<E>> Mode(const Json& config, const char* key) {
  const std::optional<std::string> name = Text(config, key);
  if (!name) return std::optional<E>();
  const std::optional<E> mode = ParseEnum<E>(*name);
  if (!mode) return Fail(ErrorKind::kUnknownName, std::string(key) + ": " + *name);
  return mode;
}

Result<BuildOptions> ReadOptions(const Json& c, const std::string& backend_name) {
  BuildOptions o;
  const std::optional<Backend> backend = ParseEnum<Backend>(backend_name);
  if (!backend) return Fail(ErrorKind::kUnknownName, "backend " + backend_name);
  o.backend = *backend;
  o.layout.tp = Integer(c, "tp_size").value_or(1);
  o.layout.pp = Integer(c, "pp_size").value_or(1);
  o.layout.dp = Integer(c, "attention_dp_size").value_or(1);
  o.layout.cp = Integer(c, "cp_size").value_or(1);
  o.layout.moe_tp = Integer(c, "moe_tp_size");
  o.layout.moe_ep = Integer(c, "moe_ep_size");
  IC_ASSIGN(o.quant.gemm, Mode<GemmQuant>(c, "gemm_quant_mode"));
  IC_ASSIGN(o.quant.moe, Mode<MoeQuant>(c, "moe_quant_mode"));
  IC_ASSIGN(o.quant.kv, Mode<KvQuant>(c, "kvcache_quant_mode"));
  IC_ASSIGN(o.quant.fmha, Mode<FmhaQuant>(c, "fmha_quant_mode"));
  IC_ASSIGN(o.quant.comm, Mode<CommQuant>(c, "comm_quant_mode"));
  o.nextn = Integer(c, "nextn").value_or(0);
  o.override_layers = Integer(c, "overwrite_num_layers").value_or(0);
  o.workload_distribution = Text(c, "workload_distribution").value_or("power_law");
  o.language_only = c.value("language_only", false);
  o.encoder_data_parallel = c.value("enable_encoder_dp", true);
  o.sms = Integer(c, "sms").value_or(20);
  o.moe_backend = Text(c, "moe_backend");
  o.attention_backend = Text(c, "attention_backend");
  if (Text(c, "forward_model") == "fpm") o.forward_model = ForwardModel::kWholeForward;
  if (const auto comm = c.find("moe_comm_backend"); comm != c.end() && comm->is_object()) {
    o.moe_comm.context = Text(*comm, "context");
    o.moe_comm.generation = Text(*comm, "generation");
  }
  o.gpus_per_node = Integer(c, "num_gpus_per_node");
  o.system = Text(c, "system");
  o.enable_wideep = c.value("enable_wideep", false);
  o.enable_eplb = c.value("enable_eplb", false);
  o.expert_slots = Integer(c, "wideep_num_slots");
  return o;
}

Result<Json> Answer(const Json& request, const CheckpointSearch& search) {
  IC_ASSIGN(const ModelConfig model,
            LoadModelConfig(request.at("model").get<std::string>(), search));
  IC_ASSIGN(const BuildOptions options,
            ReadOptions(request.at("config"), request.at("backend").get<std::string>()));
  IC_ASSIGN(ModelPlan plan, BuildModelPlan(model, options));
  Json answer;
  answer["family"] = ToString(plan.facts.family);
  answer["resolved_quant"] = {{"gemm_quant_mode", ToString(plan.quant.gemm)},
                              {"moe_quant_mode", ToString(plan.quant.moe)},
                              {"kvcache_quant_mode", ToString(plan.quant.kv)},
                              {"fmha_quant_mode", ToString(plan.quant.fmha)},
                              {"comm_quant_mode", ToString(plan.quant.comm)}};
  answer["encoder_ops"] = Json::parse(WriteOperatorListJson(plan.encoder_ops));
  answer["activation_hidden_size"] = plan.activation_hidden_size;
  Json& kv = answer["kv_bytes_per_sequence"] = Json::array();
  for (const std::int64_t seq : {1, 100, 1024, 4097, 5000, 131072}) {
    kv.push_back({seq, plan.facts.kv.Bytes(seq)});
  }
  answer["kv_elements_per_token"] = plan.facts.kv.elements_per_token;
  answer["kv_capacity_1e10"] = plan.facts.kv.Capacity(1e10);
  Json& weights = answer["weights"] = Json::array();
  for (const Operator& op : plan.context_ops) weights.push_back(WeightBytes(op));

  EngineTarget target;
  target.system = request.at("system").get<std::string>();
  target.backend_version = Text(request, "version");
  IC_ASSIGN(const EngineSpec spec, CompileEngineSpec(std::move(plan), target));
  answer["spec"] = Json::parse(WriteEngineSpecJson(spec));
  return answer;
}

int Run() {
  CheckpointSearch search;
  if (const auto roots = ResolveSystemsPaths()) search.config_dirs = ModelConfigPaths(*roots);
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json request = Json::parse(line);
    Result<Json> answer = Answer(request, search);
    Json out;
    if (answer) {
      out = *std::move(answer);
    } else {
      out["error"] = {{"kind", ToString(answer.error().kind)}, {"message", answer.error().message}};
    }
    if (request.contains("id")) out["id"] = request["id"];
    std::cout << out.dump() << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace infercast

int main() { return infercast::Run(); }
