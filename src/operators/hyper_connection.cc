// Hyper-connection modules: operation counts, and measured or estimated halves added up.
#include "operators/hyper_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/ordinals.h"
#include "base/wide_int.h"

namespace infercast {

namespace {

HyperConnectionRoofline::Part ParsePart(std::string_view name) {
  using enum HyperConnectionRoofline::Part;
  if (name == "pre") return kPre;
  if (name == "post") return kPost;
  return name == "both" ? kBoth : kUnknown;
}

}  // namespace

double HyperConnectionRoofline::Milliseconds(double tokens) const {
  const Int128 n = static_cast<Int128>(std::round(tokens));
  const Int128 hc = streams;
  const Int128 width = hc * hidden_size;  // all streams of a token
  const Int128 mix = (2 + hc) * hc;       // mixing coefficients of a token

  const Int128 pre = 2 * (2 * n * width * mix + 3 * n * width +
                          n * (hc * hc + 2 * hc) * sinkhorn_iterations + 2 * n * hc * hidden_size);
  const Int128 post = 2 * (2 * n * hc * hc * hidden_size + 2 * n * hc * hidden_size);
  const Int128 ops = part == Part::kPre ? pre : part == Part::kPost ? post : pre + post;

  const double parameters = static_cast<double>(2 * (mix * width + mix + 3)) * weight_bytes;
  double activations =
      static_cast<double>(2 * n * width) * weight_bytes * (part == Part::kBoth ? 3.0 : 2.0);
  if (part == Part::kPre || part == Part::kBoth) {
    activations += static_cast<double>(4 * 2 * n * (2 * hc + hc * hc));  // 4-byte coefficients
  }
  return std::max(static_cast<double>(ops) / flops * 1000.0,
                  (parameters + activations) / bandwidth * 1000.0);
}

BoundMhc::Half BoundMhc::BindHalf(const Mhc& op, const Database& db, std::string_view name,
                                  const HyperConnectionRoofline& roofline) {
  std::string key = fmt::format("mhc/{}/{}/{}", name, op.hc_mult, op.hidden_size);
  const Result<GridView> slice =
      SliceOf(db.Get(TableId::kMhc), {name, op.hc_mult, op.hidden_size}, key);
  Calibration calibration;
  if (slice) {
    calibration = Calibration(
        db, fmt::format("util/{}/{}/{}", key, ToString(op.quant_mode), op.sinkhorn_iters),
        [view = *slice, roofline] {
          return UtilGrid::Build(
              view, [&](std::span<const double> at) { return roofline.Milliseconds(at[0]); });
        });
  } else {
    calibration = Calibration(slice.error());
  }
  return {roofline, MeasuredSlice::Of(db, slice, -1, std::move(key)), std::move(calibration)};
}

BoundMhc::BoundMhc(const Mhc& op, const Database& db)
    : mode_(db.mode()),
      scale_factor_(op.scale_factor),
      seq_split_(op.seq_split),
      whole_{.part = ParsePart(op.op),
             .streams = op.hc_mult,
             .hidden_size = op.hidden_size,
             .sinkhorn_iterations = op.sinkhorn_iters,
             .weight_bytes = Profile(op.quant_mode).memory,
             .bandwidth = db.system().mem_bw} {
  const Result<double> flops = db.system().TensorCoreFlops(Profile(op.quant_mode).dtype);
  if (!flops) {
    missing_flops_ = flops.error();
    return;
  }
  whole_.flops = *flops;
  if (db.IsSol()) return;  // tables stay closed
  if (whole_.part == HyperConnectionRoofline::Part::kBoth) {
    HyperConnectionRoofline half = whole_;
    half.part = HyperConnectionRoofline::Part::kPre;
    halves_.push_back(BindHalf(op, db, "pre", half));
    half.part = HyperConnectionRoofline::Part::kPost;
    halves_.push_back(BindHalf(op, db, "post", half));
  } else {
    halves_.push_back(BindHalf(op, db, op.op, whole_));
  }
}

Result<PerfResult> BoundMhc::Query(const QueryContext& ctx) const {
  if (missing_flops_) return std::unexpected(*missing_flops_);
  const double tokens = static_cast<double>(CeilDiv(ctx.num_tokens, seq_split_));
  const std::array<double, 1> at = {tokens};
  const auto sum = [&](auto&& half_result) -> Result<PerfResult> {
    PerfResult total = PerfResult::Zero();
    for (const Half& half : halves_) {
      IC_ASSIGN(const PerfResult part, half_result(half));
      total.Add(part);
      total.source = part.source;  // a half of zero cost is labelled like the other
    }
    return total;
  };
  Result<PerfResult> result = AnswerByMode(
      mode_,
      [&] {
        return sum([&](const Half& half) {
          return half.curve.Measured(
              at, [&](std::span<const double> c) { return half.roofline.Milliseconds(c[0]); });
        });
      },
      [&] {
        return sum([&](const Half& half) {
          return half.calibration.Estimate(at, half.roofline.Milliseconds(tokens),
                                           "hyper-connection module");
        });
      },
      [&]() -> Result<PerfResult> {
        return PerfResult::Of(whole_.Milliseconds(tokens), 0.0, Source::kSol,
                              OriginKind::kSpeedOfLight);
      });
  if (result) {
    result->Clamp();
    result->Scale(scale_factor_);
  }
  return result;
}

}  // namespace infercast
