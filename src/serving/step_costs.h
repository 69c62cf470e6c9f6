// What one step of a continuous batch costs on a worker, split by kind of operator, so that a
// scheduler may compose steps of any shape: prompts' chunks beside running requests, ranks of
// unequal load in lock step.
//
// Method: token-major operators depend on the step's tokens alone and are summed by class; prefill
// attention is the sum over prompts of what each costs alone, times what batching saves; decode
// attention depends on the number of sequences and their mean length. Each of these is evaluated
// exactly on a lattice of sizes (lattice.h), so a step costs nanoseconds after its neighbourhood
// was visited once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "operators/operator.h"
#include "serving/lattice.h"
#include "serving/worker.h"

namespace infercast {

enum class OperatorClass : std::uint8_t { kAttention, kGemm, kMoe, kCommunication, kOther };
inline constexpr std::size_t kOperatorClasses = 5;

// Composites count as what they are there for: experts if any, else their first part.
OperatorClass ClassOf(const Operator& op);

// ms per class; the attention slot is unused (zero) where only token-major operators are summed.
struct ClassCosts {
  std::array<double, kOperatorClasses> ms{};

  double operator[](OperatorClass c) const { return ms[static_cast<std::size_t>(c)]; }
};
ClassCosts Blend(const ClassCosts& a, const ClassCosts& b, double weight);

// The context work of one rank in one step.
struct ContextLoad {
  std::int64_t chunks = 0;     // prompts that get a part
  std::int64_t tokens = 0;     // their new tokens
  double attention_alone = 0;  // ms: sum over the chunks of ContextAttention(tokens, cached)
};
// One rank's part of a step.
struct RankLoad {
  ContextLoad context;
  std::int64_t decodes = 0;  // running sequences that advance
  double mean_kv = 0;        // their mean length, tokens
};

// What is added to the sum of the operators.
struct StepCorrections {
  double context_scale = 1;      // of the context work of a step
  double decode_scale = 1;       // of all decode work
  double host_ms_per_layer = 0;  // of a step without context work, not hidden behind the GPU
};

// Errors of the engine are kept: the first one is reported by status() and costs become zero.
// Not safe to share between threads.
class StepCosts {
 public:
  // kUnsupportedModel for workers whose forward pass was measured as a whole.
  static Result<std::shared_ptr<StepCosts>> Create(std::shared_ptr<const Worker> worker);

  const Worker& worker() const { return *worker_; }
  const Status& status() const { return status_; }

  // Attention of `tokens` new tokens of one prompt behind `cached` ones, ms.
  double ContextAttention(double tokens, double cached);
  // Attention of `batch` prompts of `tokens` together, over that of the same apart.
  double BatchingGain(double batch, double tokens);
  // Attention of `decodes` sequences of mean length `kv`, ms.
  double DecodeAttention(double decodes, double kv);
  // Everything but attention of a step that processes `tokens` on one rank.
  ClassCosts ContextOthers(double tokens);
  ClassCosts DecodeOthers(double decodes);

  // One step of all ranks (at least one), ms. A step with both kinds of work is never below the
  // larger of the two apart, nor above their sum.
  double StepMs(std::span<const RankLoad> ranks, const StepCorrections& corrections);
  // The two kinds of work apart.
  double ContextMs(std::span<const RankLoad> ranks, const StepCorrections& corrections);
  double DecodeMs(std::span<const RankLoad> ranks, const StepCorrections& corrections);

 private:
  explicit StepCosts(std::shared_ptr<const Worker> worker) : worker_(std::move(worker)) {}

  struct Widths {  // tokens of the fullest rank, and what experts and links see of them
    double fullest = 0;
    double shared = 0;
  };
  template <typename TokensOf>
  static Widths WidthsOf(std::span<const RankLoad> ranks, const TokensOf& tokens);
  double ContextAttentionMs(std::span<const RankLoad> ranks);
  double DecodeAttentionMs(std::span<const RankLoad> ranks);
  double ContextOthersMs(const Widths& w);
  double DecodeOthersMs(const Widths& w);

  double Sum(bool context, std::uint32_t batch, std::uint32_t s, std::uint32_t prefix);
  ClassCosts SumOthers(bool context, std::uint32_t tokens);
  double ContextAttentionAt(std::uint32_t batch, double tokens, double cached);

  std::shared_ptr<const Worker> worker_;
  std::vector<OperatorClass> context_class_, generation_class_;
  Status status_;
  Lattice2<3, 2> context_attention_;  // tokens, cached
  Lattice2<2, 2> batching_gain_;      // batch, tokens
  Lattice2<3, 2> decode_attention_;   // decodes, kv
  Lattice1<3, ClassCosts> context_others_, decode_others_;
};

}  // namespace infercast
