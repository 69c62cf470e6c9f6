// Latent attention blocks under wide expert parallelism, measured per attention backend: query and
// key/value up-projections, attention and output projection of one layer (hidden size 7168).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "operators/latent_roofline.h"
#include "operators/measured_slice.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

namespace latent {

// Rates of a block: bytes per element of its number format, its math rate, the rate of attention
// (always bfloat16), bandwidth.
struct WideEpRates {
  double bytes = 0;
  double flops = 0;
  double attention_flops = 0;
  double bandwidth = 0;

  // `s` new tokens of `full` in all, `p` of them cached; `heads` local heads.
  Roof Context(double b, double s, double p, double full, double heads) const;
  Roof Generation(double b, double s, double heads) const;
};

// What both phases share. The three parts fail independently, and each mode has its own order.
struct WideEpBlock {
  std::shared_ptr<const TableStore> store;
  DatabaseMode mode{};
  double heads = 0;
  Result<WideEpRates> rates = WideEpRates{};
  std::optional<Error> no_table;    // a measured answer meets this before everything else
  std::optional<Error> no_backend;  // then this: only two backends are accepted there
  MeasuredSlice slice{Error{}};
  std::optional<Error> bad_backend;  // an estimate accepts any measured backend
  Calibration calibration;

  WideEpBlock(const Database& db, std::uint32_t num_heads, FmhaQuant quant);
};

}  // namespace latent

class BoundWideEpContextMla {
 public:
  BoundWideEpContextMla(const WideEpContextMla& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  Result<PerfResult> Part(std::uint32_t b, std::uint32_t s, std::uint32_t p) const;

  latent::WideEpBlock block_;
  std::uint32_t cp_size_;
  double scale_factor_;
};

class BoundWideEpGenerationMla {
 public:
  BoundWideEpGenerationMla(const WideEpGenerationMla& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  latent::WideEpBlock block_;
  double scale_factor_;
};

template <>
struct BoundOf<WideEpContextMla> {
  using type = BoundWideEpContextMla;
};
template <>
struct BoundOf<WideEpGenerationMla> {
  using type = BoundWideEpGenerationMla;
};

}  // namespace infercast
