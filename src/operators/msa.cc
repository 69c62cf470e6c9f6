// Block-sparse attention: roofline, measured blocks, utilisation borrowed from DSA blocks.
#include "operators/msa.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "operators/dsa.h"
#include "operators/dsa_roofline.h"
#include "operators/measured_slice.h"
#include "operators/sparse_block.h"

namespace infercast {

namespace {

using latent::BlockRates;
using latent::Count;
using latent::Roof;
using latent::ToDouble;

constexpr std::string_view kArchitecture = "MiniMaxM3ForCausalLM";

std::uint64_t ToCount(double coordinate) { return static_cast<std::uint64_t>(coordinate); }

struct MsaRoofline {
  std::uint64_t kv_heads, hidden, head_dim, v_dim, index_heads, index_dim, topk, block_size;
  BlockRates rates;

  MsaRoofline(const MsaModule& op, const BlockRates& block_rates)
      : kv_heads(op.num_kv_heads),
        hidden(op.hidden_size),
        head_dim(op.head_dim),
        v_dim(op.v_head_dim),
        index_heads(op.index_n_heads),
        index_dim(op.index_head_dim),
        topk(op.index_topk),
        block_size(op.block_size),
        rates(block_rates) {}

  Roof Context(std::uint64_t n, std::uint64_t b, std::uint64_t s, std::uint64_t p) const {
    const std::uint64_t full = s + p;
    return At(n, b, Count{b} * s, full, std::min(full, topk), latent::WindowedPairs(b, s, p, topk));
  }
  Roof Generation(std::uint64_t n, std::uint64_t b, std::uint64_t s) const {
    const std::uint64_t cached = s > 0 ? s - 1 : 0;
    const std::uint64_t kept = std::min(cached, topk);
    return At(n, b, b, cached, kept, Count{b} * kept);
  }
  // A length at which the indexer needs blocks, without a block size to count them.
  bool Undefined(std::uint64_t length) const { return block_size == 0 && length > topk; }

 private:
  // `b` requests of `tokens` new tokens in all, over `length` cached and new ones each, of which
  // attention keeps `kept`.
  Roof At(Count n, Count b, Count tokens, std::uint64_t length, Count kept, Count pairs) const {
    const Count weights = Count{hidden} * n * head_dim + 2 * Count{hidden} * kv_heads * head_dim +
                          n * v_dim * hidden + Count{hidden} * index_heads * index_dim;
    const Count blocks =
        length > topk && block_size > 0 ? (length + block_size - 1) / block_size : 0;
    const Count projections = 2 * tokens * weights;
    const Count scoring = 2 * tokens * index_heads * index_dim * blocks;
    const Count attention = 2 * n * (Count{head_dim} + v_dim) * pairs;
    const double bytes =
        ToDouble(weights) * rates.gemm_bytes +
        ToDouble(b * kv_heads * kept * (Count{head_dim} + v_dim)) * rates.kv_bytes +
        ToDouble(b * blocks * index_heads * index_dim) +
        ToDouble(tokens * n * head_dim) * rates.fmha_bytes * 2.0;
    return {(ToDouble(projections) / rates.gemm_flops + ToDouble(scoring) / rates.indexer_flops +
             ToDouble(attention) / rates.fmha_flops) *
                1000.0,
            bytes / rates.bandwidth * 1000.0};
  }
};

// The DSA block that lends its utilisation: what it measures over what it could reach.
template <typename Dsa, typename BoundDsa>
class Lender {
 public:
  Lender(const MsaModule& op, const Database& db)
      : architecture_(op.dsa_architecture),
        scale_(op.dsa_scale_k),
        measured_(Equivalent(op), db.WithMode(DatabaseMode::kSilicon)),
        roofline_(Equivalent(op), db.WithMode(DatabaseMode::kSol)) {}

  // `sol`: the borrower's own roofline, ms.
  Result<PerfResult> Estimate(const QueryContext& ctx, double sol) const {
    const Result<PerfResult> bound = roofline_.Query(ctx);
    const Result<PerfResult> measured = measured_.Query(ctx);
    if (!bound || !measured || !(bound->latency_ms > 0) || !(measured->latency_ms > 0)) {
      return Fail(ErrorKind::kEmpiricalNotImplemented,
                  fmt::format("no utilisation of {} to borrow at batch {} and length {}",
                              architecture_, ctx.batch_size, ctx.s));
    }
    const double utilisation = bound->latency_ms / measured->latency_ms;
    PerfResult result = PerfResult::Of(sol / (utilisation * scale_), 0, Source::kEmpirical,
                                       OriginKind::kTransferred);
    result.tier = Tier::kXop;
    result.origin.octaves = measured->origin.octaves;
    result.origin.source = measured->origin.source;
    result.origin.donor = &architecture_;
    return result;
  }

 private:
  static Dsa Equivalent(const MsaModule& op) {
    Dsa dsa;
    dsa.name = op.name;
    dsa.scale_factor = 1.0;
    dsa.num_heads = op.num_heads;
    dsa.kv_cache_dtype = op.kv_cache_dtype;
    dsa.fmha_quant_mode = op.fmha_quant_mode;
    dsa.gemm_quant_mode = op.gemm_quant_mode;
    dsa.architecture = op.dsa_architecture;
    dsa.index_topk = static_cast<std::uint32_t>(latent::DsaShape::Of(op.dsa_architecture).topk);
    return dsa;
  }

