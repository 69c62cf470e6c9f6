#include "report/system_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "report/result_columns.h"
#include "report/text_table.h"

namespace infercast {
namespace {

struct Entry {
  const ExperimentOutcome* outcome = nullptr;
  const Pick* pick = nullptr;
  const TaskRow* row = nullptr;
  std::optional<Cost> cost;
  bool exceeded = false;

  double gpus() const { return static_cast<double>(PickRowOf(*row).num_total_gpus); }
};

using Key = std::pair<std::string, Backend>;

Key KeyOf(const ExperimentOutcome& outcome) {
  std::string system = outcome.task.primary().system;
  if (outcome.task.mode == ServingMode::kDisaggregated &&
      outcome.task.decode.system != outcome.task.prefill.system) {
    system += " + " + outcome.task.decode.system;
  }
  return {std::move(system), outcome.task.primary().backend};
}

// True when `a` is the better deployment for a buyer.
bool Better(const Entry& a, const Entry& b, bool load) {
  if (a.exceeded != b.exceeded) return b.exceeded;
  if (a.cost && b.cost && a.cost->per_request != b.cost->per_request) {
    return a.cost->per_request < b.cost->per_request;
  }
  if (a.cost.has_value() != b.cost.has_value()) return a.cost.has_value();
  if (load && a.pick->total_gpus_needed != b.pick->total_gpus_needed) {
    return a.pick->total_gpus_needed < b.pick->total_gpus_needed;
  }
  return a.pick->tokens_s_gpu_cluster > b.pick->tokens_s_gpu_cluster;
}

std::vector<Entry> EntriesOf(const ExperimentsResult& result, const ComparisonOptions& options) {
  std::map<Key, Entry> best;
  for (const ExperimentOutcome& outcome : result.outcomes) {
    if (outcome.error || outcome.pick.best.empty()) continue;
    Entry entry;
    entry.outcome = &outcome;
    entry.pick = &outcome.pick.best.front();
    entry.row = &outcome.table.rows[entry.pick->row];
    entry.exceeded = outcome.pick.exceeded;
    if (!options.prices.empty()) entry.cost = CostOf(*entry.row, options.prices);
    const auto [at, added] = best.try_emplace(KeyOf(outcome), entry);
    if (!added && Better(entry, at->second, options.load.has_value())) at->second = entry;
  }
  std::vector<Entry> entries;
  for (const auto& [key, entry] : best) entries.push_back(entry);
  std::ranges::stable_sort(entries, [&](const Entry& a, const Entry& b) {
    return Better(a, b, options.load.has_value());
  });
  return entries;
}

// Units live as long as tables may: currencies are few.
std::string_view Kept(const std::string& text) {
  static std::set<std::string> kept;
  return *kept.insert(text).first;
}

std::int64_t Replicas(const Entry& entry, const ComparisonOptions& options) {
  if (options.load) return entry.pick->replicas_needed;
  const auto gpus = PickRowOf(*entry.row).num_total_gpus;
  return gpus > 0 ? entry.outcome->task.gpu_budget().value_or(gpus) / gpus : 0;
}

}  // namespace

bool ComparesSystems(const ExperimentsResult& result) {
  std::set<Key> keys;
  for (const ExperimentOutcome& outcome : result.outcomes) keys.insert(KeyOf(outcome));
  return keys.size() > 1;
}

ResultTable SystemComparison(const ExperimentsResult& result, const ComparisonOptions& options) {
  const bool priced = !options.prices.empty();
  const std::string_view money = Kept(options.prices.currency);
  ResultTable table;
  table.columns = {
      {"system", "system", "", "system", 0},
      {"backend", "backend", "", "backend", 0},
      {"version", "version", "", "", 0},
      {"mode", "mode", "", "mode", 0},
      {"deployment", "deployment", "", "one replica", 0},
      {"gpus", "gpus", "", "GPUs", 0},
      {"replicas", "replicas", "", "replicas", 0},
      {"tokens/s/gpu_cluster", "tokens_per_s_per_cluster_gpu", "1/s", "tokens/s/GPU", 1},
      {"tokens/s/user", "tokens_per_s_per_user", "1/s", "tokens/s/user", 1},
      {"request_rate", "requests_per_s", "1/s", "requests/s", 2},
      {"ttft", "ttft_ms", "ms", "TTFT", 0},
      {"tpot", "tpot_ms", "ms", "TPOT", 1},
      {"meets_target", "meets_target", "", "", 0}};
  if (priced) {
    table.columns.push_back({"cost/hour", "cost_per_hour", money, "per hour", 2});
    table.columns.push_back(
        {"cost/M_input_tokens", "cost_per_million_input_tokens", money, "per M input", 4});
    table.columns.push_back(
        {"cost/M_output_tokens", "cost_per_million_output_tokens", money, "per M output", 4});
    table.columns.push_back({"cost/request", "cost_per_request", money, "per request", 6});
  }
  table.columns.push_back({"energy/output_token", "energy_per_output_token_j", "J", "J/token", 3});
  for (const Entry& e : EntriesOf(result, options)) {
    const PickRow figures = PickRowOf(*e.row);
    const std::int64_t replicas = Replicas(e, options);
    const auto [system, backend] = KeyOf(*e.outcome);
    std::vector<Cell> row = {system,
                             std::string(ToString(backend)),
                             e.outcome->task.primary().version.value_or(""),
                             std::string(ToString(e.outcome->task.mode)),
                             DescribeDeployment(*e.row),
                             replicas * figures.num_total_gpus,
                             replicas,
                             RealCell(e.pick->tokens_s_gpu_cluster),
                             RealCell(figures.tokens_s_user),
                             RealCell(figures.seq_s * static_cast<double>(replicas)),
                             RealCell(figures.ttft),
                             RealCell(figures.tpot),
                             !e.exceeded};
    if (priced) {
      if (e.cost) {
        row.insert(row.end(),
                   {RealCell(e.cost->per_hour * static_cast<double>(replicas)),
                    RealCell(e.cost->per_million_input_tokens),
                    RealCell(e.cost->per_million_output_tokens), RealCell(e.cost->per_request)});
      } else {
        row.insert(row.end(), 4, Cell());
      }
    }
    const std::optional<double> energy = EnergyPerOutputToken(*e.row);
    row.push_back(energy ? RealCell(*energy) : Cell());
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string SystemComparisonText(const ExperimentsResult& result,
                                 const ComparisonOptions& options) {
  std::string text;
  const std::vector<Entry> entries = EntriesOf(result, options);
  if (!entries.empty()) {
    ResultTable table = SystemComparison(result, options);
    // A reader of a terminal is told that a figure is unknown; programs get no value.
    bool any_energy = false;
    for (auto& row : table.rows) any_energy |= !std::holds_alternative<std::monostate>(row.back());
    for (auto& row : table.rows) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        const bool energy = i + 1 == row.size();
        if (std::holds_alternative<std::monostate>(row[i]) && (!energy || any_energy)) {
          row[i] = std::string("unknown");
        }
      }
    }
    text += TextOf(table);
    const Entry& best = entries.front();
    const auto [system, backend] = KeyOf(*best.outcome);
    text += fmt::format("\n  {} with {}: ", system, ToString(backend));
    if (best.exceeded) {
      text += "nearest to the targets, which nothing meets\n";
    } else if (best.cost) {
      text +=
          fmt::format("cheapest, {} per million output tokens and {} per million input tokens\n",
                      MoneyText(best.cost->per_million_output_tokens, options.prices),
                      MoneyText(best.cost->per_million_input_tokens, options.prices));
    } else if (options.load) {
      text += fmt::format("fewest GPUs, {}\n", best.pick->total_gpus_needed);
    } else {
      text += fmt::format("most throughput, {:.1f} tokens/s per GPU\n",
                          best.pick->tokens_s_gpu_cluster);
    }
    for (const Entry& e : entries) {
      if (!e.exceeded || best.exceeded) continue;
      const auto [other, with] = KeyOf(*e.outcome);
      text += fmt::format("  {} with {} misses the targets: shown is what comes nearest\n", other,
                          ToString(with));
    }
    if (!any_energy) text += "  energy: unknown, power was not measured\n";
  }
  std::map<Key, std::string> silent;
  for (const ExperimentOutcome& outcome : result.outcomes) {
    const Key key = KeyOf(outcome);
    const bool answered =
        std::ranges::any_of(entries, [&](const Entry& e) { return KeyOf(*e.outcome) == key; });
    if (!answered && outcome.error) silent.try_emplace(key, outcome.error->message);
  }
  for (const auto& [key, why] : silent) {
    text += fmt::format("  {} with {}: no answer: {}\n", key.first, ToString(key.second), why);
  }
  return text;
}

}  // namespace infercast
