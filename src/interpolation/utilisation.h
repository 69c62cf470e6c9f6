// Estimates in utilisation space: how close measured kernels come to the speed of light, looked up
// at the two nearest measured points in normalised log space, applied to the query's own roofline.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "interpolation/resolved.h"
#include "tables/table.h"

namespace infercast {

class UtilGrid {
 public:
  // Samples of a slice in ascending key order; points with non-positive latency or SOL are left
  // out.
  static std::shared_ptr<const UtilGrid> Build(const GridView& slice, SolFunction sol);
  // Rows (coords of `axes` doubles each, then latency).
  static std::shared_ptr<const UtilGrid> Build(int axes, std::span<const double> coords,
                                               std::span<const double> latencies, SolFunction sol);
  ~UtilGrid();
  bool empty() const;

  // Utilisation at x (clamped to the measured box per axis), none when there are no samples.
  std::optional<double> Lookup(std::span<const double> x) const;

 private:
  struct Impl;
  explicit UtilGrid(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// sol / (util * scale); kEmpiricalNotImplemented when there is no grid, no sample or util <= 0.
Result<double> EstimateFromUtilisation(const UtilGrid* grid, std::span<const double> x, double sol,
                                       double scale, const char* what);

// Index of the candidate nearest to `query` in normalised log space (query not clamped, first of
// equals wins). `candidates`: rows of query.size() features each. None when there are none.
std::optional<std::size_t> NearestCandidate(std::span<const double> candidates,
                                            std::span<const double> query);

}  // namespace infercast
