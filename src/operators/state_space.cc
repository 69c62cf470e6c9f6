// Recurrent kernels: which measured slice stands for an operator (logical and physical kernel
// names, fused kernels, neighbouring shapes) and the memory-traffic roofline of each kernel.
#include "operators/state_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace infercast {

namespace {

constexpr std::string_view kContext = "context";
constexpr std::string_view kGeneration = "generation";
constexpr std::string_view kVerify = "verify";
constexpr std::string_view kConvPrefill = "causal_conv1d_fn";
constexpr std::string_view kConvUpdate = "causal_conv1d_update";
constexpr std::string_view kChunkedDelta = "chunk_gated_delta_rule";
constexpr std::string_view kDeltaUpdate = "fused_sigmoid_gating_delta_rule_update";
constexpr std::string_view kFlashinferDecode = "flashinfer_gated_delta_rule_decode";
constexpr std::string_view kKdaPackedDecode = "fused_recurrent_kda_packed_decode";
constexpr std::string_view kKdaFusedDecode = "kda_fused_decode";
constexpr std::string_view kKdaFusedVerify = "fused_kda_decode_mtp_dspark";

double BandwidthOf(const Database& db) { return std::max(db.system().mem_bw, 1.0); }

std::string KeyOf(std::string_view family, std::string_view kernel, std::string_view phase,
                  std::initializer_list<double> dims) {
  std::string key = fmt::format("{}/{}/{}", family, kernel, phase);
  for (const double dim : dims) key += fmt::format("/{}", dim);
  return key;
}

// The discrete shape levels below (kernel, phase) and the grid that hangs under them.
struct ShapeView {
  std::vector<double> dims;
  GridView grid;
};

// Every shape below `view`, ascending; `levels` discrete levels are left.
void CollectShapes(const GridView& view, int levels, std::vector<double>& dims,
                   std::vector<ShapeView>& shapes) {
  if (levels == 0) {
    shapes.push_back({dims, view});
    return;
  }
  for (std::uint32_t node = view.begin; node < view.end; ++node) {
    dims.push_back(view.table->levels[view.level].keys[node]);
    CollectShapes(view.Child(node), levels - 1, dims, shapes);
    dims.pop_back();
  }
}

// Every measured shape of one kernel and phase with the hidden size, ascending.
std::vector<ShapeView> ShapesOf(const Table& table, std::string_view kernel, std::string_view phase,
                                std::uint32_t hidden, int other_dims) {
  std::vector<ShapeView> shapes;
  if (const auto view = table.Slice({kernel, phase, hidden})) {
    std::vector<double> dims{static_cast<double>(hidden)};
    CollectShapes(*view, other_dims, dims, shapes);
  }
  return shapes;
}

Error NotMeasured(std::string_view key) {
  return {ErrorKind::kPerfDatabase, fmt::format("no measurements of {}", key)};
}

}  // namespace

double RecurrentTraffic::Milliseconds(double batch, double s) const {
  const double tokens = tokens_of_sequence && s > 0.0 ? batch * s : batch;
  const double chunks = s > 0.0 ? std::floor(s / 64.0) : 0.0;
  const double bytes = tokens * per_token + batch * per_request + chunks * batch * per_chunk;
  return bytes / bandwidth * 1000.0;
}

RecurrentKernel::RecurrentKernel(const Database& db, const Result<GridView>& slice, bool one_axis,
                                 const RecurrentTraffic& traffic,
                                 std::optional<RecurrentTraffic> donor, double scale_factor,
                                 std::string key)
    // Measured answers are given in every mode, so the slice is always prepared for look-ups.
    : slice_(MeasuredSlice::Of(db.WithMode(DatabaseMode::kSilicon), slice, -1, std::move(key))),
      traffic_(traffic),
      donor_(donor),
      one_axis_(one_axis),
      roofline_only_((db.behaviour() == Behaviour::kNative && db.IsSol()) ||
                     (!slice && slice.error().kind == ErrorKind::kPerfDatabase)),
      borrow_by_roofline_(db.behaviour() == Behaviour::kNative && donor_.has_value()),
      scale_factor_(scale_factor) {}

