// A bounded memory of observations, spread over the operating range: when it is full, the fullest
// bucket gives up its oldest sample, so that rare operating points are not crowded out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "online/workload.h"

namespace infercast {

struct Sample {
  std::array<double, 2> x{};
  double value = 0;
  std::uint64_t bucket = 0;
};

class SampleStore {
 public:
  // `limits`: the range of each axis is [0, limit] and samples outside are refused; without
  // limits the range is what was seen so far and buckets are dealt anew when it grows.
  SampleStore(int axes, std::uint64_t bucket_count, std::uint64_t max_samples,
              std::optional<std::array<double, 2>> limits);

  // True when the sample was kept. Coordinates must be finite.
  bool Add(std::span<const double> x, double value);

  std::size_t size() const { return samples_.size(); }
  // In the order of arrival.
  std::span<const Sample> samples() const { return samples_; }

  // The bucket of a point; none outside the range or for coordinates that are not finite.
  std::optional<std::uint64_t> BucketOf(std::span<const double> x) const;
  // Buckets that hold samples, ascending.
  std::vector<std::uint64_t> Populated() const;

 private:
  std::uint64_t BucketKey(std::span<const double> x) const;

  int axes_;
  std::uint64_t per_axis_;
  std::uint64_t max_samples_;
  bool fixed_;
  std::array<double, 2> low_{}, high_{};
  std::vector<Sample> samples_;
};

}  // namespace infercast
