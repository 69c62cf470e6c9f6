// Operator constructors of the model layer.
#include "models/op_list.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "models/family.h"

namespace infercast {

OpList::OpList(const BuildContext& build, Phase phase, std::int64_t seq_split)
    : build_(&build),
      phase_(phase),
      prefix_(PhaseName(phase)),
      draft_scale_(phase == Phase::kContext ? 1.0 : build.draft_scale),
      seq_split_(phase == Phase::kContext ? seq_split : 1) {}

OpList OpList::Sub() const {
  OpList sub = *this;
  sub.ops_.clear();
  sub.out_of_range_ = false;
  return sub;
}

std::string OpList::Name(std::string_view name) const {
  return fmt::format("{}_{}", prefix_, name);
}

double OpList::Scaled(double layers) const { return layers * draft_scale_ * discount_; }

std::uint32_t OpList::Wire(std::int64_t value) {
  if (value < 0 || value > std::numeric_limits<std::uint32_t>::max()) {
    out_of_range_ = true;
    return 0;
  }
  return static_cast<std::uint32_t>(value);
}

void OpList::Embedding(std::string_view name, double layers, std::int64_t rows,
                       std::int64_t width) {
  Add(infercast::Embedding{.name = Name(name),
                           .scale_factor = Scaled(layers),
                           .vocab_size = Wire(rows),
                           .hidden_size = Wire(width),
                           .quant_mode = GemmQuant::kBfloat16,
                           .seq_split = Wire(seq_split_)});
}

void OpList::Elementwise(std::string_view name, double layers, std::int64_t in, std::int64_t out,
                         std::int64_t scale_num_tokens) {
  Add(infercast::Elementwise{.name = Name(name),
                             .scale_factor = Scaled(layers),
                             .bytes_per_token = 2.0 * static_cast<double>(in + out),
                             .scale_num_tokens = Wire(scale_num_tokens),
                             .seq_split = Wire(seq_split_)});
}

void OpList::Norm(std::string_view name, double layers) {
  const std::int64_t both = 2 * build_->model->hidden_size;
  Elementwise(name, layers, both, both);
}

void OpList::Gemm(std::string_view name, double layers, std::int64_t n, std::int64_t k,
                  GemmQuant quant, GemmExtras extras) {
  Add(infercast::Gemm{.name = Name(name),
                      .scale_factor = Scaled(layers),
                      .n = Wire(n),
                      .k = Wire(k),
                      .quant_mode = quant,
                      .scale_num_tokens = Wire(extras.scale_num_tokens),
                      .low_precision_input = extras.low_precision_input,
                      .seq_split = Wire(seq_split_),
                      .below_grid_sol = extras.below_grid_sol});
}

void OpList::Attention(double layers, const AttentionHeads& heads) {
  if (!is_context()) return GenerationAttentionNamed("attention", layers, heads);
  Add(ContextAttention{.name = Name("attention"),
                       .scale_factor = Scaled(layers),
                       .n = Wire(heads.heads),
                       .n_kv = Wire(heads.kv_heads),
                       .head_size = Wire(heads.head_dim),
                       .window_size = Wire(heads.window),
                       .kv_cache_dtype = build_->quant.kv,
                       .fmha_quant_mode = build_->quant.fmha,
                       .use_qk_norm = heads.qk_norm,
                       .cp_size = Wire(seq_split_)});
}

void OpList::GenerationAttentionNamed(std::string_view name, double layers,
                                      const AttentionHeads& heads) {
  Add(GenerationAttention{.name = Name(name),
                          .scale_factor = Scaled(layers),
                          .n = Wire(heads.heads),
                          .n_kv = Wire(heads.kv_heads),
                          .head_size = Wire(heads.head_dim),
                          .window_size = Wire(heads.window),
                          .kv_cache_dtype = build_->quant.kv});
}

void OpList::AllReduce(std::string_view name, double layers, std::int64_t width) {
  Add(CustomAllReduce{.name = Name(name),
                      .scale_factor = Scaled(layers),
                      .hidden_size = Wire(width),
                      .tp_size = Wire(build_->tp),
                      .quant = CommQuant::kHalf,
                      .seq_split = Wire(seq_split_)});
}

void OpList::AllReduce(std::string_view name, double layers) {
  AllReduce(name, layers, build_->model->hidden_size);
}

void OpList::Collective(std::string_view name, double layers, std::string_view operation,
                        double elements, std::int64_t gpus, CommQuant dtype) {
  Add(Nccl{.name = Name(name),
           .scale_factor = Scaled(layers),
           .hidden_size = elements,
           .num_gpus = Wire(gpus),
           .dtype = dtype,
           .operation = std::string(operation)});
}

void OpList::PipelineHandOver() {
  Add(P2P{.name = Name("p2p"),
          .scale_factor = Scaled(static_cast<double>(build_->pp - 1)),
          .pp_size = Wire(build_->pp),
          .hidden_size = Wire(build_->model->hidden_size),
          .seq_split = Wire(seq_split_)});
}

void OpList::Overlap(std::string_view name, OpList a, OpList b) {
  out_of_range_ |= a.out_of_range_ || b.out_of_range_;
  Add(infercast::Overlap{
      .name = Name(name), .group_a = std::move(a.ops_), .group_b = std::move(b.ops_)});
}

void OpList::Fallback(std::string_view name, Operator primary, OpList parts) {
  out_of_range_ |= parts.out_of_range_;
  Add(infercast::Fallback{
      .name = Name(name), .primary = std::move(primary), .fallback = std::move(parts.ops_)});
}

void OpList::Append(OpList other) {
  out_of_range_ |= other.out_of_range_;
  for (Operator& op : other.ops_) ops_.push_back(std::move(op));
}

Result<std::vector<Operator>> OpList::Take() && {
  if (out_of_range_) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{}: a size of the {} operators does not fit 32 bits",
                            build_->model->name, PhaseName(phase_)));
  }
  return std::move(ops_);
}

}  // namespace infercast
