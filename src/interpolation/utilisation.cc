#include "interpolation/utilisation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "interpolation/kd_tree.h"

namespace infercast {

namespace {

constexpr std::size_t kMaxAxes = 8;

double LogFloor(double v) { return std::log(std::max(v, 1e-9)); }

}  // namespace

struct UtilGrid::Impl {
  std::size_t axes = 0;
  std::vector<double> util;
  std::array<double, kMaxAxes> low{};
  std::array<double, kMaxAxes> span{};
  std::unique_ptr<const KdTree> tree;
};

UtilGrid::UtilGrid(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
UtilGrid::~UtilGrid() = default;

bool UtilGrid::empty() const { return impl_->util.empty(); }

std::shared_ptr<const UtilGrid> UtilGrid::Build(int axes, std::span<const double> coords,
                                                std::span<const double> latencies,
                                                SolFunction sol) {
  auto impl = std::make_unique<Impl>();
  const std::size_t n = static_cast<std::size_t>(axes);
  impl->axes = n;
  impl->low.fill(std::numeric_limits<double>::infinity());
  std::array<double, kMaxAxes> high;
  high.fill(-std::numeric_limits<double>::infinity());
  std::vector<double> logs;
  for (std::size_t i = 0; i < latencies.size(); ++i) {
    if (!(latencies[i] > 0)) continue;
    const std::span<const double> point = coords.subspan(i * n, n);
    const double s = sol(point);
    if (!(s > 0)) continue;
    impl->util.push_back(s / latencies[i]);
    for (std::size_t a = 0; a < n; ++a) {
      const double v = LogFloor(point[a]);
      logs.push_back(v);
      impl->low[a] = std::min(impl->low[a], v);
      high[a] = std::max(high[a], v);
    }
  }
  for (std::size_t a = 0; a < n; ++a) {
    const double span = high[a] - impl->low[a];
    impl->span[a] = span > 0 ? span : 1;
  }
  for (std::size_t i = 0; i < logs.size(); ++i) {
    const std::size_t a = i % n;
    logs[i] = (logs[i] - impl->low[a]) / impl->span[a];
  }
  impl->tree = std::make_unique<const KdTree>(axes, std::move(logs));
  return std::shared_ptr<const UtilGrid>(new UtilGrid(std::move(impl)));
}

std::shared_ptr<const UtilGrid> UtilGrid::Build(const GridView& slice, SolFunction sol) {
  const std::size_t axes = static_cast<std::size_t>(slice.depth());
  const auto [first, last] = slice.LeafRange();
  std::vector<double> coords((last - first) * axes);
  std::uint32_t begin = slice.begin;
  std::uint32_t end = slice.end;
  for (std::size_t a = 0; a < axes; ++a) {
    const std::uint32_t level = slice.level + static_cast<std::uint32_t>(a);
    const TableLevel& nodes = slice.table->levels[level];
    for (std::uint32_t node = begin; node < end; ++node) {
      const auto leaves = GridView{slice.table, level, node, node + 1}.LeafRange();
      for (std::uint32_t leaf = leaves.first; leaf < leaves.second; ++leaf) {
        coords[(leaf - first) * axes + a] = nodes.keys[node];
      }
    }
    if (a + 1 < axes) {
      begin = nodes.child_begin[begin];
      end = nodes.child_begin[end];
    }
  }
  return Build(static_cast<int>(axes), coords, slice.table->latency.subspan(first, last - first),
               sol);
}

std::optional<double> UtilGrid::Lookup(std::span<const double> x) const {
  if (empty()) return std::nullopt;
  std::array<double, kMaxAxes> z{};
  for (std::size_t a = 0; a < impl_->axes; ++a) {
    z[a] = std::clamp((LogFloor(x[a]) - impl_->low[a]) / impl_->span[a], 0.0, 1.0);
  }
  std::array<KdTree::Hit, 2> hits;
  const std::size_t n = impl_->tree->Nearest(std::span(z).first(impl_->axes), hits);
  if (hits[0].distance == 0) return impl_->util[hits[0].index];
  double util = 0;
  double total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double w = 1 / hits[i].distance;
    util += impl_->util[hits[i].index] * w;
    total += w;
  }
  return util / total;
}

Result<double> EstimateFromUtilisation(const UtilGrid* grid, std::span<const double> x, double sol,
                                       double scale, const char* what) {
  std::optional<double> util;
  if (grid != nullptr) util = grid->Lookup(x);
  if (!util || !(*util > 0)) {
    return Fail(ErrorKind::kEmpiricalNotImplemented,
                fmt::format("{}: no measured utilisation to estimate from", what));
  }
  return sol / (*util * scale);
}

std::optional<std::size_t> NearestCandidate(std::span<const double> candidates,
                                            std::span<const double> query) {
  const std::size_t axes = query.size();
  if (axes == 0 || candidates.size() < axes) return std::nullopt;
  const std::size_t n = candidates.size() / axes;
  std::array<double, kMaxAxes> low;
  std::array<double, kMaxAxes> high;
  low.fill(std::numeric_limits<double>::infinity());
  high.fill(-std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < n * axes; ++i) {
    const double v = LogFloor(candidates[i]);
    low[i % axes] = std::min(low[i % axes], v);
    high[i % axes] = std::max(high[i % axes], v);
  }
  std::size_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::size_t a = 0; a < axes; ++a) {
      const double span = high[a] - low[a] > 0 ? high[a] - low[a] : 1;
      const double c = (LogFloor(candidates[i * axes + a]) - low[a]) / span;
      const double q = (LogFloor(query[a]) - low[a]) / span;
      const double d = c - q;
      sum += d * d;
    }
    if (sum < best_distance) {
      best_distance = sum;
      best = i;
    }
  }
  return best;
}

}  // namespace infercast
