#include "cli/estimate_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/near_names.h"
#include "cli/estimate_detail.h"
#include "cli/load_flags.h"
#include "memory/memory_usage.h"
#include "report/csv.h"
#include "report/result_columns.h"
#include "report/text_table.h"

namespace infercast {

namespace {

using nlohmann::ordered_json;

// One worker of the deployment with its memory.
struct WorkerPart {
  const char* name;  // "", "prefill", "decode", "attention", "feed_forward"
  const WorkerIdentity* identity;
  const MemoryUsage* memory;
  std::int64_t workers = 1;
  std::int64_t batch = 0;
};

std::vector<WorkerPart> PartsOf(const PointEstimate& point) {
  if (point.static_row) {
    const StaticRow& r = *point.static_row;
    return {{"", r.worker, &r.memory, 1, r.bs}};
  }
  if (const AggregatedRow* a = point.row->aggregated()) {
    const std::int64_t workers = point.row->encoders ? point.row->encoders->language_workers : 1;
    return {{"", a->worker, &a->memory, workers, a->bs}};
  }
  if (const DisaggregatedRow* d = point.row->disaggregated()) {
    return {{"prefill", d->prefill.worker, &d->prefill.memory, d->prefill_workers, d->prefill.bs},
            {"decode", d->decode.worker, &d->decode.memory, d->decode_workers, d->decode.bs}};
  }
  const AfdRow& f = *point.row->afd();
  return {{"attention", f.attention_worker, &f.attention_memory.usage, f.layout.AttentionWorkers(),
           f.schedule.batch},
          {"feed_forward", f.ffn_worker, &f.ffn_memory.usage, 1, f.total_batch}};
}

double CapacityOf(const PointEstimate& point, const WorkerIdentity* identity) {
  for (const std::shared_ptr<const Worker>& worker : point.workers) {
    if (&worker->identity() == identity) {
      return static_cast<double>(worker->capacity_bytes()) / kGiB;
    }
  }
  return 0;
}

ResultContext ContextOf(const EstimateRequest& request, const PointEstimate& point) {
  ResultContext context;
  context.experiment = ToString(point.mode);
  context.mode = point.mode == EstimateMode::kDisagg ? ServingMode::kDisaggregated
                 : point.mode == EstimateMode::kAfd  ? ServingMode::kAfd
                                                     : ServingMode::kAggregated;
  context.encoder_pool = point.row && point.row->encoders;
  context.database_mode = request.database_mode;
  context.behaviour = request.behaviour;
  return context;
}

ordered_json LayoutJson(const WorkerIdentity& id) {
  const ParallelLayout& layout = id.layout;
  return {{"tp_size", layout.tp},
          {"pp_size", layout.pp},
          {"attention_dp_size", layout.dp},
          {"cp_size", layout.cp},
          {"moe_tp_size", layout.moe_tp.value_or(1)},
          {"moe_ep_size", layout.moe_ep.value_or(1)},
          {"parallel", id.parallel}};
}

ordered_json QuantJson(const QuantModes& quant) {
  return {{"gemm", ToString(quant.gemm)},
          {"moe", ToString(quant.moe)},
          {"kvcache", ToString(quant.kv)},
          {"fmha", ToString(quant.fmha)},
          {"comm", ToString(quant.comm)}};
}

ordered_json MemoryJson(const MemoryUsage& m, double capacity_gib) {
  return {{"total", m.total},        {"weights", m.weights}, {"activations", m.activations},
          {"kvcache", m.kvcache},    {"nccl", m.nccl},       {"others", m.others},
          {"capacity", capacity_gib}};
}

ordered_json FiguresJson(const EstimateFigures& f, const PointEstimate& point) {
  ordered_json json = {{"ttft_ms", f.ttft},
                       {"tpot_ms", f.tpot},
                       {"request_latency_ms", f.request_latency},
                       {"tokens_per_s", f.tokens_s},
                       {"tokens_per_s_per_gpu", f.tokens_s_gpu},
                       {"tokens_per_s_per_user", f.tokens_s_user},
                       {"requests_per_s", f.seq_s},
                       {"concurrency", f.concurrency},
                       {"encoder_latency_ms", f.encoder_latency},
                       {"power_w", point.power_w ? ordered_json(*point.power_w) : ordered_json()},
                       {"num_total_gpus", f.gpus}};
  if (point.static_row) {
    json["context_latency_ms"] = point.static_row->context_latency;
    json["generation_latency_ms"] = point.static_row->generation_latency;
  }
  return json;
}

ordered_json AfdPhaseJson(const AfdPhaseTimes& t) {
  return {
      {"attention_layer_ms", t.attention},        {"feed_forward_layer_ms", t.ffn},
      {"attention_to_feed_forward_ms", t.to_ffn}, {"feed_forward_to_attention_ms", t.to_attention},
      {"communication_layer_ms", t.transfers},    {"step_ms", t.step},
      {"balance_ratio", t.balance_ratio},         {"communication_hidden", t.transfers_hidden}};
}

std::string AfdPhaseText(const char* phase, const AfdPhaseTimes& t) {
  return fmt::format(
      "\n{} by layer (ms)\n  attention     {:>9.3f}\n  feed-forward  {:>9.3f}   (balance {:.3f})\n"
      "  transfers     {:>9.3f}   ({})\n  whole step    {:>9.3f}\n",
      phase, t.attention, t.ffn, t.balance_ratio, t.transfers,
      t.transfers_hidden ? "hidden" : "not hidden", t.step);
}

std::string DeploymentText(const PointEstimate& point) {
  if (point.static_row) return point.static_row->worker->parallel;
  if (const AggregatedRow* a = point.row->aggregated(); a != nullptr && !point.row->encoders) {
    return a->worker->parallel;
  }
  return DescribeDeployment(*point.row);
}

std::string HeadText(const EstimateRequest& request, const PointEstimate& point) {
  const WorkerPart part = PartsOf(point).front();
  const WorkerPart last = PartsOf(point).back();
  const Workload& w = request.workload;
  std::string system = part.identity->system;
  if (last.identity->system != system) system += " and " + last.identity->system;
  std::string text =
      fmt::format("{} on {} x {} ({} {}), {}\n  isl {}, osl {}", part.identity->model,
                  FormulaFigures(point).gpus, system, ToString(part.identity->backend),
                  point.version, DeploymentText(point), w.isl, w.osl);
  if (w.prefix > 0) text += fmt::format(", prefix {}", w.prefix);
  if (w.image_height > 0) {
    text += fmt::format(", {} image(s) of {} x {}", w.num_images, w.image_height, w.image_width);
  }
  text += fmt::format(", weights {}, KV cache {}\n\n", ToString(part.identity->quant.gemm),
                      ToString(part.identity->quant.kv));
  return text;
}

std::string FiguresText(const EstimateAnswer& answer) {
  const PointEstimate& point = *answer.point;
  const EstimateFigures &f = answer.scored->figures, &formula = answer.scored->formula;
  std::string text;
  if (answer.scored->closed_loop) {
    const bool closed = answer.load == nullptr || answer.load->run.load.concurrency > 0;
    text += fmt::format("  {:<21} {:>12} {:>12}\n", "", closed ? "closed loop" : "run", "formula");
  }
  // "name  answer  (formula)  unit  more"
  const auto line = [&](const char* name, double EstimateFigures::* figure, int decimals,
                        const char* unit, const std::string& more = "") {
    text += fmt::format("  {:<21} {:>12.{}f}", name, f.*figure, decimals);
    if (answer.scored->closed_loop) text += fmt::format(" {:>12.{}f}", formula.*figure, decimals);
    text += fmt::format("{}{}\n", unit, more);
  };
  if (point.mode != EstimateMode::kStaticGen) {
    line("time to first token", &EstimateFigures::ttft, 3, " ms");
  }
  if (f.encoder_latency > 0) {
    text += fmt::format("  of it image encoder   {:>12.3f} ms\n", f.encoder_latency);
  }
  if (point.mode != EstimateMode::kStaticContext) {
    line("time per output token", &EstimateFigures::tpot, 3, " ms");
  }
  line("request latency", &EstimateFigures::request_latency, 3, " ms");
  line("tokens/s", &EstimateFigures::tokens_s, 2, "",
       fmt::format("   ({:.2f} per GPU, {:.2f} per user)", f.tokens_s_gpu, f.tokens_s_user));
  line("requests/s", &EstimateFigures::seq_s, 3, "",
       fmt::format("   (concurrency {:.0f})", f.concurrency));
  if (point.power_w) text += fmt::format("  power per GPU         {:>12.1f} W\n", *point.power_w);
  return text;
}

std::string MemoryText(const PointEstimate& point) {
  const std::vector<WorkerPart> parts = PartsOf(point);
  ResultTable table;
  table.columns.push_back({"", "", "", "memory per GPU (GiB)"});
  std::vector<std::string> names;  // own the headings
  names.reserve(parts.size());
  for (const WorkerPart& part : parts) {
    names.emplace_back(*part.name != 0 ? part.name : "worker");
    std::replace(names.back().begin(), names.back().end(), '_', '-');
    table.columns.push_back({"", "", "", names.back(), 2});
  }
  const auto add = [&](const char* name, auto value_of) {
    std::vector<Cell>& row = table.rows.emplace_back();
    row.emplace_back(std::string(name));
    for (const WorkerPart& part : parts) row.emplace_back(value_of(part));
  };
  add("weights", [](const WorkerPart& p) { return p.memory->weights; });
  add("activations", [](const WorkerPart& p) { return p.memory->activations; });
  add("KV cache", [](const WorkerPart& p) { return p.memory->kvcache; });
  add("communication", [](const WorkerPart& p) { return p.memory->nccl; });
  add("runtime", [](const WorkerPart& p) { return p.memory->others; });
  add("total", [](const WorkerPart& p) { return p.memory->total; });
  add("capacity", [&](const WorkerPart& p) { return CapacityOf(point, p.identity); });
  return "\n" + TextOf(table);
}

}  // namespace

Result<EstimateDetail> ParseEstimateDetail(const std::string& list) {
  EstimateDetail detail;
  const std::vector<std::string> known = {"summary", "memory", "time", "energy", "source", "all"};
  std::size_t start = 0;
  while (start <= list.size()) {
    const std::size_t end = std::min(list.find(',', start), list.size());
    std::string word = list.substr(start, end - start);
    word.erase(0, word.find_first_not_of(' '));
    word.erase(word.find_last_not_of(' ') + 1);
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      return Fail(ErrorKind::kUsage, fmt::format("unknown section '{}' of --detail{}; known: {}",
                                                 word, DidYouMean(word, known), JoinNames(known)));
    }
    detail.time |= word == "time" || word == "all";
    detail.energy |= word == "energy" || word == "all";
    detail.source |= word == "source" || word == "all";
    start = end + 1;
  }
  return detail;
}

