// The whole-model forward pass as one operator: a measured table of complete iterations of one
// model on one layout, addressed by per-rank iteration totals. Never extrapolates beyond the
// collected box; between collected sites it borrows their utilisation of the model's own roofline.
#pragma once

#include <memory>
#include <optional>

#include "base/error.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

// Energy of every answer is 0; the source is silicon; no scale factor applies. Errors are
// kPerfDatabase: no such table or cell, outside the collected box, no covering row.
class BoundFpmForward {
 public:
  BoundFpmForward(const FpmForward& op, const Database& db);

  // One iteration of batch_size requests of s tokens each (prefill: s new and prefix cached
  // tokens; decode: s tokens of KV cache). Needs batch_size >= 1, s >= 1, beam_width = 1.
  Result<PerfResult> Query(const QueryContext& ctx) const;

  // The same at totals of the iteration (an operator of the prefill phase answers the first, one
  // of the decode phase the second; the other is kInternal).
  Result<PerfResult> QueryPrefillTotals(double requests, double new_tokens, double past_kv) const;
  Result<PerfResult> QueryDecodeTotals(double requests, double kv_tokens) const;

  // What a decode pass of `requests` costs with next to no KV cache to read: the part of a mixed
  // step that the prefill pass has paid already. Decode phase only. `kv_tokens`: the KV total of
  // the step; reference behaviour does not look at it (it asks at the lowest KV total of the whole
  // table), native behaviour keeps to the rows that cover it and asks each at its own floor.
  Result<PerfResult> QueryPassBaseline(double requests, double kv_tokens) const;

  // Highest KV total collected for decode, none without decode rows.
  std::optional<double> DecodeKvCeiling() const;

  FpmPhase phase() const { return phase_; }

 private:
  struct State;
  FpmPhase phase_;
  std::shared_ptr<const State> state_;
};

template <>
struct BoundOf<FpmForward> {
  using type = BoundFpmForward;
};

}  // namespace infercast
