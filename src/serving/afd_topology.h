// Attention/FFN disaggregation (AFD): the attention layers run on one set of nodes, the
// feed-forward layers and experts on another, and every layer's activations cross the network
// twice. Micro-batches take turns so that both sides and the network work at once.
//
// Here: how the nodes are split, how the batch is, and what follows from both by arithmetic.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/modes.h"
#include "models/parallel.h"

namespace infercast {

// How much of the transfers the micro-batches hide.
enum class AfdPipeline : std::uint8_t {
  kOptimistic,    // all of them, given enough micro-batches
  kConservative,  // each side waits for one transfer
  kSerial         // nothing overlaps
};
template <>
struct EnumNames<AfdPipeline> {
  static constexpr std::string_view kType = "AFD pipeline model";
  static constexpr std::array<std::string_view, 3> kNames = {"optimistic", "conservative",
                                                             "serial"};
};

// Which phases the split deployment serves.
enum class AfdPhase : std::uint8_t { kPrefill, kDecode, kBoth };
template <>
struct EnumNames<AfdPhase> {
  static constexpr std::string_view kType = "AFD phase";
  static constexpr std::array<std::string_view, 3> kNames = {"prefill", "decode", "both"};
};

// The machines and how they are connected.
struct AfdLayout {
  std::int64_t attention_nodes = 1;
  std::int64_t ffn_nodes = 1;
  std::int64_t gpus_per_node = 8;
  std::int64_t attention_tp = 1;      // GPUs of one attention worker, within a node
  std::int64_t expert_parallel = 1;   // of the FFN side; the rest of its GPUs split each expert
  double comm_overhead = 1;           // factor on the transfers between the sides
  bool boundary_on_attention = true;  // norms after attention and logits run on the attention side

  std::int64_t AttentionWorkers() const { return attention_nodes * gpus_per_node / attention_tp; }
  std::int64_t FfnGpus() const { return ffn_nodes * gpus_per_node; }
  std::int64_t NumGpus() const { return AttentionWorkers() * attention_tp + FfnGpus(); }

  ParallelLayout AttentionParallel() const;
  ParallelLayout FfnParallel() const;
  // "a1n-tp1+f2n-ep16".
  std::string Text() const;

  bool operator==(const AfdLayout&) const = default;
};

// Every size at least 1, workers and experts' ranks divide evenly, the factor positive.
// kInvalidArgument names the setting.
Status CheckAfdLayout(const AfdLayout& layout);

// How requests are batched.
struct AfdSchedule {
  std::int64_t batch = 128;  // requests of one attention worker, over all micro-batches
  std::int64_t micro_batches = 3;
  AfdPipeline pipeline = AfdPipeline::kOptimistic;

  // Requests of one attention worker in one micro-batch.
  std::int64_t MicroBatch() const;

  bool operator==(const AfdSchedule&) const = default;
};
Status CheckAfdSchedule(const AfdSchedule& schedule);

// Time from one micro-batch's layer to the next one's, in the steady state.
struct AfdCycle {
  double ms = 0;
  bool transfers_hidden = false;
};
// Per-layer times in ms: both sides' work, and the transfers to the FFN side and back.
AfdCycle CycleOf(const AfdSchedule& schedule, double attention, double ffn, double to_ffn,
                 double to_attention);

}  // namespace infercast
