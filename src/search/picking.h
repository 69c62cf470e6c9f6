// Picking: from all rows of a search to the few that are recommended, for a cluster or for a load.
//
// A pick sees a row as a handful of figures and a group (its layout); one row per group is taken.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/modes.h"

namespace infercast {

struct PickRow {
  std::string group;
  double ttft = 0;
  double tpot = 0;
  double request_latency = 0;
  double tokens_s_gpu = 0;
  double tokens_s_user = 0;
  double seq_s = 0;
  double concurrency = 0;
  std::int64_t num_total_gpus = 0;
};

struct Constraint {
  double tpot = 0;
  std::optional<double> request_latency = std::nullopt;  // > 0: replaces the tpot target
  bool strict = false;  // drop rows that miss it, from the table and the front
};

struct Pick {
  std::uint32_t row = 0;             // position in the input
  double tokens_s_gpu_cluster = 0;   // per GPU of the whole cluster, unused GPUs included
  std::int64_t replicas_needed = 0;  // load matching only
  std::int64_t total_gpus_needed = 0;
  std::optional<double> load_served_percent = std::nullopt;  // where a GPU ceiling capped it
};

struct PickResult {
  std::vector<Pick> best;
  std::vector<Pick> front;  // Pareto front: user speed (or request latency) against throughput
  double best_value = 0;    // comparable between experiments; 0 when nothing was picked
  bool exceeded = false;    // no row meets the constraint: the nearest ones are shown
};

// Throughput of as many replicas of a row as fit, per GPU of a cluster of `total_gpus`, idle ones
// included; 0 or less: no cluster, the row's own.
double ClusterValue(const PickRow& row, std::int64_t total_gpus);

// For a cluster of `total_gpus` (0 or less: no cluster): highest throughput per cluster GPU.
PickResult PickForCluster(std::span<const PickRow> rows, std::int64_t total_gpus,
                          const Constraint& constraint, std::size_t top_n, Behaviour behaviour);

enum class Objective : std::uint8_t { kThroughput, kLatency };

// Without targets: the most throughput per cluster GPU, or the least time per token.
PickResult PickByObjective(std::span<const PickRow> rows, std::int64_t total_gpus,
                           Objective objective, std::size_t top_n, Behaviour behaviour);

struct LoadTarget {
  std::optional<double> request_rate = std::nullopt;  // requests per second; exactly one of the two
  std::optional<double> concurrency = std::nullopt;   // requests in flight
  std::optional<std::int64_t> max_gpus = std::nullopt;
};

// For a load: fewest GPUs. kInvalidArgument unless exactly one target is set, positive and finite.
Result<PickResult> PickForLoad(std::span<const PickRow> rows, const LoadTarget& load,
                               const Constraint& constraint, std::size_t top_n,
                               Behaviour behaviour);

}  // namespace infercast
