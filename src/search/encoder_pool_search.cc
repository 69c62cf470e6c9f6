#include "search/encoder_pool_search.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "search/aggregated_search.h"
#include "search/encoder_cells.h"
#include "search/order.h"
#include "search/pool_rows.h"
#include "search/run_task.h"

namespace infercast {

namespace {

constexpr std::size_t kRowsPerTarget = 10;  // aggregated, per layout, target and encode worker
constexpr std::size_t kPrefillChoices = 32;
constexpr std::size_t kDecodeChoicesPerLayout = 16;

std::int64_t MaxEncodeWorkers(const ResolvedTask& task) {
  return task.task.epd.max_workers.value_or(kMaxEncodeWorkers);
}

template <typename Row>
const Row& FiguresOf(const TaskRow& row) {
  return std::get<Row>(row.figures);
}

// --- aggregated ---

// A language worker's row copied behind its encode workers.
TaskRow CellRow(const AggregatedRow& one, const EncoderCell& cell, const EncodeWorker& encoder,
                double degradation) {
  AggregatedRow row = one;
  MultiplyWorkers(cell.language_workers, row);
  EncodeStage stage;
  stage.worker = encoder;
  stage.workers = cell.encode_workers;
  stage.degradation = degradation;
  AddEncodeStage(stage, row);
  return {row, StageOf(stage, cell.language_workers)};
}

// Everything of one layout, in order of targets, encode workers, and rates.
struct LayoutRows {
  LayoutPoints points;
  std::vector<TaskRow> rows;
};

void CombineLayout(const ResolvedTask& task, std::span<const EncodeWorker> encoders,
                   std::span<const LatencyTarget> targets, LayoutRows& out) {
  const double degradation = task.task.disagg.encoder_degradation;
  const std::vector<AggregatedRow>& exact = out.points.points;
  std::vector<AggregatedRow> rows = exact;
  if (task.task.behaviour == Behaviour::kReference) {
    for (AggregatedRow& row : rows) RoundColumns(row);
  }
  std::map<std::pair<std::size_t, std::uint32_t>, std::vector<EncoderCell>> cells;
  std::set<std::pair<std::size_t, std::uint32_t>> taken;
  std::vector<std::uint32_t> meets;
  for (const LatencyTarget& target : targets) {
    meets.clear();
    for (std::uint32_t i = 0; i < exact.size(); ++i) {
      if (exact[i].tpot <= target.tpot && exact[i].ttft <= target.ttft) meets.push_back(i);
    }
    Descending(meets, task.task.behaviour, [&](std::uint32_t i) { return rows[i].seq_s; });
    for (std::size_t e = 0; e < encoders.size(); ++e) {
      std::size_t used = 0;
      for (const std::uint32_t i : meets) {
        const AggregatedRow& row = rows[i];
        if (encoders[e].latency + row.ttft >= target.ttft || row.seq_s <= 0) continue;
        const auto [at, fresh] = cells.try_emplace({e, i});
        if (fresh) {
          at->second = EncoderCells(row.seq_s, row.num_total_gpus, encoders[e], degradation,
                                    MaxEncodeWorkers(task), task.replica);
        }
        if (at->second.empty()) continue;
        if (taken.emplace(e, i).second) {
          for (const EncoderCell& cell : at->second) {
            out.rows.push_back(CellRow(row, cell, encoders[e], degradation));
          }
        }
        if (++used == kRowsPerTarget) break;
      }
    }
  }
}

// --- disaggregated ---

// One choice of workers for all three pools.
struct Combination {
  std::uint32_t encoder = 0, prefill = 0, decode = 0;
  bool operator<(const Combination& o) const {
    return std::tie(encoder, prefill, decode) < std::tie(o.encoder, o.prefill, o.decode);
  }
};

class PoolsBehindEncoders {
 public:
  PoolsBehindEncoders(const ResolvedTask& task, std::span<const EncodeWorker> encoders,
                      const DisaggregatedSearchOptions& options, const PoolRows& prefill,
                      const PoolRows& decode)
      : task_(&task),
        encoders_(encoders),
        options_(&options),
        prefill_(&prefill),
        decode_(&decode) {
    by_rate_.resize(prefill.rows.size());
    for (std::uint32_t i = 0; i < by_rate_.size(); ++i) by_rate_[i] = i;
    std::stable_sort(by_rate_.begin(), by_rate_.end(), [&](std::uint32_t a, std::uint32_t b) {
      const StaticRow& p = prefill.rows[a];
      const StaticRow& q = prefill.rows[b];
      if (p.seq_s_gpu != q.seq_s_gpu) return p.seq_s_gpu > q.seq_s_gpu;
      return p.global_bs < q.global_bs;
    });
    for (std::uint32_t i = 0; i < decode.rows.size(); ++i) {
      groups_[decode.rows[i].worker->parallel].push_back(i);
    }
  }

