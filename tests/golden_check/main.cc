// golden_check FILE...: runs recorded cases against the library and says where answers differ.
//
// Exit code 0: every case passed; 1: some failed (what is not built yet fails); 2: a file could not
// be read or is of no known kind.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "golden_check/adapters.h"
#include "golden_check/loader.h"
#include "golden_check/report.h"

namespace infercast::golden {
namespace {

// Cases of one data identity run one after the other, so that its tables are opened once.
std::string DataOf(const nlohmann::json& document) {
  std::string key;
  for (const char* member : {"systems_root", "system", "backend", "version", "mode"}) {
    const auto found = document.find(member);
    if (found != document.end() && found->is_string()) key += found->get<std::string>();
    key += '\n';
  }
  return key;
}

void RunFile(const std::filesystem::path& file, Environment& environment, Report& report) {
  const auto documents = LoadDocuments(file);
  if (!documents) return report.AddUnreadable(file.string(), documents.error().message);
  environment.set_file(file);
  std::vector<std::size_t> order(documents->size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return DataOf((*documents)[i]); });
  std::vector<std::vector<Outcome>> outcomes(documents->size());
  for (const std::size_t i : order) {
    const nlohmann::json& document = (*documents)[i];
    bool is_data = false;
    const Adapter adapter = AdapterFor(document, is_data);
    if (adapter == nullptr) {
      if (!is_data) {
        report.AddUnreadable(file.string(), fmt::format("document {} is no known case", i + 1));
      }
      continue;
    }
    try {
      outcomes[i] = adapter(document, environment);
    } catch (const nlohmann::json::exception& e) {
      report.AddUnreadable(file.string(), fmt::format("document {}: {}", i + 1, e.what()));
    }
  }
  for (const auto& list : outcomes) {
    for (const Outcome& outcome : list) report.Add(file.string(), outcome);
  }
}

}  // namespace
}  // namespace infercast::golden

int main(int argc, char** argv) {
  using namespace infercast::golden;
  CLI::App app("Runs golden cases and reports differences");
  std::vector<std::string> files;
  double tolerance = 1e-9;
  std::size_t max_failures = 5;
  bool json = false;
  std::string systems;
  app.add_option("files", files, "golden files (.json, .json.gz, .jsonl.gz)")->required();
  app.add_option("--rtol", tolerance, "relative tolerance of numbers")->capture_default_str();
  app.add_option("--max-failures", max_failures, "failures shown per kind and variant")
      ->capture_default_str();
  app.add_option("--systems", systems,
                 "systems root (default: $INFERCAST_SYSTEMS_PATH or the data)");
  app.add_flag("--json", json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  Environment environment(
      systems.empty() ? std::nullopt : std::optional<std::filesystem::path>(systems), tolerance);
  Report report(max_failures);
  for (const std::string& file : files) RunFile(file, environment, report);
  std::fputs((json ? report.Json() : report.Text()).c_str(), stdout);
  if (report.any_unreadable()) return 2;
  return report.failed() > 0 ? 1 : 0;
}
