// Application cases: dispatch by entry point, and the comparison of tables.
#include "golden_check/app_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "golden_check/adapters.h"
#include "tables/systems_paths.h"

namespace infercast::golden {

namespace {

using Json = nlohmann::json;

Json CellJson(const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return nullptr;
  if (const bool* b = std::get_if<bool>(&cell)) return *b;
  if (const auto* i = std::get_if<std::int64_t>(&cell)) return *i;
  if (const double* d = std::get_if<double>(&cell)) return *d;
  return std::get<std::string>(cell);
}

int Decimals(std::string_view column, TableRounding rounding) {
  constexpr std::string_view kTwo[] = {"tokens/s",  "tokens/s/gpu", "tokens/s/user",       "memory",
                                       "(a)memory", "(f)memory",    "tokens/s/gpu_cluster"};
  if (rounding == TableRounding::kAfd && std::ranges::find(kTwo, column) != std::end(kTwo)) {
    return 2;
  }
  return 3;
}

// Of dense models the reference's estimates leave the experts' sizes open.
std::string WithoutNone(std::string text) {
  for (std::size_t at; (at = text.find("None")) != std::string::npos;) text.replace(at, 4, "1");
  return text;
}

// No value of ours against what the reference writes for none: NaN in a column of numbers; zeros
// and empty text where there is no encoder pool.
bool MeansNothing(std::string_view column, const Json& expected) {
  return expected == "nan" || (column.starts_with("(e)") && (expected == 0 || expected == ""));
}

// Of dense models the reference's estimates leave the experts' sizes open as well.
bool MeansOne(std::string_view column, const Json& expected) {
  return expected.is_null() && (column.ends_with("moe_tp") || column.ends_with("moe_ep"));
}

}  // namespace

Result<AppData> OpenAppData(const Environment& environment) {
  IC_ASSIGN(const std::filesystem::path root, environment.SystemsRoot(""));
  return AppData{SystemsCatalog({root}), {ModelConfigPaths({root})}};
}

std::optional<std::int64_t> DraftArgument(const Json& args, std::optional<std::int64_t> otherwise) {
  const auto it = args.find("nextn");
  if (it == args.end() || it->is_null()) return otherwise;
  if (it->is_string()) return std::nullopt;
  return it->get<std::int64_t>();
}

void SetImages(const Json& args, Workload& workload) {
  SetFrom(args, "image_height", workload.image_height);
  SetFrom(args, "image_width", workload.image_width);
  SetFrom(args, "num_images", workload.num_images);
}

Status SetPolicy(const Json& args, TransferPolicy& policy) {
  const auto text = Argument<std::string>(args, "transfer_policy");
  if (!text) return {};
  IC_ASSIGN(policy, ParseTransferPolicy(*text));
  return {};
}

void CompareFigure(std::string_view where, std::string_view column, const Json& expected,
                   double actual, TableRounding rounding, Comparer& compare) {
  if (rounding == TableRounding::kNone) {
    compare.Number(where, expected, actual);
  } else {
    compare.Rounded(where, expected, actual, Decimals(column, rounding));
  }
}

void CompareRow(std::string_view where, const Json& expected, const std::vector<NamedCell>& actual,
                TableRounding rounding, bool power_known, const std::vector<std::string>& skip,
                Comparer& compare) {
  std::map<std::string_view, const Cell*> cells;
  for (const NamedCell& cell : actual) cells[cell.name] = &cell.cell;
  for (const auto& [column, want] : expected.items()) {
    if (column.starts_with('_') || column == "power_coverage") continue;
    if (std::ranges::find(skip, column) != skip.end()) continue;
    const std::string place = fmt::format("{}.{}", where, column);
    const auto found = cells.find(column);
    if (found == cells.end()) {
      compare.Differ(place, want.dump(), "no such column");
      continue;
    }
    const Json have = CellJson(*found->second);
    if (have.is_null() && MeansNothing(column, want)) continue;
    if (have == 1 && MeansOne(column, want)) continue;
    if (column == "power_w") {
      // A gate hides the power of estimates where too little of it is known.
      if (want.is_null() && !power_known) continue;
    }
    if (column.ends_with("parallel") && want.is_string()) {
      compare.Exact(place, WithoutNone(want.get<std::string>()), have);
    } else if (have.is_number() && !want.is_null() &&
               (want.is_number_float() || want.is_string() || have.is_number_float())) {
      CompareFigure(place, column, want, have.get<double>(), rounding, compare);
    } else {
      compare.Exact(place, want, have);
    }
  }
  for (const NamedCell& cell : actual) {
    if (!expected.contains(cell.name) && !std::holds_alternative<std::monostate>(cell.cell)) {
      compare.Differ(fmt::format("{}.{}", where, cell.name), "no such column",
                     CellJson(cell.cell).dump());
    }
  }
}

std::vector<std::string> TiedColumns(const Json& ties, const std::string& experiment,
                                     const char* table, std::size_t row) {
  std::vector<std::string> columns;
  if (!ties.is_object() || !ties.contains(experiment)) return columns;
  const Json& of = ties.at(experiment);
  if (!of.is_object() || !of.contains(table)) return columns;
  const auto entry = of.at(table).find(std::to_string(row));
  if (entry == of.at(table).end()) return columns;
  for (const Json& other : *entry) {
    for (const auto& [column, value] : other.items()) columns.push_back(column);
  }
  return columns;
}

bool CheckExpectedError(const Json& document, const std::optional<Error>& actual,
                        Comparer& compare) {
  const auto expected = document.find("error");
  if (expected == document.end()) {
    if (!actual) return false;
    compare.ErrorInsteadOfAnswer("", "a result", *actual);
    return true;
  }
  if (actual) {
    compare.ErrorKindOf("", *expected, *actual);
  } else {
    compare.AnswerInsteadOfError("", *expected, "an answer");
  }
  return true;
}

std::vector<Outcome> RunAppCase(const Json& document, Environment& environment) {
  const std::string kind = document.at("kind");
  Outcome outcome{"app", kind, document.at("id"), {}, 0};
  Comparer compare(outcome, environment.tolerance());
  const Result<AppData> data = OpenAppData(environment);
  if (!data) {
    compare.ErrorInsteadOfAnswer("systems", "a systems root", data.error());
  } else if (kind == "estimate") {
    RunAppEstimate(document, *data, compare);
  } else if (kind == "single_agg" || kind == "single_disagg") {
    RunAppPoint(document, *data, compare);
  } else {
    RunAppSweep(document, *data, compare);
  }
  return {outcome};
}

}  // namespace infercast::golden
