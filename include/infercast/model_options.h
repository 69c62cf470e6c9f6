// What is served and how it is spread: shared by engines, memory estimates and forecasts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "infercast/database.h"

namespace infercast {
INFERCAST_INLINE namespace v1 {
// A worker has tp * pp * dp * cp GPUs. The experts of an MoE model share the tp * dp * cp GPUs of
// a pipeline stage: moe_tp * moe_ep must equal that width. The missing one of the two follows;
// with neither, all experts are spread whole (moe_tp = 1).
struct Parallelism {
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t dp = 1;  // attention data parallelism
  std::int64_t cp = 1;  // context parallelism of prefill (sglang)
  std::optional<std::int64_t> moe_tp = std::nullopt;
  std::optional<std::int64_t> moe_ep = std::nullopt;

  bool operator==(const Parallelism&) const = default;
};

// Number formats, e.g. gemm "fp8_block", moe "nvfp4", kvcache "fp8", fmha "bfloat16", comm
// "half". Empty: as the checkpoint says.
struct NumberFormats {
  std::string gemm;
  std::string moe;
  std::string kvcache;
  std::string fmha;
  std::string comm;

  bool operator==(const NumberFormats&) const = default;
};

struct ModelOptions {
  std::string model;  // bundled name ("Qwen/Qwen3-32B"), directory or config.json
  DatabaseOptions data;
  Parallelism parallelism;
  NumberFormats formats;
  std::optional<std::int64_t> nextn = 0;  // draft tokens per step; nullopt: as the checkpoint has
  std::string attention_backend;          // attention kernel; empty: the backend's own order
  std::string moe_backend;                // expert kernel, e.g. "megamoe"; empty: default
};

}  // namespace v1
}  // namespace infercast
