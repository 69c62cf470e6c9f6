#include "operators/collectives.h"

#include <fmt/format.h>

#include <algorithm>

#include "operators/token_split.h"

namespace infercast {

namespace {

constexpr std::uint32_t kBigNodeGpus = 72;
constexpr std::uint32_t kBigNodeBackendGroup = 4;

// A curve over message sizes is held and blended in proportion to the size.
constexpr auto kProportional = [](std::span<const double> at) { return at[0]; };

// Time (ms) of a ring all-reduce of 2-byte elements.
double AllReduceSol(double elements, double gpus, double bandwidth) {
  return 2.0 * elements * 2.0 / gpus * (gpus - 1.0) / bandwidth * 1000.0;
}

// From a curve over `measured` GPUs to a group of `gpus` > `measured`.
double BeyondMeasured(double gpus, double measured, double bandwidth, double measured_bandwidth) {
  return (gpus - 1.0) / gpus * measured / std::max(measured - 1.0, 1.0) * measured_bandwidth /
         bandwidth;
}

// Group sizes below the given leading levels, or none.
std::optional<GridView> GroupSizes(const Result<const Table*>& table,
                                   std::initializer_list<Table::Key> keys) {
  if (!table) return std::nullopt;
  auto view = (*table)->Slice(keys);
  if (view && view->empty()) return std::nullopt;
  return view;
}

double Largest(const GridView& groups) { return groups.keys().back(); }

std::optional<GridView> CurveOf(const std::optional<GridView>& groups, double gpus) {
  if (!groups) return std::nullopt;
  const auto node = groups->Find(gpus);
  if (!node) return std::nullopt;
  return groups->Child(*node);
}

// Marks an answer whose curve was measured over fewer GPUs.
void MarkBorrowed(PerfResult& result, double factor) {
  result.latency_ms *= factor;
  result.energy_wms *= factor;
  result.origin.kind = OriginKind::kSubstituted;
}

}  // namespace

LibraryCollective::LibraryCollective(const Database& db, CommQuant dtype,
                                     std::string_view operation, std::uint32_t num_gpus)
    : store_(db.shared_store()),
      mode_(db.mode()),
      gpus_(num_gpus),
      element_bytes_(Profile(dtype).memory),
      bandwidth_(db.system().P2pBandwidth(num_gpus)) {
  if (operation == "all_reduce") {
    factor_ = 2.0;
  } else if (operation == "all_gather" || operation == "alltoall" ||
             operation == "reduce_scatter") {
    factor_ = 1.0;
  }
  if (db.IsSol()) return;

  const auto nccl = db.Get(TableId::kNccl);
  const auto oneccl = db.Get(TableId::kOneccl);
  const std::initializer_list<Table::Key> keys = {ToString(dtype), operation};
  const auto nccl_groups = GroupSizes(nccl, keys);
  const auto oneccl_groups = GroupSizes(oneccl, keys);
  const std::string name = fmt::format("{} {}", ToString(dtype), operation);

  double largest = 0;
  if (nccl_groups) largest = Largest(*nccl_groups);
  if (oneccl_groups) largest = std::max(largest, Largest(*oneccl_groups));
  measured_gpus_ = largest > 0 ? std::min(gpus_, largest) : gpus_;
  const std::string nccl_key = fmt::format("nccl {} {}", name, measured_gpus_);
  if (const auto curve = CurveOf(nccl_groups, measured_gpus_)) {
    curve_ = MeasuredSlice(db, *curve, -1, nccl_key);
  } else if (const auto other = CurveOf(oneccl_groups, measured_gpus_)) {
    curve_ = MeasuredSlice(db, *other, -1, "one" + nccl_key);
  } else if (!oneccl) {
    curve_ = MeasuredSlice(oneccl.error());
  } else {
    curve_ = MeasuredSlice(
        Error{ErrorKind::kPerfDatabase, fmt::format("no measurements of {}", nccl_key)});
  }
  if (measured_gpus_ < gpus_) {
    beyond_measured_ =
        BeyondMeasured(gpus_, measured_gpus_, bandwidth_,
                       db.system().P2pBandwidth(static_cast<std::uint32_t>(measured_gpus_)));
  }

  // Estimates keep to one table.
  const auto& groups = nccl ? nccl_groups : oneccl_groups;
  if (!groups) {
    const auto& table = nccl ? nccl : oneccl;
    if (!table) calibration_ = Calibration(table.error());
    return;
  }
  calibrated_gpus_ = std::min(gpus_, Largest(*groups));
  const auto curve = CurveOf(groups, calibrated_gpus_);
  if (!curve) return;
  calibration_ = Calibration(
      db, fmt::format("util/{} {} {}", nccl ? "nccl" : "oneccl", name, calibrated_gpus_),
      [view = *curve, factor = factor_, bytes = element_bytes_, gpus = calibrated_gpus_,
       bandwidth = db.system().P2pBandwidth(static_cast<std::uint32_t>(calibrated_gpus_))] {
        return UtilGrid::Build(view, [&](std::span<const double> at) {
          return factor * bytes * at[0] * (gpus - 1.0) / gpus / bandwidth * 1000.0;
        });
      });
}

double LibraryCollective::Sol(double elements, double gpus, double bandwidth) const {
  return factor_ * element_bytes_ * elements * (gpus - 1.0) / gpus / bandwidth * 1000.0;
}

Result<PerfResult> LibraryCollective::Query(double elements) const {
  return AnswerByMode(
      mode_,
      [&] {
        Sought sought = curve_.Seek(std::span(&elements, 1), kProportional);
        if (sought.ok() && measured_gpus_ < gpus_) {
          MarkBorrowed(sought.answer(), beyond_measured_);
        }
        return sought;
      },
      [&]() -> Result<PerfResult> {
        const double sol = Sol(elements, gpus_, bandwidth_);
        if (!(sol > 0)) {
          return PerfResult::Of(sol, 0, Source::kEmpirical, OriginKind::kAnalytic);
        }
        return calibration_.Estimate(std::span(&elements, 1), sol, "library collective", 1.0,
                                     calibrated_gpus_ < gpus_ ? Tier::kXshape : Tier::kEmpirical);
      },
      [&]() -> Result<PerfResult> { return PerfResult::Sol(0, Sol(elements, gpus_, bandwidth_)); });
}

BackendAllReduce::BackendAllReduce(const Database& db, CommQuant quant, std::uint32_t tp_size)
    : store_(db.shared_store()),
      mode_(db.mode()),
      gpus_(tp_size),
      bandwidth_(db.system().P2pBandwidth(tp_size)) {
  if (db.IsSol()) return;
  const SystemSpec& system = db.system();
  if (mode_ != DatabaseMode::kEmpirical && system.num_gpus_per_node == kBigNodeGpus &&
      tp_size > kBigNodeBackendGroup) {
    library_.emplace(db, quant, "all_reduce", tp_size);
    return;
  }

  const auto table = db.Get(TableId::kCustomAllReduce);
  const auto groups = GroupSizes(table, {ToString(quant)});
  measured_gpus_ = std::min(gpus_, groups ? Largest(*groups) : system.num_gpus_per_node);
  const std::string key = fmt::format("custom_allreduce {} {}", ToString(quant), measured_gpus_);
  const double measured_bandwidth = system.P2pBandwidth(static_cast<std::uint32_t>(measured_gpus_));
  if (measured_gpus_ < gpus_) {
    beyond_measured_ = BeyondMeasured(gpus_, measured_gpus_, bandwidth_, measured_bandwidth);
  }
  if (const auto curve = CurveOf(groups, measured_gpus_)) {
    curve_ = MeasuredSlice(db, *curve, -1, key);
    calibration_ =
        Calibration(db, "util/" + key, [view = *curve, gpus = measured_gpus_, measured_bandwidth] {
          return UtilGrid::Build(view, [&](std::span<const double> at) {
            return AllReduceSol(at[0], gpus, measured_bandwidth);
          });
        });
  } else {
    curve_ = MeasuredSlice(
        table ? Error{ErrorKind::kPerfDatabase, fmt::format("no measurements of {}", key)}
              : table.error());
    if (!table) calibration_ = Calibration(table.error());
  }
}

Result<PerfResult> BackendAllReduce::Query(double elements) const {
  if (library_) return library_->Query(elements);
  return AnswerByMode(
      mode_,
      [&] {
        Sought sought = curve_.Seek(std::span(&elements, 1), kProportional);
        if (sought.ok() && measured_gpus_ < gpus_) {
          MarkBorrowed(sought.answer(), beyond_measured_);
        }
        return sought;
      },
      [&]() -> Result<PerfResult> {
        const double sol = AllReduceSol(elements, gpus_, bandwidth_);
        if (!(sol > 0)) {
          return PerfResult::Of(sol, 0, Source::kEmpirical, OriginKind::kAnalytic);
        }
        return calibration_.Estimate(std::span(&elements, 1), sol, "all-reduce", 1.0,
                                     measured_gpus_ != gpus_ ? Tier::kXshape : Tier::kEmpirical);
      },
      [&]() -> Result<PerfResult> {
        // The bound is on the links, which the (math, memory) pair has no member for.
        PerfResult result = PerfResult::Sol(0, 0);
        result.latency_ms = AllReduceSol(elements, gpus_, bandwidth_);
        return result;
      });
}

BoundCustomAllReduce::BoundCustomAllReduce(const CustomAllReduce& op, const Database& db)
    : hidden_(op.hidden_size), scale_(op.scale_factor), seq_split_(op.seq_split) {
  if (op.tp_size > 1) collective_.emplace(db, op.quant, op.tp_size);
}

Result<PerfResult> BoundCustomAllReduce::Query(const QueryContext& ctx) const {
  if (!collective_) return PerfResult::Of(0, 0, Source::kEmpirical, OriginKind::kExact);
  Result<PerfResult> result =
      collective_->Query(TokensOfRank(ctx.num_tokens, 1, seq_split_) * hidden_);
  if (result) {
    result->Clamp();
    result->Scale(scale_);
  }
  return result;
}

BoundNccl::BoundNccl(const Nccl& op, const Database& db)
    : sol_(db.IsSol()), hidden_(op.hidden_size), scale_(op.scale_factor), seq_split_(op.seq_split) {
  if (op.num_gpus > 1) collective_.emplace(db, op.dtype, op.operation, op.num_gpus);
}

Result<PerfResult> BoundNccl::Query(const QueryContext& ctx) const {
  if (!collective_) {
    if (!sol_) return PerfResult::Of(0, 0, Source::kEmpirical, OriginKind::kExact);
    PerfResult none = PerfResult::Sol(0, 0);
    none.origin.kind = OriginKind::kExact;
    return none;
  }
  Result<PerfResult> result =
      collective_->Query(TokensOfRank(ctx.num_tokens, 1, seq_split_) * hidden_);
  if (result) {
    result->Clamp();
    result->Scale(scale_);
  }
  return result;
}

BoundP2P::BoundP2P(const P2P& op, const Database& db)
    : active_(op.pp_size > 1),
      sol_(db.IsSol()),
      hidden_(op.hidden_size),
      bandwidth_(std::max(db.system().inter_node_bw, 1.0)),
      latency_(db.system().p2p_latency),
      scale_(op.scale_factor),
      seq_split_(op.seq_split) {}

Result<PerfResult> BoundP2P::Query(const QueryContext& ctx) const {
  if (!active_) return PerfResult::Of(0, 0, Source::kSilicon, OriginKind::kExact);
  const double bytes = TokensOfRank(ctx.num_tokens, 1, seq_split_) * hidden_ * 2.0;
  PerfResult result = sol_ ? PerfResult::Sol(0, bytes / bandwidth_ * 1000.0)
                           : PerfResult::Of((bytes / bandwidth_ + latency_) * 1000.0, 0,
                                            Source::kEmpirical, OriginKind::kAnalytic);
  result.Clamp();
  result.Scale(scale_);
  return result;
}

}  // namespace infercast
