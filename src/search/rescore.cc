// Candidates, ladders of rows, and the pick among what was run.
#include "search/rescore.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "search/ladder.h"
#include "search/row_runner.h"
#include "serving/wave_watch.h"

namespace infercast {

namespace {

// The work of a run is counted in requests that are simulated, that of the formula's search in the
// requests that could have been in its time. Both are counts, so the bound is the same everywhere;
// the factors are rounded from processor times of six sweeps.
constexpr double kFreeWork = 40000;     // the time in which a program starts and opens its data
constexpr double kWorkPerRow = 24;      // a row of one worker
constexpr double kWorkPerPoolRow = 40;  // a row of a pool, and for each output token
constexpr double kWorkPerPoolToken = 0.08;
// Of all runs for the front, at most and in any case.
constexpr double kMostFrontWork = 30000;
constexpr double kLeastFrontWork = 5000;

double WorkOf(const PickRow& row, bool pools) {
  // Waves that are alike are left out (serving/wave_watch.h).
  const bool whole = !pools || row.concurrency <= static_cast<double>(kAlwaysWhole);
  return (whole ? static_cast<double>(kLoadWaves) : 6) * row.concurrency;
}

// What runs may cost so that a search takes no more than twice its time by the formula.
double WorkLimit(const TaskTable& table, const Task& task) {
  const bool pools = table.rows.front().disaggregated() != nullptr;
  const double osl = static_cast<double>(task.workload.osl);
  const double per_row = pools ? kWorkPerPoolRow + kWorkPerPoolToken * osl : kWorkPerRow;
  return kFreeWork + per_row * static_cast<double>(table.tally.evaluated);
}

struct Targets {
  double ttft = 0;
  double tpot = 0;
  std::optional<double> request_latency;

