#include "operators/vision.h"

#include <array>
#include <cstdint>

#include "operators/encoder_attention.h"
#include "operators/gemm.h"
#include "operators/memory_ops.h"

namespace infercast {

namespace {

BoundGemm Projection(const Vision& op, std::uint32_t n, std::uint32_t k, const Database& db) {
  Gemm gemm;
  gemm.scale_factor = 1;
  gemm.n = n;
  gemm.k = k;
  gemm.quant_mode = op.gemm_quant;
  gemm.scale_num_tokens = 1;
  return BoundGemm(gemm, db);
}

BoundEncoderAttention Attention(const Vision& op, const Database& db) {
  EncoderAttention attention;
  attention.scale_factor = 1;
  attention.n = op.num_heads;
  attention.head_size = op.head_size;
  attention.fmha_quant_mode = op.fmha_quant;
  return BoundEncoderAttention(attention, db);
}

}  // namespace

struct BoundVision::Layer {
  Layer(const Vision& op, const Database& db)
      : qkv(Projection(op, 3 * op.num_heads * op.head_size, op.hidden_size, db)),
        attention(Attention(op, db)),
        out(Projection(op, op.hidden_size, op.num_heads * op.head_size, db)),
        up(Projection(op, op.intermediate_size, op.hidden_size, db)),
        down(Projection(op, op.hidden_size, op.intermediate_size, db)),
        traffic(db),
        norm_bytes(2.0 * op.hidden_size) {}

  BoundGemm qkv;
  BoundEncoderAttention attention;
  BoundGemm out, up, down;
  MemoryTraffic traffic;
  double norm_bytes;  // per token
};

BoundVision::BoundVision(const Vision& op, const Database& db)
    : layer_(std::make_shared<const Layer>(op, db)),
      num_layers_(op.num_layers),
      scale_factor_(op.scale_factor) {}

Result<PerfResult> BoundVision::Query(const QueryContext& ctx) const {
  PerfResult total;
  const std::uint32_t tokens = ctx.num_image_tokens;
  if (tokens == 0) return total;
  const auto add = [&](const PerfResult& part) {
    total.latency_ms += part.latency_ms;
    total.tier = std::max(total.tier, part.tier);
    total.origin = Origin::Weaker(total.origin, part.origin);
  };
  IC_ASSIGN(const PerfResult qkv, layer_->qkv.QueryTokens(tokens));
  add(qkv);
  IC_ASSIGN(const PerfResult attention, layer_->attention.QueryShape(1, tokens));
  add(attention);
  for (const BoundGemm* gemm : {&layer_->out, &layer_->up, &layer_->down}) {
    IC_ASSIGN(const PerfResult part, gemm->QueryTokens(tokens));
    add(part);
  }
  PerfResult norms = layer_->traffic.Move(layer_->norm_bytes * tokens);
  norms.Scale(2.0);
  add(norms);
  total.latency_ms *= num_layers_;
  total.Clamp();
  total.Scale(scale_factor_);
  return total;
}

}  // namespace infercast
