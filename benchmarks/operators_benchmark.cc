// Time of one query of a bound operator, for every operator kind and every way to an answer: on a
// measured point, between points, beyond them (held utilisation), and estimated from measurements;
// for memory-bound kinds by formula.
//
// The queries are the recorded cases in tests/golden/ops (run from the source root), sorted by the
// origin of the answer they get, a few of each. They need the measured data
// ($INFERCAST_SYSTEMS_PATH or the fetched data package); cases without data are left out. The label
// of a benchmark names its cases, so that another program can be timed on the same ones.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/spec_json.h"
#include "golden_check/loader.h"
#include "golden_check/operator_case.h"

namespace infercast {
namespace {

constexpr std::size_t kCasesOfAClass = 6;
// Data sets opened for each kind: those with the most cases.
constexpr std::size_t kIdentities = 2;

struct Question {
  std::string id;
  BoundOperator bound;
  QueryContext ctx;
};
// Keyed by "Kind/class".
using Questions = std::map<std::string, std::vector<Question>>;

const char* ClassOf(OriginKind origin) {
  switch (origin) {
    case OriginKind::kPoint:
      return "on_grid";
    case OriginKind::kInterpolated:
      return "interpolated";
    case OriginKind::kExtrapolated:
      return "held";
    case OriginKind::kEstimated:
    case OriginKind::kTransferred:
      return "empirical";
    case OriginKind::kAnalytic:
      return "formula";
    default:
      return nullptr;
  }
}

std::string DataOf(const nlohmann::json& document) {
  std::string key;
  for (const char* member : {"system", "backend", "version"}) {
    key += document.at(member).get<std::string>() + '/';
  }
  return key;
}

// Sorts the cases of one file into `questions`.
void Collect(const std::filesystem::path& file, golden::Environment& environment,
             Questions& questions) {
  const auto documents = golden::LoadDocuments(file);
  if (!documents) {
    std::fprintf(stderr, "%s\n", documents.error().message.c_str());
    return;
  }
  environment.set_file(file);
  std::map<std::string, std::size_t> counts;
  const auto is_asked = [](const nlohmann::json& document) {
    const std::string mode = document.at("mode");
    return !document.at("expect").contains("error") && mode != "SOL" && mode != "SOL_FULL";
  };
  for (const nlohmann::json& document : *documents) {
    if (is_asked(document)) ++counts[DataOf(document)];
  }
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const auto& [data, count] : counts) ranked.emplace_back(count, data);
  std::ranges::sort(ranked, std::ranges::greater{});
  ranked.resize(std::min(ranked.size(), kIdentities));
  for (const auto& [count, data] : ranked) {
    for (const nlohmann::json& document : *documents) {
      if (!is_asked(document) || DataOf(document) != data) continue;
      const auto op = ParseOperatorJson(document.at("op").dump());
      if (!op) continue;
      auto bound = golden::BindCase(document, *op, environment);
      if (!bound) continue;
      const QueryContext ctx = golden::ParseContext(document.at("ctx"));
      const auto answer = bound->Query(ctx);
      const char* origin = answer ? ClassOf(answer->origin.kind) : nullptr;
      if (origin == nullptr) continue;
      auto& list = questions[document.at("op").begin().key() + "/" + origin];
      if (list.size() < kCasesOfAClass) {
        list.push_back({document.at("id"), *std::move(bound), ctx});
      }
    }
  }
}

void Ask(benchmark::State& state, const std::vector<Question>& questions) {
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(questions[i].bound.Query(questions[i].ctx));
    if (++i == questions.size()) i = 0;
  }
  std::string label;
  for (const Question& question : questions) label += (label.empty() ? "" : ",") + question.id;
  state.SetLabel(label);
}

}  // namespace
}  // namespace infercast

int main(int argc, char** argv) {
  using namespace infercast;
  benchmark::Initialize(&argc, argv);
  golden::Environment environment(std::nullopt, 0);
  Questions questions;
  std::error_code missing;
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator("tests/golden/ops", missing)) {
    files.insert(entry.path());
  }
  for (const auto& file : files) Collect(file, environment, questions);
  if (questions.empty()) {
    std::fputs("no cases: run from the source root, with the measured data\n", stderr);
    return 1;
  }
  for (const auto& [name, list] : questions) {
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&list](benchmark::State& state) { Ask(state, list); });
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
