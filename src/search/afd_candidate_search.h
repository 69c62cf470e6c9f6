// The batch sizes of one AFD candidate that are worth a row: the largest that meets the target, and
// a few small ones.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "search/afd_capacity.h"
#include "search/afd_prefill.h"
#include "search/afd_topologies.h"
#include "search/candidates.h"
#include "serving/afd_simulation.h"

namespace infercast {

// Why rows were dropped; the words of the message when none is left.
struct AfdRejections {
  std::uint64_t oom = 0, fixed_batch = 0, tpot = 0, ttft = 0, request_latency = 0;
  std::uint64_t prefill_combine = 0, gpu_budget = 0, low_batch_oom = 0;

  void Add(const AfdRejections& other);
};

// A row that fits in memory and comes nearest to the targets without meeting them.
struct AfdMiss {
  double distance = 0;  // as that of Misses
  std::string text;     // "batch 8 in 3 micro-batches: tpot 70.0 > 60 ms"
};

// What all candidates of a search share.
struct AfdSearchSetup {
  Workload workload;
  AfdOptions options;
  AfdChoice choice;
  std::int64_t gpu_budget = 0;
  std::optional<double> request_latency;
  Speculation speculation;
  std::span<const StaticRow> prefill;  // empty: decode alone
  Behaviour behaviour = Behaviour::kNative;
};

// The search over one split and schedule. Rows are evaluated once and reused for every target.
class AfdCandidateSearch {
 public:
  AfdCandidateSearch(std::shared_ptr<const AfdDeployment> deployment, const AfdCandidate& candidate,
                     const AfdSearchSetup& setup);

  // Rows for one target, in order of evaluation.
  Result<std::vector<AfdRow>> RowsFor(const LatencyTarget& target);

  // Nothing fits, so a candidate with more micro-batches will not either.
  bool exhausted() const { return exhausted_; }
  const AfdRejections& rejections() const { return rejections_; }
  const std::optional<AfdMiss>& nearest_miss() const { return nearest_miss_; }
  std::uint64_t evaluated() const { return rows_.size(); }

 private:
  Result<const AfdRow*> At(std::int64_t batch);
  Status FixedBatch(const LatencyTarget& target, std::vector<AfdRow>& out);
  Status AutomaticBatch(const LatencyTarget& target, std::vector<AfdRow>& out);
  std::optional<AfdRow> Accept(const AfdRow& decode, const LatencyTarget& target);
  void Missed(const AfdRow& decode, const LatencyTarget& target);
  void Correct(AfdRow& row) const;

  std::shared_ptr<const AfdDeployment> deployment_;
  AfdCandidate candidate_;
  const AfdSearchSetup* setup_;
  AfdCapacity capacity_;
  std::map<std::int64_t, AfdRow> rows_;  // by batch
  AfdRejections rejections_;
  std::optional<AfdMiss> nearest_miss_;
  bool exhausted_ = false;
};

}  // namespace infercast
