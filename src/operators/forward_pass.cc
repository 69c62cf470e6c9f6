// Whole-model forward passes looked up in measured iterations: strict cell identity, a domain gate,
// brackets between the batch sizes that share a CUDA-graph boundary, and utilisation transfer
// between neighbouring (batch, KV) sites.
#include "operators/forward_pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "interpolation/sites.h"
#include "operators/forward_roofline.h"

namespace infercast {

namespace {

constexpr std::size_t kIdentityValues = 15;
constexpr double kFlatBatchTolerance = 0.05;
constexpr std::size_t kFlatBatchEvidence = 3;

struct Bounds {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool Contains(double value) const { return value >= low && value <= high; }
};

std::string JoinIdentity(const std::vector<std::string>& values) {
  std::string joined;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) joined += '|';
    joined += values[i];
  }
  return joined;
}

// A position on a curve inside its span: the value and the leaf nearest to it.
struct CurveValue {
  double latency = 0;
  std::uint32_t leaf = 0;
  bool measured = false;
};

CurveValue InsideCurve(const GridView& curve, double q) {
  const auto keys = curve.keys();
  const auto& latency = curve.table->latency;
  const auto upper = std::lower_bound(keys.begin(), keys.end(), q);
  const auto hi = curve.begin + static_cast<std::uint32_t>(upper - keys.begin());
  if (*upper == q) return {latency[hi], hi, true};
  const std::uint32_t lo = hi - 1;
  const double w = (q - *(upper - 1)) / (*upper - *(upper - 1));
  return {latency[lo] + (latency[hi] - latency[lo]) * w, w < 0.5 ? lo : hi, false};
}

bool Covers(const GridView& curve, double q) {
  const auto keys = curve.keys();
  return !keys.empty() && q >= keys.front() && q <= keys.back();
}

bool IsPositive(double value) { return std::isfinite(value) && value > 0.0; }

}  // namespace

struct BoundFpmForward::State {
  std::shared_ptr<const TableStore> store;
  Behaviour behaviour = Behaviour::kNative;
  FpmPhase phase{};
  std::string model_path;
  std::optional<Error> unusable;  // no table or no cell of this phase: the answer to every query
  Result<ForwardRoofline> roofline;
  GridView cell;                    // prefill: batch, KV, tokens; decode: batch, KV
  std::array<Bounds, 3> domain;     // batch; prefill tokens or decode KV; prefill past KV
  std::optional<double> max_batch;  // prefill: larger batches cost what this one does
  std::vector<double> rungs;        // decode: batches b with b + 1 collected too
  std::unique_ptr<const SiteIndex> sites;

  explicit State(const FpmForward& op, const Database& db);
  void IndexPrefill();
  void IndexDecode();
  bool BatchAxisIsFlat() const;

  double Roofline(double batch, double tokens_or_kv, double past_kv) const;
  Result<PerfResult> Prefill(double batch, double tokens, double past_kv) const;
  Result<PerfResult> Decode(double batch, double kv) const;
  Status CheckDomain(std::span<const double> coords) const;
  // The collected rows around a batch size that was not collected, if brackets apply to it.
  struct Bracket {
    std::uint32_t lo = 0, hi = 0;
    double lo_batch = 0, hi_batch = 0;
  };
  std::optional<Bracket> BracketOf(double batch) const;
  Error NotCovered(const Bracket& bracket, double kv) const;
  Result<PerfResult> Transfer(std::span<const double> site, double q, SolFunction sol,
                              double factor) const;
  PerfResult Answer(double latency, OriginKind kind, std::uint32_t leaf, float octaves) const;
};

BoundFpmForward::State::State(const FpmForward& op, const Database& db)
    : store(db.shared_store()),
      behaviour(db.behaviour()),
      phase(op.phase),
      model_path(op.model_path),
      roofline(ForwardRoofline::Compile(op.sol_ops, db.system())) {
  const bool prefill = phase == FpmPhase::kPrefill;
  const auto table = db.Get(prefill ? TableId::kFpmPrefill : TableId::kFpmDecode);
  if (!table) {
    unusable = table.error();
    return;
  }
  const std::string identity = JoinIdentity(op.match_identity);
  const auto slice = op.match_identity.size() == kIdentityValues
                         ? (*table)->Slice({model_path, identity})
                         : std::nullopt;
  if (!slice || slice->empty()) {
    unusable = Error{ErrorKind::kPerfDatabase,
                     fmt::format("no whole-model {} rows for model '{}' with identity {}; another "
                                 "model's rows are never used instead",
                                 ToString(phase), model_path, identity)};
    return;
  }
  cell = *slice;
  prefill ? IndexPrefill() : IndexDecode();
}