  // How far a row is beyond its targets: the largest ratio; at most 1 when all are met.
  double Excess(const PickRow& row) const {
    const double first = row.ttft / ttft;
    return std::max(first,
                    request_latency ? row.request_latency / *request_latency : row.tpot / tpot);
  }
  bool Met(const PickRow& row) const { return Excess(row) <= 1; }
};

Targets TargetsOf(const Task& task) {
  Targets t{task.ttft, task.tpot, std::nullopt};
  if (task.request_latency && *task.request_latency > 0) t.request_latency = task.request_latency;
  return t;
}

// What one layout has to do, and what came of it.
struct LayoutJob {
  std::vector<std::uint32_t> ladder;  // rows that may be shown, most throughput first; may be empty
  std::size_t start = 0;              // the formula's pick in it
  std::vector<std::uint32_t> front;   // rows of the formula's front
  double work = 0;                    // left for runs beside that of the formula's pick
  bool bounded = false;               // more would have been run
  bool met = false;                   // a row meets the targets
  std::size_t last = 0;               // place of the last run
};

// Runs rows of the ladder until the one of most throughput that meets the targets is known, or the
// work is done. Runs that are sure to miss the first token's target end early and leave no score.
void Climb(LayoutJob& job, const Targets& targets, RowRunner& runner, TaskTable& table) {
  if (job.ladder.empty()) return;
  const bool pools = table.rows[job.ladder.front()].disaggregated() != nullptr;
  const auto row = [&](std::size_t place) { return PickRowOf(table.rows[job.ladder[place]]); };
  const auto affordable = [&](std::size_t place) {
    if (WorkOf(row(place), pools) <= job.work) return true;
    job.bounded = true;
    return false;
  };
  bool first = true;
  const auto met = [&](std::size_t place) {
    TaskRow& tried = table.rows[job.ladder[place]];
    if (!std::exchange(first, false)) job.work -= WorkOf(row(place), pools);
    return runner.Run(tried, targets.ttft) && targets.Met(PickRowOf(tried));
  };
  const auto load = [&](std::size_t place) { return row(place).concurrency; };
  const Climbed climbed = ClimbLadder(job.ladder.size(), job.start, met, affordable, load);
  job.met = climbed.found;
  job.last = climbed.last;
}

std::map<std::string, LayoutJob> JobsOf(std::span<const PickRow> rows, const Task& task,
                                        const PickResult& wide, std::size_t wanted, bool pools,
                                        double limit) {
  const Targets targets = TargetsOf(task);
  const auto limited = [&](const PickRow& row) {
    return targets.request_latency ? row.request_latency / *targets.request_latency
                                   : row.tpot / targets.tpot;
  };
  const std::int64_t gpus = task.gpu_budget().value_or(0);
  std::map<std::string, LayoutJob> jobs;
  double work = 0;
  for (std::size_t i = 0; i < wide.best.size(); ++i) {
    const std::uint32_t row = wide.best[i].row;
    const double more = WorkOf(rows[row], pools);
    if (i >= wanted && work + more > limit) continue;
    work += more;
    jobs[rows[row].group].ladder.push_back(row);
  }
  for (auto& [group, job] : jobs) {
    job.work = std::max(0.0, limit - work) / static_cast<double>(jobs.size());
  }
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const auto job = jobs.find(rows[i].group);
    if (job == jobs.end() || job->second.ladder.front() == i) continue;
    if (limited(rows[i]) <= kSlack && ClusterValue(rows[i], gpus) > 0) {
      job->second.ladder.push_back(i);
    }
  }
  for (auto& [group, job] : jobs) {
    const std::uint32_t best = job.ladder.front();
    std::ranges::stable_sort(job.ladder, [&](std::uint32_t a, std::uint32_t b) {
      const double x = ClusterValue(rows[a], gpus), y = ClusterValue(rows[b], gpus);
      if (x != y) return x > y;
      if (rows[a].tpot != rows[b].tpot) return rows[a].tpot < rows[b].tpot;
      return a < b;
    });
    job.start = static_cast<std::size_t>(std::ranges::find(job.ladder, best) - job.ladder.begin());
  }
  return jobs;
}

// The front, smallest load first, while there is work left. How many of its rows there was none
// for.
std::size_t ShareFront(std::span<const PickRow> rows, const PickResult& wide, bool pools,
                       const TaskTable& table, std::map<std::string, LayoutJob>& jobs) {
  double work = 0;
  for (const auto& [group, job] : jobs) work += std::max(0.0, job.work);
  work = std::clamp(work, kLeastFrontWork, kMostFrontWork);
  std::vector<std::uint32_t> front;
  for (const Pick& p : wide.front) {
    if (!table.rows[p.row].score) front.push_back(p.row);
  }
  std::ranges::stable_sort(front, {}, [&](std::uint32_t i) { return rows[i].concurrency; });
  std::size_t shared = 0;
  for (; shared < front.size(); ++shared) {
    const PickRow& row = rows[front[shared]];
    work -= WorkOf(row, pools);
    if (work < 0) break;
    jobs[row.group].front.push_back(front[shared]);
  }
  return front.size() - shared;
}

// The pick among the rows that were run. Rows that meet every target come first; where none does,
// the nearest of each layout.
Result<PickResult> PickScored(const TaskTable& table, const Targets& targets,
                              const Constraint& constraint, std::size_t top_n,
                              const RowPicker& picker) {
  std::vector<std::uint32_t> scored, meeting;
  for (std::uint32_t i = 0; i < table.rows.size(); ++i) {
    if (!table.rows[i].score) continue;
    scored.push_back(i);
    if (targets.Met(PickRowOf(table.rows[i]))) meeting.push_back(i);
  }
  // Positions among `chosen` become positions in the table.
  const auto pick = [&](const std::vector<std::uint32_t>& chosen, const Constraint& c,
                        std::size_t n) -> Result<PickResult> {
    std::vector<PickRow> rows;
    for (const std::uint32_t i : chosen) rows.push_back(PickRowOf(table.rows[i]));
    IC_ASSIGN(PickResult result, picker(rows, c, n));
    for (auto* picks : {&result.best, &result.front}) {
      for (Pick& p : *picks) p.row = chosen[p.row];
    }
    return result;
  };
  const auto& shown = constraint.strict ? meeting : scored;
  IC_ASSIGN(PickResult all, pick(shown, constraint, 0));
  PickResult out;
  if (!meeting.empty()) {
    IC_ASSIGN(out, pick(meeting, constraint, top_n));
  } else if (!constraint.strict) {
    std::map<std::string, std::uint32_t> nearest;
    for (const std::uint32_t i : scored) {
      const PickRow row = PickRowOf(table.rows[i]);
      const auto [it, fresh] = nearest.try_emplace(row.group, i);
      if (!fresh && targets.Excess(row) < targets.Excess(PickRowOf(table.rows[it->second]))) {
        it->second = i;
      }
    }
    std::vector<std::uint32_t> chosen;
    for (const auto& [group, i] : nearest) chosen.push_back(i);
    Constraint none = constraint;
    none.tpot = std::numeric_limits<double>::infinity();
    none.request_latency.reset();
    IC_ASSIGN(out, pick(chosen, none, chosen.size()));
    std::ranges::stable_sort(
        out.best, {}, [&](const Pick& p) { return targets.Excess(PickRowOf(table.rows[p.row])); });
    if (out.best.size() > top_n) out.best.resize(top_n);
    out.best_value = out.best.empty() ? 0 : out.best.front().tokens_s_gpu_cluster;
  }
  out.exceeded = meeting.empty();
  out.front = std::move(all.front);
  return out;
}

}  // namespace

