// Kernels of linear-attention and state-space layers: Mamba2, gated delta net (Gdn) and Kimi delta
// attention (Kda). Their tables are asked first; what was not measured is priced at the memory
// traffic of the kernel. In reference behaviour the database mode plays no part; native behaviour
// answers the roofline in the speed-of-light modes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "operators/measured_slice.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

// Memory traffic of one recurrent kernel in bytes, as coefficients of the batch size b, of the
// tokens T that pass through and of the state snapshots that a chunked scan leaves.
struct RecurrentTraffic {
  double bandwidth = 1;             // bytes/s
  bool tokens_of_sequence = false;  // T = b * s (where s > 0) instead of b
  double per_token = 0;
  double per_request = 0;
  double per_chunk = 0;  // times b and the completed 64-token chunks of s

  // A short convolution over `channels` channels, reading its window and writing one value each.
  void AddConvolution(double channels, double width) {
    per_token += 2.0 * channels * (width + 1.0) + 2.0 * channels;
  }
  double Milliseconds(double batch, double s) const;
};

// A kernel's slice and its roofline.
class RecurrentKernel {
 public:
  // `one_axis`: the slice has the batch axis only, else batch and sequence. `donor`: the traffic
  // of the shape that the slice was measured at, where that is not the operator's own shape.
  RecurrentKernel(const Database& db, const Result<GridView>& slice, bool one_axis,
                  const RecurrentTraffic& traffic, std::optional<RecurrentTraffic> donor,
                  double scale_factor, std::string key);

  // silicon, or sol where nothing was measured. Errors other than a miss stay errors.
  Result<PerfResult> Query(double batch, double s) const;

 private:
  Result<PerfResult> Measured(double batch, double s) const;

  MeasuredSlice slice_;
  RecurrentTraffic traffic_;
  std::optional<RecurrentTraffic> donor_;
  bool one_axis_;
  bool roofline_only_;
  bool borrow_by_roofline_;
  double scale_factor_;
};

class BoundMamba2 {
 public:
  BoundMamba2(const Mamba2& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const {
    return kernel_.Query(ctx.batch_size, ctx.s);
  }

 private:
  RecurrentKernel kernel_;
};

class BoundGdn {
 public:
  BoundGdn(const Gdn& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const {
    return kernel_.Query(ctx.batch_size, ctx.s);
  }

 private:
  RecurrentKernel kernel_;
};

class BoundKda {
 public:
  BoundKda(const Kda& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  enum class Phase : std::uint8_t { kContext, kVerify, kOther };

  Phase phase_;
  std::int64_t draft_tokens_;
  std::optional<RecurrentKernel> kernel_;  // none: fused into another kernel, costs nothing here
};

template <>
struct BoundOf<Mamba2> {
  using type = BoundMamba2;
};
template <>
struct BoundOf<Gdn> {
  using type = BoundGdn;
};
template <>
struct BoundOf<Kda> {
  using type = BoundKda;
};

}  // namespace infercast
