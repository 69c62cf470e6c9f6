// The options of commands that search for deployments (sweep, recommend): what is served, under
// which targets, and which ways of serving are tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/cli_context.h"
#include "cli/deployment_flags.h"
#include "search/standard_runs.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

struct SearchFlags {
  DeploymentFlags deployment;
  WorkloadFlags workload{4000, 1000};
  std::string serving_mode = "auto";
  std::optional<std::string> decode_system;
  double ttft = 2000;
  double tpot = 30;
  std::optional<double> request_latency;
  bool strict = false;
  bool chunked_prefill = false;
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> max_seq_len;
  bool wideep = false;
  // A pool of encode workers.
  bool encoder_pool = false;
  std::vector<std::int64_t> encoder_tp;
  std::optional<std::string> encoder_system;
  double encoder_latency_correction = 1.0;
  // Attention/FFN disaggregation.
  std::int64_t afd_max_a_batch = 1024;
  std::int64_t afd_max_candidates = 10000;
  std::string afd_overflow = "error";

  // `pools`: the options of encoder pools and AFD too.
  void Declare(CLI::App& command, bool pools);
  // Everything but the number of GPUs or the load. kUsage, kInvalidArgument, kUnknownName.
  Result<RunRequest> Request(const CliContext& context, std::size_t top_n) const;
};

// --threads: how many threads a search uses while this lives. 0: all.
class ThreadLimit {
 public:
  explicit ThreadLimit(std::int64_t threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;

 private:
  struct Control;
  std::unique_ptr<Control> control_;
};

// kInvalidArgument unless the value is positive and finite; `flag` is named.
Status CheckPositive(double value, const char* flag);

// --top-n: kUsage for 0, which asks for nothing.
Status CheckTopN(std::size_t top_n);

}  // namespace infercast