  std::string architecture_;
  double scale_;
  BoundDsa measured_;
  BoundDsa roofline_;
};

// What both phases share.
template <typename Dsa, typename BoundDsa>
struct Block {
  std::shared_ptr<const TableStore> store;
  DatabaseMode mode{};
  std::uint32_t heads = 0;
  double scale_factor = 0;
  Result<MsaRoofline> roofline;
  MeasuredSlice slice{Error{}};
  std::optional<Lender<Dsa, BoundDsa>> lender;

  Block(const MsaModule& op, const Database& db)
      : store(db.shared_store()),
        mode(db.mode()),
        heads(op.num_heads),
        scale_factor(op.scale_factor),
        roofline([&]() -> Result<MsaRoofline> {
          IC_ASSIGN(const BlockRates rates, BlockRates::Of(db.system(), op.gemm_quant_mode,
                                                           op.kv_cache_dtype, op.fmha_quant_mode));
          return MsaRoofline(op, rates);
        }()) {
    if (db.policy().xop && roofline &&
        (mode == DatabaseMode::kHybrid || mode == DatabaseMode::kEmpirical)) {
      lender.emplace(op, db);
    }
  }

  template <typename Sol>
  Result<PerfResult> Query(const QueryContext& ctx, std::uint64_t length, const Roof& roof,
                           std::span<const double> coords, Sol&& sol) const {
    if (roofline->Undefined(length)) {
      return Fail(ErrorKind::kInvalidEngineConfig,
                  "block-sparse attention needs block_size >= 1 beyond its top-k tokens");
    }
    auto result = AnswerByMode(
        mode,
        [&] {
          Sought sought = slice.Seek(coords, sol);
          if (sought.ok()) sought.answer().energy_wms = 0;
          return sought;
        },
        [&]() -> Result<PerfResult> {
          if (lender) return lender->Estimate(ctx, roof.Time());
          return Fail(ErrorKind::kEmpiricalNotImplemented,
                      "block-sparse attention is estimated from another operator (xop), which the "
                      "transfer policy does not allow");
        },
        [&]() -> Result<PerfResult> { return roof.TimeOnly(); });
    if (result) result->Scale(scale_factor);
    return result;
  }
};

}  // namespace

struct BoundMsaContext::State : Block<DsaContext, BoundDsaContext> {
  using Block::Block;
};

BoundMsaContext::BoundMsaContext(const MsaContext& op, const Database& db) {
  auto state = std::make_shared<State>(op, db);
  if (!db.IsSol() && state->roofline) {
    const std::string key = fmt::format("msa_context/{}/{}/{}", ToString(op.fmha_quant_mode),
                                        ToString(op.kv_cache_dtype), ToString(op.gemm_quant_mode));
    const std::array<Table::Key, 4> keys{ToString(op.fmha_quant_mode), ToString(op.kv_cache_dtype),
                                         ToString(op.gemm_quant_mode), kArchitecture};
    const auto view =
        latent::SparseBlockOf(db.Get(TableId::kMsaContext), keys, latent::kTrtllmKernel, key);
    state->slice = MeasuredSlice::Of(db, view, -1, key);
  }
  state_ = std::move(state);
}

Result<PerfResult> BoundMsaContext::Query(const QueryContext& ctx) const {
  const State& state = *state_;
  if (!state.roofline) return std::unexpected(state.roofline.error());
  const MsaRoofline& roofline = *state.roofline;
  const std::array<double, 4> coords{static_cast<double>(state.heads),
                                     static_cast<double>(ctx.prefix), static_cast<double>(ctx.s),
                                     static_cast<double>(ctx.batch_size)};
  const std::uint64_t full = static_cast<std::uint64_t>(ctx.s) + ctx.prefix;
  return state.Query(
      ctx, full, roofline.Context(state.heads, ctx.batch_size, ctx.s, ctx.prefix), coords,
      [&](std::span<const double> c) {
        return roofline.Context(ToCount(c[0]), ToCount(c[3]), ToCount(c[2]), ToCount(c[1])).Time();
      });
}

struct BoundMsaGeneration::State : Block<DsaGeneration, BoundDsaGeneration> {
  using Block::Block;
};

BoundMsaGeneration::BoundMsaGeneration(const MsaGeneration& op, const Database& db) {
  auto state = std::make_shared<State>(op, db);
  if (!db.IsSol() && state->roofline) {
    // The table does not tell number formats of attention apart: decode computes in one.
    const std::string key = fmt::format("msa_generation/{}/{}", ToString(op.kv_cache_dtype),
                                        ToString(op.gemm_quant_mode));
    const std::array<Table::Key, 3> keys{ToString(op.kv_cache_dtype), ToString(op.gemm_quant_mode),
                                         kArchitecture};
    const auto view =
        latent::SparseBlockOf(db.Get(TableId::kMsaGeneration), keys, latent::kTrtllmKernel, key);
    state->slice = MeasuredSlice::Of(db, view, -1, key);
  }
  state_ = std::move(state);
}

Result<PerfResult> BoundMsaGeneration::Query(const QueryContext& ctx) const {
  const State& state = *state_;
  if (!state.roofline) return std::unexpected(state.roofline.error());
  const MsaRoofline& roofline = *state.roofline;
  const std::array<double, 3> coords{static_cast<double>(state.heads),
                                     static_cast<double>(ctx.batch_size),
                                     static_cast<double>(ctx.s)};
  const std::uint64_t cached = ctx.s > 0 ? ctx.s - 1 : 0;
  return state.Query(
      ctx, cached, roofline.Generation(state.heads, ctx.batch_size, ctx.s), coords,
      [&](std::span<const double> c) {
        return roofline.Generation(ToCount(c[0]), ToCount(c[1]), ToCount(c[2])).Time();
      });
}

}  // namespace infercast
