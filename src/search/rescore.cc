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

namespace infercast {

namespace {

// Rows that the formula finds this much too slow may yet meet the target.
constexpr double kSlack = 1.15;
// Requests of all runs for the front together.
constexpr std::int64_t kFrontRequests = 30000;
// Layouts tried beyond those shown: the runs may order them differently.
constexpr std::size_t kSpareLayouts = 2;
// Requests of a run that may be made freely; of longer ones only as many as are needed.
constexpr double kCheapRun = 10000;

double RequestsOf(const PickRow& row) { return 10 * row.concurrency; }

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

// What one layout has to do.
struct LayoutJob {
  std::vector<std::uint32_t> ladder;  // rows that may be shown, most throughput first; may be empty
  std::size_t start = 0;              // the formula's pick in it
  std::vector<std::uint32_t> front;   // rows of the formula's front
};

// Runs rows of the ladder until the one of most throughput that meets the targets is known. Runs
// that are sure to miss the first token's target end early and leave no score.
void Climb(const LayoutJob& job, const Targets& targets, RowRunner& runner, TaskTable& table) {
  if (job.ladder.empty()) return;
  const auto load = [&](std::size_t place) {
    return PickRowOf(table.rows[job.ladder[place]]).concurrency;
  };
  const auto cheap = [&](std::size_t place) {
    return RequestsOf(PickRowOf(table.rows[job.ladder[place]])) <= kCheapRun;
  };
  const auto met = [&](std::size_t place) {
    TaskRow& row = table.rows[job.ladder[place]];
    return runner.Run(row, targets.ttft) && targets.Met(PickRowOf(row));
  };
  const Climbed climbed = ClimbLadder(job.ladder.size(), job.start, met, cheap, load);
  // Nothing meets the targets: the lightest one that was tried shows by how much.
  if (!climbed.found) runner.Run(table.rows[job.ladder[climbed.last]]);
}

std::map<std::string, LayoutJob> JobsOf(std::span<const PickRow> rows, const Task& task,
                                        const PickResult& wide, std::size_t top_n) {
  const Targets targets = TargetsOf(task);
  const auto limited = [&](const PickRow& row) {
    return targets.request_latency ? row.request_latency / *targets.request_latency
                                   : row.tpot / targets.tpot;
  };
  const std::int64_t gpus = task.gpu_budget().value_or(0);
  std::map<std::string, LayoutJob> jobs;
  for (std::size_t i = 0; i < wide.best.size(); ++i) {
    const std::uint32_t row = wide.best[i].row;
    if (i >= top_n && RequestsOf(rows[row]) > kCheapRun) continue;
    jobs[rows[row].group].ladder.push_back(row);
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
  // The front, smallest load first, while there is work left.
  std::vector<std::uint32_t> front;
  for (const Pick& p : wide.front) front.push_back(p.row);
  std::ranges::stable_sort(front, {}, [&](std::uint32_t i) { return rows[i].concurrency; });
  double requests = 0;
  for (const std::uint32_t i : front) {
    requests += RequestsOf(rows[i]);
    if (requests > static_cast<double>(kFrontRequests)) break;
    jobs[rows[i].group].front.push_back(i);
  }
  return jobs;
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
  IC_ASSIGN(const PickResult wide, picker(rows, loose, top_n + kSpareLayouts));

  const Targets targets = TargetsOf(task.task);
  std::map<std::string, LayoutJob> jobs = JobsOf(rows, task.task, wide, top_n);
  WorkerMap workers;
  AddWorkers(table.workers, workers);
  std::vector<LayoutJob*> order;
  for (auto& [group, job] : jobs) order.push_back(&job);
  std::vector<std::optional<Error>> errors(order.size());
  tbb::parallel_for(std::size_t{0}, order.size(), [&](std::size_t k) {
    RowRunner runner(task, workers);
    Climb(*order[k], targets, runner, table);
    for (const std::uint32_t i : order[k]->front) runner.Run(table.rows[i]);
    if (runner.error()) errors[k] = runner.error();
  });
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
