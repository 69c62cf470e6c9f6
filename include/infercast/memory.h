// MemoryEstimate: what fills the memory of one GPU of a worker, and how many tokens its KV cache
// holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "infercast/error.h"
#include "infercast/model_options.h"

namespace infercast {
INFERCAST_INLINE namespace v1 {
struct MemoryOptions {
  ModelOptions model;
  std::int64_t batch_size = 1;  // requests of one data-parallel rank
  std::int64_t isl = 4000;      // tokens
  std::int64_t osl = 1000;
  std::int64_t prefix = 0;
  std::int64_t beam_width = 1;
  // Tokens of one step, which size the activations; 0: all input tokens of the batch at once.
  std::int64_t max_num_tokens = 0;
  std::optional<std::int64_t> max_seq_len;  // KV tokens reserved per sequence; default isl + osl
  // Share of GPU memory that the engine may use, in the backend's own meaning (trtllm: of what is
  // free beside the weights; vllm, sglang: of all memory). Default: the backend's.
  std::optional<double> memory_fraction;
};

// GiB = 2^30 bytes, per GPU.
struct MemoryEstimate {
  double weights_gib = 0;
  double activations_gib = 0;
  double kvcache_gib = 0;  // of the batch asked for
  double communication_gib = 0;
  double runtime_gib = 0;
  double total_gib = 0;
  double capacity_gib = 0;
  bool fits = false;     // the parts and the KV budget hold the batch
  bool kv_fits = false;  // the KV budget does
  // What the KV cache can hold in all under the memory fraction; 0 when nothing is left.
  double kv_budget_gib = 0;
  std::int64_t kv_tokens = 0;
  std::int64_t kv_bytes_per_token = 0;  // what one more token of a long sequence adds
  // What a sequence takes whatever its length: recurrent state, buffers, filled attention windows.
  std::int64_t kv_bytes_per_sequence = 0;
  std::vector<std::string> notes;  // what was assumed of the model

  // kUnknownName, kUnsupportedModel, kInvalidArgument, kModelConfig; errors of
  // PerfDatabase::Open. That a batch does not fit is an answer, not an error.
  INFERCAST_API static Result<MemoryEstimate> Of(const MemoryOptions& options);
};

}  // namespace v1
}  // namespace infercast
