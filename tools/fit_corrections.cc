// Fits the named corrections of the closed-loop forecast to measured points, and says how good they
// are where they were not fitted.
//
// Method: groups (mode, backend, system, model, precision) are dealt to four folds beforehand. Per
// backend the constants are fitted on three folds and scored on the fourth, four times; the final
// ones on everything. Loss: 0.7 * mean min(|ln TTFT ratio|, 1.2) + mean min(|ln TPOT ratio|, 0.6).
// The constants inside the simulation are found by the simplex method of Nelder and Mead with
// limits; the additive ones after it, by golden section.
//
// Intervals are judged out of fold as well: bounds from the errors of the other folds.
//
//   fit_corrections --points train.csv --folds folds.csv [--out-of-fold out.csv]
//     [--only trtllm|sglang|vllm|trtllm-disagg|sglang-disagg]  one plan; all of them otherwise
//     [--rows N]  at most so many rows a fit, spread over deployments and loads
//     [--also NAME] [--drop NAME]  constants to fit beyond or without the backend's usual ones
//     [--only-score [--set NAME=VALUE]]  fit nothing, score the built-in constants, or these
//     [--inferred-slots with|without|dropped]  how the campaign whose engine lacks a batch slot
//     counts
#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "serving/correction_settings.h"
#include "tables/systems_paths.h"
#include "validation/fold_evaluation.h"
#include "validation/prepared_point.h"

namespace infercast {
namespace {

constexpr int kFolds = Folds::kCount;

struct Row {
  PreparedDeployment* deployment = nullptr;
  const PreparedPoint* point = nullptr;
  const RepairedPoint* measured = nullptr;
  int fold = -1;
  // Last simulation; a fit runs it without additive constants.
  double ttft = 0, tpot = 0;
  FirstTokenParts parts;
  double running = 0, context_share = 0, kv_share = 0;
};

// A constant that is fitted: its name, start and limits.
struct Free {
  std::string name;
  double start, low, high;
};
struct Plan {
  Backend backend;
  bool disaggregated;
  std::vector<Free> inside;  // change the simulation
  std::vector<Free> added;   // first_token_ms, first_token_steps: added afterwards

