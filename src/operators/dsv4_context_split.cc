// Composition of a context-parallel DeepSeek-V4 prefill.
#include "operators/dsv4_context_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/ordinals.h"
#include "operators/bound_operator.h"

namespace infercast {

namespace {

constexpr double kScoringLaunch = 8192.0;

BoundOf<Nccl>::type GatherOf(std::uint32_t ranks, std::uint32_t elements_per_token,
                             const Database& db) {
  Nccl gather;
  gather.name = "dsv4_context_split_all_gather";
  gather.scale_factor = 1.0;
  gather.hidden_size = elements_per_token;
  gather.num_gpus = ranks;
  gather.dtype = CommQuant::kHalf;
  gather.operation = "all_gather";
  return {gather, db};
}

// Only rows of exactly this model; of them those of the same tensor width, else the unsharded ones.
Result<GridView> ScoringSlice(const Dsv4Context& op, const Database& db, const std::string& key) {
  const auto table = db.Get(TableId::kDsv4PagedMqaLogits);
  auto exact = SliceOf(table, {op.native_heads, op.tp_size}, key);
  return exact ? exact : SliceOf(table, {op.native_heads, 1}, key);
}

MeasuredSlice BindScoring(const Dsv4Context& op, const Database& db) {
  std::string key = fmt::format("dsv4/scoring/{}/{}", op.native_heads, op.tp_size);
  const auto slice = ScoringSlice(op, db, key);
  return MeasuredSlice::Of(db.WithMode(DatabaseMode::kSilicon), slice, -1, std::move(key));
}

}  // namespace

struct Dsv4ContextSplit::Gathers {
  BoundOf<Nccl>::type index_keys;  // per indexed token
  BoundOf<Nccl>::type kv;          // per compressed or window token
};

Dsv4ContextSplit::Dsv4ContextSplit(const Dsv4Context& op, const Database& db)
    : ranks_(op.cp_size),
      indexed_(op.attn_kind == Dsv4AttentionKind::kCsa),
      empty_gather_is_free_(db.behaviour() == Behaviour::kNative),
      window_(op.window_size.value_or(0)),
      native_heads_(op.native_heads),
      scoring_(BindScoring(op, db)),
      choosing_(TopkKernel(db, op.native_heads)),
      gathers_(new Gathers{GatherOf(op.cp_size, op.index_head_dim, db),
                           GatherOf(op.cp_size, op.head_dim, db)}) {}

Dsv4ContextSplit::~Dsv4ContextSplit() = default;

std::uint32_t Dsv4ContextSplit::TokensPerRank(std::uint32_t s) const {
  return std::max<std::uint32_t>(static_cast<std::uint32_t>(CeilDiv(s, ranks_)), 1);
}

std::optional<double> Dsv4ContextSplit::Scoring(double tokens, double batch, double prefix) const {
  if (!scoring_.present()) return std::nullopt;
  // Scored pairs of tokens; only its ratios matter.
  const auto pairs = [](std::span<const double> at) {
    return at[2] * (at[0] * at[1] + at[1] * at[1] / 2.0);
  };
  double sum = 0.0;
  for (double done = 0.0; done < tokens; done += kScoringLaunch) {
    const std::array<double, 3> at = {prefix + done, std::min(kScoringLaunch, tokens - done),
                                      batch};
    const auto launch = scoring_.Measured(at, pairs);
    if (!launch || !std::isfinite(launch->latency_ms)) return std::nullopt;
    sum += launch->latency_ms;
  }
  return sum;
}

Result<std::optional<double>> Dsv4ContextSplit::Choosing(double tokens, double batch,
                                                         double prefix) const {
  if (!choosing_) return std::nullopt;
  if (const auto value = choosing_->Nearest(prefix, tokens, batch)) return value;
  return Fail(ErrorKind::kPerfDatabase,
              fmt::format("context-parallel DeepSeek-V4: {} new tokens exceed the collected "
                          "kernel measurements (at most {})",
                          tokens, choosing_->MaxSequence(batch)));
}

Result<double> Dsv4ContextSplit::Latency(double base, std::uint32_t batch, std::uint32_t s,
                                         std::uint32_t prefix) const {
  const double ranks = ranks_;
  const double per_rank = TokensPerRank(s);
  const auto gather = [this](const BoundOf<Nccl>::type& op,
                             std::uint64_t tokens) -> Result<double> {
    if (tokens == 0 && empty_gather_is_free_) return 0.0;
    QueryContext ctx;
    ctx.num_tokens = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(tokens, std::numeric_limits<std::uint32_t>::max()));
    IC_ASSIGN(const PerfResult result, op.Query(ctx));
    return result.latency_ms;
  };
  const std::uint64_t b = batch;

  if (!indexed_) {
    const std::uint32_t window = window_ > 0 ? window_ : s;
    IC_ASSIGN(const double edge, gather(gathers_->kv, b * std::min(s, window)));
    IC_ASSIGN(const double compressed, gather(gathers_->kv, b * (s / 128)));
    return base + edge + compressed;
  }

  const auto scoring_all = Scoring(s, batch, prefix);
  const auto scoring_rank = Scoring(per_rank, batch, prefix);
  IC_ASSIGN(const auto choosing_all, Choosing(s, batch, prefix));
  IC_ASSIGN(const auto choosing_rank, Choosing(per_rank, batch, prefix));
  if (!scoring_all || !scoring_rank || !choosing_all || !choosing_rank) {
    return Fail(ErrorKind::kPerfDatabase,
                fmt::format("context-parallel DeepSeek-V4 needs the scoring and choosing kernels "
                            "measured at {} heads, batch {}",
                            native_heads_, batch));
  }
  IC_ASSIGN(const double index_keys, gather(gathers_->index_keys, b * s));
  IC_ASSIGN(const double kv, gather(gathers_->kv, b * (s / 4)));
  return base + (*scoring_all / ranks - *scoring_rank) + (*choosing_all / ranks - *choosing_rank) +
         index_keys + kv;
}

}  // namespace infercast
