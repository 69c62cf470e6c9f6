// Multi-head latent attention: the prefill kernel, the decode kernel, and the batched products that
// absorb (before decode) and expand (after it) the latent. Every slice is resolved at binding.
//
// Prefill is measured without cached tokens only. A query with p cached tokens looks the full
// sequence up and takes the share of its quadratic work that is left.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/function_ref.h"
#include "operators/latent_roofline.h"
#include "operators/measured_slice.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

namespace latent {

// Number format of the decode kernel's math: fp8 where the cache is fp8 and the GPU computes in it.
FmhaQuant DecodeAttentionQuant(KvQuant kv, const SystemSpec& system);

// What prefill and decode kernels share: where the measurements are and what the roofline needs.
struct Kernel {
  std::shared_ptr<const TableStore> store;
  DatabaseMode mode{};
  double heads = 0;
  double kv_bytes = 0;
  double bandwidth = 0;
  Result<double> flops = 0.0;  // a missing figure is answered by every query, in every mode
  MeasuredSlice slice{Error{}};
  Calibration calibration;

  Kernel(const Database& db, std::uint32_t num_heads, KvQuant kv, FmhaQuant math);
  // Every query answers that nothing was measured.
  bool never_measured() const {
    return flops && mode == DatabaseMode::kSilicon && slice.unmeasured();
  }
};

// `key` names the slice within its store; `find` looks it up, and is not asked where only rooflines
// answer.

// A prefill kernel over axes (heads, full sequence, batch), measured without cached tokens.
class Prefill {
 public:
  Prefill(const Database& db, std::uint32_t num_heads, KvQuant kv, FmhaQuant math,
          const std::string& key, FunctionRef<Result<GridView>()> find);
  // Not clamped, not scaled.
  Result<PerfResult> Query(std::uint32_t b, std::uint32_t s, std::uint32_t p) const;
  bool never_measured() const { return kernel_.never_measured(); }

 private:
  Kernel kernel_;
};

// A decode kernel over axes (heads, batch, sequence), with or without its two products.
class Decode {
 public:
  Decode(const Database& db, std::uint32_t num_heads, KvQuant kv, std::optional<GemmQuant> products,
         const std::string& key, FunctionRef<Result<GridView>()> find);
  Result<PerfResult> Query(std::uint32_t b, std::uint32_t s) const;
  bool never_measured() const { return kernel_.never_measured(); }

 private:
  struct Rates {
    double heads, kv_bytes, flops, bandwidth;
    bool products;
    double weight_bytes, gemm_flops;
    Roof At(double b, double s, double n) const;
  };

  Kernel kernel_;
  Rates rates_{};
};

}  // namespace latent

class BoundContextMla {
 public:
  BoundContextMla(const ContextMla& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  latent::Prefill prefill_;
  std::uint32_t cp_size_;
  double scale_factor_;
};

class BoundGenerationMla {
 public:
  BoundGenerationMla(const GenerationMla& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  latent::Decode decode_;
  double scale_factor_;
};

// The batch size of the query is the number of tokens of the product.
class BoundMlaBmm {
 public:
  BoundMlaBmm(const MlaBmm& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  std::shared_ptr<const TableStore> store_;
  DatabaseMode mode_;
  double heads_;           // of the operator: what the roofline mode answers for
  double measured_heads_;  // of the slice asked; results are scaled from these to `heads_`
  double head_scale_;
  double weight_bytes_;
  double bandwidth_;
  Result<double> flops_;
  MeasuredSlice slice_{Error{}};
  Calibration calibration_;
  double scale_factor_;
};

template <>
struct BoundOf<ContextMla> {
  using type = BoundContextMla;
};
template <>
struct BoundOf<GenerationMla> {
  using type = BoundGenerationMla;
};
template <>
struct BoundOf<MlaBmm> {
  using type = BoundMlaBmm;
};

}  // namespace infercast