Result<PerfResult> RecurrentKernel::Measured(double batch, double s) const {
  const RecurrentTraffic& anchor = borrow_by_roofline_ ? *donor_ : traffic_;
  Result<PerfResult> result;
  if (one_axis_) {
    const std::array<double, 1> at = {batch};
    result = slice_.Measured(
        at, [&](std::span<const double> c) { return anchor.Milliseconds(c[0], s); });
  } else {
    const std::array<double, 2> at = {batch, s};
    result = slice_.Measured(
        at, [&](std::span<const double> c) { return anchor.Milliseconds(c[0], c[1]); });
  }
  if (result && donor_) {
    if (borrow_by_roofline_) {
      result->Scale(traffic_.Milliseconds(batch, s) / donor_->Milliseconds(batch, s));
    }
    result->origin.kind = OriginKind::kTransferred;
    result->origin.donor = &slice_.key();
  }
  return result;
}

Result<PerfResult> RecurrentKernel::Query(double batch, double s) const {
  const auto roofline = [&] {
    return PerfResult::Of(traffic_.Milliseconds(batch, s), 0.0, Source::kSol,
                          OriginKind::kSpeedOfLight);
  };
  // An empty sequence has no measurement.
  const bool ask = !roofline_only_ && (one_axis_ || s != 0.0);
  Result<PerfResult> result = ask ? Measured(batch, s) : roofline();
  if (!result && result.error().kind == ErrorKind::kPerfDatabase) result = roofline();
  if (result) {
    result->Clamp();
    result->Scale(scale_factor_);
  }
  return result;
}

// ---- Mamba2

namespace {

RecurrentTraffic Mamba2Traffic(std::string_view kernel, std::string_view phase, double bandwidth,
                               double d_state, double d_conv, double nheads, double head_dim,
                               double n_groups) {
  RecurrentTraffic traffic{.bandwidth = bandwidth, .tokens_of_sequence = phase == kContext};
  const double inner = nheads * head_dim;
  const double channels = inner + 2.0 * n_groups * d_state;
  if (kernel == kConvPrefill || kernel == kConvUpdate) {
    traffic.AddConvolution(channels, d_conv);
  } else {
    traffic.per_token = 2.0 * (channels + nheads) + 2.0 * inner;
  }
  return traffic;
}

RecurrentKernel BindMamba2(const Mamba2& op, const Database& db) {
  const double bandwidth = BandwidthOf(db);
  const RecurrentTraffic traffic = Mamba2Traffic(op.kernel_source, op.phase, bandwidth, op.d_state,
                                                 op.d_conv, op.nheads, op.head_dim, op.n_groups);
  std::string key =
      KeyOf("mamba2", op.kernel_source, op.phase,
            {double(op.d_model), double(op.d_state), double(op.d_conv), double(op.nheads),
             double(op.head_dim), double(op.n_groups), double(op.chunk_size)});
  const bool one_axis = op.phase == kGeneration;
  // The reference collects decode rows but never serves them.
  if (one_axis && db.behaviour() == Behaviour::kReference) {
    return {db, std::unexpected(NotMeasured(key)), one_axis, traffic, {}, op.scale_factor, key};
  }
  const auto table = db.Get(one_axis ? TableId::kMamba2Generation : TableId::kMamba2Context);
  Result<GridView> slice = SliceOf(table,
                                   {op.kernel_source, op.phase, op.d_model, op.d_state, op.d_conv,
                                    op.nheads, op.head_dim, op.n_groups, op.chunk_size},
                                   key);
  std::optional<RecurrentTraffic> donor;
  if (!slice && table) {
    // Another shape of the same hidden size: the first one in key order.
    const auto shapes = ShapesOf(**table, op.kernel_source, op.phase, op.d_model, 6);
    if (!shapes.empty()) {
      const std::vector<double>& d = shapes.front().dims;
      slice = shapes.front().grid;
      donor = Mamba2Traffic(op.kernel_source, op.phase, bandwidth, d[1], d[2], d[3], d[4], d[5]);
      key = KeyOf("mamba2", op.kernel_source, op.phase, {d[0], d[1], d[2], d[3], d[4], d[5], d[6]});
    }
  }
  return {db, slice, one_axis, traffic, donor, op.scale_factor, std::move(key)};
}

}  // namespace

