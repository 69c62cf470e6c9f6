#include "report/mix_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "report/result_columns.h"
#include "report/text_table.h"

namespace infercast {
namespace {

using nlohmann::ordered_json;

// Money per request of the mix, for one deployment. Absent without prices.
std::optional<double> MixCost(const MixResult& result, const MixedDeployment& mixed,
                              const GpuPrices& prices) {
  double per_request = 0;
  for (std::size_t k = 0; k < result.kinds.size(); ++k) {
    const std::optional<Cost> cost = CostOf(mixed.rows[k], prices);
    if (!cost) return std::nullopt;
    per_request += result.kinds[k].share * cost->per_request;
  }
  return per_request;
}

// The figures of the formula, whether the row was run or not.
PickRow FormulaOf(TaskRow row) {
  row.score.reset();
  return PickRowOf(row);
}

}  // namespace

std::string MixText(const MixResult& result, const GpuPrices& prices) {
  std::string text = "workloads\n";
  for (const WorkloadKind& kind : result.kinds) {
    text += fmt::format(
        "  {:<12} {:>5.1f} % of requests, isl {}, osl {}{}; TTFT <= {:g} ms, TPOT <= {:g} ms\n",
        kind.name, kind.share * 100, kind.workload.isl, kind.workload.osl,
        kind.workload.prefix > 0 ? fmt::format(" ({} cached)", kind.workload.prefix) : "",
        kind.ttft.value_or(0), kind.tpot.value_or(0));
  }
  text +=
      fmt::format("\n{} deployments compared under every workload; the best{}:\n", result.compared,
                  result.scored_by == ScoredBy::kClosedLoop
                      ? ", ranked by benchmark runs in virtual time of each workload alone"
                      : " by the formula");
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    const MixedDeployment& m = result.best[i];
    const auto gpus = PickRowOf(m.rows.front()).num_total_gpus;
    text += fmt::format("\n{}. {}: {} x {}\n", i + 1, m.experiment, m.replicas,
                        DescribeDeployment(m.rows.front()));
    text += fmt::format("   {} GPUs a replica; {:.2f} requests/s of the mix in all, {:.3f} per GPU",
                        gpus, m.seq_s * static_cast<double>(m.replicas), m.seq_s_gpu_cluster);
    if (const auto cost = MixCost(result, m, prices)) {
      text += fmt::format("; {} per request", MoneyText(*cost, prices));
    }
    text += "\n";
    for (std::size_t k = 0; k < m.rows.size(); ++k) {
      const PickRow figures = PickRowOf(m.rows[k]);
      text += fmt::format(
          "   {:<12} TTFT {:>8.1f} ms, TPOT {:>6.2f} ms, alone {:>8.2f} requests/s a replica",
          result.kinds[k].name, figures.ttft, figures.tpot, figures.seq_s);
      if (m.rows[k].score) {
        const PickRow formula = FormulaOf(m.rows[k]);
        text += fmt::format("; p99 {:.1f} and {:.2f}; formula {:.1f}, {:.2f}, {:.2f}",
                            m.rows[k].score->ttft_p99, m.rows[k].score->tpot_p99, formula.ttft,
                            formula.tpot, formula.seq_s);
      }
      text += "\n";
    }
  }
  return text;
}