std::string EstimateText(const EstimateAnswer& answer, const EstimateDetail& detail) {
  const PointEstimate& point = *answer.point;
  std::string text = HeadText(*answer.request, point) + FiguresText(answer);
  if (point.row && point.row->afd() != nullptr) {
    const AfdRow& f = *point.row->afd();
    if (f.prefill) text += AfdPhaseText("prefill", *f.prefill);
    if (f.decode) text += AfdPhaseText("decode", *f.decode);
  }
  if (answer.load != nullptr) text += answer.load->Text();
  text += MemoryText(point);
  text += DetailText(point.phases, answer.load, detail);
  return text;
}

std::string EstimateJson(const EstimateAnswer& answer, const EstimateDetail& detail) {
  const EstimateRequest& request = *answer.request;
  const PointEstimate& point = *answer.point;
  const std::vector<WorkerPart> parts = PartsOf(point);
  const WorkerIdentity& id = *parts.front().identity;
  ordered_json json = {{"model", id.model},
                       {"system", request.system},
                       {"backend", ToString(request.backend)},
                       {"backend_version", point.version},
                       {"mode", ToString(point.mode)},
                       {"database_mode", ToString(request.database_mode)},
                       {"behaviour", ToString(request.behaviour)},
                       {"isl", request.workload.isl},
                       {"osl", request.workload.osl},
                       {"prefix", request.workload.prefix}};
  if (parts.size() == 1) {
    json["batch_size"] = parts.front().batch;
    json["layout"] = LayoutJson(id);
    json["quantisation"] = QuantJson(id.quant);
    json["memory_gib"] = MemoryJson(*parts.front().memory, CapacityOf(point, &id));
  } else {
    for (const WorkerPart& part : parts) {
      json[part.name] = {
          {"system", part.identity->system},
          {"workers", part.workers},
          {"batch_size", part.batch},
          {"layout", LayoutJson(*part.identity)},
          {"quantisation", QuantJson(part.identity->quant)},
          {"memory_gib", MemoryJson(*part.memory, CapacityOf(point, part.identity))}};
    }
  }
  json["scored_by"] = answer.scored->closed_loop ? "closed_loop" : "formula";
  json["figures"] = FiguresJson(answer.scored->figures, point);
  json["formula"] = FiguresJson(answer.scored->formula, point);
  if (answer.load != nullptr) json["serving"] = answer.load->Json();
  if (point.row && point.row->encoders) {
    const EncoderStage& e = *point.row->encoders;
    json["encoder_pool"] = {
        {"workers", e.workers}, {"tp_size", e.tp}, {"batch_size", e.bs}, {"memory_gib", e.memory}};
  }
  if (point.row && point.row->aggregated() != nullptr) {
    const AggregatedRow& row = *point.row->aggregated();
    json["ctx_tokens"] = row.ctx_tokens;
    json["schedule"] = {{"steps_with_prefill", row.num_mixed_steps},
                        {"decode_only_steps", row.num_decode_steps},
                        {"step_with_prefill_ms", row.mixed_step_ms},
                        {"decode_only_step_ms", row.decode_step_ms}};
  }
  if (point.row && point.row->afd() != nullptr) {
    const AfdRow& f = *point.row->afd();
    json["topology"] = {{"attention_nodes", f.layout.attention_nodes},
                        {"feed_forward_nodes", f.layout.ffn_nodes},
                        {"gpus_per_node", f.layout.gpus_per_node},
                        {"attention_tp_size", f.layout.attention_tp},
                        {"feed_forward_ep_size", f.layout.expert_parallel},
                        {"phase", ToString(f.phase)},
                        {"pipeline_model", ToString(f.schedule.pipeline)},
                        {"num_microbatches", f.schedule.micro_batches},
                        {"total_batch_size", f.total_batch}};
    if (f.prefill) json["prefill_phase"] = AfdPhaseJson(*f.prefill);
    if (f.decode) json["decode_phase"] = AfdPhaseJson(*f.decode);
  }
  if (detail.any()) AddDetail(point.phases, json);
  json["fits"] = !point.out_of_memory && !point.kv_warning;
  json["notes"] = answer.notes;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string EstimateCsv(const EstimateAnswer& answer) {
  const PointEstimate& point = *answer.point;
  ResultContext context = ContextOf(*answer.request, point);
  if (point.static_row) return CsvOf(TableOf(*point.static_row, context));
  TaskRow scored = *point.row;
  if (answer.load != nullptr) {
    const ServingRun& run = answer.load->run;
    scored.score = ScoreOf(run.forecast, run.load.osl, answer.scored->formula.gpus);
    scored.run = std::make_shared<const ServingRun>(run);
    context.runs_beside = !answer.scored->closed_loop;
  }
  const ResultRow row{&scored, nullptr, 0, &context};
  return CsvOf(TableOf({&row, 1}, context));
}

}  // namespace infercast
