// Latent attention kernels: look-ups in their measured grids, utilisation-space estimates,
// rooflines.
#include "operators/mla.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <span>

namespace infercast {

namespace latent {

namespace {

constexpr int kSequenceAxis = 1;  // of (heads, sequence, batch): its blend runs in square roots
constexpr int kNoSqrtAxis = -1;

}  // namespace

FmhaQuant DecodeAttentionQuant(KvQuant kv, const SystemSpec& system) {
  const bool fp8 = kv == KvQuant::kFp8 && system.sm_version && *system.sm_version >= 89;
  return fp8 ? FmhaQuant::kFp8 : FmhaQuant::kBfloat16;
}

Kernel::Kernel(const Database& db, std::uint32_t num_heads, KvQuant kv, FmhaQuant math)
    : store(db.shared_store()),
      mode(db.mode()),
      heads(num_heads),
      kv_bytes(Profile(kv).memory),
      bandwidth(db.system().mem_bw),
      flops(db.system().TensorCoreFlops(Profile(math).dtype)) {}

Prefill::Prefill(const Database& db, std::uint32_t num_heads, KvQuant kv, FmhaQuant math,
                 const std::string& key, FunctionRef<Result<GridView>()> find)
    : kernel_(db, num_heads, kv, math) {
  if (!kernel_.flops || db.IsSol()) return;
  const Result<GridView> slice = find();
  kernel_.slice = MeasuredSlice::Of(db, slice, kSequenceAxis, key);
  if (!slice) {
    kernel_.calibration = Calibration(slice.error());
    return;
  }
  const double flops = *kernel_.flops;
  const double kv_bytes = kernel_.kv_bytes;
  const double bandwidth = kernel_.bandwidth;
  kernel_.calibration = Calibration(
      db, fmt::format("util/{}/{}", key, ToString(math)),
      [view = *slice, kv_bytes, flops, bandwidth] {
        return UtilGrid::Build(view, [&](std::span<const double> c) {
          return ContextMlaRoof(c[2], c[0], c[1], 0, c[1], kv_bytes, flops, bandwidth).Time();
        });
      });
}

Result<PerfResult> Prefill::Query(std::uint32_t b, std::uint32_t s, std::uint32_t p) const {
  const Kernel& k = kernel_;
  if (!k.flops) return std::unexpected(k.flops.error());
  const double flops = *k.flops;
  // The table coordinate is 32 bits wide in the data format and wraps; the roofline is exact.
  const std::uint32_t full = s + p;
  const std::array<double, 3> coords{k.heads, static_cast<double>(full), static_cast<double>(b)};
  const auto roof = [&] {
    return ContextMlaRoof(b, k.heads, s, p, static_cast<double>(s) + static_cast<double>(p),
                          k.kv_bytes, flops, k.bandwidth);
  };
  return AnswerByMode(
      k.mode,
      [&] {
        Sought sought = k.slice.Seek(coords, [&](std::span<const double> c) {
          return ContextMlaRoof(c[2], c[0], c[1], 0, c[1], k.kv_bytes, flops, k.bandwidth).Time();
        });
        if (sought.ok()) sought.answer().Scale(PrefixCorrection(full, p));
        return sought;
      },
      [&] { return k.calibration.Estimate(coords, roof().Time(), "latent attention prefill"); },
      [&]() -> Result<PerfResult> { return roof().Result(); });
}

Roof Decode::Rates::At(double b, double s, double n) const {
  if (!products) return GenerationMlaRoof(b, n, s, kv_bytes, flops, bandwidth);
  return GenerationMlaModuleRoof(b, n, s, kv_bytes, weight_bytes, flops, gemm_flops, bandwidth);
}

Decode::Decode(const Database& db, std::uint32_t num_heads, KvQuant kv,
               std::optional<GemmQuant> products, const std::string& key,
               FunctionRef<Result<GridView>()> find)
    : kernel_(db, num_heads, kv, DecodeAttentionQuant(kv, db.system())) {
  if (products && kernel_.flops) {
    Result<double> gemm = db.system().TensorCoreFlops(Profile(*products).dtype);
    if (gemm) {
      rates_.gemm_flops = *gemm;
      rates_.weight_bytes = Profile(*products).memory;
    } else {
      kernel_.flops = std::move(gemm);
    }
  }
  if (!kernel_.flops) return;
  rates_.products = products.has_value();
  rates_.heads = kernel_.heads;
  rates_.kv_bytes = kernel_.kv_bytes;
  rates_.flops = *kernel_.flops;
  rates_.bandwidth = kernel_.bandwidth;
  if (db.IsSol()) return;
  const Result<GridView> slice = find();
  kernel_.slice = MeasuredSlice::Of(db, slice, kNoSqrtAxis, key);
  if (!slice) {
    kernel_.calibration = Calibration(slice.error());
    return;
  }
  kernel_.calibration =
      Calibration(db, fmt::format("util/{}", key), [view = *slice, rates = rates_] {
        return UtilGrid::Build(
            view, [&](std::span<const double> c) { return rates.At(c[1], c[2], c[0]).Time(); });
      });
}

Result<PerfResult> Decode::Query(std::uint32_t b, std::uint32_t s) const {
  const Kernel& k = kernel_;
  if (!k.flops) return std::unexpected(k.flops.error());
  const std::array<double, 3> coords{k.heads, static_cast<double>(b), static_cast<double>(s)};
  const auto roof = [&] { return rates_.At(b, s, k.heads); };
  return AnswerByMode(
      k.mode,
      [&] {
        return k.slice.Seek(
            coords, [&](std::span<const double> c) { return rates_.At(c[1], c[2], c[0]).Time(); });
      },
      [&] { return k.calibration.Estimate(coords, roof().Time(), "latent attention decode"); },
      [&]() -> Result<PerfResult> { return roof().Result(); });
}

}  // namespace latent

BoundContextMla::BoundContextMla(const ContextMla& op, const Database& db)
    : prefill_([&] {
        const std::string key = fmt::format("context_mla/{}/{}", ToString(op.fmha_quant_mode),
                                            ToString(op.kv_cache_dtype));
        return latent::Prefill(db, op.num_heads, op.kv_cache_dtype, op.fmha_quant_mode, key, [&] {
          return SliceOf(db.Get(TableId::kContextMla),
                         {ToString(op.fmha_quant_mode), ToString(op.kv_cache_dtype)}, key);
        });
      }()),
      cp_size_(op.cp_size),
      scale_factor_(op.scale_factor) {}

Result<PerfResult> BoundContextMla::Query(const QueryContext& ctx) const {
  PerfResult total;
  if (cp_size_ <= 1) {
    IC_ASSIGN(total, prefill_.Query(ctx.batch_size, ctx.s, ctx.prefix));
  } else {
    const std::uint32_t chunk = latent::ZigzagChunk(ctx.s, cp_size_);
    IC_ASSIGN(total, prefill_.Query(ctx.batch_size, chunk, ctx.prefix));
    IC_ASSIGN(const PerfResult last,
              prefill_.Query(ctx.batch_size, chunk, ctx.prefix + ctx.s - chunk));
    total.Add(last);
  }
  total.Clamp();
  total.Scale(scale_factor_);
  return total;
}

BoundGenerationMla::BoundGenerationMla(const GenerationMla& op, const Database& db)
    : decode_([&] {
        const std::string key = fmt::format("generation_mla/{}", ToString(op.kv_cache_dtype));
        return latent::Decode(db, op.num_heads, op.kv_cache_dtype, std::nullopt, key, [&] {
          return SliceOf(db.Get(TableId::kGenerationMla), {ToString(op.kv_cache_dtype)}, key);
        });
      }()),
      scale_factor_(op.scale_factor) {}

Result<PerfResult> BoundGenerationMla::Query(const QueryContext& ctx) const {
  IC_ASSIGN(PerfResult result, decode_.Query(ctx.batch_size, ctx.s));
  result.Clamp();
  result.Scale(scale_factor_);
  return result;
}

BoundMlaBmm::BoundMlaBmm(const MlaBmm& op, const Database& db)
    : store_(db.shared_store()),
      mode_(db.mode()),
      heads_(op.num_heads),
      measured_heads_(op.num_heads),
      head_scale_(1.0),
      weight_bytes_(Profile(op.quant_mode).memory),
      bandwidth_(db.system().mem_bw),
      flops_(db.system().TensorCoreFlops(Profile(op.quant_mode).dtype)),
      scale_factor_(op.scale_factor) {
  if (db.IsSol() || !flops_) return;
  const std::string_view wanted = ToString(op.quant_mode);
  const std::string_view bfloat16 = ToString(GemmQuant::kBfloat16);
  const std::string_view name = op.is_pre ? "mla_gen_pre" : "mla_gen_post";
  const Result<const Table*> table = db.Get(TableId::kMlaBmm);

  // Slice of one format and product at a head count.
  const auto slice_of = [&](std::string_view quant, double heads) {
    return table ? (*table)->Slice({quant, name, heads}) : std::nullopt;
  };
  // The format that stands for the wanted one where the wanted one was never measured.
  std::string_view quant = bfloat16;
  if (table && (*table)->CodeOf(0, wanted)) quant = wanted;

  // Measured head counts are powers of two: others are a share of the next one, unless they were
  // measured themselves.
  const std::uint64_t power = std::bit_ceil(static_cast<std::uint64_t>(op.num_heads));
  if (power != op.num_heads && !slice_of(quant, heads_)) {
    measured_heads_ = static_cast<double>(power);
    head_scale_ = heads_ / measured_heads_;
  }
  const std::string key =
      fmt::format("mla_bmm/{}/{}/{}", wanted, name, static_cast<std::uint64_t>(measured_heads_));
  if (!table) {
    slice_ = MeasuredSlice(table.error());
    calibration_ = Calibration(table.error());
    return;
  }
  const std::string_view measured_quant = (*table)->Slice({wanted, name}) ? wanted : bfloat16;
  if (const auto view = slice_of(measured_quant, measured_heads_)) {
    slice_ = MeasuredSlice(db, *view, -1, fmt::format("{}<-{}", key, measured_quant));
  } else {
    slice_ =
        MeasuredSlice(Error{ErrorKind::kPerfDatabase, fmt::format("no measurements of {}", key)});
  }
  if (const auto view = slice_of(quant, measured_heads_)) {
    calibration_ = Calibration(
        db, fmt::format("util/{}<-{}", key, quant),
        [view = *view, heads = measured_heads_, w = weight_bytes_, f = *flops_, bw = bandwidth_] {
          return UtilGrid::Build(view, [&](std::span<const double> c) {
            return latent::MlaBmmRoof(c[0], heads, w, f, bw).Time();
          });
        });
  }
}

Result<PerfResult> BoundMlaBmm::Query(const QueryContext& ctx) const {
  if (!flops_) return std::unexpected(flops_.error());
  const std::array<double, 1> tokens{static_cast<double>(ctx.batch_size)};
  const auto roof = [&](double t, double heads) {
    return latent::MlaBmmRoof(t, heads, weight_bytes_, *flops_, bandwidth_);
  };
  auto result = AnswerByMode(
      mode_,
      [&] {
        return slice_.Seek(
            tokens, [&](std::span<const double> c) { return roof(c[0], measured_heads_).Time(); });
      },
      [&] {
        return calibration_.Estimate(tokens, roof(tokens[0], measured_heads_).Time(),
                                     "latent attention product");
      },
      [&]() -> Result<PerfResult> { return roof(tokens[0], heads_).Result(); });
  if (!result) return result;
  result->Scale(head_scale_);
  result->Clamp();
  result->Scale(scale_factor_);
  return result;
}

}  // namespace infercast
