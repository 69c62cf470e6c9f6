// Side tables of the indexed (4:1) DeepSeek-V4 attention: what choosing the compressed tokens costs
// in the measured module beyond what a real serving run pays, and the stand-alone kernels from
// which a context-parallel split is composed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "tables/database.h"

namespace infercast {

// Values (ms) at (batch, new tokens, past tokens), ragged: every batch has its own sequence lengths
// and every one of these its own past lengths.
class KernelGrid {
 public:
  struct Point {
    double batch, sequence, past, value;
  };
  explicit KernelGrid(std::vector<Point> points);

  bool empty() const { return batches_.empty(); }

  // Linear over past, then sequence, then batch; held at the ends. Not below 0.
  double Interpolate(double past, double sequence, double batch) const;

  // The collected batch and then the collected sequence nearest to the query (of two the smaller),
  // linear over past, held at the ends. None when `sequence` exceeds what is collected there.
  std::optional<double> Nearest(double past, double sequence, double batch) const;
  // Longest sequence collected at the batch that Nearest would use.
  double MaxSequence(double batch) const;

 private:
  std::size_t NearestBatch(double batch) const;
  double AtSequence(std::size_t sequence_index, double past) const;
  double AtBatch(std::size_t batch_index, double sequence, double past) const;

  std::vector<double> batches_, sequences_, pasts_, values_;
  std::vector<std::uint32_t> batch_begin_, sequence_begin_;
};

// How much time the measured module spends choosing among scores that lie flat in memory more than
// when the chosen ones come last, as in serving.
class TopkCorrection {
 public:
  enum class Variant : std::uint8_t { kContext, kGeneration };

  // Inert unless the table has both arrangements at exactly this head count, and when the
  // environment variable AIC_DSV4_TOPK_CORRECTION is "0".
  TopkCorrection(const Database& db, std::uint32_t native_heads, Variant variant);
  TopkCorrection() = default;

  // Subtracts the difference from the latency, not below 0; energy shrinks in proportion.
  void Apply(double past, double sequence, double batch, double& latency, double& energy) const;

 private:
  std::shared_ptr<const KernelGrid> delta_;
};

// The choosing kernel itself in the serving arrangement, at exactly this head count; null when it
// was not measured.
std::shared_ptr<const KernelGrid> TopkKernel(const Database& db, std::uint32_t native_heads);

}  // namespace infercast
