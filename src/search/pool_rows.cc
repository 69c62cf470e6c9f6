#include "search/pool_rows.h"

#include <tbb/parallel_for.h>

#include <utility>

namespace infercast {

PoolRows EvaluatePool(std::span<const ParallelLayout> layouts, const WorkerSource& source,
                      const Workload& workload, StaticMode mode,
                      std::span<const std::int64_t> batches, const EvaluationOptions& evaluation,
                      double accepted, Behaviour behaviour) {
  struct Part {
    std::shared_ptr<const Worker> worker;
    std::vector<StaticRow> rows;
    SearchTally tally;
  };
  std::vector<Part> parts(layouts.size());
  tbb::parallel_for(std::size_t{0}, layouts.size(), [&](std::size_t i) {
    Part& part = parts[i];
    Result<std::shared_ptr<const Worker>> worker = source(layouts[i]);
    if (!worker) {
      ++part.tally.failed_layouts;
      part.tally.failure = std::move(worker.error());
      return;
    }
    part.worker = *std::move(worker);
    for (const std::int64_t b : batches) {
      Result<StaticRow> row = EvaluateStatic(*part.worker, workload, b, mode, evaluation);
      if (!row) {
        if (IsMissingData(row.error().kind)) {
          ++part.tally.not_measured;
          continue;
        }
        ++part.tally.failed_layouts;
        part.tally.failure = std::move(row.error());
        return;
      }
      if (!row->verdict.fits()) {
        ++(row->verdict.oom ? part.tally.oom : part.tally.kv_oom);
        return;
      }
      ++part.tally.evaluated;
      // The reference's tables are rounded before they are composed.
      const bool round = behaviour == Behaviour::kReference;
      if (round) RoundColumns(*row);
      if (mode == StaticMode::kGeneration) ProjectSpeculation(*row, accepted, round);
      part.rows.push_back(*std::move(row));
    }
  });
  PoolRows pool;
  for (Part& part : parts) {
    pool.tally.Merge(part.tally);
    if (!part.worker) continue;
    pool.workers.push_back(part.worker);
    pool.rows.insert(pool.rows.end(), part.rows.begin(), part.rows.end());
  }
  return pool;
}

}  // namespace infercast
