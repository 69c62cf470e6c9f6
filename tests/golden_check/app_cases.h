// What the adapters of application cases share: arguments, tables, rounding and ties.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "golden_check/comparer.h"
#include "golden_check/environment.h"
#include "golden_check/outcome.h"
#include "golden_check/result_cells.h"
#include "models/checkpoint.h"
#include "models/quantisation.h"
#include "search/workbench.h"
#include "tables/versions.h"

namespace infercast::golden {

// Systems and checkpoints of the measured data.
struct AppData {
  SystemsCatalog systems;
  CheckpointSearch checkpoints;
};
Result<AppData> OpenAppData(const Environment& environment);

// --- arguments ---

// The argument, unless it is absent or null.
template <typename T>
std::optional<T> Argument(const nlohmann::json& args, const char* key) {
  const auto it = args.find(key);
  if (it == args.end() || it->is_null()) return std::nullopt;
  return it->get<T>();
}
template <typename T>
void SetFrom(const nlohmann::json& args, const char* key, T& value) {
  if (const auto given = Argument<T>(args, key)) value = *given;
}
template <typename T>
void SetFrom(const nlohmann::json& args, const char* key, std::optional<T>& value) {
  if (const auto given = Argument<T>(args, key)) value = *given;
}
// kUnknownName for an unknown word.
template <NamedEnum E>
Status SetNamed(const nlohmann::json& args, const char* key, E& value) {
  const auto text = Argument<std::string>(args, key);
  if (!text) return {};
  const auto parsed = ParseEnum<E>(*text);
  if (!parsed) return Fail(ErrorKind::kUnknownName, std::string(key) + ": " + *text);
  value = *parsed;
  return {};
}
// "auto" is no depth (taken from the checkpoint).
std::optional<std::int64_t> DraftArgument(const nlohmann::json& args,
                                          std::optional<std::int64_t> otherwise);
void SetImages(const nlohmann::json& args, Workload& workload);
Status SetPolicy(const nlohmann::json& args, TransferPolicy& policy);

// --- results ---

// How a table was rounded by the reference.
enum class TableRounding {
  kNone,    // 1e-9
  kSearch,  // three decimals; one unit may differ
  kAfd,     // two or three decimals by column; one unit may differ
};

// A row against the recorded one. Columns that begin with '_' are notes; `skip` names tied columns.
void CompareRow(std::string_view where, const nlohmann::json& expected,
                const std::vector<NamedCell>& actual, TableRounding rounding, bool power_known,
                const std::vector<std::string>& skip, Comparer& compare);

// One number of a rounded table.
void CompareFigure(std::string_view where, std::string_view column, const nlohmann::json& expected,
                   double actual, TableRounding rounding, Comparer& compare);

// Columns of a row that equals decide, from `ties.<experiment>.<table>.<row>`.
std::vector<std::string> TiedColumns(const nlohmann::json& ties, const std::string& experiment,
                                     const char* table, std::size_t row);

// --- kinds of cases, each in its own file ---

void RunAppEstimate(const nlohmann::json& document, const AppData& data, Comparer& compare);
void RunAppSweep(const nlohmann::json& document, const AppData& data, Comparer& compare);
void RunAppPoint(const nlohmann::json& document, const AppData& data, Comparer& compare);

// The recorded error against an answer of ours; false when an answer is expected.
bool CheckExpectedError(const nlohmann::json& document, const std::optional<Error>& actual,
                        Comparer& compare);

}  // namespace infercast::golden