  std::string Name() const {
    return fmt::format("{}{}", ToString(backend), disaggregated ? "-disagg" : "");
  }
};

// Names and values of constants were checked before.
void Expect(const Status& status) {
  if (status) return;
  fmt::print(stderr, "{}\n", status.error().message);
  std::abort();
}

struct Fit {
  std::map<std::string, double> values;
  double loss = 0;
};

double Loss(std::span<Row* const> rows, const ServingCorrections& added) {
  double ttft = 0, tpot = 0;
  std::size_t n = 0, m = 0;
  for (const Row* row : rows) {
    const MeasuredPoint& p = row->measured->point;
    const double first = row->ttft + added.first_token_ms + added.first_token_steps * row->tpot;
    if (p.ttft_ms && *p.ttft_ms > 0 && first > 0) {
      ttft += std::min(std::abs(std::log(first / *p.ttft_ms)), 1.2);
      ++n;
    }
    if (p.tpot_ms && *p.tpot_ms > 0 && row->tpot > 0) {
      tpot += std::min(std::abs(std::log(row->tpot / *p.tpot_ms)), 0.6);
      ++m;
    }
  }
  return 0.7 * ttft / static_cast<double>(std::max<std::size_t>(n, 1)) +
         tpot / static_cast<double>(std::max<std::size_t>(m, 1));
}

void Simulate(std::span<Row* const> rows, const ServingCorrections& corrections) {
  std::map<PreparedDeployment*, std::vector<Row*>> by_deployment;
  std::vector<PreparedDeployment*> order;
  for (Row* row : rows) {
    auto& list = by_deployment[row->deployment];
    if (list.empty()) order.push_back(row->deployment);
    list.push_back(row);
  }
  tbb::parallel_for(std::size_t{0}, order.size(), [&](std::size_t i) {
    for (Row* row : by_deployment[order[i]]) {
      const auto forecast = ForecastPoint(*row->deployment, *row->point, corrections);
      const ServingForecast f = forecast.value_or(ServingForecast{});  // without one, all zero
      row->ttft = f.ttft.mean;
      row->tpot = f.tpot.mean;
      row->parts = f.parts;
      row->running = f.mean_running;
      row->context_share = f.context_step_share;
      row->kv_share = f.peak_kv_share;
    }
  });
}

// Least value of `f` over [low, high] by golden section.
double GoldenSection(const std::function<double(double)>& f, double low, double high) {
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  double a = low, b = high;
  double c = b - ratio * (b - a), d = a + ratio * (b - a);
  double fc = f(c), fd = f(d);
  for (int i = 0; i < 24; ++i) {
    if (fc < fd) {
      b = d, d = c, fd = fc;
      c = b - ratio * (b - a), fc = f(c);
    } else {
      a = c, c = d, fc = fd;
      d = a + ratio * (b - a), fd = f(d);
    }
  }
  const double middle = 0.5 * (a + b);
  return f(low) <= f(middle) ? low : middle;
}

// The best additive constants for the rows as simulated; returns the loss.
double FitAdded(std::span<const Free> free, std::span<Row* const> rows,
                ServingCorrections& corrections) {
  if (free.empty()) return Loss(rows, corrections);
  const auto with = [&](double value) {
    ServingCorrections tried = corrections;
    Expect(SetCorrection(tried, free[0].name, value));
    return FitAdded(free.subspan(1), rows, tried);
  };
  Expect(SetCorrection(corrections, free[0].name, GoldenSection(with, free[0].low, free[0].high)));
  return FitAdded(free.subspan(1), rows, corrections);
}

// Nelder and Mead within the limits of `plan`, from `start`.
template <typename Value>
void Descend(const Plan& plan, const std::vector<double>& start, const Value& value) {
  using Point = std::vector<double>;
  const std::size_t n = plan.inside.size();
  std::vector<std::pair<double, Point>> simplex;
  simplex.emplace_back(value(start), start);
  for (std::size_t i = 0; i < n; ++i) {
    Point p = start;
    p[i] += 0.25 * (plan.inside[i].high - plan.inside[i].low) *
            (p[i] > 0.6 * plan.inside[i].high ? -1 : 1);
    simplex.emplace_back(value(p), p);
  }
  for (int step = 0; step < 60; ++step) {
    std::ranges::sort(simplex, {}, [](const auto& s) { return s.first; });
    if (simplex.back().first - simplex.front().first < 1e-4) break;
    Point centre(n, 0.0);
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t i = 0; i < n; ++i)
        centre[i] += simplex[k].second[i] / static_cast<double>(n);
    }
    const auto along = [&](double t) {
      Point p(n);
      for (std::size_t i = 0; i < n; ++i) {
        p[i] = std::clamp(centre[i] + t * (simplex.back().second[i] - centre[i]),
                          plan.inside[i].low, plan.inside[i].high);
      }
      return p;
    };
    const Point reflected = along(-1);
    const double r = value(reflected);
    if (r < simplex.front().first) {
      const Point further = along(-2);
      const double e = value(further);
      simplex.back() = e < r ? std::pair(e, further) : std::pair(r, reflected);
    } else if (r < simplex[n - 1].first) {
      simplex.back() = {r, reflected};
    } else {
      const Point nearer = along(r < simplex.back().first ? -0.5 : 0.5);
      const double c = value(nearer);
      if (c < std::min(r, simplex.back().first)) {
        simplex.back() = {c, nearer};
      } else {
        for (std::size_t k = 1; k <= n; ++k) {
          for (std::size_t i = 0; i < n; ++i) {
            simplex[k].second[i] = 0.5 * (simplex[k].second[i] + simplex.front().second[i]);
          }
          simplex[k].first = value(simplex[k].second);
        }
      }
    }
  }
}