Status Rescore(const ResolvedTask& task, const Constraint& constraint, std::size_t top_n,
               const RowPicker& picker, std::span<const PickRow> rows, TaskTable& table,
               PickResult& pick) {
  if (table.rows.empty()) return {};
  if (!CanBeRun(table.rows.front())) {
    table.notes.push_back(fmt::format(
        "{}: scored by the formula: no benchmark is run in virtual time there",
        table.rows.front().afd() != nullptr ? ToString(ServingMode::kAfd) : "image encoders"));
    return {};
  }
  Constraint loose = constraint;
  loose.strict = false;
  const std::size_t wanted = std::max(top_n, kLeastLayouts);
  IC_ASSIGN(const PickResult wide, picker(rows, loose, wanted + kSpareLayouts));

  const Targets targets = TargetsOf(task.task);
  const bool pools = table.rows.front().disaggregated() != nullptr;
  std::map<std::string, LayoutJob> jobs =
      JobsOf(rows, task.task, wide, wanted, pools, WorkLimit(table, task.task));
  WorkerMap workers;
  AddWorkers(table.workers, workers);
  std::map<std::string, RowRunner> runners;
  // Each layout by its own runner, which keeps its prices.
  const auto each = [&](const auto& run) {
    std::vector<std::pair<LayoutJob*, RowRunner*>> order;
    for (auto& [group, job] : jobs) {
      order.emplace_back(&job, &runners.try_emplace(group, task, workers).first->second);
    }
    tbb::parallel_for(std::size_t{0}, order.size(),
                      [&](std::size_t k) { run(*order[k].first, *order[k].second); });
  };
  each([&](LayoutJob& job, RowRunner& runner) { Climb(job, targets, runner, table); });
  if (std::ranges::none_of(jobs, [](const auto& job) { return job.second.met; })) {
    // Nothing meets the targets: the lightest ones that were tried show by how much.
    each([&](LayoutJob& job, RowRunner& runner) {
      if (!job.ladder.empty()) runner.Run(table.rows[job.ladder[job.last]]);
    });
  }
  const std::size_t left_out = ShareFront(rows, wide, pools, table, jobs);
  each([&](LayoutJob& job, RowRunner& runner) {
    for (const std::uint32_t i : job.front) runner.Run(table.rows[i]);
  });
  std::vector<std::optional<Error>> errors;
  for (const auto& [group, runner] : runners) errors.push_back(runner.error());
  const auto bounded =
      std::ranges::count_if(jobs, [](const auto& job) { return job.second.bounded; });
  if (bounded > 0 || left_out > 0) {
    std::string left;
    if (bounded > 0) {
      left = fmt::format("{} of {} layouts were not searched to the end", bounded, jobs.size());
    }
    if (left_out > 0) {
      left += fmt::format("{}{} row{} of the formula's Pareto front {} not run",
                          left.empty() ? "" : ", ", left_out, left_out == 1 ? "" : "s",
                          left_out == 1 ? "was" : "were");
    }
    table.notes.push_back("benchmark runs end with as much work as the formula's search: " + left);
  }
  const auto failed = std::ranges::find_if(errors, [](const auto& e) { return e.has_value(); });
  const bool any =
      std::ranges::any_of(table.rows, [](const TaskRow& row) { return row.score.has_value(); });
  if (failed != errors.end()) {
    table.notes.push_back(fmt::format("{}: {}",
                                      any ? "rows that no benchmark could be run for are left out"
                                          : "scored by the formula, no benchmark could be run",
                                      (*failed)->message));
  }
  if (!any) return {};
  IC_ASSIGN(pick, PickScored(table, targets, constraint, top_n, picker));
  return {};
}

}  // namespace infercast
