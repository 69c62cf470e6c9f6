// The options of a mix of workloads, and its search.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "cli/cli_context.h"
#include "cli/search_flags.h"
#include "cli/search_output.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

struct WorkloadMixFlags {
  std::optional<std::string> workloads, file;
  const CLI::App* declared_on = nullptr;

  // `command` must outlive these flags, and have the options of a search and of its output.
  void Declare(CLI::App& command);
  bool given() const { return workloads || file; }
};

// The best single deployment for the mix on a cluster of `gpus`. kUsage without a cluster, and with
// options that a mix does not heed; the errors of the search.
Result<int> RunMix(const WorkloadMixFlags& flags, const SearchFlags& search,
                   std::optional<std::int64_t> gpus, const SearchOutputFlags& output,
                   const CliContext& context);

}  // namespace infercast
