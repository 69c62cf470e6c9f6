#include "report/plot_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>

#include "report/operator_report.h"
#include "report/result_columns.h"
#include "search/explain_afd.h"
#include "search/explain_rows.h"
#include "serving/worker.h"

namespace infercast {
namespace {

std::shared_ptr<const Worker> WorkerOf(const WorkerIdentity* identity, const TaskTable& table) {
  for (const auto& worker : table.workers) {
    if (&worker->identity() == identity) return worker;
  }
  return nullptr;
}

// Twins of workers at the speed of light, made when first needed.
class Twins {
 public:
  const RooflineTwin* Of(const Worker& worker) {
    const auto [entry, added] = twins_.try_emplace(&worker);
    if (added) {
      if (auto twin = RooflineTwin::Of(worker)) entry->second = *std::move(twin);
    }
    return entry->second.get();
  }

 private:
  std::map<const Worker*, std::shared_ptr<const RooflineTwin>> twins_;
};

void AddPhases(const std::vector<EstimatePhase>& phases, PlotPoint& point) {
  for (const EstimatePhase& phase : phases) {
    const bool bounds = phase.bounds.size() == phase.operators.entries.size();
    PlotPhase drawn{PhaseHeading(phase), {}};
    for (std::size_t i = 0; i < phase.operators.entries.size(); ++i) {
      const OpEntry& e = phase.operators.entries[i];
      if (!(e.latency_ms > 0) || IsSumOfOthers(e)) continue;
      drawn.operators.push_back({e.name, e.latency_ms / phase.passes,
                                 bounds ? BoundText(phase.bounds[i]) : std::string()});
    }
    if (!drawn.operators.empty()) point.phases.push_back(std::move(drawn));
  }
}

// A breakdown that cannot be had is left out: the point is still a point.
void Explain(const Worker* worker, ExplainWorker explain, Twins& twins, PlotPoint& point) {
  std::vector<EstimatePhase> phases;
  if (worker == nullptr || !explain(*worker, phases)) return;
  if (const RooflineTwin* twin = twins.Of(*worker)) {
    // Without rooflines communication is still told.
    [[maybe_unused]] const Status told = AddBounds(*twin, explain, phases);
  }
  AddPhases(phases, point);
}

void ExplainPool(const StaticRow& row, bool prefill, const Task& task, const TaskTable& table,
                 Twins& twins, PlotPoint& point) {
  ExplainedBatch batch;
  batch.batch = row.bs;
  batch.mode = prefill ? StaticMode::kContext : StaticMode::kGeneration;
  batch.correction =
      prefill ? task.disagg.prefill_latency_correction : task.disagg.decode_latency_correction;
  batch.context = "prefill";
  batch.generation = "decode";
  const auto explain = [&](const Worker& worker, std::vector<EstimatePhase>& phases) {
    return ExplainBatch(worker, task.workload, batch, phases);
  };
  Explain(WorkerOf(row.worker, table).get(), explain, twins, point);
}

void ExplainEncoders(const EncoderStage& stage, const WorkerIdentity* language, const Task& task,
                     const TaskTable& table, PlotPoint& point) {
  const std::shared_ptr<const Worker> behind = WorkerOf(language, table);
  // Encode workers on another system stay without a breakdown.
  if (behind == nullptr || (task.epd.system && *task.epd.system != language->system)) return;
  const auto worker = EncodeWorkerOf(*behind, stage);
  if (!worker) return;
  const auto explain = [&](const Worker& w, std::vector<EstimatePhase>& phases) {
    return ExplainEncoder(w, task.workload, stage.bs, phases);
  };
  Twins own;  // the worker lives no longer than this call
  Explain(worker->get(), explain, own, point);
}

void ExplainAfdRow(const AfdRow& row, const Task& task, const TaskTable& table, Twins& twins,
                   PlotPoint& point) {
  const auto attention = WorkerOf(row.attention_worker, table);
  const auto ffn = WorkerOf(row.ffn_worker, table);
  if (attention != nullptr && ffn != nullptr) {
    const AfdOptions options{task.memory_fraction, task.max_seq_len};
    const auto deployment = AfdDeployment::Create(attention, ffn, row.layout);
    std::vector<EstimatePhase> phases;
    if (deployment &&
        ExplainAfd(**deployment, task.workload, row.schedule, row.phase, options, phases)) {
      [[maybe_unused]] const Status told =
          AddAfdBounds(**deployment, task.workload, row.schedule, row.phase, options, phases);
      AddPhases(phases, point);
    }
  }
  if (!row.partner) return;
  ExplainedBatch batch;
  batch.batch = row.partner->bs;
  batch.mode = row.partner->prefills ? StaticMode::kContext : StaticMode::kGeneration;
  const auto explain = [&](const Worker& worker, std::vector<EstimatePhase>& phases) {
    return ExplainBatch(worker, task.workload, batch, phases);
  };
  Explain(WorkerOf(row.partner->worker, table).get(), explain, twins, point);
}

void ExplainRow(const TaskRow& row, const Task& task, const TaskTable& table, Twins& twins,
                PlotPoint& point) {
  if (const AggregatedRow* agg = row.aggregated()) {
    if (row.encoders) ExplainEncoders(*row.encoders, agg->worker, task, table, point);
    const auto explain = [&](const Worker& worker, std::vector<EstimatePhase>& phases) {
      return ExplainSteps(worker, task.workload, *agg, phases);
    };
    Explain(WorkerOf(agg->worker, table).get(), explain, twins, point);
  } else if (const DisaggregatedRow* pools = row.disaggregated()) {
    if (row.encoders) {
      ExplainEncoders(*row.encoders, pools->prefill.worker, task, table, point);
    }
    ExplainPool(pools->prefill, true, task, table, twins, point);
    ExplainPool(pools->decode, false, task, table, twins, point);
  } else if (const AfdRow* afd = row.afd()) {
    ExplainAfdRow(*afd, task, table, twins, point);
  }
}

void AddFlag(std::string& command, const char* name, const std::string& value) {
  command += fmt::format(" --{} {}", name, ShellWord(value));
}

void AddSizes(std::string& command, const std::string& role, const ParallelLayout& layout) {
  const auto add = [&](const char* name, std::int64_t size, bool always) {
    if (always || size != 1) AddFlag(command, (role + name).c_str(), std::to_string(size));
  };
  add("tp-size", layout.tp, true);
  add("pp-size", layout.pp, false);
  add("attention-dp-size", layout.dp, false);
  if (layout.cp != 1) AddFlag(command, "cp-size", std::to_string(layout.cp));
  const bool experts = layout.moe_tp.value_or(1) * layout.moe_ep.value_or(1) != 1;
  if (experts) {
    add("moe-tp-size", layout.moe_tp.value_or(1), true);
    add("moe-ep-size", layout.moe_ep.value_or(1), true);
  }
}

void AddWorkload(std::string& command, const Task& task) {
  AddFlag(command, "isl", std::to_string(task.workload.isl));
  AddFlag(command, "osl", std::to_string(task.workload.osl));
  if (task.workload.prefix > 0) AddFlag(command, "prefix", std::to_string(task.workload.prefix));
  if (task.workload.image_height > 0 && task.workload.num_images > 0) {
    AddFlag(command, "image-height", std::to_string(task.workload.image_height));
    AddFlag(command, "image-width", std::to_string(task.workload.image_width));
    AddFlag(command, "num-images", std::to_string(task.workload.num_images));
  }
  if (task.database_mode != DatabaseMode::kSilicon) {
    AddFlag(command, "database-mode", std::string(ToString(task.database_mode)));
  }
  if (task.nextn.value_or(1) > 0) {
    AddFlag(command, "nextn", task.nextn ? std::to_string(*task.nextn) : "auto");
    if (task.nextn_accepted) {
      AddFlag(command, "nextn-accepted", fmt::format("{}", *task.nextn_accepted));
    }
  }
  if (task.memory_fraction) {
    AddFlag(command, "free-gpu-memory-fraction", fmt::format("{}", *task.memory_fraction));
  }
  if (task.max_seq_len) AddFlag(command, "max-seq-len", std::to_string(*task.max_seq_len));
  if (task.attention_backend) AddFlag(command, "attention-backend", *task.attention_backend);
  if (task.moe_backend) AddFlag(command, "moe-backend", *task.moe_backend);
  if (task.behaviour == Behaviour::kReference) AddFlag(command, "behaviour", "reference");
}

void AddWho(std::string& command, const WorkerIdentity& id, const RoleChoice& role) {
  // Rows name a local model by its last part only; the task knows where it is.
  AddFlag(command, "model", role.model.empty() ? id.model : role.model);
  AddFlag(command, "system", id.system);
  AddFlag(command, "backend", std::string(ToString(id.backend)));
  if (!id.version.empty()) AddFlag(command, "backend-version", id.version);
}

PlotPoint PointOf(const TaskRow& row, const Task& task, const PlotOptions& options) {
  PlotPoint p;
  const PickRow figures = PickRowOf(row);
  p.tokens_s_user = figures.tokens_s_user;
  p.tokens_s_gpu = figures.tokens_s_gpu;
  p.ttft_ms = figures.ttft;
  p.tpot_ms = figures.tpot;
  p.concurrency = figures.concurrency;
  p.gpus = figures.num_total_gpus;
  p.mode = ToString(task.mode);
  const auto fact = [&](std::string name, std::string value) {
    p.facts.emplace_back(std::move(name), std::move(value));
  };
  fact("requests/s", fmt::format("{:.3f}", figures.seq_s));
  fact("request latency ms", fmt::format("{:.1f}", figures.request_latency));
  if (row.score) {
    const PickRow formula = PickRowOf(TaskRow{row.figures, row.encoders});
    fact("TTFT p99 ms", fmt::format("{:.1f}", row.score->ttft_p99));
    fact("formula", fmt::format("TTFT {:.1f} ms, TPOT {:.2f} ms, {:.1f} tokens/s/GPU", formula.ttft,
                                formula.tpot, formula.tokens_s_gpu));
  }
  if (const AggregatedRow* agg = row.aggregated()) {
    p.system = agg->worker->system;
    p.backend = ToString(agg->worker->backend);
    p.parallel = ShortLayout(agg->worker->layout);
    fact("batch", std::to_string(agg->bs));
    fact("prefill tokens", std::to_string(agg->ctx_tokens));
    fact("memory GiB", fmt::format("{:.1f}", agg->memory.total));
  } else if (const DisaggregatedRow* pools = row.disaggregated()) {
    const WorkerIdentity& prefill = *pools->prefill.worker;
    const WorkerIdentity& decode = *pools->decode.worker;
    p.system =
        prefill.system == decode.system ? prefill.system : prefill.system + " + " + decode.system;
    p.backend = ToString(decode.backend);
    p.parallel =
        fmt::format("{} x {} + {} x {}", pools->prefill_workers, ShortLayout(prefill.layout),
                    pools->decode_workers, ShortLayout(decode.layout));
    fact("batch", fmt::format("{} + {}", pools->prefill.bs, pools->decode.bs));
    fact("memory GiB",
         fmt::format("{:.1f} + {:.1f}", pools->prefill.memory.total, pools->decode.memory.total));
  } else if (const AfdRow* afd = row.afd()) {
    p.system = afd->attention_worker->system;
    p.backend = ToString(afd->attention_worker->backend);
    p.parallel = afd->layout.Text();
    fact("batch", std::to_string(afd->schedule.batch));
    fact("memory GiB", fmt::format("{:.1f}", afd->memory));
  }
  if (!options.prices.empty()) {
    const std::optional<Cost> cost = CostOf(row, options.prices);
    const auto money = [&](double Cost::* figure) {
      return cost ? MoneyText((*cost).*figure, options.prices) : std::string("unknown");
    };
    fact("per million input tokens", money(&Cost::per_million_input_tokens));
    fact("per million output tokens", money(&Cost::per_million_output_tokens));
    fact("per request", money(&Cost::per_request));
  }
  const std::optional<double> energy = EnergyPerOutputToken(row);
  fact("J/output token", energy ? fmt::format("{:.3f}", *energy) : "unknown");
  p.command = EstimateCommand(row, task);
  if (!p.command.empty()) p.command += options.more_flags;
  return p;
}

// Positions of the rows to draw: all that must stay, and of the others every so many.
std::vector<std::uint32_t> Selection(std::size_t rows, const std::set<std::uint32_t>& must,
                                     std::size_t most) {
  std::vector<std::uint32_t> chosen;
  const std::size_t others = rows - must.size();
  const std::size_t room = most > must.size() ? most - must.size() : 0;
  std::size_t seen = 0, taken = 0;
  for (std::uint32_t i = 0; i < rows; ++i) {
    if (must.contains(i)) {
      chosen.push_back(i);
      continue;
    }
    ++seen;
    // Evenly: after `seen` of `others` about the same share of `room` has been taken.
    if (others <= room || taken * others < seen * room) {
      if (taken < room) chosen.push_back(i);
      ++taken;
    }
  }
  return chosen;
}

std::string Subtitle(const ExperimentsResult& result) {
  for (const ExperimentOutcome& o : result.outcomes) {
    if (o.table.rows.empty()) continue;
    const Task& t = o.task;
    std::string text = fmt::format("isl {}, osl {}", t.workload.isl, t.workload.osl);
    if (t.workload.prefix > 0) text += fmt::format(", prefix {}", t.workload.prefix);
    if (t.request_latency) {
      text += fmt::format("; target: request latency {} ms", *t.request_latency);
    } else {
      text += fmt::format("; targets: TTFT {} ms, TPOT {} ms", t.ttft, t.tpot);
    }
    if (t.total_gpus) text += fmt::format("; {} GPUs", *t.total_gpus);
    return text;
  }
  return "";
}

}  // namespace

std::string ShellWord(const std::string& word) {
  const bool plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("-_./=:,+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string EstimateCommand(const TaskRow& row, const Task& task) {
  // estimate knows encode workers on the system of the others only, as they were measured.
  if (row.encoders && ((task.epd.system && *task.epd.system != task.primary().system) ||
                       task.epd.latency_correction != 1)) {
    return "";
  }
  std::string command = "infercast estimate";
  const auto add_encoders = [&] {
    if (!row.encoders) return;
    command += " --encoder-pool";
    AddFlag(command, "encoder-tp", std::to_string(row.encoders->tp));
    AddFlag(command, "encoder-batch-size", std::to_string(row.encoders->bs));
    AddFlag(command, "encoder-num-workers", std::to_string(row.encoders->workers));
    if (row.encoders->language_workers != 1) {
      AddFlag(command, "language-num-workers", std::to_string(row.encoders->language_workers));
    }
  };
  if (const AggregatedRow* agg = row.aggregated()) {
    AddWho(command, *agg->worker, task.worker);
    AddWorkload(command, task);
    AddSizes(command, "", agg->worker->layout);
    AddFlag(command, "batch-size", std::to_string(agg->bs));
    AddFlag(command, "ctx-tokens", std::to_string(agg->ctx_tokens));
    add_encoders();
    return command;
  }
  if (const DisaggregatedRow* pools = row.disaggregated()) {
    // Pools have no option for context parallelism.
    if (pools->prefill.worker->layout.cp != 1 || pools->decode.worker->layout.cp != 1) return "";
    command += " --estimate-mode disagg";
    AddWho(command, *pools->prefill.worker, task.prefill);
    if (pools->decode.worker->system != pools->prefill.worker->system) {
      AddFlag(command, "decode-system", pools->decode.worker->system);
    }
    AddWorkload(command, task);
    AddSizes(command, "prefill-", pools->prefill.worker->layout);
    AddFlag(command, "prefill-batch-size", std::to_string(pools->prefill.bs));
    AddFlag(command, "prefill-num-workers", std::to_string(pools->prefill_workers));
    AddSizes(command, "decode-", pools->decode.worker->layout);
    AddFlag(command, "decode-batch-size", std::to_string(pools->decode.bs));
    AddFlag(command, "decode-num-workers", std::to_string(pools->decode_workers));
    add_encoders();
    return command;
  }
  if (const AfdRow* afd = row.afd()) {
    const AfdLayout& layout = afd->layout;
    command += " --estimate-mode afd";
    AddWho(command, *afd->attention_worker, task.primary());
    AddWorkload(command, task);
    AddFlag(command, "n-a-nodes", std::to_string(layout.attention_nodes));
    AddFlag(command, "n-f-nodes", std::to_string(layout.ffn_nodes));
    AddFlag(command, "a-tp-size", std::to_string(layout.attention_tp));
    AddFlag(command, "a-batch-size", std::to_string(afd->schedule.batch));
    AddFlag(command, "f-moe-ep-size", std::to_string(layout.expert_parallel));
    AddFlag(command, "num-microbatches", std::to_string(afd->schedule.micro_batches));
    AddFlag(command, "pipeline-model", std::string(ToString(afd->schedule.pipeline)));
    if (layout.comm_overhead != 1) {
      AddFlag(command, "comm-overhead-factor", fmt::format("{}", layout.comm_overhead));
    }
    AddFlag(command, "afd-phase", std::string(ToString(afd->phase)));
    if (!layout.boundary_on_attention) command += " --boundary-on-ffn";
    if (!afd->partner) {
      command += " --no-afd-combined-with-pd";
    } else {
      AddSizes(command, "", afd->partner->worker->layout);
      AddFlag(command, "batch-size", std::to_string(afd->partner->bs));
    }
    return command;
  }
  return "";
}

PlotData PlotOf(const ExperimentsResult& result, const PlotOptions& options) {
  PlotData data;
  data.title = options.title;
  data.subtitle = Subtitle(result);
  data.notes = options.notes;
  const bool scored = std::ranges::any_of(result.outcomes, [](const ExperimentOutcome& o) {
    return std::ranges::any_of(o.table.rows,
                               [](const TaskRow& row) { return row.score.has_value(); });
  });
  if (scored) {
    data.notes.emplace_back(
        "Picked points and those of the fronts are benchmark runs in virtual time; all others are "
        "the formula's.");
  }
  std::set<std::string> systems, backends;
  std::size_t all_rows = 0;
  bool told_afd = false;
  for (const ExperimentOutcome& o : result.outcomes) {
    if (o.table.rows.empty()) continue;
    all_rows += o.table.rows.size();
    const RoleChoice& who = o.task.primary();
    systems.insert(who.system);
    backends.insert(std::string(ToString(who.backend)));
    if (data.title.empty()) data.title = who.model;
    if (!o.task.request_latency) data.tpot_target_ms = o.task.tpot;
    if (o.task.mode == ServingMode::kAfd && !told_afd) {
      told_afd = true;
      data.notes.emplace_back(
          "Commands of afd points price the split as it is, beside one undivided worker without "
          "queueing: their time per output token is the point's, the rest is not.");
    }
  }
  std::size_t breakdowns = 0;
  Twins twins;
  for (const ExperimentOutcome& o : result.outcomes) {
    const std::size_t rows = o.table.rows.size();
    if (rows == 0) continue;
    std::set<std::uint32_t> picked, must;
    for (const Pick& pick : o.pick.best) picked.insert(pick.row);
    must = picked;
    for (const Pick& pick : o.pick.front) must.insert(pick.row);
    std::string series(ToString(o.task.mode));
    if (backends.size() > 1) series += fmt::format(" {}", ToString(o.task.primary().backend));
    if (systems.size() > 1) series += " " + o.task.primary().system;
    const std::size_t share = std::max<std::size_t>(options.most_points * rows / all_rows, 1);
    for (const std::uint32_t i : Selection(rows, must, share)) {
      const TaskRow& row = o.table.rows[i];
      PlotPoint p = PointOf(row, o.task, options);
      p.series = series;
      p.picked = picked.contains(i);
      if (must.contains(i) && breakdowns < options.most_breakdowns) {
        ++breakdowns;
        ExplainRow(row, o.task, o.table, twins, p);
      }
      data.points.push_back(std::move(p));
    }
  }
  return data;
}

}  // namespace infercast
