#include "report/search_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/near_names.h"
#include "report/text_table.h"

namespace infercast {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kShownMisses = 3;

// The experiment whose targets and cluster a result has: the one of its name, or the first of its
// mode where several were merged.
const ExperimentOutcome* OutcomeOf(const ExperimentsResult& all, const ExperimentResult& result) {
  for (const ExperimentOutcome& o : all.outcomes) {
    if (o.name == result.name) return &o;
  }
  for (const ExperimentOutcome& o : all.outcomes) {
    if (ToString(o.task.mode) == result.name) return &o;
  }
  return all.outcomes.empty() ? nullptr : &all.outcomes.front();
}

ResultContext ContextOf(const std::string& name, const Task& task,
                        const SearchReportOptions& options) {
  ResultContext context;
  context.experiment = name;
  context.mode = task.mode;
  context.total_gpus = task.gpu_budget().value_or(0);
  context.load = options.load.has_value();
  context.encoder_pool = task.epd.enabled;
  context.inclusive_tpot = options.inclusive_tpot;
  context.database_mode = task.database_mode;
  context.behaviour = options.behaviour;
  return context;
}

struct Listing {
  ResultContext context;
  std::vector<ResultRow> rows;

  ResultTable Table() {
    for (ResultRow& row : rows) row.context = &context;
    return TableOf(rows, context);
  }
};

Listing ListingOf(const std::vector<PickedRow>& picked, const std::string& name, const Task& task,
                  const SearchReportOptions& options, bool ranked) {
  Listing listing{ContextOf(name, task, options), {}};
  for (const PickedRow& p : picked) {
    listing.context.load_capped |= p.pick.load_served_percent.has_value();
    listing.rows.push_back({&p.row, &p.pick, ranked ? listing.rows.size() + 1 : 0, nullptr});
  }
  return listing;
}

Listing ListingOf(const std::vector<TaskRow>& rows, const std::string& name, const Task& task,
                  const SearchReportOptions& options) {
  Listing listing{ContextOf(name, task, options), {}};
  for (const TaskRow& row : rows) listing.rows.push_back({&row, nullptr, 0, nullptr});
  return listing;
}

struct JsonOf {
  ordered_json operator()(std::monostate) const { return nullptr; }
  template <typename T>
  ordered_json operator()(const T& value) const {
    return value;
  }
};

ordered_json RowsJson(const ResultTable& table) {
  ordered_json rows = ordered_json::array();
  for (const std::vector<Cell>& cells : table.rows) {
    ordered_json& row = rows.emplace_back(ordered_json::object());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (table.columns[i].key.empty()) continue;
      row[std::string(table.columns[i].key)] = std::visit(JsonOf{}, cells[i]);
    }
  }
  return rows;
}

