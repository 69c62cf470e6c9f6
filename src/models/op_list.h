// Writes the operator list of one phase: names get the phase's prefix, scale factors the draft
// factor, prefill operators the context-parallel split. Family builders read as the layer does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "operators/operator.h"

namespace infercast {

struct BuildContext;

enum class Phase : std::uint8_t { kContext, kGeneration };

constexpr std::string_view PhaseName(Phase phase) {
  return phase == Phase::kContext ? "context" : "generation";
}

struct GemmExtras {
  bool low_precision_input = false;
  std::int64_t scale_num_tokens = 1;  // tokens are divided by this
  bool below_grid_sol = false;
};

// Heads of one GPU.
struct AttentionHeads {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t window = 0;  // 0: every position is attended
  bool qk_norm = false;
};

class OpList {
 public:
  // Context: scale factors as given, tokens split by `seq_split`. Generation: scale factors times
  // the draft factor of the build, no split.
  OpList(const BuildContext& build, Phase phase, std::int64_t seq_split = 1);

  // An empty list with the same settings, e.g. for one side of an overlap.
  OpList Sub() const;

  const BuildContext& build() const { return *build_; }
  Phase phase() const { return phase_; }
  bool is_context() const { return phase_ == Phase::kContext; }

  // Names begin with "<prefix>_"; "context" or "generation" unless set otherwise.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
  // Every scale factor is given * draft factor * discount (in this order).
  void set_draft_scale(double scale) { draft_scale_ = scale; }
  void set_discount(double discount) { discount_ = discount; }
  void set_seq_split(std::int64_t split) { seq_split_ = split; }
  std::int64_t seq_split() const { return seq_split_; }

  std::string Name(std::string_view name) const;
  double Scaled(double layers) const;

  // `layers` is the unscaled count of layers (or forward passes) that run the operator.
  void Embedding(std::string_view name, double layers, std::int64_t rows, std::int64_t width);
  // Reads `in` and writes `out` 16-bit elements a token.
  void Elementwise(std::string_view name, double layers, std::int64_t in, std::int64_t out,
                   std::int64_t scale_num_tokens = 1);
  // Residual add and normalisation over the hidden size: reads and writes two tensors.
  void Norm(std::string_view name, double layers);
  void Gemm(std::string_view name, double layers, std::int64_t n, std::int64_t k, GemmQuant quant,
            GemmExtras extras = {});
  // "<phase>_attention"; cp splits a context's tokens (1: not split).
  void Attention(double layers, const AttentionHeads& heads);
  // The same under another name (generation only: prefill attention is always context_attention).
  void GenerationAttentionNamed(std::string_view name, double layers, const AttentionHeads& heads);
  void AllReduce(std::string_view name, double layers, std::int64_t width);
  // Sum of activations inside the tensor-parallel group over the hidden size.
  void AllReduce(std::string_view name, double layers);
  void Collective(std::string_view name, double layers, std::string_view operation, double elements,
                  std::int64_t gpus, CommQuant dtype);
  // Hand-over to the next pipeline stage, pp - 1 times.
  void PipelineHandOver();

  void Overlap(std::string_view name, OpList a, OpList b);
  // The measured block `primary`, or `parts` where it was not measured.
  void Fallback(std::string_view name, Operator primary, OpList parts);

  // Adds an operator whose name and scale are already final.
  void Add(Operator op) { ops_.push_back(std::move(op)); }
  // Appends the operators of a list with the same settings.
  void Append(OpList other);

  const std::vector<Operator>& ops() const { return ops_; }
  std::vector<Operator>& ops() { return ops_; }

  // A size as the wire carries it. A value below 0 or above 2^32 - 1 spoils the list.
  std::uint32_t Wire(std::int64_t value);

  // The list, or kInvalidArgument when some size did not fit.
  Result<std::vector<Operator>> Take() &&;

 private:
  const BuildContext* build_;
  Phase phase_;
  std::string prefix_;
  double draft_scale_ = 1.0;
  double discount_ = 1.0;
  std::int64_t seq_split_ = 1;
  std::vector<Operator> ops_;
  bool out_of_range_ = false;
};

}  // namespace infercast
