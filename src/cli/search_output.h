// How commands that search answer: the report, its machine-readable forms, and files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/cli_context.h"
#include "report/search_report.h"
#include "search/experiments.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

struct SearchOutputFlags {
  std::size_t top_n = 5;
  std::string rows = "best";
  bool inclusive_tpot = false;
  std::optional<std::string> save_dir;
  std::int64_t threads = 0;

  void Declare(CLI::App& command);
};

// Prints and saves. Exit code 0, or 1 when no configuration meets the targets. kUnknownName for a
// wrong --rows, kIo when files cannot be written.
Result<int> PrintSearch(const ExperimentsResult& result, SearchReportOptions options,
                        const SearchOutputFlags& flags, const CliContext& context);

}  // namespace infercast
