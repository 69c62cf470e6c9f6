// Oracle files of expert operators: samples of table look-ups and of whole operators, each against
// one version's own tables (no rows of other versions) in silicon mode.
#include <fmt/format.h>

#include "golden_check/adapters.h"
#include "golden_check/comparer.h"
#include "operators/bound_operator.h"

namespace infercast::golden {
namespace {

using Json = nlohmann::json;

// data/<system>/<backend>/<version>
Result<Database> OpenDatabase(const Json& sample, Environment& environment) {
  const std::string root = sample.at("data_root");
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= root.size();) {
    const std::size_t end = std::min(root.find('/', begin), root.size());
    parts.push_back(root.substr(begin, end - begin));
    begin = end + 1;
  }
  if (parts.size() != 4) {
    return Fail(ErrorKind::kInvalidArgument, "data_root is no data identity: " + root);
  }
  DatabaseIdentity identity;
  IC_ASSIGN(identity.systems_root, environment.SystemsRoot(""));
  identity.system = parts[1];
  IC_ASSIGN(identity.backend, ParseBackend(parts[2]));
  identity.version = parts[3];
  identity.shared_layer = false;
  IC_ASSIGN(auto store, environment.Store(identity));
  return Database(std::move(store), DatabaseMode::kSilicon, TransferPolicy{},
                  Environment::kBehaviour);
}

template <typename T>
std::optional<T> Optional(const Json& sample, const char* name) {
  const auto found = sample.find(name);
  if (found == sample.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

// Samples of a look-up and of an operator differ in names and leave out different members.
MoeAllToAll AllToAll(const Json& sample) {
  MoeAllToAll op;
  op.name = "oracle";
  op.scale_factor = sample.value("scale_factor", 1.0);
  op.phase = sample.at("phase");
  op.comm_backend = sample.at("comm_backend");
  op.comm_dtype = sample.at("comm_dtype");
  op.hidden_size = sample.at("hidden_size");
  op.topk = sample.at("topk");
  op.num_experts = sample.at("num_experts");
  op.moe_ep_size = sample.at(sample.contains("ep_size") ? "ep_size" : "moe_ep_size");
  op.node_num = sample.at("node_num");
  op.sms = sample.at("sms");
  op.attention_tp_size = sample.value("attention_tp_size", 1u);
  return op;
}

Result<MoeExpertCompute> ExpertCompute(const Json& sample) {
  MoeExpertCompute op;
  op.name = "oracle";
  op.scale_factor = sample.value("scale_factor", 1.0);
  op.hidden_size = sample.at("hidden_size");
  op.inter_size = sample.at("inter_size");
  op.topk = sample.at("topk");
  op.num_experts = sample.at("num_experts");
  op.moe_ep_size = sample.at("moe_ep_size");
  const std::string quant = sample.at(sample.contains("quant") ? "quant" : "quant_mode");
  const auto parsed = ParseEnum<MoeQuant>(quant);
  if (!parsed) return Fail(ErrorKind::kInvalidArgument, "unknown number format " + quant);
  op.quant_mode = *parsed;
  op.workload_distribution =
      sample.at(sample.contains("distribution") ? "distribution" : "workload_distribution");
  op.attention_dp_size = sample.value("attention_dp_size", 1u);
  op.inference_phase = sample.at("inference_phase");
  op.num_slots = Optional<std::uint32_t>(sample, "num_slots");
  op.kernel_source = Optional<std::string>(sample, "kernel_source");
  op.is_gated = sample.value("is_gated", true);
  op.enable_eplb = sample.value("enable_eplb", false);
  return op;
}

Result<PerfResult> Query(const Json& sample, Environment& environment) {
  IC_ASSIGN(const Database db, OpenDatabase(sample, environment));
  Operator op;
  if (sample.contains("comm_backend")) {
    op = AllToAll(sample);
  } else {
    IC_ASSIGN(op, ExpertCompute(sample));
  }
  QueryContext query;
  query.num_tokens = sample.at(sample.contains("x") ? "x" : "num_tokens");
  return BoundOperator::Bind(op, db).Query(query);
}

}  // namespace

std::vector<Outcome> RunOracleFile(const Json& document, Environment& environment) {
  std::vector<Outcome> outcomes;
  for (const Json& sample : document.at("samples")) {
    const bool exchange = sample.contains("comm_backend");
    Outcome outcome{"oracle",
                    exchange ? "MoeAllToAll" : "MoeExpertCompute",
                    fmt::format("{} {}", sample.at("kind").get<std::string>(), outcomes.size()),
                    {},
                    0};
    Comparer compare(outcome, environment.tolerance());
    const Json& expected = sample.at("latency_ms");
    if (const auto result = Query(sample, environment)) {
      compare.Number("latency_ms", expected, result->latency_ms);
      if (!(result->latency_ms > 0)) {
        compare.Differ("latency_ms", "more than 0", fmt::format("{}", result->latency_ms));
      }
    } else {
      compare.ErrorInsteadOfAnswer("", fmt::format("{} ms", expected.get<double>()),
                                   result.error());
    }
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

}  // namespace infercast::golden
