// Binding and querying the token exchange.
#include "operators/moe_all_to_all.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace infercast {

namespace {

constexpr std::string_view kThroughputLibrary = "deepep_ht";
constexpr std::uint32_t kThroughputSms =
    20;  // budget at which its single-node curve is taken as is
constexpr std::uint32_t kSglangNodeGpus = 8;

struct Topology {
  std::uint32_t ep = 0;
  std::uint32_t nodes = 0;
};

// The (SM budget, tokens) grid of an operator in one topology and direction.
std::optional<GridView> GridOf(const Table& table, const MoeAllToAll& op, std::string_view phase,
                               std::string_view dtype, Topology at) {
  const auto view = table.Slice(
      {op.comm_backend, phase, dtype, at.ep, at.nodes, op.hidden_size, op.topk, op.num_experts});
  return view && !view->empty() ? view : std::nullopt;
}

// Sum of two (SM budget, tokens) grids at the points both have, as a table of its own; null when
// they share none.
std::shared_ptr<const Table> SumOf(const GridView& a, const GridView& b) {
  struct Arrays {
    std::vector<double> sms, tokens, latency, zero;
    std::vector<std::uint32_t> child_begin;
  };
  auto arrays = std::make_shared<Arrays>();
  for (std::uint32_t n = a.begin; n < a.end; ++n) {
    const double sms = a.keys()[n - a.begin];
    const auto twin = b.Find(sms);
    if (!twin) continue;
    const GridView curve = a.Child(n);
    const GridView twin_curve = b.Child(*twin);
    const std::size_t first = arrays->tokens.size();
    for (std::uint32_t leaf = curve.begin; leaf < curve.end; ++leaf) {
      const double tokens = curve.keys()[leaf - curve.begin];
      const auto twin_leaf = twin_curve.Find(tokens);
      if (!twin_leaf) continue;
      arrays->tokens.push_back(tokens);
      arrays->latency.push_back(a.table->latency[leaf] + b.table->latency[*twin_leaf]);
    }
    if (arrays->tokens.size() == first) continue;
    arrays->sms.push_back(sms);
    arrays->child_begin.push_back(static_cast<std::uint32_t>(first));
  }
  if (arrays->tokens.empty()) return nullptr;
  arrays->child_begin.push_back(static_cast<std::uint32_t>(arrays->tokens.size()));
  arrays->zero.assign(arrays->tokens.size(), 0.0);

  auto table = std::make_shared<Table>();
  table->name = "moe_a2a_round_trip";
  table->levels.resize(2);
  table->levels[0].name = "sms";
  table->levels[0].keys = arrays->sms;
  table->levels[0].child_begin = arrays->child_begin;
  table->levels[1].name = "num_tokens";
  table->levels[1].keys = arrays->tokens;
  table->latency = arrays->latency;
  table->power = arrays->zero;
  table->energy = arrays->zero;
  table->storage = std::move(arrays);
  return table;
}

// Speed of light of a (SM budget, tokens) point: only the ratio between token counts matters.
constexpr auto kTokens = [](std::span<const double> sms_and_tokens) { return sms_and_tokens[1]; };

}  // namespace

Status ValidateMoeAllToAll(const MoeAllToAll& op) {
  const MoeCommBackend* library = FindMoeCommBackend(op.comm_backend);
  if (library == nullptr) {
    return Fail(ErrorKind::kInvalidEngineConfig,
                fmt::format("unknown all-to-all library \"{}\" (known: {})", op.comm_backend,
                            MoeCommBackendNames()));
  }
  const auto phase = ParseEnum<MoeCommPhase>(op.phase);
  if (!phase) {
    return Fail(ErrorKind::kInvalidEngineConfig,
                fmt::format("unknown all-to-all phase \"{}\" (known: prepare, dispatch, combine)",
                            op.phase));
  }
  if (!library->Has(*phase)) {
    return Fail(ErrorKind::kInvalidEngineConfig,
                fmt::format("{} has no {} phase", op.comm_backend, op.phase));
  }
  return {};
}

std::optional<std::string> ResolveCommDtype(const Table& table, std::string_view comm_backend,
                                            std::string_view phase, std::string_view wanted) {
  const auto dtypes = table.Slice({comm_backend, phase});
  if (!dtypes) return std::nullopt;
  if (table.Slice(*dtypes, {wanted})) return std::string(wanted);
  if (wanted == "fp8_block" && table.Slice(*dtypes, {"fp8"})) return "fp8";
  if (dtypes->size() == 1 && table.TextAt(dtypes->level, dtypes->begin) == "default") {
    return "default";
  }
  return std::nullopt;
}

BoundMoeAllToAll::BoundMoeAllToAll(const MoeAllToAll& op, const Database& db)
    : store_(db.shared_store()),
      mode_(db.mode()),
      attention_tp_(std::max(op.attention_tp_size, 1u)),
      sms_(op.sms),
      scale_factor_(op.scale_factor) {
  if (Status bound = Bind(op, db); !bound) error_ = std::move(bound.error());
}

namespace {

// A hybrid query has nothing to estimate from, and says that rather than what was missing.
Error AsAnswered(Error error, DatabaseMode mode) {
  if (mode == DatabaseMode::kHybrid && IsMissingData(error.kind)) {
    return {
        ErrorKind::kEmpiricalNotImplemented,
        "no estimate exists for an all-to-all exchange that was not measured: " + error.message};
  }
  return error;
}

}  // namespace