BoundMamba2::BoundMamba2(const Mamba2& op, const Database& db) : kernel_(BindMamba2(op, db)) {}

// ---- Gated delta net

namespace {

RecurrentTraffic GdnTraffic(const Gdn& op, double bandwidth) {
  RecurrentTraffic traffic{.bandwidth = bandwidth, .tokens_of_sequence = op.phase == kContext};
  const double keys = double(op.num_k_heads) * op.head_k_dim;
  const double values = double(op.num_v_heads) * op.head_v_dim;
  const double channels = 2.0 * keys + values;
  const double state = double(op.num_v_heads) * op.head_k_dim * op.head_v_dim;
  const bool half_state = op.mamba_ssm_dtype == "bfloat16" || op.mamba_ssm_dtype == "float16";
  double state_bytes = half_state ? 2.0 : 4.0;
  if (op.kernel_source == kConvPrefill || op.kernel_source == kConvUpdate) {
    traffic.AddConvolution(channels, op.d_conv);
  } else if (op.kernel_source == kChunkedDelta || op.kernel_source == kDeltaUpdate ||
             op.kernel_source == kFlashinferDecode) {
    if (op.kernel_source == kFlashinferDecode) state_bytes = 2.0;
    traffic.per_token = 2.0 * channels + 2.0 * values;
    traffic.per_request = 2.0 * state_bytes * state;
    if (op.kernel_source == kChunkedDelta) traffic.per_chunk = 2.0 * 2.0 * state;
  } else {
    traffic.per_token = 2.0 * 2.0 * op.d_model;
  }
  return traffic;
}

// The measured slice of a delta-net operator: logical kernel names may be served by one physical
// kernel of the backend, and states of another number format only by kernels made for it.
Result<GridView> SelectGdn(const Gdn& op, const Database& db, const std::string& key) {
  const bool one_axis = op.phase == kGeneration;
  const bool convolution = op.kernel_source == kConvPrefill || op.kernel_source == kConvUpdate;
  const bool physical = op.kernel_source == kFlashinferDecode;
  const auto sm = db.system().sm_version;
  const bool lane = db.backend() == Backend::kSglang && sm && *sm >= 100 && *sm < 110 &&
                    op.mamba_ssm_dtype == "bfloat16" && one_axis;
  const bool needs_physical = lane && op.kernel_source == kDeltaUpdate;
  const bool explicit_physical = lane && physical;
  if ((physical && !explicit_physical) ||
      (op.mamba_ssm_dtype != "float32" && !convolution && !needs_physical && !explicit_physical)) {
    return std::unexpected(NotMeasured(key));
  }

  std::vector<std::string_view> aliases;
  if (db.backend() == Backend::kVllm && db.store().identity().version == "0.24.0") {
    if (op.kernel_source == kChunkedDelta && op.phase == kContext) {
      aliases = {"chunk_gated_delta_rule_flashinfer", "chunk_gated_delta_rule_triton",
                 "chunk_gated_delta_rule_cutedsl"};
    }
    if (op.kernel_source == kDeltaUpdate && one_axis) {
      aliases = {"fused_recurrent_gated_delta_rule_packed_decode"};
    }
  } else if (needs_physical) {
    aliases = {kFlashinferDecode};
  }

  const auto table = db.Get(one_axis ? TableId::kGdnGeneration : TableId::kGdnContext);
  if (!table) return std::unexpected(table.error());
  const auto slice_of = [&](std::string_view kernel) {
    return SliceOf(table,
                   {kernel, op.phase, op.d_model, op.d_conv, op.num_k_heads, op.head_k_dim,
                    op.num_v_heads, op.head_v_dim},
                   key);
  };
  Result<GridView> found = std::unexpected(NotMeasured(key));
  int hits = 0;
  for (const std::string_view alias : aliases) {
    if (auto slice = slice_of(alias)) {
      found = std::move(slice);
      ++hits;
    }
  }
  if (hits > 1) {
    return Fail(ErrorKind::kPerfDatabase,
                fmt::format("{} is measured with several physical kernels; which one runs is not "
                            "known",
                            key));
  }
  if (hits == 1 || needs_physical) return found;
  return slice_of(op.kernel_source);
}

RecurrentKernel BindGdn(const Gdn& op, const Database& db) {
  std::string key = KeyOf("gdn", op.kernel_source, op.phase,
                          {double(op.d_model), double(op.d_conv), double(op.num_k_heads),
                           double(op.head_k_dim), double(op.num_v_heads), double(op.head_v_dim)}) +
                    "/" + op.mamba_ssm_dtype;
  const Result<GridView> slice = SelectGdn(op, db, key);
  return {db, slice,           op.phase == kGeneration, GdnTraffic(op, BandwidthOf(db)),
          {}, op.scale_factor, std::move(key)};
}

}  // namespace

