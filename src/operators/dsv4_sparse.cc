// Ragged three-axis look-ups and the top-k difference of DeepSeek-V4 attention.
#include "operators/dsv4_sparse.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <tuple>
#include <utility>

namespace infercast {

namespace {

// Value at x over ascending keys; `value(i)` is asked only for the keys that matter.
template <typename Value>
double Linear(std::span<const double> keys, double x, Value&& value) {
  if (x <= keys.front()) return value(0);
  if (x >= keys.back()) return value(keys.size() - 1);
  const auto upper = std::lower_bound(keys.begin(), keys.end(), x);
  const auto hi = static_cast<std::size_t>(upper - keys.begin());
  if (*upper == x) return value(hi);
  const double w = (x - keys[hi - 1]) / (keys[hi] - keys[hi - 1]);
  return value(hi - 1) * (1.0 - w) + value(hi) * w;
}

std::size_t NearestIndex(std::span<const double> keys, double x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < keys.size(); ++i) {
    if (std::abs(keys[i] - x) < std::abs(keys[best] - x)) best = i;
  }
  return best;
}

bool CorrectionEnabled() {
  static const bool enabled = [] {
    const char* value = std::getenv("AIC_DSV4_TOPK_CORRECTION");
    return value == nullptr || std::string_view(value) != "0";
  }();
  return enabled;
}

// Points of one score arrangement; none when it was not measured. The latency is passed through
// `value(past node, sequence node, batch node)`, which may leave a point out.
template <typename Value>
std::vector<KernelGrid::Point> PointsOf(const GridView& pasts, Value&& value) {
  std::vector<KernelGrid::Point> points;
  const Table& table = *pasts.table;
  const auto key = [&](const GridView& view, std::uint32_t node) {
    return table.levels[view.level].keys[node];
  };
  for (std::uint32_t p = pasts.begin; p < pasts.end; ++p) {
    const GridView sequences = pasts.Child(p);
    for (std::uint32_t s = sequences.begin; s < sequences.end; ++s) {
      const GridView batches = sequences.Child(s);
      for (std::uint32_t b = batches.begin; b < batches.end; ++b) {
        KernelGrid::Point point{key(batches, b), key(sequences, s), key(pasts, p), 0.0};
        if (value(point, table.latency[b])) points.push_back(point);
      }
    }
  }
  return points;
}

std::shared_ptr<const KernelGrid> GridOrNull(std::vector<KernelGrid::Point> points) {
  if (points.empty()) return nullptr;
  return std::make_shared<const KernelGrid>(std::move(points));
}

}  // namespace

KernelGrid::KernelGrid(std::vector<Point> points) {
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return std::tie(a.batch, a.sequence, a.past) < std::tie(b.batch, b.sequence, b.past);
  });
  for (const Point& point : points) {
    const bool new_batch = batches_.empty() || batches_.back() != point.batch;
    if (new_batch) {
      batches_.push_back(point.batch);
      batch_begin_.push_back(static_cast<std::uint32_t>(sequences_.size()));
    }
    if (new_batch || sequences_.back() != point.sequence) {
      sequences_.push_back(point.sequence);
      sequence_begin_.push_back(static_cast<std::uint32_t>(pasts_.size()));
    }
    pasts_.push_back(point.past);
    values_.push_back(point.value);
  }
  batch_begin_.push_back(static_cast<std::uint32_t>(sequences_.size()));
  sequence_begin_.push_back(static_cast<std::uint32_t>(pasts_.size()));
}

double KernelGrid::AtSequence(std::size_t index, double past) const {
  const std::uint32_t begin = sequence_begin_[index];
  const std::span<const double> keys(pasts_.data() + begin, sequence_begin_[index + 1] - begin);
  return Linear(keys, past, [&](std::size_t i) { return values_[begin + i]; });
}

