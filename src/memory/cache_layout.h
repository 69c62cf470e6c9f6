// How an engine's cache manager lays out the memory it is given for the KV cache: pools of blocks,
// what one sequence takes of each, and the number of tokens the engine reports at start-up.
//
// Method, by backend:
// - vLLM: layers of a type form groups of equal size (that of the rarest type; the last group of a
//   type is padded), all groups draw blocks of one page size from one pool. Recurrent state is a
//   page of its own, and the attention blocks are made long enough to fill such a page.
// - SGLang: full and sliding layers have pools of their own at a fixed ratio of tokens; recurrent
//   states get a fixed share of the memory as slots.
// - TensorRT-LLM: every layer keeps the whole sequence unless max_attention_window is set; then a
//   pool for each window, sized by window times bytes per token. Recurrent states have one slot for
//   each sequence of the largest batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/anatomy.h"
#include "models/model_plan.h"

namespace infercast {

struct CacheOptions {
  bool hybrid_manager = true;      // vLLM, SGLang: manage sliding layers apart from full ones
  bool window_pools = false;       // TensorRT-LLM: max_attention_window names the layers' windows
  std::int64_t block_size = 0;     // tokens of a block; 0: the backend's default
  double sliding_ratio = 0.8;      // SGLang: tokens of the sliding pool per token of the full one
  double state_ratio = 0.9;        // SGLang: memory of states per memory of attention
  std::int64_t max_sequences = 0;  // TensorRT-LLM: largest batch, a state slot each; 0: 256
  std::int64_t max_num_tokens = 8192;  // token budget of a step; 0: unlimited
  std::int64_t max_seq_len = 0;        // longest sequence; 0: the model's context length
};

// What one sequence takes of a pool: blocks for its tokens (at most a window of them), or a fixed
// number of blocks.
struct CacheUse {
  std::int64_t block_size = 1;
  std::int64_t window = 0;  // 0: every token
  std::int64_t fixed = 0;   // > 0: that many blocks, whatever the length

  std::int64_t Blocks(std::int64_t tokens) const;
};

struct CachePool {
  std::string name;
  std::int64_t blocks = 0;
  double block_bytes = 0;
  std::vector<CacheUse> uses = {};

  std::int64_t Blocks(std::int64_t tokens) const;  // of one sequence
};

struct CacheLayout {
  std::vector<CachePool> pools;
  std::int64_t tokens = 0;  // as the engine's start-up log gives it
  // The same by the rule of newer vLLM: sequences of the longest length that fit, times that
  // length. Absent for the other backends.
  std::optional<std::int64_t> tokens_by_concurrency;
  std::int64_t block_size = 0;
  double bytes_per_token = 0;     // that one more token of a long sequence adds, all layers
  double bytes_per_sequence = 0;  // state and windows, filled once
  std::vector<std::string> assumptions;

  // Sequences of `tokens` tokens that fit at once.
  std::int64_t MaxBatch(std::int64_t tokens) const;
  // Longest length at which `batch` sequences fit, at most `limit`; 0 when none does.
  std::int64_t MaxTokens(std::int64_t batch, std::int64_t limit) const;
};

// `bytes`: KV-cache memory of one GPU. kInsufficientModelMetadata for models of
// which nothing is known to be cached. Caches with a rule of their own are laid out as one pool.
Result<CacheLayout> LayOutCache(const ModelAnatomy& anatomy, const ModelPlan& plan, double bytes,
                                const CacheOptions& options = {});

// KV growth of one sequence on one GPU as the backend keeps it: windows, states, draft layers, only
// the layers of a pipeline stage. Families with a rule of their own keep theirs, over the stages.
KvLayout NativeKvLayout(const ModelAnatomy& anatomy, const ModelPlan& plan);

}  // namespace infercast