std::string Plural(std::size_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

// The reference takes a target for the request latency instead of both others.
bool LimitsFirstToken(const Task& task) {
  return !(task.request_latency.value_or(0) > 0) || task.behaviour == Behaviour::kNative;
}

// "TTFT <= 2000 ms, TPOT <= 30 ms".
std::string TargetText(const Task& task) {
  if (task.request_latency.value_or(0) > 0) {
    const std::string first =
        LimitsFirstToken(task) ? fmt::format("TTFT <= {:g} ms, ", task.ttft) : std::string();
    return first + fmt::format("request latency <= {:g} ms", *task.request_latency);
  }
  return fmt::format("TTFT <= {:g} ms, TPOT <= {:g} ms", task.ttft, task.tpot);
}

std::string LoadText(const LoadTarget& load) {
  return load.request_rate ? fmt::format("{:g} requests/s", *load.request_rate)
                           : fmt::format("{:g} requests in flight", load.concurrency.value_or(0));
}

std::string HeadText(const Task& task, const SearchReportOptions& options) {
  const RoleChoice& role = task.primary();
  std::string on = role.system;
  if (task.mode == ServingMode::kDisaggregated && task.decode.system != role.system) {
    on += fmt::format(" (decode on {})", task.decode.system);
  }
  std::string text = role.model;
  if (options.load) {
    text += fmt::format(": GPUs of {} for {}\n", on, LoadText(*options.load));
  } else if (task.gpu_budget()) {
    text += fmt::format(" on {} x {}\n", *task.gpu_budget(), on);
  } else {
    text += fmt::format(" on {}\n", on);
  }
  const Workload& w = task.workload;
  text += fmt::format("  isl {}, osl {}", w.isl, w.osl);
  if (w.prefix > 0) text += fmt::format(", prefix {}", w.prefix);
  if (w.image_height > 0) {
    text += fmt::format(", {} of {} x {}", Plural(static_cast<std::size_t>(w.num_images), "image"),
                        w.image_height, w.image_width);
  }
  return text + fmt::format("; {}\n", TargetText(task));
}

// The best deployment of all in full, and how far the others are behind.
std::string ChosenText(const ExperimentsResult& all, const SearchReportOptions& options) {
  const ExperimentResult* chosen = all.Find(all.chosen);
  if (chosen == nullptr || chosen->best.empty()) return {};
  const ExperimentOutcome& outcome = *OutcomeOf(all, *chosen);
  Listing listing = ListingOf(chosen->best, chosen->name, outcome.task, options, true);
  (void)listing.Table();
  const ResultRow& row = listing.rows.front();
  const std::int64_t replicas = std::max<std::int64_t>(ReplicasOf(row), 1);
  const std::int64_t gpus = GpusPerReplica(*row.row);
  std::vector<std::string> others;
  for (const ExperimentResult& r : all.results) {
    if (r.name == chosen->name || r.best.empty() || r.exceeded != chosen->exceeded) continue;
    if (r.best_value <= 0) continue;
    if (r.best_value == chosen->best_value) {
      others.push_back(fmt::format("tied with {}", r.name));
    } else if (options.load) {
      others.push_back(fmt::format("{} needs {}", r.name, r.best.front().pick.total_gpus_needed));
    } else {
      others.push_back(
          fmt::format("{:.2f}x better than {}", chosen->best_value / r.best_value, r.name));
    }
  }
  const std::string compared = others.empty() ? "" : fmt::format(" ({})", JoinNames(others));
  std::string text;
  if (chosen->exceeded) {
    text = fmt::format("\nNo configuration meets {}. Nearest: {}, which misses {}\n",
                       TargetText(outcome.task), chosen->name,
                       JoinNames(MissedTargets(*row.row, outcome.task)));
  } else if (options.load) {
    text = fmt::format("\nBest: {} with {} GPUs{}\n", chosen->name, replicas * gpus, compared);
  } else {
    text = fmt::format("\nBest: {} at {:.2f} tokens/s per GPU{}\n", chosen->name,
                       chosen->best_value, compared);
  }
  text += fmt::format("  {}; {} of {}\n", DescribeDeployment(*row.row),
                      Plural(static_cast<std::size_t>(replicas), "replica"),
                      Plural(static_cast<std::size_t>(gpus), "GPU"));
  const PickRow figures = PickRowOf(*row.row);
  text += fmt::format(
      "  {:.0f} tokens/s in all, {:.2f} per user; {:.2f} requests/s; TTFT {:.1f} ms, TPOT {:.2f} "
      "ms, request latency {:.0f} ms\n",
      ClusterTokensPerSecond(row), figures.tokens_s_user,
      figures.seq_s * static_cast<double>(replicas), figures.ttft, figures.tpot,
      figures.request_latency);
  if (options.load && row.pick->load_served_percent) {
    text += fmt::format("  serves only {:.1f} % of the load\n", *row.pick->load_served_percent);
  }
  return text;
}

std::string FrontText(const ExperimentResult& result, bool by_latency) {
  if (result.front.empty()) return {};
  double low_x = INFINITY, high_x = -INFINITY, low_y = INFINITY, high_y = -INFINITY;
  for (const PickedRow& p : result.front) {
    const PickRow row = PickRowOf(p.row);
    const double x = by_latency ? row.request_latency : row.tokens_s_user;
    low_x = std::min(low_x, x);
    high_x = std::max(high_x, x);
    low_y = std::min(low_y, p.pick.tokens_s_gpu_cluster);
    high_y = std::max(high_y, p.pick.tokens_s_gpu_cluster);
  }
  return fmt::format("Pareto front of {}: {:.0f} to {:.0f} tokens/s/GPU at {:.1f} to {:.1f} {}",
                     result.front.size(), low_y, high_y, low_x, high_x,
                     by_latency ? "ms" : "tokens/s/user");
}

std::string PointsText(const SearchTally& tally) {
  std::vector<std::string> parts;
  const auto add = [&](std::uint64_t n, const char* what) {
    if (n > 0) parts.push_back(fmt::format("{} {}", n, what));
  };
  add(tally.evaluated, "evaluated");
  add(tally.not_measured, "not measured");
  add(tally.oom, "out of memory");
  add(tally.kv_oom, "beyond the KV budget");
  add(tally.missed, "beyond the targets");
  add(tally.failed_layouts, "impossible layouts");
  return JoinNames(parts);
}

ordered_json PointsJson(const SearchTally& tally) {
  ordered_json json = {{"evaluated", tally.evaluated},   {"not_measured", tally.not_measured},
                       {"out_of_memory", tally.oom},     {"beyond_kv_budget", tally.kv_oom},
                       {"beyond_targets", tally.missed}, {"failed_layouts", tally.failed_layouts}};
  json["failure"] = tally.failure ? ordered_json{{"kind", ToString(tally.failure->kind)},
                                                 {"message", tally.failure->message}}
                                  : ordered_json();
  return json;
}

std::string MissText(const ExperimentOutcome& outcome) {
  std::string text;
  const std::size_t shown = std::min(outcome.table.nearest_misses.size(), kShownMisses);
  for (std::size_t i = 0; i < shown; ++i) {
    const TaskRow& row = outcome.table.nearest_misses[i];
    text += fmt::format("  nearest: {}: {}\n", DescribeDeployment(row),
                        JoinNames(MissedTargets(row, outcome.task)));
  }
  return text;
}

}  // namespace