Status BoundMoeAllToAll::Bind(const MoeAllToAll& op, const Database& db) {
  IC_RETURN_IF_ERROR(ValidateMoeAllToAll(op));
  if (mode_ != DatabaseMode::kSilicon && mode_ != DatabaseMode::kHybrid) {
    return Fail(ErrorKind::kEmpiricalNotImplemented,
                "an all-to-all exchange is known by measurement only: use SILICON or HYBRID");
  }
  IC_ASSIGN(const Table* loaded, db.Get(TableId::kMoeAllToAll));
  const Table& table = *loaded;

  const auto dtype = ResolveCommDtype(table, op.comm_backend, op.phase, op.comm_dtype);
  Topology at{op.moe_ep_size, op.node_num};
  auto grid = dtype ? GridOf(table, op, op.phase, *dtype, at) : std::nullopt;
  if (!grid && op.node_num > 1 && FindMoeCommBackend(op.comm_backend)->single_node_donor) {
    at = {db.backend() == Backend::kSglang ? kSglangNodeGpus : db.system().num_gpus_per_node, 1};
    grid = dtype ? GridOf(table, op, op.phase, *dtype, at) : std::nullopt;
    record_ = std::make_shared<const CommFallback>(
        CommFallback{op.comm_backend, op.moe_ep_size, op.node_num, at.ep, at.nodes});
  }
  if (!grid) {
    return std::unexpected(AsAnswered(
        {ErrorKind::kPerfDatabase,
         fmt::format(
             "no all-to-all measurements for {} {}, payload {}, ep={}, nodes={}, hidden={}, "
             "topk={}, experts={}",
             op.comm_backend, op.phase, dtype ? *dtype : op.comm_dtype, at.ep, at.nodes,
             op.hidden_size, op.topk, op.num_experts)},
        mode_));
  }

  const auto name = [&](std::string_view phase, std::string_view payload) {
    return fmt::format("moe_a2a/{}/{}/{}/{},{}/{},{},{}", op.comm_backend, phase, payload, at.ep,
                       at.nodes, op.hidden_size, op.topk, op.num_experts);
  };
  const bool throughput = op.comm_backend == kThroughputLibrary;
  if (!throughput || (at.nodes == 1 && op.sms == kThroughputSms)) {
    if (const auto budget = grid->Find(op.sms)) {
      curve_.emplace(grid->Child(*budget), name(op.phase, *dtype),
                     MeasuredCurve::BelowSingle::kHold);
      return {};
    }
  }
  grid_.emplace(db, *grid, -1, name(op.phase, *dtype));
  if (!throughput) return {};

  const std::string_view other =
      ToString(op.phase == ToString(MoeCommPhase::kDispatch) ? MoeCommPhase::kCombine
                                                             : MoeCommPhase::kDispatch);
  const auto other_dtype = ResolveCommDtype(table, op.comm_backend, other, op.comm_dtype);
  if (!other_dtype) {
    return std::unexpected(AsAnswered(
        {ErrorKind::kPerfDatabase,
         fmt::format("no all-to-all measurements for {} {}, payload {}, to balance {} against",
                     op.comm_backend, other, op.comm_dtype, op.phase)},
        mode_));
  }
  const auto other_grid = GridOf(table, op, other, *other_dtype, at);
  if (!other_grid) return {};
  const std::string sum_key = name(op.phase, *dtype) + "+" + name(other, *other_dtype);
  const auto sum =
      db.store().Memo<Table>("a2a_sum/" + sum_key, [&] { return SumOf(*grid, *other_grid); });
  if (sum == nullptr) return {};
  round_trip_.emplace(RoundTrip{MeasuredSlice(db, *other_grid, -1, name(other, *other_dtype)),
                                MeasuredSlice(db, sum->Root(), -1, sum_key)});
  return {};
}

Result<PerfResult> BoundMoeAllToAll::LookUp(double tokens) const {
  if (curve_) return curve_->Measured(tokens, [](std::span<const double> c) { return c[0]; });
  const std::array<double, 2> at{sms_, tokens};
  IC_ASSIGN(PerfResult result, grid_->Measured(at, kTokens));
  if (!round_trip_) return result;
  // The two directions of a round trip were measured together: share out the round trip's time.
  IC_ASSIGN(const PerfResult other, round_trip_->other.Measured(at, kTokens));
  IC_ASSIGN(const PerfResult sum, round_trip_->sum.Measured(at, kTokens));
  const double total = result.latency_ms + other.latency_ms;
  if (total > 0) result.latency_ms = result.latency_ms * sum.latency_ms / total;
  return result;
}

Result<PerfResult> BoundMoeAllToAll::Query(const QueryContext& ctx) const {
  if (error_) return std::unexpected(*error_);
  const auto tokens = ctx.num_tokens / attention_tp_;  // whole ones
  auto result = LookUp(static_cast<double>(tokens));
  if (!result) return std::unexpected(AsAnswered(std::move(result.error()), mode_));
  result->energy_wms = 0;  // not measured
  if (record_) {
    result->source = Source::kEstimated;
    result->origin.kind = OriginKind::kSubstituted;
    result->fallbacks.Add(record_.get());
  }
  result->Scale(scale_factor_);
  return result;
}

}  // namespace infercast