void BoundFpmForward::State::IndexPrefill() {
  const Table& table = *cell.table;
  std::vector<SiteIndex::Site> site_list;
  for (std::uint32_t b = cell.begin; b < cell.end; ++b) {
    const double batch = table.levels[cell.level].keys[b];
    domain[0].Include(batch);
    const GridView kvs = cell.Child(b);
    for (std::uint32_t k = kvs.begin; k < kvs.end; ++k) {
      const double kv = table.levels[kvs.level].keys[k];
      domain[2].Include(kv);
      SiteIndex::Site site{{batch, kv}, {}};
      const GridView curve = kvs.Child(k);
      for (std::uint32_t i = curve.begin; i < curve.end; ++i) {
        const double tokens = table.levels[curve.level].keys[i];
        domain[1].Include(tokens);
        site.curve.push_back({tokens, table.latency[i], 0.0, i});
      }
      site_list.push_back(std::move(site));
    }
  }
  sites = std::make_unique<SiteIndex>(std::move(site_list),
                                      SiteIndex::Options{.own_curve_fallback = true});
  if (BatchAxisIsFlat()) max_batch = domain[0].high;
}

// Whether more requests of the same total cost the same: the median deviation between neighbouring
// batch sizes at equal KV, over the points that the smaller one's sweep covers.
bool BoundFpmForward::State::BatchAxisIsFlat() const {
  if (cell.size() < 2) return false;
  const Table& table = *cell.table;
  std::vector<double> deviations;
  for (std::uint32_t b = cell.begin; b + 1 < cell.end; ++b) {
    const GridView small = cell.Child(b);
    const GridView large = cell.Child(b + 1);
    for (std::uint32_t k = large.begin; k < large.end; ++k) {
      const auto same_kv = small.Find(table.levels[large.level].keys[k]);
      if (!same_kv) continue;
      const GridView base_curve = small.Child(*same_kv);
      const GridView curve = large.Child(k);
      for (std::uint32_t i = curve.begin; i < curve.end; ++i) {
        const double tokens = table.levels[curve.level].keys[i];
        if (!Covers(base_curve, tokens)) continue;
        const double base = InsideCurve(base_curve, tokens).latency;
        if (base > 0.0) deviations.push_back(std::abs(table.latency[i] / base - 1.0));
      }
    }
  }
  if (deviations.size() < kFlatBatchEvidence) return false;
  std::sort(deviations.begin(), deviations.end());
  const std::size_t mid = deviations.size() / 2;
  const double median =
      deviations.size() % 2 == 1 ? deviations[mid] : (deviations[mid - 1] + deviations[mid]) / 2.0;
  return median <= kFlatBatchTolerance;
}

void BoundFpmForward::State::IndexDecode() {
  const Table& table = *cell.table;
  std::vector<SiteIndex::Site> site_list;
  for (std::uint32_t b = cell.begin; b < cell.end; ++b) {
    const double batch = table.levels[cell.level].keys[b];
    domain[0].Include(batch);
    if (cell.Find(batch + 1.0)) rungs.push_back(batch);
    SiteIndex::Site site{{batch}, {}};
    const GridView curve = cell.Child(b);
    for (std::uint32_t i = curve.begin; i < curve.end; ++i) {
      const double kv = table.levels[curve.level].keys[i];
      domain[1].Include(kv);
      site.curve.push_back({kv, table.latency[i], 0.0, i});
    }
    site_list.push_back(std::move(site));
  }
  sites = std::make_unique<SiteIndex>(std::move(site_list),
                                      SiteIndex::Options{.own_curve_fallback = true});
}

double BoundFpmForward::State::Roofline(double batch, double tokens_or_kv, double past_kv) const {
  if (!roofline) return std::numeric_limits<double>::quiet_NaN();
  const bool prefill = phase == FpmPhase::kPrefill;
  return roofline->Evaluate({.tokens = prefill ? tokens_or_kv : batch,
                             .requests = batch,
                             .length = std::max(tokens_or_kv / batch, 1.0),
                             .prefix = prefill ? past_kv / batch : 0.0});
}

PerfResult BoundFpmForward::State::Answer(double latency, OriginKind kind, std::uint32_t leaf,
                                          float octaves) const {
  PerfResult result = PerfResult::Of(latency, 0.0, Source::kSilicon, kind);
  const Table& table = *cell.table;
  result.origin.source = &table.sources[table.source[leaf]];
  result.origin.octaves = octaves;
  return result;
}