std::vector<std::string> MissedTargets(const TaskRow& row, const Task& task) {
  const PickRow figures = PickRowOf(row);
  std::vector<std::string> missed;
  const auto check = [&](const char* name, double value, double limit) {
    if (value > limit) missed.push_back(fmt::format("{} {:.1f} ms > {:g} ms", name, value, limit));
  };
  if (LimitsFirstToken(task)) check("TTFT", figures.ttft, task.ttft);
  if (task.request_latency.value_or(0) > 0) {
    check("request latency", figures.request_latency, *task.request_latency);
  } else {
    check("TPOT", figures.tpot, task.tpot);
  }
  return missed;
}

bool AnyMeetsTarget(const ExperimentsResult& result) {
  return std::any_of(result.results.begin(), result.results.end(),
                     [](const ExperimentResult& r) { return !r.best.empty() && !r.exceeded; });
}

std::string SearchText(const ExperimentsResult& result, const SearchReportOptions& options) {
  if (result.outcomes.empty()) return {};
  std::string text = HeadText(result.outcomes.front().task, options);
  const bool scored = std::ranges::any_of(result.results, [](const ExperimentResult& r) {
    return std::ranges::any_of(r.best, [](const PickedRow& p) { return p.row.score.has_value(); });
  });
  if (scored) text += "  ranked by benchmark runs in virtual time, beside the formula's figures\n";
  text += ChosenText(result, options);
  for (const ExperimentResult& r : result.results) {
    const ExperimentOutcome& outcome = *OutcomeOf(result, r);
    if (r.best.empty()) {
      text += fmt::format("\n{}: no configuration meets {}\n", r.name, TargetText(outcome.task));
      continue;
    }
    text += fmt::format("\n{}{}\n", r.name,
                        r.exceeded
                            ? ": no configuration meets " + TargetText(outcome.task) + "; nearest:"
                            : std::string());
    text += TextOf(ListingOf(r.best, r.name, outcome.task, options, true).Table());
    if (r.exceeded) {
      for (const PickedRow& p : r.best) {
        const std::vector<std::string> missed = MissedTargets(p.row, outcome.task);
        if (!missed.empty()) {
          text += fmt::format("  #{} misses {}\n", &p - r.best.data() + 1, JoinNames(missed));
        }
      }
    }
    const std::string front = FrontText(r, outcome.task.request_latency.value_or(0) > 0);
    if (!front.empty()) text += "  " + front + "\n";
  }
  for (const ExperimentOutcome& o : result.outcomes) {
    if (!o.error) continue;
    text += fmt::format("\n{}: {}\n", o.name, o.error->message);
    const std::string points = PointsText(o.table.tally);
    if (!points.empty()) text += fmt::format("  points: {}\n", points);
    text += MissText(o);
  }
  return text;
}