ResultTable MixTable(const MixResult& result, const GpuPrices& prices) {
  ResultTable table;
  table.columns = {
      {"rank", "rank", "", "rank", 0},
      {"experiment", "experiment", "", "experiment", 0},
      {"deployment", "deployment", "", "deployment", 0},
      {"num_total_gpus", "gpus_per_replica", "", "GPUs", 0},
      {"replicas", "replicas", "", "replicas", 0},
      {"mix_requests/s", "mix_requests_per_s", "1/s", "mix", 3},
      {"mix_requests/s/gpu", "mix_requests_per_s_per_cluster_gpu", "1/s", "per GPU", 4},
      {"mix_cost/request", "mix_cost_per_request", "", "cost", 6},
      {"workload", "workload", "", "workload", 0},
      {"share", "share", "", "share", 3},
      {"ttft", "ttft_ms", "ms", "TTFT", 1},
      {"tpot", "tpot_ms", "ms", "TPOT", 2},
      {"requests/s", "requests_per_s_alone", "1/s", "alone", 3}};
  const bool runs = result.scored_by == ScoredBy::kClosedLoop;
  if (runs) {
    table.columns.insert(
        table.columns.end(),
        {{"scored_by", "scored_by", "", "scored by", 0},
         {"closed_loop_ttft", "closed_loop_ttft_ms", "ms", "TTFT (run)", 1},
         {"closed_loop_ttft_p99", "closed_loop_ttft_p99_ms", "ms", "p99", 1},
         {"closed_loop_tpot", "closed_loop_tpot_ms", "ms", "TPOT (run)", 2},
         {"closed_loop_tpot_p99", "closed_loop_tpot_p99_ms", "ms", "p99", 2},
         {"closed_loop_requests/s", "closed_loop_requests_per_s_alone", "1/s", "alone (run)", 3}});
  }
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    const MixedDeployment& m = result.best[i];
    const auto cost = MixCost(result, m, prices);
    for (std::size_t k = 0; k < m.rows.size(); ++k) {
      const PickRow figures = FormulaOf(m.rows[k]);
      table.rows.push_back(
          {static_cast<std::int64_t>(i + 1), m.experiment, DescribeDeployment(m.rows.front()),
           figures.num_total_gpus, m.replicas, RealCell(m.seq_s * static_cast<double>(m.replicas)),
           RealCell(m.seq_s_gpu_cluster), cost ? RealCell(*cost) : Cell(), result.kinds[k].name,
           RealCell(result.kinds[k].share), RealCell(figures.ttft), RealCell(figures.tpot),
           RealCell(figures.seq_s)});
      if (!runs) continue;
      const ReplicaScore& score = *m.rows[k].score;
      table.rows.back().insert(
          table.rows.back().end(),
          {std::string("closed_loop"), RealCell(score.ttft), RealCell(score.ttft_p99),
           RealCell(score.tpot), RealCell(score.tpot_p99), RealCell(score.seq_s)});
    }
  }
  return table;
}

std::string MixJson(const MixResult& result, const GpuPrices& prices) {
  const bool runs = result.scored_by == ScoredBy::kClosedLoop;
  ordered_json json = {{"workloads", ordered_json::array()},
                       {"compared", result.compared},
                       {"scored_by", runs ? "closed_loop" : "formula"}};
  for (const WorkloadKind& kind : result.kinds) {
    json["workloads"].push_back({{"name", kind.name},
                                 {"share", kind.share},
                                 {"isl", kind.workload.isl},
                                 {"osl", kind.workload.osl},
                                 {"prefix", kind.workload.prefix},
                                 {"ttft_target_ms", kind.ttft.value_or(0)},
                                 {"tpot_target_ms", kind.tpot.value_or(0)}});
  }
  json["best"] = ordered_json::array();
  for (const MixedDeployment& m : result.best) {
    const auto cost = MixCost(result, m, prices);
    ordered_json entry = {{"experiment", m.experiment},
                          {"deployment", DescribeDeployment(m.rows.front())},
                          {"gpus_per_replica", PickRowOf(m.rows.front()).num_total_gpus},
                          {"replicas", m.replicas},
                          {"mix_requests_per_s", m.seq_s * static_cast<double>(m.replicas)},
                          {"mix_requests_per_s_per_cluster_gpu", m.seq_s_gpu_cluster},
                          {"mix_cost_per_request", cost ? ordered_json(*cost) : ordered_json()},
                          {"workloads", ordered_json::array()}};
    for (std::size_t k = 0; k < m.rows.size(); ++k) {
      const PickRow figures = FormulaOf(m.rows[k]);
      ordered_json workload = {{"name", result.kinds[k].name},
                               {"ttft_ms", figures.ttft},
                               {"tpot_ms", figures.tpot},
                               {"requests_per_s_alone", figures.seq_s}};
      if (const auto& score = m.rows[k].score) {
        workload["closed_loop_ttft_ms"] = score->ttft;
        workload["closed_loop_ttft_p99_ms"] = score->ttft_p99;
        workload["closed_loop_tpot_ms"] = score->tpot;
        workload["closed_loop_tpot_p99_ms"] = score->tpot_p99;
        workload["closed_loop_requests_per_s_alone"] = score->seq_s;
      }
      entry["workloads"].push_back(std::move(workload));
    }
    json["best"].push_back(std::move(entry));
  }
  json["notes"] = result.notes;
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace infercast