Status BoundFpmForward::State::CheckDomain(std::span<const double> coords) const {
  constexpr std::array<const char*, 3> kPrefillAxes = {"requests", "new tokens", "past KV tokens"};
  constexpr std::array<const char*, 2> kDecodeAxes = {"requests", "KV tokens"};
  for (std::size_t i = 0; i < coords.size(); ++i) {
    if (domain[i].Contains(coords[i])) continue;
    return Fail(
        ErrorKind::kPerfDatabase,
        fmt::format("whole-model {} query: {} = {} is outside the collected range [{}, {}] "
                    "of '{}'; this model never extrapolates",
                    ToString(phase), phase == FpmPhase::kPrefill ? kPrefillAxes[i] : kDecodeAxes[i],
                    coords[i], domain[i].low, domain[i].high, model_path));
  }
  return {};
}

Result<PerfResult> BoundFpmForward::State::Transfer(std::span<const double> site, double q,
                                                    SolFunction sol, double factor) const {
  const ResolveResult resolved = sites->Resolve(site, q, sol);
  if (!resolved) {
    return Fail(ErrorKind::kPerfDatabase,
                fmt::format("whole-model {} query of '{}' cannot be anchored: {}{}",
                            ToString(phase), model_path, ToString(resolved.error()),
                            roofline ? "" : "; no roofline: " + roofline.error().message));
  }
  const double latency = resolved->latency * factor;
  if (!IsPositive(latency)) {
    return Fail(ErrorKind::kPerfDatabase,
                fmt::format("whole-model {} query of '{}' gave an invalid latency ({})",
                            ToString(phase), model_path, latency));
  }
  const OriginKind kind = resolved->kind == ResolveKind::kPoint ? OriginKind::kPoint
                          : resolved->kind == ResolveKind::kInterpolated
                              ? OriginKind::kInterpolated
                              : OriginKind::kExtrapolated;
  return Answer(latency, kind, resolved->leaf, resolved->octaves);
}

Result<PerfResult> BoundFpmForward::State::Prefill(double batch, double tokens,
                                                   double past_kv) const {
  if (unusable) return std::unexpected(*unusable);
  double factor = 1.0;
  if (max_batch && batch > *max_batch) {
    if (past_kv < 2.0 * tokens) {
      batch = *max_batch;
    } else {
      // Attention over a long past depends on how it is divided: correct by the roofline.
      const double asked = Roofline(batch, tokens, past_kv);
      const double clamped = Roofline(*max_batch, tokens, past_kv);
      if (IsPositive(asked) && IsPositive(clamped)) {
        batch = *max_batch;
        factor = std::min(asked / clamped, 1.0);
      }
    }
  }
  const std::array<double, 3> coords = {batch, tokens, past_kv};
  IC_RETURN_IF_ERROR(CheckDomain(coords));
  const std::array<double, 2> site = {batch, past_kv};
  const auto sol = [this](std::span<const double> at) { return Roofline(at[0], at[2], at[1]); };
  return Transfer(site, tokens, sol, factor);
}

std::optional<BoundFpmForward::State::Bracket> BoundFpmForward::State::BracketOf(
    double batch) const {
  const auto above = std::lower_bound(rungs.begin(), rungs.end(), batch);
  if (above == rungs.begin() || cell.Find(batch)) return std::nullopt;
  Bracket bracket;
  bracket.lo_batch = *(above - 1) + 1.0;
  bracket.hi_batch = above == rungs.end() ? domain[0].high : *above;
  bracket.lo = *cell.Find(bracket.lo_batch);
  bracket.hi = *cell.Find(bracket.hi_batch);
  return bracket;
}

Error BoundFpmForward::State::NotCovered(const Bracket& bracket, double kv) const {
  return {ErrorKind::kPerfDatabase,
          fmt::format("whole-model decode query of '{}': the rows of {} and {} requests around it "
                      "do not cover {} KV tokens",
                      model_path, bracket.lo_batch, bracket.hi_batch, kv)};
}