ResultTable SearchTable(const ExperimentsResult& result, const SearchReportOptions& options,
                        ReportRows rows) {
  std::vector<ResultTable> parts;
  if (rows == ReportRows::kAll) {
    for (const ExperimentOutcome& o : result.outcomes) {
      parts.push_back(ListingOf(o.table.rows, o.name, o.task, options).Table());
    }
  } else {
    for (const ExperimentResult& r : result.results) {
      const bool best = rows == ReportRows::kBest;
      parts.push_back(
          ListingOf(best ? r.best : r.front, r.name, OutcomeOf(result, r)->task, options, best)
              .Table());
    }
  }
  return Concatenate(parts);
}

std::string SearchJson(const ExperimentsResult& result, const SearchReportOptions& options,
                       ReportRows rows) {
  ordered_json json;
  json["behaviour"] = ToString(options.behaviour);
  json["chosen"] = result.chosen.empty() ? ordered_json() : ordered_json(result.chosen);
  json["meets_target"] = AnyMeetsTarget(result);
  if (options.load) {
    json["load"] = ordered_json::object();
    if (options.load->request_rate) json["load"]["request_rate"] = *options.load->request_rate;
    if (options.load->concurrency) json["load"]["concurrency"] = *options.load->concurrency;
  }
  json["experiments"] = ordered_json::array();
  for (const ExperimentResult& r : result.results) {
    const Task& task = OutcomeOf(result, r)->task;
    json["experiments"].push_back(
        {{"name", r.name},
         {"mode", ToString(task.mode)},
         {"best_value", r.best_value},
         {"meets_target", !r.best.empty() && !r.exceeded},
         {"best", RowsJson(ListingOf(r.best, r.name, task, options, true).Table())},
         {"front", RowsJson(ListingOf(r.front, r.name, task, options, false).Table())}});
  }
  json["outcomes"] = ordered_json::array();
  for (const ExperimentOutcome& o : result.outcomes) {
    ordered_json outcome = {
        {"name", o.name},
        {"mode", ToString(o.task.mode)},
        {"model", o.task.primary().model},
        {"system", o.task.primary().system},
        {"backend", ToString(o.task.primary().backend)},
        {"total_gpus", o.task.gpu_budget() ? ordered_json(*o.task.gpu_budget()) : ordered_json()},
        {"error",
         o.error ? ordered_json{{"kind", ToString(o.error->kind)}, {"message", o.error->message}}
                 : ordered_json()},
        {"rows", o.table.rows.size()},
        {"points", PointsJson(o.table.tally)},
        {"notes", o.table.notes}};
    ordered_json misses =
        RowsJson(ListingOf(o.table.nearest_misses, o.name, o.task, options).Table());
    for (std::size_t i = 0; i < misses.size(); ++i) {
      misses[i]["misses"] = MissedTargets(o.table.nearest_misses[i], o.task);
    }
    outcome["nearest_misses"] = std::move(misses);
    if (rows == ReportRows::kAll) {
      outcome["all"] = RowsJson(ListingOf(o.table.rows, o.name, o.task, options).Table());
    }
    json["outcomes"].push_back(std::move(outcome));
  }
  json["notes"] = options.notes;
  // Names may come from outside: bytes that are no UTF-8 are replaced, not thrown.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace infercast