Fit FitRows(const Plan& plan, std::span<Row* const> rows) {
  const std::size_t n = plan.inside.size();
  using Point = std::vector<double>;
  Fit best;
  best.loss = 1e300;
  const auto value = [&](Point x) {
    ServingCorrections inside;
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = std::clamp(x[i], plan.inside[i].low, plan.inside[i].high);
      Expect(SetCorrection(inside, plan.inside[i].name, x[i]));
    }
    Simulate(rows, inside);
    ServingCorrections added;
    const double loss = FitAdded(plan.added, rows, added);
    if (loss < best.loss) {
      best.loss = loss;
      for (std::size_t i = 0; i < n; ++i) best.values[plan.inside[i].name] = x[i];
      for (const Free& f : plan.added) {
        best.values[f.name] =
            f.name == "first_token_ms" ? added.first_token_ms : added.first_token_steps;
      }
    }
    return loss;
  };
  // The loss has more than one valley: once from the usual values, once from the middle.
  for (const double share : {0.0, 1.0}) {
    Point start;
    for (const Free& f : plan.inside) {
      start.push_back(f.start + share * (0.5 * (f.low + f.high) - f.start));
    }
    Descend(plan, start, value);
  }
  return best;
}

ServingCorrections CorrectionsOf(const Fit& fit) {
  ServingCorrections c;
  for (const auto& [name, value] : fit.values) Expect(SetCorrection(c, name, value));
  return c;
}

struct Tally {
  std::vector<double> ttft, tpot;
  void Add(const Row& row, double ttft_ms, double tpot_ms) {
    const MeasuredPoint& p = row.measured->point;
    if (p.ttft_ms && *p.ttft_ms > 0) ttft.push_back(100 * std::abs(ttft_ms / *p.ttft_ms - 1));
    if (p.tpot_ms && *p.tpot_ms > 0) tpot.push_back(100 * std::abs(tpot_ms / *p.tpot_ms - 1));
  }
  std::string Text() {
    const auto figures = [](std::vector<double>& v) {
      const Distribution d = Summarise(v);
      return fmt::format("{:6.1f} % (median {:5.1f} %)", d.mean, d.median);
    };
    return fmt::format("{:5} rows  TTFT {}  TPOT {}", ttft.size(), figures(ttft), figures(tpot));
  }
};

