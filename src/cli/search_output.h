// How commands that search answer: the report, its machine-readable forms, and files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/cli_context.h"
#include "cli/plot_flags.h"
#include "report/search_report.h"
#include "search/experiments.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

// --score, given or not: natively benchmark runs in virtual time unless it says otherwise.
// kUnknownName; kUsage for runs in reference behaviour.
Result<ScoredBy> ScoreAsked(const std::optional<std::string>& score, const CliContext& context);

struct SearchOutputFlags {
  std::size_t top_n = 5;
  std::string rows = "best";
  std::optional<std::string> score;
  bool inclusive_tpot = false;
  std::optional<std::string> save_dir;
  std::int64_t threads = 0;
  PlotFlags plots;

  void Declare(CLI::App& command);
  // What rows are ranked by.
  Result<ScoredBy> Score(const CliContext& context) const { return ScoreAsked(score, context); }
};

// Prints, draws and saves. With several systems or backends the table that compares them comes
// first; `comparison_only`: it is all that is printed. Exit code 0, or 1 when no configuration
// meets the targets. kUnknownName for a wrong --rows, kIo when files cannot be written.
Result<int> PrintSearch(const ExperimentsResult& result, SearchReportOptions options,
                        const SearchOutputFlags& flags, const CliContext& context,
                        bool comparison_only = false);

}  // namespace infercast