  // The best of each decode layout, at most rows_per_target; those that an earlier target gave
  // already are left out.
  void AddRowsFor(const LatencyTarget& target, std::vector<TaskRow>& out) {
    std::vector<Combination> best;
    for (const auto& [parallel, members] : groups_) {
      std::vector<std::uint32_t> decodes;
      for (const std::uint32_t i : members) {
        const double tpot = decode_->rows[i].tpot;
        if (tpot > 0 && PoolMeets(tpot, target.tpot, task_->task.behaviour)) decodes.push_back(i);
      }
      Descending(decodes, task_->task.behaviour,
                 [&](std::uint32_t i) { return decode_->rows[i].seq_s_gpu; });
      if (decodes.size() > kDecodeChoicesPerLayout) decodes.resize(kDecodeChoicesPerLayout);
      if (const auto chosen = BestOf(decodes, target)) best.push_back(*chosen);
    }
    std::vector<TaskRow> rows;
    std::vector<std::uint32_t> order;
    for (const Combination& c : best) {
      DisaggregatedRow row = *Compose(c).row;
      if (reference()) RoundColumns(row);
      order.push_back(static_cast<std::uint32_t>(rows.size()));
      rows.push_back({row, StageOf(StageFor(c, Compose(c).encode_workers), 1)});
    }
    Descending(order, task_->task.behaviour,
               [&](std::uint32_t i) { return rows[i].disaggregated()->tokens_s_gpu; });
    if (order.size() > options_->rows_per_target) order.resize(options_->rows_per_target);
    for (const std::uint32_t i : order) {
      if (taken_.insert(best[i]).second) out.push_back(std::move(rows[i]));
    }
  }

 private:
  struct Composed {
    std::optional<DisaggregatedRow> row;  // none: no allowed size
    std::int64_t encode_workers = 0;
  };

  bool reference() const { return task_->task.behaviour == Behaviour::kReference; }

  EncodeStage StageFor(const Combination& c, std::int64_t workers) const {
    EncodeStage stage;
    stage.worker = encoders_[c.encoder];
    stage.workers = workers;
    stage.queueing = options_->factors.ttft_queueing;
    stage.degradation = task_->task.disagg.encoder_degradation;
    return stage;
  }

  const Composed& Compose(const Combination& c) {
    const auto [at, fresh] = composed_.try_emplace(c);
    Composed& out = at->second;
    if (!fresh) return out;
    const StaticRow& p = prefill_->rows[c.prefill];
    const StaticRow& d = decode_->rows[c.decode];
    if (options_->compatible && !options_->compatible(p.worker->layout, d.worker->layout)) {
      return out;
    }
    const PoolCounts counts =
        MatchPools(p, d, encoders_[c.encoder], task_->task.disagg.encoder_degradation,
                   MaxEncodeWorkers(*task_), options_->factors, options_->replica);
    if (counts.prefill == 0) return out;
    out.encode_workers = counts.encode;
    out.row = ComposeDisaggregated(p, d, counts.prefill, counts.decode, options_->factors);
    AddEncodeStage(StageFor(c, counts.encode), *out.row);
    return out;
  }

  std::optional<Combination> BestOf(std::span<const std::uint32_t> decodes,
                                    const LatencyTarget& target) {
    std::optional<Combination> best;
    const DisaggregatedRow* best_row = nullptr;
    for (std::uint32_t e = 0; e < encoders_.size(); ++e) {
      const double encode_ms = encoders_[e].latency * options_->factors.ttft_queueing;
      if (encode_ms >= target.ttft) continue;
      std::vector<std::uint32_t> prefills;
      for (const std::uint32_t i : by_rate_) {
        if (PoolMeets(prefill_->rows[i].ttft, target.ttft - encode_ms, task_->task.behaviour))
          prefills.push_back(i);
        if (prefills.size() == kPrefillChoices) break;
      }
      for (const std::uint32_t d : decodes) {
        for (const std::uint32_t p : prefills) {
          const Combination c{e, p, d};
          const Composed& composed = Compose(c);
          if (!composed.row) continue;
          const DisaggregatedRow& row = *composed.row;
          if (best_row == nullptr || row.tokens_s_gpu > best_row->tokens_s_gpu ||
              (row.tokens_s_gpu == best_row->tokens_s_gpu &&
               (row.num_total_gpus < best_row->num_total_gpus ||
                (!reference() && row.num_total_gpus == best_row->num_total_gpus &&
                 BetterAmongEquals(row, *best_row))))) {
            best = c;
            best_row = &row;
          }
        }
      }
    }
    return best;
  }

