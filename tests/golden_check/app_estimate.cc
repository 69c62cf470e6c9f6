// Estimates of one point against the recorded ones, operators included.
#include <fmt/format.h>

#include <map>

#include "golden_check/app_cases.h"
#include "search/estimate_point.h"

namespace infercast::golden {

namespace {

using Json = nlohmann::json;

void ReadPool(const Json& args, const std::string& prefix, PoolSizes& pool) {
  const auto read = [&](const char* key, auto& value) {
    SetFrom(args, (prefix + key).c_str(), value);
  };
  read("tp_size", pool.tp);
  read("pp_size", pool.pp);
  read("attention_dp_size", pool.dp);
  read("moe_tp_size", pool.moe_tp);
  read("moe_ep_size", pool.moe_ep);
  read("batch_size", pool.batch);
  read("num_workers", pool.workers);
  read("free_gpu_memory_fraction", pool.memory_fraction);
  read("max_seq_len", pool.max_seq_len);
}

template <NamedEnum E>
Status ReadMode(const Json& args, const char* key, std::optional<E>& mode) {
  if (!Argument<std::string>(args, key)) return {};
  E value{};
  IC_RETURN_IF_ERROR(SetNamed(args, key, value));
  mode = value;
  return {};
}

Result<EstimateRequest> Request(const Json& args) {
  EstimateRequest r;
  r.behaviour = Environment::kBehaviour;
  IC_RETURN_IF_ERROR(SetNamed(args, "mode", r.mode));
  r.model = args.at("model_path");
  r.system = args.at("system_name");
  SetFrom(args, "decode_system_name", r.decode_system);
  IC_RETURN_IF_ERROR(SetNamed(args, "backend_name", r.backend));
  SetFrom(args, "backend_version", r.version);
  IC_RETURN_IF_ERROR(SetNamed(args, "database_mode", r.database_mode));
  IC_RETURN_IF_ERROR(SetPolicy(args, r.policy));
  SetFrom(args, "isl", r.workload.isl);
  SetFrom(args, "osl", r.workload.osl);
  SetFrom(args, "prefix", r.workload.prefix);
  SetImages(args, r.workload);
  SetFrom(args, "enable_encoder_dp", r.encoder_data_parallel);
  SetFrom(args, "tp_size", r.layout.tp);
  SetFrom(args, "pp_size", r.layout.pp);
  SetFrom(args, "attention_dp_size", r.layout.dp);
  SetFrom(args, "moe_tp_size", r.layout.moe_tp);
  SetFrom(args, "moe_ep_size", r.layout.moe_ep);
  SetFrom(args, "batch_size", r.batch);
  SetFrom(args, "ctx_tokens", r.ctx_tokens);
  SetFrom(args, "stride", r.stride);
  ReadPool(args, "prefill_", r.prefill);
  ReadPool(args, "decode_", r.decode);
  IC_RETURN_IF_ERROR(ReadMode(args, "gemm_quant_mode", r.quant.gemm));
  IC_RETURN_IF_ERROR(ReadMode(args, "moe_quant_mode", r.quant.moe));
  IC_RETURN_IF_ERROR(ReadMode(args, "kvcache_quant_mode", r.quant.kv));
  IC_RETURN_IF_ERROR(ReadMode(args, "fmha_quant_mode", r.quant.fmha));
  IC_RETURN_IF_ERROR(ReadMode(args, "comm_quant_mode", r.quant.comm));
  r.nextn = DraftArgument(args, 0);
  SetFrom(args, "nextn_accepted", r.nextn_accepted);
  SetFrom(args, "free_gpu_memory_fraction", r.memory_fraction);
  SetFrom(args, "max_seq_len", r.max_seq_len);
  SetFrom(args, "attention_backend", r.attention_backend);
  AfdSizes& afd = r.afd;
  SetFrom(args, "n_a_nodes", afd.n_a_nodes);
  SetFrom(args, "n_f_nodes", afd.n_f_nodes);
  SetFrom(args, "a_tp_size", afd.a_tp);
  SetFrom(args, "a_batch_size", afd.a_batch);
  SetFrom(args, "f_moe_ep_size", afd.f_moe_ep);
  SetFrom(args, "num_microbatches", afd.microbatches);
  IC_RETURN_IF_ERROR(SetNamed(args, "pipeline_model", afd.pipeline));
  SetFrom(args, "comm_overhead_factor", afd.comm_overhead_factor);
  IC_RETURN_IF_ERROR(SetNamed(args, "afd_phase", afd.phase));
  SetFrom(args, "afd_combined_with_pd", afd.combined_with_pd);
  SetFrom(args, "afd_boundary_on_attn", afd.boundary_on_attn);
  return r;
}

const Breakdown* PhaseOf(const PointEstimate& estimate, const std::string& name) {
  for (const EstimatePhase& phase : estimate.phases) {
    if (phase.name == name) return &phase.operators;
  }
  return nullptr;
}

void CompareOperators(const Json& expected, const Json& sources, const PointEstimate& estimate,
                      Comparer& compare) {
  for (const auto& [phase, ops] : expected.items()) {
    if (phase == "scheduling" || phase == "memory") continue;
    const Breakdown* actual = PhaseOf(estimate, phase);
    if (actual == nullptr) {
      compare.Differ("per_ops_data." + phase, "operators", "nothing");
      continue;
    }
    std::map<std::string, const OpEntry*> entries;
    for (const OpEntry& entry : actual->entries) entries[entry.name] = &entry;
    for (const auto& [name, latency] : ops.items()) {
      const std::string place = fmt::format("per_ops_data.{}.{}", phase, name);
      const auto found = entries.find(name);
      if (found == entries.end()) {
        // Models without plain attention list it at no cost.
        if (latency != 0.0) compare.Differ(place, latency.dump(), "no such operator");
        continue;
      }
      compare.Number(place, latency, found->second->latency_ms);
      const Json* source = nullptr;
      if (sources.is_object() && sources.contains(phase) && sources.at(phase).contains(name)) {
        source = &sources.at(phase).at(name);
      }
      if (source != nullptr && source->is_string()) {
        compare.Exact(fmt::format("per_ops_source.{}.{}", phase, name), *source,
                      ToString(found->second->source));
      }
    }
    for (const auto& [name, entry] : entries) {
      if (!ops.contains(name)) {
        compare.Differ(fmt::format("per_ops_data.{}.{}", phase, name), "no such operator",
                       fmt::format("{}", entry->latency_ms));
      }
    }
  }
}

void CompareScheduling(const Json& expected, const AggregatedRow& row, const Json& args,
                       Comparer& compare) {
  const double nextn = Argument<double>(args, "nextn").value_or(0);
  const double accepted = Argument<double>(args, "nextn_accepted").value_or(0);
  const auto decodes = static_cast<double>(row.mixed_decodes);
  const std::map<std::string, double> actual = {
      {"num_mix_steps", row.num_mixed_steps},
      {"num_genonly_steps", row.num_decode_steps},
      {"mix_step_latency_ms", row.mixed_step_ms},
      {"genonly_step_latency_ms", row.decode_step_ms},
      {"decode_iterations", row.decode_iterations},
      {"mix_context_tokens", static_cast<double>(row.ctx_tokens)},
      {"mix_decode_requests", decodes},
      {"mix_decode_query_tokens", decodes * (nextn + 1)},
      {"decode_tokens_per_iteration", nextn > 0 ? 1 + accepted : 1},
      {"mix_efficiency", 1.0}};
  for (const auto& [name, value] : expected.items()) {
    const auto found = actual.find(name);
    if (found != actual.end()) {
      compare.Number("scheduling." + name, value, found->second);
    } else if (value != 0.0) {  // energies
      compare.Differ("scheduling." + name, value.dump(), "nothing");
    }
  }
}

void CompareMemory(const Json& expected, const PointEstimate& estimate, Comparer& compare) {
  if (!estimate.afd_memory) return compare.Differ("memory", expected.dump(), "nothing");
  const AfdPoolMemory& memory = *estimate.afd_memory;
  const auto part = [&](const char* name, const MemoryUsage& usage) {
    const std::map<std::string, double> parts = {
        {"total", usage.total},     {"weights", usage.weights}, {"activations", usage.activations},
        {"kvcache", usage.kvcache}, {"nccl", usage.nccl},       {"others", usage.others}};
    if (!expected.contains(name)) return;
    for (const auto& [key, value] : expected.at(name).items()) {
      const auto found = parts.find(key);
      if (found == parts.end()) {
        compare.Differ(fmt::format("memory.{}.{}", name, key), value.dump(), "nothing");
      } else {
        compare.Number(fmt::format("memory.{}.{}", name, key), value, found->second);
      }
    }
  };
  part("a_worker", memory.attention);
  part("f_worker", memory.feed_forward);
  if (expected.contains("a_is_kv_cache_oom")) {
    compare.Exact("memory.a_is_kv_cache_oom", expected.at("a_is_kv_cache_oom"), memory.kv_oom);
  }
}

struct Headline {
  double ttft = 0, tpot = 0;
  std::int64_t batch = 0, ctx_tokens = 0, tp = 0, pp = 0;
};

Headline HeadlineOf(const PointEstimate& e, const EstimateRequest& r) {
  if (e.static_row) {
    const ParallelLayout& l = e.static_row->worker->layout;
    return {e.static_row->ttft, e.static_row->tpot, r.batch, r.workload.isl, l.tp, l.pp};
  }
  if (const AggregatedRow* row = e.row->aggregated()) {
    const ParallelLayout& l = row->worker->layout;
    return {row->ttft, row->tpot, row->bs, row->ctx_tokens, l.tp, l.pp};
  }
  if (const DisaggregatedRow* row = e.row->disaggregated()) {
    const ParallelLayout& l = row->prefill.worker->layout;
    return {row->ttft, row->tpot, row->prefill.bs, 0, l.tp, l.pp};
  }
  const AfdRow& row = *e.row->afd();
  return {row.ttft, row.tpot, row.schedule.batch, 0, row.layout.attention_tp, 1};
}

}  // namespace

void RunAppEstimate(const Json& document, const AppData& data, Comparer& compare) {
  const Json& args = document.at("args");
  Workbench bench(data.systems, data.checkpoints);
  const Result<EstimateRequest> request = Request(args);
  Result<PointEstimate> estimate =
      request ? EstimatePoint(*request, bench) : std::unexpected(request.error());
  std::optional<Error> error;
  if (!estimate) error = estimate.error();
  if (CheckExpectedError(document, error, compare)) return;

  const Json& result = document.at("result");
  TableRounding rounding = TableRounding::kNone;
  if (request->mode == EstimateMode::kDisagg) rounding = TableRounding::kSearch;
  if (request->mode == EstimateMode::kAfd) rounding = TableRounding::kAfd;
  const Headline headline = HeadlineOf(*estimate, *request);
  CompareFigure("ttft", "ttft", result.at("ttft"), headline.ttft, rounding, compare);
  CompareFigure("tpot", "tpot", result.at("tpot"), headline.tpot, rounding, compare);
  compare.Exact("isl", result.at("isl"), request->workload.isl);
  compare.Exact("osl", result.at("osl"), request->workload.osl);
  compare.Exact("batch_size", result.at("batch_size"), headline.batch);
  compare.Exact("ctx_tokens", result.at("ctx_tokens"), headline.ctx_tokens);
  compare.Exact("tp_size", result.at("tp_size"), headline.tp);
  compare.Exact("pp_size", result.at("pp_size"), headline.pp);
  compare.Exact("mode", result.at("mode"), ToString(estimate->mode));
  compare.Exact("backend_version", result.at("backend_version"), estimate->version);
  compare.Exact("kv_cache_warning", !result.at("kv_cache_warning").is_null(),
                estimate->kv_warning.has_value());
  if (result.at("power_w").is_null()) {
    compare.Exact("power known", false, estimate->power_w.has_value());
  } else {
    CompareFigure("power_w", "power_w", result.at("power_w"), estimate->power_w.value_or(0),
                  rounding, compare);
  }
  if (const Json& ops = result.at("per_ops_data"); ops.is_object()) {
    CompareOperators(ops, result.at("per_ops_source"), *estimate, compare);
    if (ops.contains("scheduling")) {
      CompareScheduling(ops.at("scheduling"), *estimate->row->aggregated(), args, compare);
    }
    if (ops.contains("memory")) CompareMemory(ops.at("memory"), *estimate, compare);
  }
  std::vector<NamedCell> cells =
      estimate->static_row ? CellsOf(*estimate->static_row) : CellsOf(*estimate->row);
  if (request->mode == EstimateMode::kAfd) {
    // The reference's estimate says of the undivided worker only which kind it is.
    std::erase_if(cells, [](const NamedCell& cell) {
      return cell.name.starts_with("(p)") && cell.name != "(p)impl";
    });
  }
  CompareRow("raw", result.at("raw"), cells, rounding, estimate->power_w.has_value(), {}, compare);
}

}  // namespace infercast::golden
