// The two standard questions: what is the best way to serve a model on some GPUs, and how few GPUs
// serve a load. Both become experiments: one for each backend and serving mode.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "search/experiments.h"
#include "search/task.h"
#include "search/workbench.h"

namespace infercast {

// What both questions need. Defaults are those of the command line.
struct RunRequest {
  std::string model;
  std::string system;
  std::optional<std::string> decode_system;  // of decode pools; absent: the same
  // Absent: every backend that was measured on the system.
  std::optional<Backend> backend = Backend::kTrtllm;
  std::optional<std::string> version;
  DatabaseMode database_mode = DatabaseMode::kSilicon;
  TransferPolicy policy;
  Workload workload;
  bool encoder_data_parallel = true;
  EncoderPoolChoice epd;
  double ttft = 2000;
  double tpot = 30;
  std::optional<double> request_latency;
  bool strict = false;
  std::optional<std::int64_t> nextn = 0;  // absent: as the checkpoint has
  std::optional<double> nextn_accepted;
  bool chunked_prefill = false;
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> max_seq_len;
  std::optional<std::string> moe_backend;
  std::optional<std::string> attention_backend;
  ForwardModel forward_model = ForwardModel::kOperators;
  QuantOverrides quant;  // of all roles
  AfdChoice afd;
  std::vector<ServingMode> modes = {ServingMode::kAggregated, ServingMode::kDisaggregated};
  std::size_t top_n = 5;
  ScoredBy score = ScoredBy::kFormula;  // of the rows that are shown
  Behaviour behaviour = Behaviour::kNative;
  bool allow_unlisted_versions = false;
};

struct StandardExperiments {
  std::vector<Experiment> experiments;
  std::vector<std::string> notes;  // what was left out and why
};

// kPerfDatabase or kUnknownName when nothing was measured for the request, kInvalidArgument for
// settings that contradict each other.
Result<StandardExperiments> MakeExperiments(const RunRequest& request, std::int64_t total_gpus,
                                            Workbench& bench);

// The best way to serve on `total_gpus`. Errors of MakeExperiments and RunExperiments.
Result<ExperimentsResult> RunDefault(const RunRequest& request, std::int64_t total_gpus,
                                     Workbench& bench);

// The fewest GPUs that serve a load. `nextn_given`: the user set nextn (otherwise the draft block
// of the architecture counts where an acceptance is given).
Result<ExperimentsResult> RunRecommend(const RunRequest& request, const LoadTarget& load,
                                       bool nextn_given, Workbench& bench);

}  // namespace infercast