BoundGdn::BoundGdn(const Gdn& op, const Database& db) : kernel_(BindGdn(op, db)) {}

// ---- Kimi delta attention

namespace {

struct KdaShape {
  double d_model, d_conv, num_k_heads, head_k_dim, num_v_heads, head_v_dim;
};

RecurrentTraffic KdaTraffic(std::string_view kernel, std::string_view phase, double bandwidth,
                            const KdaShape& shape) {
  RecurrentTraffic traffic{.bandwidth = bandwidth,
                           .tokens_of_sequence = phase == kContext || phase == kVerify};
  const double width = shape.num_v_heads * shape.head_v_dim;
  const double state = 4.0 * shape.num_v_heads * shape.head_k_dim * shape.head_v_dim;
  const auto convolution = [&] { traffic.AddConvolution(3.0 * width, shape.d_conv); };
  // One recurrent step: the state is read and written once a request ...
  const auto recurrence = [&] {
    traffic.per_token += 8.0 * width + 2.0 * width;
    traffic.per_request += 2.0 * state;
  };
  // ... or, to be able to roll back, written once a token.
  const auto verification = [&] {
    traffic.per_token += 8.0 * width + 2.0 * width + state;
    traffic.per_request += state;
  };
  if (kernel == "causal_conv1d_fn_qkv3" || kernel == kConvUpdate) {
    convolution();
  } else if (kernel == "chunk_kda" || kernel == "chunk_kda_with_fused_gate" ||
             kernel == "flashkda_fwd") {
    recurrence();
    traffic.per_chunk = 2.0 * state;
  } else if (kernel == kKdaPackedDecode || kernel == "fused_kda_decode") {
    recurrence();
  } else if (kernel == kDeltaUpdate || kernel == "fused_recurrent_kda") {
    verification();
  } else if (kernel == kKdaFusedVerify) {
    convolution();
    verification();
  } else if (kernel == kKdaFusedDecode) {
    convolution();
    recurrence();
  } else {
    traffic.per_token = 4.0 * shape.d_model;
  }
  return traffic;
}

std::optional<RecurrentKernel> BindKda(const Kda& op, const Database& db) {
  const bool one_axis = op.phase == kGeneration;
  const double bandwidth = BandwidthOf(db);
  const auto table = db.Get(one_axis ? TableId::kKdaGeneration : TableId::kKdaContext);
  const auto slice_of = [&](std::string_view kernel, const std::string& key) {
    return SliceOf(table,
                   {kernel, op.phase, op.d_model, op.d_conv, op.num_k_heads, op.head_k_dim,
                    op.num_v_heads, op.head_v_dim},
                   key);
  };

  // Some backends fuse the convolution and the recurrence into one kernel: the recurrence operator
  // then stands for both.
  std::string_view kernel = op.kernel_source;
  std::string_view fused;
  if (op.phase == kVerify && (kernel == kDeltaUpdate || kernel == kConvUpdate)) {
    if (table && !(*table)->Slice({kernel, kVerify}) &&
        (*table)->Slice({kKdaFusedVerify, kVerify})) {
      fused = kKdaFusedVerify;
    }
  } else if (one_axis && (kernel == kKdaPackedDecode || kernel == kConvUpdate)) {
    if (table && !slice_of(kernel, {}) && slice_of(kKdaFusedDecode, {})) fused = kKdaFusedDecode;
  }
  if (!fused.empty()) {
    if (kernel == kConvUpdate) return std::nullopt;
    kernel = fused;
  }

  const KdaShape shape{double(op.d_model),    double(op.d_conv),      double(op.num_k_heads),
                       double(op.head_k_dim), double(op.num_v_heads), double(op.head_v_dim)};
  const auto key_of = [&](const KdaShape& s) {
    return KeyOf("kda", kernel, op.phase,
                 {s.d_model, s.d_conv, s.num_k_heads, s.head_k_dim, s.num_v_heads, s.head_v_dim});
  };
  std::string key = key_of(shape);
  Result<GridView> slice = slice_of(kernel, key);
  std::optional<RecurrentTraffic> donor;
  if (!slice && table) {
    // The measured shard whose number of value heads is nearest, the first of equals.
    double best = std::numeric_limits<double>::infinity();
    for (const ShapeView& candidate : ShapesOf(**table, kernel, op.phase, op.d_model, 5)) {
      const std::vector<double>& d = candidate.dims;
      const double distance = std::abs(d[4] - shape.num_v_heads);
      if (distance >= best) continue;
      best = distance;
      const KdaShape other{d[0], d[1], d[2], d[3], d[4], d[5]};
      slice = candidate.grid;
      donor = KdaTraffic(kernel, op.phase, bandwidth, other);
      key = key_of(other);
    }
  }
  return RecurrentKernel(db, slice, one_axis, KdaTraffic(kernel, op.phase, bandwidth, shape), donor,
                         op.scale_factor, std::move(key));
}

}  // namespace

