// Speed of light of a DeepSeek-V4 compressed-attention module: projections, window and compressed
// attention, and (for the 4:1 kind) the indexer that picks the compressed tokens.
#pragma once

#include "base/error.h"
#include "base/wide_int.h"
#include "operators/operator.h"
#include "tables/database.h"

namespace infercast {

class Dsv4Roofline {
 public:
  // kMissingSystemFlops when the system lacks one of the four rates a module may use.
  static Result<Dsv4Roofline> Of(const Dsv4Module& op, bool context, const Database& db);

  // Milliseconds for `batch` requests: context, s new tokens after `prefix` cached ones;
  // generation, one token at KV length s. Fractions are cut off.
  double Milliseconds(double batch, double s, double prefix) const;

 private:
  Dsv4Roofline() = default;

  bool context_ = false;
  Int128 ratio_ = 4;   // tokens per compressed token
  Int128 top_k_ = 0;   // compressed tokens attended to (ratio 4)
  Int128 window_ = 0;  // uncompressed tokens attended to
  Int128 heads_width_ = 0;

  // Operations per token (t), exact.
  Int128 projection_ops_ = 0;
  Int128 output_ops_ = 0;
  Int128 indexer_query_ops_ = 0;
  Int128 indexer_key_ops_ = 0;  // per token and compressed token
  Int128 indexer_weight_ops_ = 0;

  // Bytes.
  double weight_bytes_ = 0;
  Int128 activation_width_ = 0;  // elements per token
  double gemm_bytes_ = 0;        // per element
  double kv_row_ = 0;            // elements per attended token
  double kv_bytes_ = 0;
  double index_row_bytes_ = 0;  // per compressed token
  Int128 rope_width_ = 0;
  double fmha_bytes_ = 0;

  double gemm_flops_ = 0, bf16_flops_ = 0, fp8_flops_ = 0, fmha_flops_ = 0, bandwidth_ = 0;
};

}  // namespace infercast