// At most `most` rows, one per deployment and load in turn.
std::vector<Row*> Sample(const std::vector<Row*>& rows, std::size_t most) {
  if (rows.size() <= most) return rows;
  std::map<std::string, std::vector<Row*>> strata;
  for (Row* row : rows) {
    const MeasuredPoint& p = row->measured->point;
    strata[fmt::format("{} {} {} {}/{}", p.system, p.model, p.precision, *p.isl, *p.osl)].push_back(
        row);
  }
  std::vector<Row*> out;
  for (std::size_t k = 0; out.size() < most; ++k) {
    for (auto& [name, list] : strata) {
      // Spread over the list, which is ordered as the file is.
      if (k < list.size() && out.size() < most) out.push_back(list[(k * 7919) % list.size()]);
    }
    if (k > rows.size()) break;
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// `only`: the name of one plan; empty: all. kInvalidArgument for names that change none of them.
Result<std::vector<Plan>> Plans(const std::string& only, std::span<const std::string> also,
                                std::span<const std::string> drop) {
  const Free front{"front_end_ms_per_1000", 1.5, 0, 8};
  const Free scale{"context_scale", 1.1, 0.6, 1.8};
  const Free host{"host_ms_per_layer", 0.015, 0, 0.08};
  const Free ms{"first_token_ms", 0, 0, 400};
  const Free steps{"first_token_steps", 0, 0, 30};
  const Free transfer{"transfer_ms_per_1000", 2, 0, 10};
  const Free decode{"decode_scale", 1, 0.7, 1.3};
  std::vector<Plan> plans = {{Backend::kTrtllm, false, {scale}, {steps}},
                             {Backend::kSglang, false, {front, scale, host}, {ms}},
                             {Backend::kVllm, false, {scale, host}, {ms}},
                             {Backend::kTrtllm, true, {transfer, scale}, {ms}},
                             {Backend::kSglang, true, {transfer, scale}, {ms}}};
  std::erase_if(plans, [&](const Plan& plan) { return !only.empty() && plan.Name() != only; });
  if (plans.empty()) return Fail(ErrorKind::kInvalidArgument, "--only " + only + ": no such plan");
  std::set<std::string> used;
  for (Plan& plan : plans) {
    for (std::vector<Free>* list : {&plan.inside, &plan.added}) {
      std::erase_if(*list, [&](const Free& f) {
        const bool dropped = std::ranges::find(drop, f.name) != drop.end();
        if (dropped) used.insert("--drop " + f.name);
        return dropped;
      });
      const bool inside = list == &plan.inside;
      for (const Free& f :
           inside ? std::vector{front, scale, host, decode} : std::vector{ms, steps}) {
        const bool has = std::ranges::find(*list, f.name, &Free::name) != list->end();
        if (has || std::ranges::find(also, f.name) == also.end()) continue;
        list->push_back(f);
        used.insert("--also " + f.name);
      }
    }
  }
  for (const auto& [option, names] : {std::pair("--also ", also), std::pair("--drop ", drop)}) {
    for (const std::string& name : names) {
      if (used.contains(option + name)) continue;
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("{}{} changes no plan: a constant of no such name, or one that every "
                              "plan has (--also) or none (--drop)",
                              option, name));
    }
  }
  return plans;
}

int Main(int argc, char** argv) {
  CLI::App app("Fits the corrections of the closed-loop forecast");
  std::string points_file, folds_file, out_file;
  bool only_score = false;
  std::string only;
  std::string slots = "with";
  std::size_t most = 100000;
  app.add_option("--points", points_file, "Measured points")->required();
  app.add_option("--folds", folds_file, "Fold of each group")->required();
  app.add_option("--out-of-fold", out_file, "Write every out-of-fold forecast to this CSV");
  app.add_option("--rows", most, "Rows per fit at most (default: all)");
  app.add_option("--only", only, "One backend, e.g. trtllm or trtllm-disagg");
  app.add_option("--inferred-slots", slots,
                 "Rows whose missing batch slot was inferred from themselves: with it, without it, "
                 "or dropped")
      ->check(CLI::IsMember({"with", "without", "dropped"}));
  CLI::Option* const score =
      app.add_flag("--only-score", only_score, "Score the built-in constants, fit nothing");
  std::vector<std::string> set;
  std::vector<std::string> also, drop;
  app.add_option("--also", also, "Fit a constant that the backend's plan leaves out");
  app.add_option("--drop", drop, "Leave a constant of the plan out");
  app.add_option("--set", set, "With --only-score: NAME=VALUE instead of the built-in constant")
      ->needs(score);
  CLI11_PARSE(app, argc, argv);

  const auto plans = Plans(only, also, drop);
  const auto settings = ParseCorrections(set);
  for (const Error* error :
       {plans ? nullptr : &plans.error(), settings ? nullptr : &settings.error()}) {
    if (error == nullptr) continue;
    fmt::print(stderr, "{}\n", error->message);
    return 1;
  }

  const auto read = [](const std::string& path) {
    std::ifstream in(path);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  };
  auto roots = ResolveSystemsPaths(std::nullopt);
  if (!roots) {
    fmt::print(stderr, "{}\n", roots.error().message);
    return 1;
  }
  CheckpointSearch checkpoints;
  for (auto& dir : ModelConfigPaths(*roots)) checkpoints.config_dirs.push_back(dir);
  const SystemsCatalog systems(*roots);
  auto file = ParseMeasuredCsv(read(points_file));
  if (!file) {
    fmt::print(stderr, "{}\n", file.error().message);
    return 1;
  }
  const Folds folds = Folds::Parse(read(folds_file));
  const std::vector<RepairedPoint> points =
      RepairPoints(std::move(file->points), MoeTest(checkpoints));
  std::vector<PreparedDeployment> deployments =
      PreparePoints(points, systems, checkpoints, {.inferred_slots = slots == "with"});

  std::string oof =
      "line,fold,backend,mode,estimated,octaves,measured_ttft,ttft,measured_tpot,tpot,concurrency,"
      "front_end,polling,queue,prefill,transfer,running,context_share,kv_share\n";
  Tally all;
  IntervalCoverage all_within;
  const auto coverage_text = [](const IntervalCoverage& c) {
    return fmt::format("TTFT {:.1f} %, TPOT {:.1f} %", c.ttft_percent(), c.tpot_percent());
  };
  std::vector<Row> rows;
  for (PreparedDeployment& d : deployments) {
    if (d.error) continue;
    for (const PreparedPoint& p : d.points) {
      const RepairedPoint& r = points[p.index];
      if (r.copy || r.hidden_speculation || (slots == "dropped" && p.lacks_slot)) continue;
      Row row;
      row.deployment = &d;
      row.point = &p;
      row.measured = &r;
      row.fold = folds.Of(r, p.index);
      rows.push_back(row);
    }
  }
  for (const Plan& plan : *plans) {
    std::vector<Row*> mine;
    for (Row& row : rows) {
      if (row.point->backend == plan.backend && row.point->disaggregated == plan.disaggregated) {
        mine.push_back(&row);
      }
    }
    fmt::print("{} {}: {} rows\n", ToString(plan.backend),
               plan.disaggregated ? "disaggregated" : "aggregated", mine.size());
    const auto fittable = [&](int without) {
      std::vector<Row*> use;
      for (Row* row : mine) {
        const std::int64_t limit = plan.disaggregated ? 2048 : 256;
        if (row->fold != without && row->measured->concurrency <= limit) use.push_back(row);
      }
      return Sample(use, most);
    };
    Tally tally;
    std::vector<FoldSample> samples;
    std::map<std::string, std::pair<double, double>> ranges;
    for (int fold = 0; fold < kFolds; ++fold) {
      std::vector<Row*> test;
      for (Row* row : mine) {
        if (row->fold == fold) test.push_back(row);
      }
      ServingCorrections corrections = DefaultCorrections(plan.backend, plan.disaggregated);
      Expect(ApplyCorrections(*settings, corrections));
      if (!only_score) {
        const Fit fit = FitRows(plan, fittable(fold));
        corrections = CorrectionsOf(fit);
        std::string text;
        for (const auto& [name, value] : fit.values) {
          text += fmt::format(" {} {:.4g}", name, value);
          auto [it, fresh] = ranges.emplace(name, std::pair(value, value));
          it->second = {std::min(it->second.first, value), std::max(it->second.second, value)};
        }
        fmt::print("  without fold {}: loss {:.4f}{}\n", fold, fit.loss, text);
      }
      Simulate(test, corrections);
      Tally part;
      for (const Row* row : test) {
        part.Add(*row, row->ttft, row->tpot);
        tally.Add(*row, row->ttft, row->tpot);
        if (!plan.disaggregated) all.Add(*row, row->ttft, row->tpot);
        samples.push_back({fold, row->point->kind, row->measured->point.ttft_ms.value_or(0),
                           row->ttft, row->measured->point.tpot_ms.value_or(0), row->tpot});
        const FirstTokenParts& parts = row->parts;
        oof += fmt::format("{},{},{},{},{},{},{},{},{},{},", row->measured->point.line, fold,
                           ToString(plan.backend), plan.disaggregated ? "disagg" : "agg",
                           row->point->kind.estimated ? 1 : 0, row->point->kind.octaves,
                           row->measured->point.ttft_ms.value_or(0), row->ttft,
                           row->measured->point.tpot_ms.value_or(0), row->tpot);
        oof += fmt::format("{},{},{},{},{},{},{},{},{}\n", row->measured->concurrency,
                           parts.front_end, parts.polling, parts.queue, parts.prefill,
                           parts.transfer, row->running, row->context_share, row->kv_share);
      }
      fmt::print("  fold {}: {}\n", fold, part.Text());
    }
    fmt::print("  out of fold: {}\n", tally.Text());
    const IntervalCoverage within = CoverageOutOfFold(samples);
    fmt::print("  within intervals from the other folds: {}; within those shown: {}\n",
               coverage_text(within), coverage_text(CoverageAsShown(samples)));
    if (!plan.disaggregated) all_within.Merge(within);
    if (!only_score) {
      const Fit fit = FitRows(plan, fittable(-1));
      fmt::print("  all rows: loss {:.4f}\n", fit.loss);
      for (const auto& [name, value] : fit.values) {
        fmt::print("    {:<24} {:8.4g}   ({:.4g} to {:.4g})\n", name, value, ranges[name].first,
                   ranges[name].second);
      }
    }
    std::fflush(stdout);
  }
  fmt::print("aggregated, out of fold: {}\n", all.Text());
  fmt::print("aggregated, within intervals from the other folds: {}\n", coverage_text(all_within));
  if (!out_file.empty()) std::ofstream(out_file) << oof;
  return 0;
}

}  // namespace
}  // namespace infercast

int main(int argc, char** argv) { return infercast::Main(argc, argv); }