BoundKda::BoundKda(const Kda& op, const Database& db)
    : phase_(op.phase == kContext  ? Phase::kContext
             : op.phase == kVerify ? Phase::kVerify
                                   : Phase::kOther),
      draft_tokens_(op.draft_tokens),
      kernel_(BindKda(op, db)) {}

Result<PerfResult> BoundKda::Query(const QueryContext& ctx) const {
  if (!kernel_) return PerfResult::Of(0.0, 0.0, Source::kSilicon, OriginKind::kExact);
  switch (phase_) {
    case Phase::kContext:
      return kernel_->Query(ctx.batch_size, ctx.s);
    case Phase::kVerify: {
      // A verify step checks draft_tokens tokens of each request at once: the batch counts tokens.
      constexpr std::int64_t kMaxSequence = std::numeric_limits<std::uint32_t>::max();
      const double s =
          static_cast<double>(std::clamp<std::int64_t>(draft_tokens_, 0, kMaxSequence));
      double batch = ctx.batch_size;
      if (draft_tokens_ > 0) {
        // Ties go to the even number of requests.
        batch = std::max(1.0, std::nearbyint(batch / static_cast<double>(draft_tokens_)));
      }
      return kernel_->Query(batch, s);
    }
    case Phase::kOther:
      return kernel_->Query(ctx.batch_size, 0.0);
  }
  std::unreachable();
}

}  // namespace infercast