double KernelGrid::AtBatch(std::size_t index, double sequence, double past) const {
  const std::uint32_t begin = batch_begin_[index];
  const std::span<const double> keys(sequences_.data() + begin, batch_begin_[index + 1] - begin);
  return Linear(keys, sequence, [&](std::size_t i) { return AtSequence(begin + i, past); });
}

double KernelGrid::Interpolate(double past, double sequence, double batch) const {
  const double value =
      Linear(batches_, batch, [&](std::size_t i) { return AtBatch(i, sequence, past); });
  return std::max(value, 0.0);
}

std::size_t KernelGrid::NearestBatch(double batch) const { return NearestIndex(batches_, batch); }

double KernelGrid::MaxSequence(double batch) const {
  return sequences_[batch_begin_[NearestBatch(batch) + 1] - 1];
}

std::optional<double> KernelGrid::Nearest(double past, double sequence, double batch) const {
  const std::size_t b = NearestBatch(batch);
  const std::uint32_t first = batch_begin_[b];
  const std::span<const double> keys(sequences_.data() + first, batch_begin_[b + 1] - first);
  if (sequence > keys.back()) return std::nullopt;
  const std::size_t s = first + NearestIndex(keys, sequence);
  const std::uint32_t begin = sequence_begin_[s];
  const std::span<const double> pasts(pasts_.data() + begin, sequence_begin_[s + 1] - begin);
  if (past <= pasts.front()) return values_[begin];
  if (past >= pasts.back()) return values_[begin + pasts.size() - 1];
  const auto upper = std::lower_bound(pasts.begin(), pasts.end(), past);
  const auto hi = static_cast<std::size_t>(upper - pasts.begin());
  if (*upper == past) return values_[begin + hi];
  const double low = values_[begin + hi - 1];
  return low + (values_[begin + hi] - low) * (past - pasts[hi - 1]) / (pasts[hi] - pasts[hi - 1]);
}

TopkCorrection::TopkCorrection(const Database& db, std::uint32_t native_heads, Variant variant) {
  if (!CorrectionEnabled()) return;
  const auto table = db.Get(TableId::kDsv4TopkCalibration);
  if (!table) return;
  const bool context = variant == Variant::kContext;
  const auto flat = (*table)->Slice({native_heads, context ? "v1_flat" : "v2_flat"});
  const auto last = (*table)->Slice({native_heads, context ? "v1_top_last" : "v2_top_last"});
  if (!flat || !last) return;
  delta_ = db.store().Memo<KernelGrid>(
      fmt::format("dsv4_topk_difference/{}/{}", native_heads, context ? "v1" : "v2"), [&] {
        return GridOrNull(PointsOf(*flat, [&](KernelGrid::Point& point, double latency) {
          const auto other = (*table)->Slice(*last, {point.past, point.sequence});
          const auto leaf = other ? other->Find(point.batch) : std::nullopt;
          if (!leaf) return false;
          point.value = std::max(latency - (*table)->latency[*leaf], 0.0);
          return true;
        }));
      });
}

void TopkCorrection::Apply(double past, double sequence, double batch, double& latency,
                           double& energy) const {
  if (!delta_) return;
  const double corrected = std::max(latency - delta_->Interpolate(past, sequence, batch), 0.0);
  if (latency > 0.0 && energy != 0.0) energy *= corrected / latency;
  latency = corrected;
}

std::shared_ptr<const KernelGrid> TopkKernel(const Database& db, std::uint32_t native_heads) {
  const auto table = db.Get(TableId::kDsv4TopkCalibration);
  if (!table) return nullptr;
  const auto slice = (*table)->Slice({native_heads, "v1_top_last"});
  if (!slice) return nullptr;
  return db.store().Memo<KernelGrid>(fmt::format("dsv4_topk_kernel/{}", native_heads), [&] {
    return GridOrNull(PointsOf(*slice, [](KernelGrid::Point& point, double latency) {
      point.value = latency;
      return true;
    }));
  });
}

}  // namespace infercast
