// Wide-expert-parallel latent attention: rooflines, choice of the backend's slice, modes.
#include "operators/wide_ep_mla.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "operators/mla.h"

namespace infercast {

namespace latent {

namespace {

constexpr double kHidden = 7168;
constexpr double kQueryRank = 1536;
constexpr double kLatent = 512;
constexpr double kHeadDim = 128;       // without the rotary part; also of values
constexpr double kQueryHeadDim = 192;  // with it

// Heads of a rank as measured: the collector ran tensor-parallel shards of 128 heads. The measured
// answer rounds the shard count down, the estimate to even; heads of neither are left as they fall.
double HeadsRoundedDown(double heads) { return std::floor(128.0 / std::floor(128.0 / heads)); }
double HeadsRoundedEven(double heads) { return std::floor(128.0 / std::nearbyint(128.0 / heads)); }

}  // namespace

Roof WideEpRates::Context(double b, double s, double p, double full, double h) const {
  const double tokens = b * s;
  const double q_ops = 2.0 * kQueryRank * h * kQueryHeadDim * tokens;
  const double q_elems =
      b * kQueryRank * s + kQueryRank * h * kQueryHeadDim + 2.0 * b * h * kQueryHeadDim * s;
  const double kv_ops = 2.0 * kLatent * h * 256.0 * tokens;
  const double kv_elems = b * s * kLatent + h * 256.0 * kLatent + 2.0 * b * h * 256.0 * s;
  const double attention_ops = std::floor(2.0 * h * 320.0 * b * (full * full - p * p) / 2.0);
  const double attention_elems = b * s * h * kQueryHeadDim + b * full * h * kQueryHeadDim +
                                 b * full * h * kHeadDim + b * s * h * kHeadDim;
  const double out_ops = 2.0 * h * kHeadDim * kHidden * tokens;
  const double out_elems = b * h * kHeadDim * s + h * kHeadDim * kHidden + 2.0 * b * kHidden * s;
  return {(q_ops + kv_ops + out_ops) / flops * 1000.0 + attention_ops / attention_flops * 1000.0,
          (q_elems + kv_elems + 2.0 * attention_elems + out_elems) * bytes / bandwidth * 1000.0};
}

Roof WideEpRates::Generation(double b, double s, double h) const {
  const double q_ops = 2.0 * kQueryRank * h * kQueryHeadDim * b;
  const double q_elems =
      b * kQueryRank + kQueryRank * h * kQueryHeadDim + 2.0 * b * h * kQueryHeadDim;
  const double absorb_ops = 2.0 * h * kHeadDim * kLatent * b;
  const double absorb_elems = b * h * kHeadDim + h * kLatent * kHeadDim + 2.0 * b * h * kLatent;
  const double attention_ops = 2.0 * b * s * h * (64.0 + 1024.0);
  const double attention_elems = b * h * 576.0 + b * s * 576.0 + b * h * kLatent;
  const double expand_ops = 2.0 * b * h * kLatent * kHeadDim;
  const double expand_elems = b * h * kLatent + h * kHeadDim * kLatent + 2.0 * b * h * kHeadDim;
  const double out_ops = 2.0 * h * kHeadDim * kHidden * b;
  const double out_elems = b * h * kHeadDim + h * kHeadDim * kHidden + 2.0 * b * kHidden;
  return {(q_ops + absorb_ops + expand_ops + out_ops) / flops * 1000.0 +
              attention_ops / attention_flops * 1000.0,
          (q_elems + absorb_elems + 2.0 * attention_elems + expand_elems + out_elems) * bytes /
              bandwidth * 1000.0};
}

WideEpBlock::WideEpBlock(const Database& db, std::uint32_t num_heads, FmhaQuant quant)
    : store(db.shared_store()), mode(db.mode()), heads(num_heads) {
  const auto flops = db.system().TensorCoreFlops(Profile(quant).dtype);
  const auto attention_flops = db.system().TensorCoreFlops(ComputeDtype::kBfloat16);
  if (!flops) {
    rates = std::unexpected(flops.error());
  } else if (!attention_flops) {
    rates = std::unexpected(attention_flops.error());
  } else {
    rates = WideEpRates{Profile(quant).memory, *flops, *attention_flops, db.system().mem_bw};
  }
}

namespace {

constexpr std::string_view kFlashInfer = "flashinfer";
constexpr std::string_view kFlashAttention3 = "fa3";
constexpr std::string_view kTrtllm = "trtllm_mla";

// Binds table, backend and slice of a block. `find(backend)` is its slice, if measured; `Samples`
// gets the slice's view and the memo key and answers the calibration.
template <typename Find, typename Samples>
void BindBackend(WideEpBlock& block, const Database& db, TableId id, const std::string& backend,
                 const std::string& key, int sqrt_axis, Find&& find, Samples&& samples) {
  if (db.IsSol()) return;
  const Result<const Table*> table = db.Get(id);
  if (!table) {
    block.no_table = table.error();
    block.calibration = Calibration(table.error());
    return;
  }
  const bool accepted = backend == kFlashInfer || backend == kFlashAttention3;
  if (!accepted) {
    block.no_backend = Error{
        ErrorKind::kInvalidEngineConfig,
        fmt::format("attention backend '{}' is not supported: use 'flashinfer' or 'fa3'", backend)};
  }
  std::optional<GridView> view = backend.empty() ? std::nullopt : find(**table, backend);
  std::string_view kernel = backend;
  if (!view && accepted) {
    view = find(**table, kTrtllm);
    kernel = kTrtllm;
  }
  if (!view) {
    if (!accepted && (backend.empty() || !(*table)->CodeOf(0, backend))) {
      block.bad_backend =
          Error{ErrorKind::kInvalidEngineConfig,
                fmt::format("attention backend '{}' is neither 'flashinfer' nor 'fa3' nor the name "
                            "of a measured kernel",
                            backend)};
    }
    block.slice = MeasuredSlice(
        Error{ErrorKind::kPerfDatabase, fmt::format("no measurements of {}/{}", key, backend)});
    return;
  }
  const std::string slice_key = fmt::format("{}/{}", key, kernel);
  block.slice = MeasuredSlice(db, *view, sqrt_axis, slice_key);
  if (block.rates) block.calibration = samples(*view, "util/" + slice_key);
}

// Both phases' order of checks. `correct` is applied to a measured answer.
template <typename Sol, typename Roofline, typename Correct>
Result<PerfResult> QueryBlock(const WideEpBlock& block, std::span<const double> coords, Sol&& sol,
                              Roofline&& roofline, Correct&& correct) {
  return AnswerByMode(
      block.mode,
      [&]() -> Sought {
        if (block.no_table) return Sought(*block.no_table);
        if (block.no_backend) return Sought(*block.no_backend);
        if (!block.rates) return Sought(block.rates.error());
        Sought sought = block.slice.Seek(coords, sol);
        if (sought.ok()) {
          correct(sought.answer());
          sought.answer().energy_wms = 0;  // these tables are read without their power
        }
        return sought;
      },
      [&]() -> Result<PerfResult> {
        if (!block.rates) return std::unexpected(block.rates.error());
        if (block.bad_backend) return std::unexpected(*block.bad_backend);
        return block.calibration.Estimate(coords, roofline().Time(),
                                          "latent attention under wide expert parallelism");
      },
      [&]() -> Result<PerfResult> {
        if (!block.rates) return std::unexpected(block.rates.error());
        return roofline().TimeOnly();
      });
}

}  // namespace

}  // namespace latent

BoundWideEpContextMla::BoundWideEpContextMla(const WideEpContextMla& op, const Database& db)
    : block_(db, op.num_heads, op.fmha_quant_mode),
      cp_size_(op.cp_size),
      scale_factor_(op.scale_factor) {
  const std::string_view math = ToString(op.fmha_quant_mode);
  const std::string_view kv = ToString(op.kv_cache_dtype);
  latent::BindBackend(
      block_, db, TableId::kWideEpContextMla, op.attn_backend,
      fmt::format("wideep_context_mla/{}/{}", math, kv), 1,
      [&](const Table& table, std::string_view kernel) { return table.Slice({kernel, math, kv}); },
      [&](const GridView& view, std::string key) {
        return Calibration(db, std::move(key), [view, rates = *block_.rates] {
          return UtilGrid::Build(view, [&](std::span<const double> c) {
            return rates.Context(c[2], c[1], 0, c[1], latent::HeadsRoundedEven(c[0])).Time();
          });
        });
      });
}

Result<PerfResult> BoundWideEpContextMla::Part(std::uint32_t b, std::uint32_t s,
                                               std::uint32_t p) const {
  const std::uint32_t full = s + p;  // wraps like the table coordinate; the roofline is exact
  const std::array<double, 3> coords{block_.heads, static_cast<double>(full),
                                     static_cast<double>(b)};
  return latent::QueryBlock(
      block_, coords,
      [&](std::span<const double> c) {
        return block_.rates->Context(c[2], c[1], 0, c[1], latent::HeadsRoundedDown(c[0])).Time();
      },
      [&] {
        return block_.rates->Context(b, s, p, static_cast<double>(s) + static_cast<double>(p),
                                     block_.heads);
      },
      [&](PerfResult& result) { result.Scale(latent::PrefixCorrection(full, p)); });
}

Result<PerfResult> BoundWideEpContextMla::Query(const QueryContext& ctx) const {
  PerfResult total;
  if (cp_size_ <= 1) {
    IC_ASSIGN(total, Part(ctx.batch_size, ctx.s, ctx.prefix));
  } else {
    const std::uint32_t chunk = latent::ZigzagChunk(ctx.s, cp_size_);
    IC_ASSIGN(total, Part(ctx.batch_size, chunk, ctx.prefix));
    IC_ASSIGN(const PerfResult last, Part(ctx.batch_size, chunk, ctx.prefix + ctx.s - chunk));
    // Unlike PerfResult::Add, an empty part keeps its say in the label here.
    if (total.source != last.source) total.source = Source::kMixed;
    total.latency_ms += last.latency_ms;
    total.tier = std::max(total.tier, last.tier);
    total.origin = Origin::Weaker(total.origin, last.origin);
  }
  total.Clamp();
  total.Scale(scale_factor_);
  return total;
}

BoundWideEpGenerationMla::BoundWideEpGenerationMla(const WideEpGenerationMla& op,
                                                   const Database& db)
    : block_(db, op.num_heads, latent::DecodeAttentionQuant(op.kv_cache_dtype, db.system())),
      scale_factor_(op.scale_factor) {
  const std::string_view kv = ToString(op.kv_cache_dtype);
  latent::BindBackend(
      block_, db, TableId::kWideEpGenerationMla, op.attn_backend,
      fmt::format("wideep_generation_mla/{}", kv), -1,
      [&](const Table& table, std::string_view kernel) { return table.Slice({kernel, kv}); },
      [&](const GridView& view, std::string key) {
        return Calibration(db, std::move(key), [view, rates = *block_.rates] {
          return UtilGrid::Build(view, [&](std::span<const double> c) {
            return rates.Generation(c[1], c[2], latent::HeadsRoundedEven(c[0])).Time();
          });
        });
      });
}

Result<PerfResult> BoundWideEpGenerationMla::Query(const QueryContext& ctx) const {
  const std::array<double, 3> coords{block_.heads, static_cast<double>(ctx.batch_size),
                                     static_cast<double>(ctx.s)};
  IC_ASSIGN(
      PerfResult result,
      latent::QueryBlock(
          block_, coords,
          [&](std::span<const double> c) {
            return block_.rates->Generation(c[1], c[2], latent::HeadsRoundedDown(c[0])).Time();
          },
          [&] { return block_.rates->Generation(ctx.batch_size, ctx.s, block_.heads); },
          [](PerfResult&) {}));
  result.Clamp();
  result.Scale(scale_factor_);
  return result;
}

}  // namespace infercast
