// Whole engines in parts that fail on their own: the answers of the given description (runs), its
// binary form, the description that our own build of the model gives (compile), resident weights,
// and memory.
#include <fmt/format.h>

#include <memory>

#include "engine/spec_binary.h"
#include "engine/spec_json.h"
#include "golden_check/adapters.h"
#include "golden_check/base64.h"
#include "golden_check/comparer.h"
#include "golden_check/engine_runs.h"
#include "golden_check/model_build.h"

namespace infercast::golden {
namespace {

using Json = nlohmann::json;

std::string IdOf(const Json& document) { return document.at("id"); }

void CheckRuns(const Json& document, const Result<EngineSpec>& spec, Environment& environment,
               const std::string& variant, std::vector<Outcome>& outcomes) {
  Result<std::shared_ptr<const Engine>> engine = std::unexpected(Error{});
  if (spec) {
    const auto root = environment.SystemsRoot("");
    engine =
        root ? Engine::Open(*spec, *root, Environment::kBehaviour) : std::unexpected(root.error());
  } else {
    engine = std::unexpected(spec.error());
  }
  for (const Json& run : document.at("runs")) {
    Outcome& outcome = outcomes.emplace_back(Outcome{
        "engine runs", variant, fmt::format("{} {}", IdOf(document), DescribeRun(run)), {}, 0});
    Comparer compare(outcome, environment.tolerance());
    if (engine) {
      CheckRun(run, **engine, compare);
    } else {
      CheckRunFailed(run, engine.error(), compare);
    }
  }
}

// Byte for byte; where not, the difference may only be the last bit of a decimal that the
// reference's JSON reader rounded wrongly: then its bytes, read and written by us, stay the same,
// and both descriptions are equal within that bit.
void CheckBinary(const Json& document, const Result<EngineSpec>& spec, Comparer& compare) {
  if (!spec) return compare.ErrorInsteadOfAnswer("", "a description", spec.error());
  const auto expected = DecodeBase64(document.at("binary_base64").get<std::string>());
  if (!expected) return compare.Differ("binary_base64", "base64", "something else");
  if (WriteEngineSpecBinary(*spec) == *expected) return;
  const auto theirs = ParseEngineSpecBinary(*expected, Environment::kBehaviour);
  if (!theirs) return compare.ErrorInsteadOfAnswer("read", "a description", theirs.error());
  if (WriteEngineSpecBinary(*theirs) != *expected) {
    compare.Differ("binary_base64", "the same bytes after reading them", "other bytes");
  }
  Outcome bits;
  Comparer last_bit(bits, 2.3e-16);
  last_bit.Tree("", Json::parse(WriteEngineSpecJson(*theirs)),
                Json::parse(WriteEngineSpecJson(*spec)));
  for (const Difference& d : bits.differences) compare.Differ(d.where, d.expected, d.actual);
}

void CheckWeights(const Json& expected, const Result<EngineSpec>& spec, Comparer& compare) {
  if (!spec) return compare.ErrorInsteadOfAnswer("", "a description", spec.error());
  const auto check = [&](const char* name, const std::vector<Operator>& ops) {
    Json bytes = Json::array();
    for (const Operator& op : ops) bytes.push_back(WeightBytes(op));
    compare.Tree(name, expected.at(name), bytes);
  };
  check("context_ops_bytes", spec->context_ops);
  check("generation_ops_bytes", spec->generation_ops);
}

}  // namespace

std::vector<Outcome> RunEngineCase(const Json& document, Environment& environment) {
  std::vector<Outcome> outcomes;
  const std::string variant = document.at("family");
  const auto add = [&](const char* kind) -> Outcome& {
    return outcomes.emplace_back(Outcome{kind, variant, IdOf(document), {}, 0});
  };
  const auto built = BuildGoldenModel(document, environment);
  {
    Outcome& outcome = add("engine compile");
    Comparer compare(outcome, environment.tolerance());
    CheckBuiltSpec(document, built, compare);
  }
  if (!document.contains("spec")) return outcomes;

  const auto spec = ParseEngineSpecJson(document.at("spec").dump());
  CheckRuns(document, spec, environment, variant, outcomes);
  if (document.contains("binary_base64")) {
    Outcome& outcome = add("engine binary");
    Comparer compare(outcome, environment.tolerance());
    CheckBinary(document, spec, compare);
  }
  {
    Outcome& outcome = add("engine weights");
    Comparer compare(outcome, environment.tolerance());
    CheckWeights(document.at("weights"), spec, compare);
  }
  CheckBuiltMemory(document, built, environment, outcomes);
  return outcomes;
}

}  // namespace infercast::golden
