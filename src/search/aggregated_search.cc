#include "search/aggregated_search.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include "base/float_division.h"
#include "search/order.h"
#include "serving/disaggregated.h"

namespace infercast {

namespace {

constexpr std::size_t kNearestMisses = 5;

// What one layout contributes.
struct LayoutResult : LayoutPoints {
  std::vector<std::uint32_t> chosen;  // positions in `points`, in order of first selection
  std::vector<std::uint32_t> cut;     // equal to the last chosen one of a target, but not chosen
};

double TargetDistance(const AggregatedRow& row, std::span<const LatencyTarget> targets) {
  double best = INFINITY;
  for (const LatencyTarget& t : targets) {
    best = std::min(best, std::max(row.ttft / t.ttft, row.tpot / t.tpot));
  }
  return best;
}

void EvaluatePoints(const Workload& workload, const AggregatedSearchOptions& options,
                    Behaviour behaviour, LayoutPoints& out) {
  const Worker& worker = *out.worker;
  const std::int64_t isl = workload.isl + worker.VisualTokensOf(workload);
  EvaluationOptions evaluation;
  evaluation.memory_fraction = options.memory_fraction;
  evaluation.max_seq_len = options.max_seq_len;
  if (options.speculation.accepted > 0) {
    evaluation.decode_progress = options.speculation.progress();
  }
  const bool skips_similar =
      behaviour == Behaviour::kReference && !(options.speculation.accepted > 0);
  const std::vector<std::int64_t> grid =
      ContextTokenGrid(isl, options.context_stride, options.chunked_prefill);
  std::set<double> seen;
  for (const std::int64_t b : AggregatedBatches(options.max_batch)) {
    for (const std::int64_t ctx : grid) {
      const std::int64_t prefills = (ctx + isl - 1) / isl;
      if (b - prefills < 0 || (b > 1 && b - prefills < 1)) break;
      if (skips_similar) {
        // The reference takes points with the same number of decodes per mixed step for equal.
        const double balance = static_cast<double>(isl * b) / static_cast<double>(ctx) /
                               static_cast<double>(workload.osl);
        if (balance > 1) {
          const double key = ExactFloorDivide(static_cast<double>(b), balance);
          if (key > 1 && seen.contains(key)) continue;
          seen.insert(key);
        }
      }
      Result<AggregatedRow> row = EvaluateAggregated(worker, workload, b, ctx, evaluation);
      if (!row) {
        // A missing measurement is a gap, not a fault of the layout; natively so is a missing
        // estimate.
        const bool gap = IsMissingData(row.error().kind) ||
                         (behaviour == Behaviour::kNative &&
                          row.error().kind == ErrorKind::kEmpiricalNotImplemented);
        if (gap) {
          ++out.tally.not_measured;
          continue;
        }
        ++out.tally.failed_layouts;
        out.tally.failure = std::move(row.error());
        return;
      }
      if (!row->verdict.fits()) {
        ++(row->verdict.oom ? out.tally.oom : out.tally.kv_oom);
        break;
      }
      ++out.tally.evaluated;
      out.points.push_back(*std::move(row));
    }
  }
}

// The reference keeps, per target, the best few rows by rounded rate.
void SelectAsReference(std::span<const LatencyTarget> targets, std::size_t limit,
                       LayoutResult& out) {
  std::vector<AggregatedRow> rounded = out.points;
  for (AggregatedRow& row : rounded) RoundColumns(row);
  std::vector<std::uint8_t> taken(out.points.size(), 0);
  std::vector<std::uint32_t> meets;
  for (const LatencyTarget& target : targets) {
    meets.clear();
    for (std::uint32_t i = 0; i < out.points.size(); ++i) {
      if (out.points[i].tpot <= target.tpot && out.points[i].ttft <= target.ttft) {
        meets.push_back(i);
      }
    }
    Descending(meets, Behaviour::kReference, [&](std::uint32_t i) { return rounded[i].seq_s; });
    if (limit > 0 && meets.size() > limit) {
      for (std::size_t k = limit; k < meets.size(); ++k) {
        if (rounded[meets[k]].seq_s == rounded[meets[limit - 1]].seq_s) out.cut.push_back(meets[k]);
      }
      meets.resize(limit);
    }
    for (const std::uint32_t i : meets) {
      if (taken[i] == 0) {
        taken[i] = 1;
        out.chosen.push_back(i);
      }
    }
  }
  std::erase_if(out.cut, [&](std::uint32_t i) { return taken[i] != 0; });
  std::sort(out.cut.begin(), out.cut.end());
  out.cut.erase(std::unique(out.cut.begin(), out.cut.end()), out.cut.end());
  out.points = std::move(rounded);
}

void SelectAll(std::span<const LatencyTarget> targets, LayoutResult& out) {
  for (std::uint32_t i = 0; i < out.points.size(); ++i) {
    const AggregatedRow& row = out.points[i];
    const bool meets =
        std::any_of(targets.begin(), targets.end(), [&](const LatencyTarget& target) {
          return row.tpot <= target.tpot && row.ttft <= target.ttft;
        });
    if (meets) out.chosen.push_back(i);
  }
}

}  // namespace

LayoutPoints EvaluateLayout(const ParallelLayout& layout, const WorkerSource& source,
                            const Workload& workload, const AggregatedSearchOptions& options,
                            Behaviour behaviour) {
  LayoutPoints out;
  Result<std::shared_ptr<const Worker>> worker = source(layout);
  if (!worker) {
    ++out.tally.failed_layouts;
    out.tally.failure = std::move(worker.error());
    return out;
  }
  out.worker = *std::move(worker);
  EvaluatePoints(workload, options, behaviour, out);
  return out;
}

AggregatedSearchResult SearchAggregated(std::span<const ParallelLayout> layouts,
                                        const WorkerSource& source, const Workload& workload,
                                        std::span<const LatencyTarget> targets,
                                        const AggregatedSearchOptions& options,
                                        Behaviour behaviour) {
  std::vector<LayoutResult> parts(layouts.size());
  tbb::parallel_for(std::size_t{0}, layouts.size(), [&](std::size_t i) {
    LayoutResult& part = parts[i];
    static_cast<LayoutPoints&>(part) =
        EvaluateLayout(layouts[i], source, workload, options, behaviour);
    if (!part.worker) return;
    if (behaviour == Behaviour::kReference) {
      SelectAsReference(targets, options.rows_per_target, part);
    } else {
      SelectAll(targets, part);
    }
  });

  AggregatedSearchResult result;
  for (LayoutResult& part : parts) {
    result.tally.Merge(part.tally);
    if (!part.worker) continue;
    std::vector<std::uint8_t> taken(part.points.size(), 0);
    for (const std::uint32_t i : part.chosen) {
      result.rows.push_back(part.points[i]);
      taken[i] = 1;
    }
    for (const std::uint32_t i : part.cut) result.cut_ties.push_back(part.points[i]);
    for (std::size_t i = 0; i < part.points.size(); ++i) {
      if (taken[i] == 0) {
        ++result.tally.missed;
        result.nearest_misses.push_back(part.points[i]);
      }
    }
    result.workers.push_back(part.worker);
  }
  SortByValue(result.rows, behaviour);
  std::stable_sort(result.nearest_misses.begin(), result.nearest_misses.end(),
                   [&](const AggregatedRow& a, const AggregatedRow& b) {
                     return TargetDistance(a, targets) < TargetDistance(b, targets);
                   });
  if (result.nearest_misses.size() > kNearestMisses) result.nearest_misses.resize(kNearestMisses);
  return result;
}

}  // namespace infercast
