#include "operators/generation_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "operators/attention_lanes.h"

namespace infercast {

namespace {

constexpr int kSmFp8 = 89;  // first compute capability with fp8 tensor cores
constexpr std::uint64_t kSamples = 5;

// The kernel computes in fp8 where the cache is fp8 and the GPU can.
FmhaQuant MathFormat(KvQuant kv, const SystemSpec& system) {
  return kv == KvQuant::kFp8 && system.sm_version && *system.sm_version >= kSmFp8
             ? FmhaQuant::kFp8
             : FmhaQuant::kBfloat16;
}

Calibration SamplesOf(const Database& db, const std::string& key, const GridView& view,
                      const GenerationAttentionRoofline& roofline, double kv_heads) {
  return Calibration(db, "util/" + key, [view, roofline, kv_heads] {
    return UtilGrid::Build(view, [&](std::span<const double> at) {
      return roofline.Time(at[1], at[2], at[0], kv_heads == 0 ? at[0] : kv_heads);
    });
  });
}

}  // namespace

GenerationAttentionRoofline::Bounds GenerationAttentionRoofline::At(double b, double s,
                                                                    double heads,
                                                                    double kv_heads) const {
  const double length = window > 0 ? std::min(s - 1.0, window) : s - 1.0;
  const double ops = 4.0 * b * heads * head_size * length;
  const double bytes =
      b * (2.0 * heads * head_size + 2.0 * kv_heads * length * head_size * kv_bytes +
           2.0 * heads * head_size);
  return {ops / flops * 1000.0, bytes / bandwidth * 1000.0};
}

double GenerationAttentionRoofline::Time(double b, double s, double heads, double kv_heads) const {
  const Bounds bounds = At(b, s, heads, kv_heads);
  return std::max(bounds.math_ms, bounds.mem_ms);
}

BoundGenerationAttention::BoundGenerationAttention(const GenerationAttention& op,
                                                   const Database& db)
    : store_(db.shared_store()),
      mode_(db.mode()),
      flops_(
          db.system().TensorCoreFlops(Profile(MathFormat(op.kv_cache_dtype, db.system())).dtype)),
      heads_(op.n),
      kv_heads_(op.n_kv == 0 ? op.n : op.n_kv),
      slice_kv_heads_(op.n_kv == op.n ? 0 : op.n_kv),
      scale_factor_(op.scale_factor) {
  if (!flops_) return;
  roofline_ = {.head_size = double(op.head_size),
               .window = double(op.window_size),
               .kv_bytes = Profile(op.kv_cache_dtype).memory,
               .flops = *flops_,
               .bandwidth = db.system().mem_bw};
  if (db.IsSol()) return;

  const auto table = db.Get(TableId::kGenerationAttention);
  if (!table) {
    slice_ = MeasuredSlice(table.error());
    estimate_ = EstimateLadder({{.samples = Calibration(table.error())}});
    return;
  }
  const AttentionKey key{.formats = {ToString(op.kv_cache_dtype)},
                         .kv_heads = slice_kv_heads_,
                         .head_size = double(op.head_size),
                         .window = double(op.window_size)};
  const auto name = [](const AttentionKey& of, const LaneSlice& slice) {
    return fmt::format("generation attention {} {}", slice.lane, of.ToString());
  };
  if (mode_ != DatabaseMode::kEmpirical) {
    const auto slice = FindLaneSlice(db, **table, op.lane_order, key);
    slice_ = slice ? MeasuredSlice(db, slice->view, -1, name(key, *slice))
                   : MeasuredSlice(slice.error());
  }
  if (mode_ == DatabaseMode::kSilicon) return;

  std::vector<EstimateLadder::Rung> rungs;
  for (const AttentionSamples& source : FindAttentionSamples(db, **table, op.lane_order, key)) {
    GenerationAttentionRoofline roofline = roofline_;
    roofline.window = source.key.window;
    roofline.head_size = source.key.head_size;
    const std::string source_name = name(source.key, source.slice);
    EstimateLadder::Rung rung;
    rung.samples = SamplesOf(db, source_name, source.slice.view, roofline, slice_kv_heads_);
    if (source.borrowed) {
      rung.tier = Tier::kXshape;
      rung.donor = source_name;
    }
    rungs.push_back(std::move(rung));
  }
  estimate_ = EstimateLadder(std::move(rungs));
}

Sought BoundGenerationAttention::Measured(double b, std::uint32_t s) const {
  const auto sol = [this](std::span<const double> c) {
    return roofline_.Time(c[1], c[2], c[0], slice_kv_heads_ == 0 ? c[0] : slice_kv_heads_);
  };
  std::array<double, 3> at = {heads_, b, 0};
  if (!slice_.present()) return slice_.Seek(at, sol);
  const auto low = static_cast<std::uint64_t>(std::max(std::trunc(0.9 * s), 1.0));
  const auto high = std::max(low, static_cast<std::uint64_t>(std::trunc(1.1 * s)));
  GridLine line = slice_.Line(heads_, b, sol);
  Resolved mean;
  double latency = 0;
  double energy = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const std::uint64_t length = low + (high - low) * i / (kSamples - 1);  // whole tokens
    at[2] = static_cast<double>(length);
    const ResolveResult sample = line.At(at[2]);
    if (!sample) return Sought(slice_, at, sample.error());
    latency += sample->latency;
    energy += sample->energy;
    // The mean is as far from measurements as the furthest of its parts.
    if (i == 0 || sample->kind > mean.kind ||
        (sample->kind == mean.kind && sample->octaves > mean.octaves)) {
      mean = *sample;
    }
  }
  mean.latency = latency / static_cast<double>(kSamples);
  mean.energy = energy / static_cast<double>(kSamples);
  return Labelled(*slice_.view().table, mean);
}

Result<PerfResult> BoundGenerationAttention::Query(const QueryContext& ctx) const {
  if (!flops_) return std::unexpected(flops_.error());
  const double b = ctx.batch_size;
  const double s = ctx.s;
  Result<PerfResult> result = AnswerByMode(
      mode_, [&] { return Measured(b, ctx.s); },
      [&] {
        return estimate_.At(std::array{heads_, b, s}, roofline_.Time(b, s, heads_, kv_heads_),
                            "generation attention");
      },
      [&]() -> Result<PerfResult> {
        const auto bounds = roofline_.At(b, s, heads_, kv_heads_);
        return PerfResult::Sol(bounds.math_ms, bounds.mem_ms);
      });
  if (!result) return result;
  if (ctx.gen_seq_imbalance_correction_scale != 1.0) {
    result->Scale(ctx.gen_seq_imbalance_correction_scale);
  }
  result->Clamp();
  result->Scale(scale_factor_);
  return result;
}

}  // namespace infercast
