// Whole runs (default, recommend, exp) against the recorded tables.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "golden_check/app_cases.h"
#include "search/experiment_file.h"
#include "search/pareto.h"
#include "search/standard_runs.h"

namespace infercast::golden {

namespace {

using Json = nlohmann::json;

// Recorded with as many rows as the files keep.
constexpr std::size_t kTopN = 10;

Result<RunRequest> Request(const Json& args) {
  RunRequest r;
  r.behaviour = Environment::kBehaviour;
  r.top_n = kTopN;
  r.model = args.at("model_path");
  r.system = args.at("system");
  SetFrom(args, "decode_system", r.decode_system);
  if (const auto backend = Argument<std::string>(args, "backend")) {
    if (*backend == "auto") {
      r.backend.reset();
    } else {
      IC_ASSIGN(r.backend, ParseBackend(*backend));
    }
  }
  SetFrom(args, "backend_version", r.version);
  IC_RETURN_IF_ERROR(SetNamed(args, "database_mode", r.database_mode));
  IC_RETURN_IF_ERROR(SetPolicy(args, r.policy));
  SetFrom(args, "isl", r.workload.isl);
  SetFrom(args, "osl", r.workload.osl);
  SetFrom(args, "prefix", r.workload.prefix);
  SetImages(args, r.workload);
  SetFrom(args, "enable_encoder_dp", r.encoder_data_parallel);
  SetFrom(args, "enable_epd", r.epd.enabled);
  SetFrom(args, "encoder_tp", r.epd.tp);
  SetFrom(args, "encoder_system", r.epd.system);
  SetFrom(args, "encoder_latency_correction", r.epd.latency_correction);
  SetFrom(args, "ttft", r.ttft);
  SetFrom(args, "tpot", r.tpot);
  SetFrom(args, "request_latency", r.request_latency);
  SetFrom(args, "strict_sla", r.strict);
  r.nextn = DraftArgument(args, 0);
  SetFrom(args, "nextn_accepted", r.nextn_accepted);
  SetFrom(args, "enable_chunked_prefill", r.chunked_prefill);
  SetFrom(args, "free_gpu_memory_fraction", r.memory_fraction);
  SetFrom(args, "max_seq_len", r.max_seq_len);
  SetFrom(args, "moe_backend", r.moe_backend);
  SetFrom(args, "attention_backend", r.attention_backend);
  return r;
}

Result<ExperimentsResult> Run(const std::string& kind, const Json& args, Workbench& bench) {
  if (kind == "exp") {
    ExperimentDefaults defaults;
    defaults.behaviour = Environment::kBehaviour;
    IC_ASSIGN(const ExperimentFile file,
              ParseExperiments(args.at("config").dump(), "config", defaults));
    ExperimentOptions options;
    options.top_n = kTopN;
    return RunExperiments(file.experiments, options, bench);
  }
  IC_ASSIGN(RunRequest request, Request(args));
  if (kind == "recommend") {
    if (!args.contains("database_mode")) request.database_mode = DatabaseMode::kHybrid;
    LoadTarget load;
    SetFrom(args, "target_request_rate", load.request_rate);
    SetFrom(args, "target_concurrency", load.concurrency);
    return RunRecommend(request, load, args.contains("nextn"), bench);
  }
  return RunDefault(request, args.at("total_gpus").get<std::int64_t>(), bench);
}

TableRounding RoundingOf(const std::vector<PickedRow>& rows) {
  if (!rows.empty() && rows.front().row.afd() != nullptr) return TableRounding::kAfd;
  // Cells of aggregation behind an encoder pool are not rounded again.
  const bool cells = !rows.empty() && rows.front().row.aggregated() != nullptr &&
                     rows.front().row.encoders.has_value();
  return cells ? TableRounding::kNone : TableRounding::kSearch;
}

// Among equal rows the recorded run's sort kept those that the recording processor's vector
// instructions put first, ours those that come first without them. Either may be on an aggregated
// front where the other is not, or beat other rows that the other does not beat.
struct FrontLeeway {
  std::size_t fewer = 0;
  std::size_t more = 0;
};

FrontLeeway LeewayOf(const std::vector<PickedRow>& front, const ExperimentsResult& result) {
  std::vector<FrontPoint> without;  // every row, and those cut off, but not the replaceable ones
  const auto add = [&](const AggregatedRow& r) {
    without.push_back({r.tokens_s_user, r.tokens_s_gpu});
  };
  std::set<std::tuple<std::string, Backend, double, double>> replaceable;
  const auto key = [](const AggregatedRow& r) {
    return std::tuple(r.worker->parallel, r.worker->backend, r.seq_s, r.tokens_s_user);
  };
  std::size_t own = 0;
  for (const PickedRow& picked : front) {
    const AggregatedRow* row = picked.row.aggregated();
    if (row == nullptr) continue;
    ++own;
    for (const ExperimentOutcome& outcome : result.outcomes) {
      for (const TaskRow& cut : outcome.table.cut_ties) {
        const AggregatedRow& other = *cut.aggregated();
        if (other.worker->parallel == row->worker->parallel &&
            other.worker->backend == row->worker->backend && other.seq_s == row->seq_s) {
          replaceable.insert(key(*row));
        }
      }
    }
  }
  if (replaceable.empty()) return {};
  for (const ExperimentOutcome& outcome : result.outcomes) {
    for (const TaskRow& cut : outcome.table.cut_ties) add(*cut.aggregated());
    for (const TaskRow& row : outcome.table.rows) {
      const AggregatedRow* r = row.aggregated();
      if (r != nullptr && !replaceable.contains(key(*r))) add(*r);
    }
  }
  const std::size_t kept = own - std::min(own, replaceable.size());
  const std::size_t others = ParetoFront(without, true, true).size();
  return {replaceable.size(), others - std::min(others, kept)};
}

void CompareTable(const std::string& experiment, const char* table, const Json& expected,
                  const std::vector<PickedRow>& actual, const Json& ties, bool load,
                  const FrontLeeway& leeway, Comparer& compare) {
  const std::string where = fmt::format("{}.{}", table, experiment);
  const auto total = expected.at("rows_total").get<std::size_t>();
  if (total > actual.size() + leeway.more || total + leeway.fewer < actual.size()) {
    compare.Exact(where + ".rows_total", total, actual.size());
  }
  const Json& rows = expected.at("rows");
  const bool front = std::string_view(table) == "pareto_fronts";
  for (std::size_t i = 0; i < std::min(rows.size(), actual.size()); ++i) {
    std::vector<NamedCell> cells = CellsOf(actual[i], load && !front);
    // Merged tables name the backend; only their aggregated rows had the column before.
    std::erase_if(cells, [&](const NamedCell& cell) {
      return cell.name == "backend" && !rows[i].contains("backend");
    });
    CompareRow(fmt::format("{}[{}]", where, i), rows[i], cells, RoundingOf(actual), true,
               TiedColumns(ties, experiment, table, i), compare);
  }
}

// The latencies of the first row of an experiment, under its own name.
void CompareLatencies(const Json& expected, const ExperimentsResult& result, const Json& ties,
                      Comparer& compare) {
  for (const auto& [name, want] : expected.items()) {
    const auto found = std::ranges::find(result.outcomes, name, &ExperimentOutcome::name);
    if (found == result.outcomes.end()) {
      compare.Differ("best_latencies." + name, want.dump(), "no such experiment");
      continue;
    }
    const auto tied = TiedColumns(ties, name, "best_configs", 0);
    PickRow first;
    Pick pick;
    if (!found->pick.best.empty()) {
      pick = found->pick.best[0];
      first = PickRowOf(found->table.rows[pick.row]);
    }
    const std::pair<const char*, double> figures[] = {
        {"ttft", first.ttft},
        {"tpot", first.tpot},
        {"request_latency", first.request_latency},
        {"replicas_needed", static_cast<double>(pick.replicas_needed)},
        {"total_gpus_needed", static_cast<double>(pick.total_gpus_needed)}};
    for (const auto& [column, value] : figures) {
      if (!want.contains(column) || std::ranges::find(tied, column) != tied.end()) continue;
      compare.Rounded(fmt::format("best_latencies.{}.{}", name, column), want.at(column), value, 3);
    }
  }
}

}  // namespace

void RunAppSweep(const Json& document, const AppData& data, Comparer& compare) {
  const std::string kind = document.at("kind");
  Workbench bench(data.systems, data.checkpoints);
  const Result<ExperimentsResult> result = Run(kind, document.at("args"), bench);
  std::optional<Error> error;
  if (!result) error = result.error();
  if (CheckExpectedError(document, error, compare)) return;

  const Json& expected = document.at("result");
  const Json ties = expected.value("ties", Json::object());
  const bool load = kind == "recommend";
  const Json& values = expected.at("best_throughputs");
  if (ties.contains("chosen_exp")) {
    const auto equal = ties.at("chosen_exp").get<std::vector<std::string>>();
    if (std::ranges::find(equal, result->chosen) == equal.end()) {
      compare.Exact("chosen_exp", expected.at("chosen_exp"), result->chosen);
    }
  } else {
    compare.Exact("chosen_exp", expected.at("chosen_exp"), result->chosen);
  }
  for (const ExperimentResult& have : result->results) {
    if (!values.contains(have.name)) compare.Differ(have.name, "no such result", "a result");
  }
  for (const auto& [name, value] : values.items()) {
    const ExperimentResult* have = result->Find(name);
    if (have == nullptr) {
      compare.Differ(name, "a result", "nothing");
      continue;
    }
    if (load) {
      compare.Number("best_throughputs." + name, value, have->best_value);
    } else {
      CompareFigure("best_throughputs." + name, "tokens/s/gpu_cluster", value, have->best_value,
                    RoundingOf(have->best), compare);
    }
    CompareTable(name, "best_configs", expected.at("best_configs").at(name), have->best, ties, load,
                 {}, compare);
    CompareTable(name, "pareto_fronts", expected.at("pareto_fronts").at(name), have->front, ties,
                 load, LeewayOf(have->front, *result), compare);
  }
  CompareLatencies(expected.at("best_latencies"), *result, ties, compare);
}

}  // namespace infercast::golden
