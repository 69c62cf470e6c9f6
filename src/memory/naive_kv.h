// KV cache and weights from nothing but a config.json, for checkpoints that no family builds: the
// usual keys under their usual other names, a plain transformer's arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "models/checkpoint.h"
#include "models/parallel.h"

namespace infercast {

// Sizes that the configuration gives; absent ones stay absent. element_bytes: of weights and KV.
struct NaiveModel {
  std::optional<std::int64_t> hidden, layers, heads, head_dim, kv_heads, vocab, inter;
  std::int64_t experts = 0;
  std::optional<std::int64_t> moe_inter;
  std::optional<std::int64_t> kv_lora_rank, qk_rope_head_dim;
  double element_bytes = 2;
  // Sliding-window layers, where the configuration tells them apart.
  std::optional<std::int64_t> window;
  std::int64_t window_layers = 0;
  std::int64_t global_layers = 0;

  // All layers, one GPU; none when the geometry is unknown.
  std::optional<double> KvBytesPerToken(std::int64_t tp) const;
  std::optional<double> WeightBytes(const ParallelLayout& layout) const;
  // Longest sequence whose KV fits.
  std::int64_t Tokens(double budget, std::int64_t tp) const;
};

// kUnknownName when no configuration of that name is here, kModelConfig when it is malformed.
Result<NaiveModel> LoadNaiveModel(std::string_view name, const CheckpointSearch& search);

}  // namespace infercast
