// Bucketed samples.
#include "online/sample_store.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace infercast {

SampleStore::SampleStore(int axes, std::uint64_t bucket_count, std::uint64_t max_samples,
                         std::optional<std::array<double, 2>> limits)
    : axes_(axes),
      per_axis_(axes == 1 ? bucket_count
                          : static_cast<std::uint64_t>(
                                std::floor(std::sqrt(static_cast<double>(bucket_count))))),
      max_samples_(max_samples),
      fixed_(limits.has_value()) {
  if (limits) {
    high_ = *limits;
  } else {
    low_.fill(std::numeric_limits<double>::infinity());
    high_.fill(-std::numeric_limits<double>::infinity());
  }
}

std::uint64_t SampleStore::BucketKey(std::span<const double> x) const {
  std::uint64_t key = 0;
  for (int i = 0; i < axes_; ++i) {
    std::uint64_t part = 0;
    if (high_[i] > low_[i]) {
      const double scaled =
          (x[i] - low_[i]) / (high_[i] - low_[i]) * static_cast<double>(per_axis_);
      part = static_cast<std::uint64_t>(
          std::clamp(std::trunc(scaled), 0.0, static_cast<double>(per_axis_ - 1)));
    }
    key = key * per_axis_ + part;
  }
  return key;
}

std::optional<std::uint64_t> SampleStore::BucketOf(std::span<const double> x) const {
  for (int i = 0; i < axes_; ++i) {
    if (!std::isfinite(x[i]) || x[i] < low_[i] || x[i] > high_[i]) return std::nullopt;
  }
  return BucketKey(x);
}

bool SampleStore::Add(std::span<const double> x, double value) {
  bool moved = false;
  for (int i = 0; i < axes_; ++i) {
    if (!std::isfinite(x[i])) return false;
    if (x[i] >= low_[i] && x[i] <= high_[i]) continue;
    if (fixed_) return false;
    moved = true;
  }
  if (moved) {
    for (int i = 0; i < axes_; ++i) {
      low_[i] = std::min(low_[i], x[i]);
      high_[i] = std::max(high_[i], x[i]);
    }
    for (Sample& sample : samples_) sample.bucket = BucketKey(sample.x);
  }
  Sample sample{.value = value, .bucket = BucketKey(x)};
  std::copy_n(x.begin(), axes_, sample.x.begin());
  samples_.push_back(sample);
  if (samples_.size() <= max_samples_) return true;

  // Several buckets may be equally full: the one with the oldest sample gives way.
  std::map<std::uint64_t, std::size_t> counts;
  std::size_t fullest = 0;
  for (const Sample& s : samples_) fullest = std::max(fullest, ++counts[s.bucket]);
  samples_.erase(
      std::ranges::find_if(samples_, [&](const Sample& s) { return counts[s.bucket] == fullest; }));
  return true;
}

std::vector<std::uint64_t> SampleStore::Populated() const {
  std::vector<std::uint64_t> buckets;
  for (const Sample& sample : samples_) buckets.push_back(sample.bucket);
  std::sort(buckets.begin(), buckets.end());
  buckets.erase(std::unique(buckets.begin(), buckets.end()), buckets.end());
  return buckets;
}

}  // namespace infercast