Result<PerfResult> BoundFpmForward::State::Decode(double batch, double kv) const {
  if (unusable) return std::unexpected(*unusable);
  const std::array<double, 2> coords = {batch, kv};
  IC_RETURN_IF_ERROR(CheckDomain(coords));
  if (const auto bracket = BracketOf(batch)) {
    const GridView lo = cell.Child(bracket->lo);
    const GridView hi = cell.Child(bracket->hi);
    const bool lo_covers = Covers(lo, kv);
    const bool hi_covers = Covers(hi, kv);
    if (!lo_covers && !hi_covers) return std::unexpected(NotCovered(*bracket, kv));
    CurveValue value = InsideCurve(lo_covers ? lo : hi, kv);
    if (lo_covers && hi_covers && bracket->lo != bracket->hi) {
      const CurveValue upper = InsideCurve(hi, kv);
      value.latency += (upper.latency - value.latency) * (batch - bracket->lo_batch) /
                       (bracket->hi_batch - bracket->lo_batch);
    }
    if (!IsPositive(value.latency)) {
      return Fail(ErrorKind::kPerfDatabase,
                  fmt::format("whole-model decode query of '{}' gave an invalid latency ({})",
                              model_path, value.latency));
    }
    return Answer(value.latency, OriginKind::kInterpolated, value.leaf, 0);
  }
  const std::array<double, 1> site = {batch};
  const auto sol = [this](std::span<const double> at) { return Roofline(at[0], at[1], 0.0); };
  return Transfer(site, kv, sol, 1.0);
}

BoundFpmForward::BoundFpmForward(const FpmForward& op, const Database& db)
    : phase_(op.phase), state_(std::make_shared<const State>(op, db)) {}

Result<PerfResult> BoundFpmForward::Query(const QueryContext& ctx) const {
  if (ctx.batch_size < 1 || ctx.s < 1) {
    return Fail(ErrorKind::kPerfDatabase,
                fmt::format("a whole-model query needs at least one request and one token, got {} "
                            "and {}",
                            ctx.batch_size, ctx.s));
  }
  if (ctx.beam_width != 1) {
    return Fail(
        ErrorKind::kPerfDatabase,
        fmt::format("whole-model data holds no beam search (beam width {})", ctx.beam_width));
  }
  const double batch = ctx.batch_size;
  if (phase_ == FpmPhase::kPrefill) {
    return state_->Prefill(batch, batch * ctx.s, batch * ctx.prefix);
  }
  return state_->Decode(batch, batch * ctx.s);
}

Result<PerfResult> BoundFpmForward::QueryPrefillTotals(double requests, double new_tokens,
                                                       double past_kv) const {
  if (phase_ != FpmPhase::kPrefill) {
    return Fail(ErrorKind::kInternal, "prefill totals asked of a decode pass");
  }
  return state_->Prefill(requests, new_tokens, past_kv);
}

Result<PerfResult> BoundFpmForward::QueryDecodeTotals(double requests, double kv_tokens) const {
  if (phase_ != FpmPhase::kDecode) {
    return Fail(ErrorKind::kInternal, "decode totals asked of a prefill pass");
  }
  return state_->Decode(requests, kv_tokens);
}

Result<PerfResult> BoundFpmForward::QueryPassBaseline(double requests, double kv_tokens) const {
  if (phase_ != FpmPhase::kDecode) {
    return Fail(ErrorKind::kInternal, "the pass baseline asked of a prefill pass");
  }
  const State& state = *state_;
  if (requests < 1.0) {
    return Fail(ErrorKind::kPerfDatabase,
                fmt::format("a pass baseline needs at least one request, got {}", requests));
  }
  if (state.unusable) return std::unexpected(*state.unusable);
  const auto floor_of = [&](std::uint32_t row) { return state.cell.Child(row).begin; };
  if (state.behaviour == Behaviour::kNative) {
    if (const auto own = state.cell.Find(requests)) {
      const std::uint32_t leaf = floor_of(*own);
      return state.Answer(state.cell.table->latency[leaf], OriginKind::kPoint, leaf, 0);
    }
    if (const auto bracket = state.BracketOf(requests);
        bracket && state.domain[0].Contains(requests)) {
      const bool lo_covers = Covers(state.cell.Child(bracket->lo), kv_tokens);
      const bool hi_covers = Covers(state.cell.Child(bracket->hi), kv_tokens);
      if (!lo_covers && !hi_covers) return std::unexpected(state.NotCovered(*bracket, kv_tokens));
      const std::uint32_t leaf = floor_of(lo_covers ? bracket->lo : bracket->hi);
      double latency = state.cell.table->latency[leaf];
      if (lo_covers && hi_covers && bracket->lo != bracket->hi) {
        const double upper = state.cell.table->latency[floor_of(bracket->hi)];
        latency += (upper - latency) * (requests - bracket->lo_batch) /
                   (bracket->hi_batch - bracket->lo_batch);
      }
      return state.Answer(latency, OriginKind::kInterpolated, leaf, 0);
    }
  }
  return state.Decode(requests, std::max(requests, state.domain[1].low));
}

std::optional<double> BoundFpmForward::DecodeKvCeiling() const {
  if (phase_ != FpmPhase::kDecode || state_->unusable) return std::nullopt;
  return state_->domain[1].high;
}

}  // namespace infercast
