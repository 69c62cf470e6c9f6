#include "operators/context_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/ordinals.h"
#include "operators/attention_lanes.h"
#include "operators/memory_ops.h"

namespace infercast {

namespace {

constexpr int kSequenceAxis = 1;
constexpr double kAroundFactor = 1.1;  // launch gaps between the small kernels

// How much of its roofline a prefill kernel reaches with a head size, relative to size 128.
double HeadSizeLevel(Backend backend, double head_size) {
  constexpr std::array<double, 5> kSizes = {64, 128, 192, 256, 512};
  constexpr std::array<std::array<double, 5>, 3> kLevels = {{
      {0.58, 1.00, 1.10, 1.17, 1.20},  // trtllm
      {0.60, 1.00, 1.18, 1.32, 1.38},  // sglang
      {0.60, 1.00, 1.27, 1.51, 1.60},  // vllm
  }};
  const auto& levels = kLevels[static_cast<std::size_t>(backend)];
  if (head_size <= kSizes.front()) return levels.front();
  if (head_size >= kSizes.back()) return levels.back();
  std::size_t i = 1;
  while (kSizes[i] < head_size) ++i;
  if (kSizes[i] == head_size) return levels[i];
  const double w = (std::log2(head_size) - std::log2(kSizes[i - 1])) /
                   (std::log2(kSizes[i]) - std::log2(kSizes[i - 1]));
  return levels[i - 1] + (levels[i] - levels[i - 1]) * w;
}

// Norms of queries and keys, rotary embedding and the write to the KV cache. Priced for one token:
// launch times dominate them.
PerfResult KernelsAround(const ContextAttention& op, const Database& db) {
  const MemoryTraffic traffic(db);
  const double q = op.n * op.head_size;
  const double kv = op.n_kv * op.head_size;
  const double element = Profile(op.fmha_quant_mode).memory;

  PerfResult rotary = traffic.Move(2.0 * q + 2.0 * kv);
  rotary.Scale(2.0);
  PerfResult write = traffic.Move(element * kv);
  write.Scale(2.0);
  PerfResult all = rotary;
  if (op.use_qk_norm) {
    PerfResult norm = traffic.Move(2.0 * q);
    norm.Scale(2.0);
    PerfResult key_norm = traffic.Move(2.0 * kv);
    key_norm.Scale(2.0);
    norm.Add(key_norm);
    norm.Scale(2.0);
    norm.Add(rotary);
    all = norm;
  }
  all.Add(write);
  all.Scale(kAroundFactor);
  return all;
}

// Samples of a slice against its own roofline.
Calibration SamplesOf(const Database& db, const std::string& key, const GridView& view,
                      const ContextAttentionRoofline& roofline, double kv_heads) {
  return Calibration(db, "util/" + key, [view, roofline, kv_heads] {
    return UtilGrid::Build(view, [&](std::span<const double> at) {
      return roofline.Time(at[2], at[1], 0, at[0], kv_heads == 0 ? at[0] : kv_heads);
    });
  });
}

}  // namespace

ContextAttentionRoofline::Bounds ContextAttentionRoofline::At(double b, double s, double p,
                                                              double heads, double kv_heads) const {
  const double full = s + p;
  const double ops = window > 0 && full > window
                         ? 4.0 * b * (full - p) * window * heads * head_size
                         : 2.0 * b * (full * full - p * p) * heads * head_size;
  const double bytes =
      4.0 * b * heads * (full - p) * head_size + kv_bytes * b * 2.0 * kv_heads * full * head_size;
  return {ops / flops * 1000.0, bytes / bandwidth * 1000.0};
}

double ContextAttentionRoofline::Time(double b, double s, double p, double heads,
                                      double kv_heads) const {
  const Bounds bounds = At(b, s, p, heads, kv_heads);
  return std::max(bounds.math_ms, bounds.mem_ms);
}

BoundContextAttention::BoundContextAttention(const ContextAttention& op, const Database& db)
    : store_(db.shared_store()),
      mode_(db.mode()),
      flops_(db.system().TensorCoreFlops(Profile(op.fmha_quant_mode).dtype)),
      heads_(op.n),
      kv_heads_(op.n_kv),
      slice_kv_heads_(op.n_kv == op.n ? 0 : op.n_kv),
      cp_size_(op.cp_size),
      scale_factor_(op.scale_factor),
      around_(KernelsAround(op, db)) {
  if (!flops_) return;
  roofline_ = {.head_size = double(op.head_size),
               .window = double(op.window_size),
               .kv_bytes = Profile(op.kv_cache_dtype).memory,
               .flops = *flops_,
               .bandwidth = db.system().mem_bw};
  if (db.IsSol()) return;

  const auto table = db.Get(TableId::kContextAttention);
  const AttentionKey key{.formats = {ToString(op.fmha_quant_mode), ToString(op.kv_cache_dtype)},
                         .kv_heads = slice_kv_heads_,
                         .head_size = double(op.head_size),
                         .window = double(op.window_size)};
  if (!table) {
    slice_ = MeasuredSlice(table.error());
    estimate_ = EstimateLadder({{.samples = Calibration(table.error())}});
    return;
  }
  const auto name = [](const AttentionKey& of, const LaneSlice& slice) {
    return fmt::format("context attention {} {}", slice.lane, of.ToString());
  };
  if (mode_ != DatabaseMode::kEmpirical) {
    const auto slice = FindLaneSlice(db, **table, op.lane_order, key);
    slice_ = slice ? MeasuredSlice(db, slice->view, kSequenceAxis, name(key, *slice))
                   : MeasuredSlice(slice.error());
  }
  if (mode_ == DatabaseMode::kSilicon) return;

  std::vector<EstimateLadder::Rung> rungs;
  for (const AttentionSamples& source : FindAttentionSamples(db, **table, op.lane_order, key)) {
    ContextAttentionRoofline roofline = roofline_;
    roofline.window = source.key.window;
    roofline.head_size = source.key.head_size;
    const std::string source_name = name(source.key, source.slice);
    EstimateLadder::Rung rung;
    rung.samples = SamplesOf(db, source_name, source.slice.view, roofline, slice_kv_heads_);
    if (source.borrowed) {
      rung.tier = Tier::kXshape;
      rung.scale = HeadSizeLevel(db.backend(), op.head_size) /
                   HeadSizeLevel(db.backend(), source.key.head_size);
      rung.donor = source_name;
    }
    rungs.push_back(std::move(rung));
  }
  estimate_ = EstimateLadder(std::move(rungs));
}

Result<PerfResult> BoundContextAttention::Chunk(double b, double s, double p) const {
  const double full = s + p;
  const std::array<double, 3> at = {heads_, full, b};
  return AnswerByMode(
      mode_,
      [&] {
        Sought sought = slice_.Seek(at, [this](std::span<const double> c) {
          return roofline_.Time(c[2], c[1], 0, c[0], slice_kv_heads_ == 0 ? c[0] : slice_kv_heads_);
        });
        if (sought.ok()) {
          const double left = full > 0 ? (full * full - p * p) / (full * full) : 0;
          sought.answer().latency_ms *= left;
          sought.answer().energy_wms *= left;
        }
        return sought;
      },
      [&] {
        return estimate_.At(at, roofline_.Time(b, s, p, heads_, kv_heads_), "context attention");
      },
      [&]() -> Result<PerfResult> {
        const auto bounds = roofline_.At(b, s, p, heads_, kv_heads_);
        return PerfResult::Sol(bounds.math_ms, bounds.mem_ms);
      });
}

Result<PerfResult> BoundContextAttention::Query(const QueryContext& ctx) const {
  if (!flops_) return std::unexpected(flops_.error());
  const double b = ctx.batch_size;
  const double s = ctx.s;
  const double p = ctx.prefix;
  Result<PerfResult> result = PerfResult{};
  if (cp_size_ <= 1) {
    result = Chunk(b, s, p);
    if (!result) return result;
  } else {
    // Ranks take one chunk from the front and one from the back; the last pair counts.
    const double chunk =
        std::max<double>(static_cast<double>(CeilDiv(ctx.s, 2 * std::uint64_t{cp_size_})), 1.0);
    result = Chunk(b, chunk, p);
    if (!result) return result;
    const Result<PerfResult> back = Chunk(b, chunk, p + s - chunk);
    if (!back) return back;
    result->Add(*back);
  }
  result->Add(around_);
  if (ctx.seq_imbalance_correction_scale != 1.0) {
    result->Scale(ctx.seq_imbalance_correction_scale);
  }
  result->Clamp();
  result->Scale(scale_factor_);
  return result;
}

}  // namespace infercast
