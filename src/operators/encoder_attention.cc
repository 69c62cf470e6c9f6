#include "operators/encoder_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace infercast {

namespace {

constexpr int kSequenceAxis = 1;
constexpr double kRotaryFactor = 1.1;  // launch gap of the extra kernel

}  // namespace

double BoundEncoderAttention::Roofline::Math(double b, double s, double heads) const {
  return 4.0 * b * (s * s) * heads * head_size / flops * 1000.0;
}
double BoundEncoderAttention::Roofline::Memory(double b, double s, double heads) const {
  return 8.0 * b * heads * s * head_size / bandwidth * 1000.0;
}
double BoundEncoderAttention::Roofline::Time(double b, double s, double heads) const {
  return std::max(Math(b, s, heads), Memory(b, s, heads));
}

BoundEncoderAttention::BoundEncoderAttention(const EncoderAttention& op, const Database& db)
    : store_(db.shared_store()),
      mode_(db.mode()),
      flops_(db.system().TensorCoreFlops(Profile(op.fmha_quant_mode).dtype)),
      query_elements_(std::uint64_t{op.n} * op.head_size),
      heads_(op.n),
      rotary_factor_(op.partial_rotary_factor),
      scale_factor_(op.scale_factor),
      traffic_(db) {
  if (!flops_) return;
  roofline_ = {double(op.head_size), *flops_, db.system().mem_bw};
  if (db.IsSol()) return;
  const std::string key =
      fmt::format("encoder attention {} head_size={}", ToString(op.fmha_quant_mode), op.head_size);
  const auto slice = SliceOf(db.Get(TableId::kEncoderAttention),
                             {ToString(op.fmha_quant_mode), op.head_size}, key);
  slice_ = MeasuredSlice::Of(db, slice, kSequenceAxis, key);
  calibration_ = slice ? Calibration(db, "util/" + key,
                                     [view = *slice, roofline = roofline_] {
                                       return UtilGrid::Build(view, [&](std::span<const double> c) {
                                         return roofline.Time(c[2], c[1], c[0]);
                                       });
                                     })
                       : Calibration(slice.error());
}

Result<PerfResult> BoundEncoderAttention::QueryShape(std::uint32_t batch,
                                                     std::uint32_t length) const {
  if (!flops_) return std::unexpected(flops_.error());
  const double b = batch;
  const double s = length;
  const std::array<double, 3> at = {heads_, s, b};
  Result<PerfResult> result = AnswerByMode(
      mode_,
      [&] {
        return slice_.Seek(
            at, [this](std::span<const double> c) { return roofline_.Time(c[2], c[1], c[0]); });
      },
      [&] { return calibration_.Estimate(at, roofline_.Time(b, s, heads_), "encoder attention"); },
      [&]() -> Result<PerfResult> {
        return PerfResult::Sol(roofline_.Math(b, s, heads_), roofline_.Memory(b, s, heads_));
      });
  if (!result) return result;
  if (rotary_factor_ > 0) {
    PerfResult rotary =
        traffic_.Move(static_cast<double>(2 * (2 * query_elements_) * batch * length));
    rotary.Scale(2.0 * rotary_factor_);
    rotary.Scale(kRotaryFactor);
    result->Add(rotary);
  }
  result->Clamp();
  return result;
}

Result<PerfResult> BoundEncoderAttention::Query(const QueryContext& ctx) const {
  Result<PerfResult> result = QueryShape(ctx.batch_size, ctx.s);
  if (result) result->Scale(scale_factor_);
  return result;
}

}  // namespace infercast
