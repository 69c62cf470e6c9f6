#include "operators/quantisation_overhead.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace infercast {

namespace {

constexpr const char* kFormat = "fp8";  // the only one measured

double LogFloor(double v) { return std::log(std::max(v, 1e-9)); }

}  // namespace

// Points in normalised log space; unlike utilisation samples they include those that cost nothing.
struct QuantisationOverhead::Nearest {
  std::array<double, 2> low{}, span{};
  std::vector<std::array<double, 2>> points;
  std::vector<double> latency;
  std::unique_ptr<const KdTree> tree;

  explicit Nearest(const GridView& view) {
    const TableLevel& m_level = view.table->levels[view.level];
    for (std::uint32_t m_node = view.begin; m_node < view.end; ++m_node) {
      const GridView row = view.Child(m_node);
      for (std::uint32_t leaf = row.begin; leaf < row.end; ++leaf) {
        const double value = view.table->latency[leaf];
        if (!(value >= 0)) continue;
        points.push_back({m_level.keys[m_node], view.table->levels[row.level].keys[leaf]});
        latency.push_back(value);
      }
    }
    for (std::size_t a = 0; a < 2; ++a) {
      double lowest = std::numeric_limits<double>::infinity();
      double highest = -lowest;
      for (const auto& point : points) {
        lowest = std::min(lowest, LogFloor(point[a]));
        highest = std::max(highest, LogFloor(point[a]));
      }
      low[a] = lowest;
      span[a] = highest - lowest > 0 ? highest - lowest : 1;
    }
    std::vector<double> rows;
    rows.reserve(2 * points.size());
    for (const auto& point : points) {
      for (std::size_t a = 0; a < 2; ++a) rows.push_back((LogFloor(point[a]) - low[a]) / span[a]);
    }
    tree = std::make_unique<const KdTree>(2, std::move(rows));
  }

  std::optional<std::uint32_t> Find(double m, double k) const {
    const std::array<double, 2> query = {(LogFloor(m) - low[0]) / span[0],
                                         (LogFloor(k) - low[1]) / span[1]};
    std::array<KdTree::Hit, 1> hit;
    if (tree->Nearest(query, hit) == 0) return std::nullopt;
    return hit[0].index;
  }
};

QuantisationOverhead::QuantisationOverhead(const Database& db, Part part, double k)
    : store_(db.shared_store()),
      part_(part),
      mode_(db.mode()),
      k_(k),
      passes_(part == Part::kComputeScale ? 2.0 : 3.0),
      bandwidth_(db.system().mem_bw) {
  if (db.IsSol()) return;
  const bool compute_scale = part == Part::kComputeScale;
  const std::string key = compute_scale ? "computescale fp8" : "scale_matrix fp8";
  const auto slice = SliceOf(db.Get(compute_scale ? TableId::kComputeScale : TableId::kScaleMatrix),
                             {kFormat}, key);
  slice_ = MeasuredSlice::Of(db, slice, -1, key);
  if (!slice) {
    calibration_ = Calibration(slice.error());
    return;
  }
  const std::span<const double> m_keys = slice->keys();
  low_m_ = m_keys.front();
  high_m_ = m_keys.back();
  double low_k = std::numeric_limits<double>::infinity();
  double high_k = -low_k;
  for (std::uint32_t node = slice->begin; node < slice->end; ++node) {
    const std::span<const double> k_keys = slice->Child(node).keys();
    low_k = std::min(low_k, k_keys.front());
    high_k = std::max(high_k, k_keys.back());
  }
  clamped_k_ = std::clamp(k_, low_k, high_k);
  calibration_ =
      Calibration(db, "util/" + key, [view = *slice, passes = passes_, bandwidth = bandwidth_] {
        return UtilGrid::Build(view, [&](std::span<const double> at) {
          return passes * at[0] * at[1] / bandwidth * 1000.0;
        });
      });
}

Sought QuantisationOverhead::Measured(double m) const {
  if (!slice_.present()) return slice_.Seek({}, [](std::span<const double>) { return 0.0; });
  const std::array<double, 2> at = {std::clamp(m, low_m_, high_m_), clamped_k_};
  Sought sought = slice_.Seek(at, [this](std::span<const double> c) { return Sol(c[0], c[1]); });
  if (!sought.ok() || (at[0] == m && at[1] == k_)) return sought;
  PerfResult& answer = sought.answer();
  answer.origin.kind = OriginKind::kExtrapolated;
  answer.origin.octaves += static_cast<float>(
      std::hypot(std::log2(std::max(m, 1.0) / std::max(at[0], 1.0)), std::log2(k_ / at[1])));
  if (part_ == Part::kScaleMatrix) {
    const double sol = Sol(m, k_);
    const double clamped = Sol(at[0], at[1]);
    if (sol > 0 && clamped > 0) {
      const double ratio = sol / clamped;
      answer.latency_ms *= ratio;
      answer.energy_wms *= ratio;
    }
  }
  return sought;
}

Result<PerfResult> QuantisationOverhead::Estimated(double m) const {
  const double sol = Sol(m, k_);
  if (part_ == Part::kScaleMatrix || !slice_.present()) {
    return calibration_.Estimate(std::array{m, k_}, sol, "input quantisation");
  }
  const Nearest* nearest = nearest_.Get([this] {
    return store_->Memo<Nearest>("nearest/" + slice_.key(),
                                 [this] { return std::make_shared<const Nearest>(slice_.view()); });
  });
  const auto found = nearest->Find(m, k_);
  if (!found) {
    return Fail(ErrorKind::kEmpiricalNotImplemented, "scale computation: no measured point");
  }
  double latency = nearest->latency[*found];
  if (latency != 0) {
    const auto& point = nearest->points[*found];
    const double sol_point = Sol(point[0], point[1]);
    if (!(sol > 0) || !(sol_point > 0)) {
      return Fail(ErrorKind::kEmpiricalNotImplemented,
                  "scale computation: no positive speed of light to estimate from");
    }
    latency = sol / (sol_point / latency);
  }
  PerfResult result = PerfResult::Of(latency, 0, Source::kEmpirical, OriginKind::kEstimated);
  result.tier = Tier::kEmpirical;
  return result;
}

Result<PerfResult> QuantisationOverhead::Query(double m) const {
  return AnswerByMode(
      mode_, [&] { return Measured(m); }, [&] { return Estimated(m); },
      [&]() -> Result<PerfResult> { return PerfResult::Sol(0, Sol(m, k_)); });
}

}  // namespace infercast