  const ResolvedTask* task_;
  std::span<const EncodeWorker> encoders_;
  const DisaggregatedSearchOptions* options_;
  const PoolRows* prefill_;
  const PoolRows* decode_;
  std::vector<std::uint32_t> by_rate_;
  std::map<std::string, std::vector<std::uint32_t>> groups_;
  std::map<Combination, Composed> composed_;
  std::set<Combination> taken_;
};

}  // namespace

EncoderStage StageOf(const EncodeStage& stage, std::int64_t language_workers) {
  return {.language_workers = language_workers,
          .workers = stage.workers,
          .tp = stage.worker.tp,
          .bs = stage.worker.bs,
          .memory = stage.worker.memory};
}

Result<TaskTable> SearchAggregatedBehindEncoders(const ResolvedTask& task,
                                                 std::span<const EncodeWorker> encoders) {
  IC_ASSIGN(const std::vector<LatencyTarget> targets, TargetsOf(task.task));
  const ResolvedRole& role = task.primary();
  const AggregatedSearchOptions options = AggregatedOptionsOf(task);
  const WorkerSource source = role.workers->Source();
  std::vector<LayoutRows> parts(role.layouts.size());
  tbb::parallel_for(std::size_t{0}, parts.size(), [&](std::size_t i) {
    parts[i].points =
        EvaluateLayout(role.layouts[i], source, task.task.workload, options, task.task.behaviour);
    if (parts[i].points.worker) CombineLayout(task, encoders, targets, parts[i]);
  });
  TaskTable table;
  table.notes = task.notes;
  for (LayoutRows& part : parts) {
    table.tally.Merge(part.points.tally);
    if (!part.points.worker) continue;
    table.workers.push_back(part.points.worker);
    std::move(part.rows.begin(), part.rows.end(), std::back_inserter(table.rows));
  }
  if (table.rows.empty()) {
    return std::unexpected(
        NothingFound(table.tally, "aggregated workers behind encode workers", task.task.behaviour));
  }
  SortByValue(table.rows, task.task.behaviour, FiguresOf<AggregatedRow>);
  return table;
}

Result<TaskTable> SearchPoolsBehindEncoders(const ResolvedTask& task,
                                            std::span<const EncodeWorker> encoders) {
  IC_ASSIGN(const std::vector<LatencyTarget> targets, TargetsOf(task.task));
  const DisaggregatedSearchOptions options = DisaggregatedOptionsOf(task);
  const Behaviour behaviour = task.task.behaviour;
  auto [prefill, decode] =
      EvaluatePools(task.primary().layouts, task.primary().workers->Source(), task.decode().layouts,
                    task.decode().workers->Source(), task.task.workload, options, behaviour);
  if (prefill.rows.empty())
    return std::unexpected(NothingFound(prefill.tally, "prefill workers", task.task.behaviour));
  if (decode.rows.empty())
    return std::unexpected(NothingFound(decode.tally, "decode workers", task.task.behaviour));
  for (StaticRow& row : prefill.rows) row.ttft *= options.factors.ttft_queueing;

  TaskTable table;
  table.notes = task.notes;
  table.tally = prefill.tally;
  table.tally.Merge(decode.tally);
  for (const PoolRows* pool : std::initializer_list<const PoolRows*>{&prefill, &decode}) {
    table.workers.insert(table.workers.end(), pool->workers.begin(), pool->workers.end());
  }
  PoolsBehindEncoders search(task, encoders, options, prefill, decode);
  for (const LatencyTarget& target : targets) search.AddRowsFor(target, table.rows);
  SortByValue(table.rows, behaviour, FiguresOf<DisaggregatedRow>);
  if (table.rows.empty() && behaviour == Behaviour::kNative) {
    return Fail(ErrorKind::kNoFeasibleConfig,
                fmt::format("pools of encode, prefill and decode workers: no combination meets the "
                            "targets (first token {:g} ms)",
                            task.task.ttft));
  }
  return table;
}

}  // namespace infercast
