// DeepSeek-V4 attention modules, prefill and decode: window attention plus attention over tokens
// compressed 4:1 (Csa, which an indexer chooses from) or 128:1 (Hca, all of them).
#pragma once

#include <memory>
#include <optional>

#include "base/error.h"
#include "base/modes.h"
#include "operators/dsv4_context_split.h"
#include "operators/dsv4_roofline.h"
#include "operators/dsv4_sparse.h"
#include "operators/measured_slice.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

class BoundDsv4Context {
 public:
  BoundDsv4Context(const Dsv4Context& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  Result<PerfResult> Module(double batch, double s, double prefix) const;
  Result<PerfResult> Measured(double batch, double s, double prefix) const;
  Result<PerfResult> Estimated(double batch, double s, double prefix) const;

  DatabaseMode mode_;
  double scale_factor_;
  Result<Dsv4Roofline> roofline_;
  MeasuredSlice slice_;
  bool borrowed_ = false;  // measured at other head counts
  TopkCorrection correction_;
  std::optional<std::pair<double, double>> prefixes_;  // collected range, if more than one
  Calibration with_prefix_;                            // prefix, s, batch
  Calibration without_prefix_;                         // s, batch
  std::shared_ptr<const Dsv4ContextSplit> split_;      // null: not context-parallel
};

class BoundDsv4Generation {
 public:
  BoundDsv4Generation(const Dsv4Generation& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  Result<PerfResult> Measured(double batch, double s) const;

  DatabaseMode mode_;
  double scale_factor_;
  Result<Dsv4Roofline> roofline_;
  MeasuredSlice slice_;
  bool borrowed_ = false;
  TopkCorrection correction_;
  Calibration calibration_;
};

template <>
struct BoundOf<Dsv4Context> {
  using type = BoundDsv4Context;
};
template <>
struct BoundOf<Dsv4Generation> {
  using type = BoundDsv4Generation;
};

}  // namespace infercast
