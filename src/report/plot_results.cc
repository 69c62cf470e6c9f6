#include "report/plot_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "report/result_columns.h"
#include "serving/worker.h"

namespace infercast {
namespace {

const Worker* WorkerOf(const WorkerIdentity* identity, const TaskTable& table) {
  for (const auto& worker : table.workers) {
    if (&worker->identity() == identity) return worker.get();
  }
  return nullptr;
}

void AddPhase(std::string name, const Breakdown& breakdown, double divisor, PlotPoint& point) {
  PlotPhase phase{std::move(name), {}};
  for (const OpEntry& e : breakdown.entries) {
    if (e.latency_ms > 0) phase.operators.emplace_back(e.name, e.latency_ms / divisor);
  }
  if (!phase.operators.empty()) point.phases.push_back(std::move(phase));
}

std::uint32_t U32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

// A breakdown that cannot be had is left out: the point is still a point.
void ExplainAggregated(const AggregatedRow& row, const Task& task, const TaskTable& table,
                       PlotPoint& point) {
  const Worker* worker = WorkerOf(row.worker, table);
  if (worker == nullptr) return;
  const std::uint32_t isl = U32(row.isl + worker->VisualTokensOf(task.workload));
  if (const auto encoder = worker->Encode(task.workload, row.bs)) {
    AddPhase("encoder", *encoder, 1, point);
  }
  MixedShape mixed;
  mixed.context_tokens = U32(row.ctx_tokens);
  mixed.decodes = U32(row.mixed_decodes);
  mixed.isl = isl;
  mixed.osl = U32(row.osl);
  mixed.prefix = U32(row.prefix);
  if (const auto steps = worker->engine().ExplainMixedStep(mixed)) {
    Breakdown all = steps->shared;
    for (const Breakdown* part : {&steps->context_attention, &steps->decode_attention}) {
      for (const OpEntry& e : part->entries) all.Add(e);
    }
    AddPhase(fmt::format("step with prefill ({} prefill tokens, {} decoding)", row.ctx_tokens,
                         row.mixed_decodes),
             all, 1, point);
  }
  if (row.decode_batch > 0) {
    if (const auto step =
            worker->engine().ExplainDecodeStep(U32(row.decode_batch), isl, U32(row.osl))) {
      AddPhase(fmt::format("decode step ({} decoding)", row.decode_batch), *step, 1, point);
    }
  }
}

void ExplainPool(const StaticRow& row, bool prefill, const Task& task, const TaskTable& table,
                 PlotPoint& point) {
  const Worker* worker = WorkerOf(row.worker, table);
  if (worker == nullptr) return;
  if (prefill) {
    if (const auto encoder = worker->Encode(task.workload, row.bs)) {
      AddPhase("encoder", *encoder, 1, point);
    }
  }
  RuntimeShape shape;
  shape.batch_size = U32(row.bs);
  shape.isl = U32(task.workload.isl + worker->VisualTokensOf(task.workload));
  shape.osl = U32(task.workload.osl);
  shape.prefix = U32(task.workload.prefix);
  const auto steps = worker->engine().ExplainStatic(
      shape, prefill ? StaticMode::kContext : StaticMode::kGeneration, kDecodeStride);
  if (!steps) return;
  if (prefill) {
    AddPhase(fmt::format("prefill of {} request{}", row.bs, row.bs == 1 ? "" : "s"), steps->context,
             1, point);
  } else {
    const double count = static_cast<double>(std::max<std::int64_t>(task.workload.osl - 1, 1));
    AddPhase(fmt::format("decode step ({} decoding, mean over the output)", row.bs),
             steps->generation, count, point);
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
  if (row.encoders) return "";
  std::string command = "infercast estimate";
  if (const AggregatedRow* agg = row.aggregated()) {
    AddWho(command, *agg->worker, task.worker);
    AddWorkload(command, task);
    AddSizes(command, "", agg->worker->layout);
    AddFlag(command, "batch-size", std::to_string(agg->bs));
    AddFlag(command, "ctx-tokens", std::to_string(agg->ctx_tokens));
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
  for (const ExperimentOutcome& o : result.outcomes) {
    if (o.table.rows.empty()) continue;
    all_rows += o.table.rows.size();
    const RoleChoice& who = o.task.primary();
    systems.insert(who.system);
    backends.insert(std::string(ToString(who.backend)));
    if (data.title.empty()) data.title = who.model;
    if (!o.task.request_latency) data.tpot_target_ms = o.task.tpot;
  }
  std::size_t breakdowns = 0;
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
        if (const AggregatedRow* agg = row.aggregated()) {
          ExplainAggregated(*agg, o.task, o.table, p);
        } else if (const DisaggregatedRow* pools = row.disaggregated()) {
          ExplainPool(pools->prefill, true, o.task, o.table, p);
          ExplainPool(pools->decode, false, o.task, o.table, p);
        }
      }
      data.points.push_back(std::move(p));
    }
  }
  return data;
}

}  // namespace infercast
