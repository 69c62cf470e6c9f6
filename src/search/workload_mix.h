// One deployment for several workloads: requests of different kinds that share the same workers.
//
// Each kind has a share of the requests. A deployment that serves r_i requests per second of kind i
// alone serves 1 / sum(share_i / r_i) of the mix: the kinds take turns, each for the time its share
// needs. The mean over time is that of the kinds; what they do to each other within a step is not
// modelled. Every kind must meet its own latency targets.
//
// By the closed loop, r_i and the latencies are those of a benchmark of kind i alone, run in
// virtual time with as many requests in flight as the deployment has: for each layout that may be
// shown the formula's best deployment is run under every kind, then lighter ones while a target is
// missed, and heavier ones while all are met (search/ladder.h).
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "search/run_task.h"
#include "search/standard_runs.h"
#include "search/task_table.h"
#include "search/workbench.h"
#include "serving/workload.h"

namespace infercast {

struct WorkloadKind {
  std::string name;
  Workload workload;
  double share = 1;                  // of the requests, relative to the other kinds
  std::optional<double> ttft, tpot;  // ms; absent: those of the run
};

// Typical request shapes: "chat", "rag", "summarise", "code", "agent", "reasoning".
const std::vector<WorkloadKind>& WorkloadPresets();

// "chat,rag=2": presets with relative shares. kUnknownName, kInvalidArgument.
Result<std::vector<WorkloadKind>> ParseWorkloads(std::string_view text);

// A YAML mapping of names to isl, osl, prefix (tokens) or prefix_hit (0 to 1, share of isl that is
// cached), share, ttft, tpot; a name alone, or one without isl, is a preset:
//   chat: {share: 3}
//   contracts: {isl: 24000, osl: 800, prefix_hit: 0.25, ttft: 5000}
// kIo, kYaml, kInvalidArgument.
Result<std::vector<WorkloadKind>> ReadWorkloads(const std::filesystem::path& file);
Result<std::vector<WorkloadKind>> ParseWorkloadYaml(const std::string& text,
                                                    const std::string& name);

// A deployment under every kind.
struct MixedDeployment {
  std::string experiment;                              // "agg", "disagg_vllm" ...
  Task task;                                           // of the first kind
  std::vector<TaskRow> rows;                           // one of each kind, scored where it was run
  std::vector<std::shared_ptr<const Worker>> workers;  // own what the rows point to
  double seq_s = 0;                                    // requests of the mix per second and replica
  double seq_s_gpu = 0;
  double seq_s_gpu_cluster = 0;  // unused GPUs of the cluster included
  std::int64_t replicas = 0;     // in the cluster
};

struct MixResult {
  std::vector<WorkloadKind> kinds;
  std::vector<MixedDeployment> best;  // most requests per GPU first, one per layout
  std::size_t compared = 0;           // deployments tried under every kind
  ScoredBy scored_by = ScoredBy::kFormula;
  std::vector<std::string> notes;
};

// Searches for each kind alone, then tries what was found under every kind; what is shown is ranked
// by `request.score` (a note tells where nothing can be run). kNoFeasibleConfig when
// no deployment meets the targets of all kinds (the message tells which kind is the hardest), and
// the errors of the searches.
Result<MixResult> SearchMix(const std::vector<WorkloadKind>& kinds, const RunRequest& request,
                            std::int64_t total_gpus, Workbench& bench);

}  // namespace infercast
