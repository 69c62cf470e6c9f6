// The search for the fewest GPUs that serve a load: what `recommend` runs, and `sweep` when it is
// given a load.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "cli/cli_context.h"
#include "cli/search_flags.h"
#include "cli/search_output.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

struct LoadFlags {
  std::optional<double> request_rate;
  std::optional<double> concurrency;
  std::optional<std::int64_t> max_gpus;

  void Declare(CLI::App& command, bool in_sweep);
  bool given() const { return request_rate || concurrency; }
};

// kUsage unless exactly one load is given; the errors of the search.
Result<int> RunLoadSearch(const SearchFlags& search, const LoadFlags& load, bool nextn_given,
                          const SearchOutputFlags& output, const CliContext& context);

}  // namespace infercast
