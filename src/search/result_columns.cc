// One list of columns for each kind of row.
#include "search/result_columns.h"

#include <cmath>
#include <optional>

namespace infercast {

namespace {

class Columns {
 public:
  void Add(std::string_view name, double v) { cells_.push_back({name, v}); }
  void Add(std::string_view name, std::int64_t v) { cells_.push_back({name, v}); }
  void Add(std::string_view name, std::string v) { cells_.push_back({name, std::move(v)}); }
  void Add(std::string_view name, std::string_view v) { Add(name, std::string(v)); }
  void AddFlag(std::string_view name, std::optional<bool> v) {
    Cell& cell = cells_.emplace_back(name, Cell()).cell;
    if (v) cell = *v;
  }
  void AddOptional(std::string_view name, std::optional<std::int64_t> v) {
    Cell& cell = cells_.emplace_back(name, Cell()).cell;
    if (v) cell = *v;
  }
  // Counts that are whole numbers unless something was averaged.
  void AddCount(std::string_view name, double v) {
    if (std::nearbyint(v) == v && std::abs(v) < 9e15) {
      Add(name, static_cast<std::int64_t>(v));
    } else {
      Add(name, v);
    }
  }
  std::vector<NamedCell> Take() { return std::move(cells_); }

 private:
  std::vector<NamedCell> cells_;
};

void AddRequest(Columns& c, const WorkerRow& r) {
  c.Add("model", r.worker->model);
  c.Add("isl", r.isl);
  c.Add("osl", r.osl);
  c.Add("prefix", r.prefix);
  c.AddCount("concurrency", r.concurrency);
  c.Add("request_rate", r.request_rate);
  c.Add("bs", r.bs);
  c.Add("global_bs", r.global_bs);
  c.Add("ttft", r.ttft);
  c.Add("tpot", r.tpot);
}

void AddRates(Columns& c, const WorkerRow& r) {
  c.Add("seq/s", r.seq_s);
  c.Add("seq/s/gpu", r.seq_s_gpu);
  c.Add("tokens/s", r.tokens_s);
  c.Add("tokens/s/gpu", r.tokens_s_gpu);
  c.Add("tokens/s/user", r.tokens_s_user);
}

void AddLayout(Columns& c, const WorkerRow& r) {
  const ParallelLayout& l = r.worker->layout;
  const QuantModes& q = r.worker->quant;
  c.Add("num_total_gpus", r.num_total_gpus);
  c.Add("tp", l.tp);
  c.Add("pp", l.pp);
  c.Add("dp", l.dp);
  c.AddOptional("moe_tp", l.moe_tp);
  c.AddOptional("moe_ep", l.moe_ep);
  c.Add("cp", l.cp);
  c.Add("parallel", r.worker->parallel);
  c.Add("gemm", ToString(q.gemm));
  c.Add("kvcache", ToString(q.kv));
  c.Add("fmha", ToString(q.fmha));
  c.Add("moe", ToString(q.moe));
  c.Add("comm", ToString(q.comm));
  c.Add("memory", r.memory.total);
}

void AddPlace(Columns& c, const WorkerRow& r) {
  c.Add("backend", ToString(r.worker->backend));
  c.Add("version", r.worker->version);
  c.Add("system", r.worker->system);
  c.Add("power_w", r.power_w);
}

void AddEncoders(Columns& c, const std::optional<EncoderStage>& encoders, double memory_without) {
  const EncoderStage e = encoders.value_or(EncoderStage{});
  c.Add("(e)workers", e.workers);
  c.Add("(e)tp", e.tp);
  c.Add("(e)pp", std::int64_t{encoders ? 1 : 0});
  c.Add("(e)bs", e.bs);
  c.Add("(e)parallel", encoders ? "tp" + std::to_string(e.tp) : std::string());
  c.Add("(e)memory", encoders ? e.memory : memory_without);
}

std::vector<NamedCell> Aggregated(const AggregatedRow& r,
                                  const std::optional<EncoderStage>& encoders) {
  Columns c;
  AddRequest(c, r);
  c.Add("request_latency", r.request_latency);
  c.Add("encoder_latency", r.encoder_latency);
  c.Add("encoder_memory", r.encoder_memory);
  AddRates(c, r);
  AddLayout(c, r);
  c.Add("balance_score", r.balance_score);
  c.AddCount("num_ctx_reqs", r.num_ctx_reqs);
  c.AddCount("num_gen_reqs", r.num_gen_reqs);
  c.AddCount("num_tokens", r.num_tokens);
  c.Add("ctx_tokens", r.ctx_tokens);
  c.AddCount("gen_tokens", r.num_gen_reqs);
  AddPlace(c, r);
  if (encoders) {
    c.Add("(a)workers", encoders->language_workers);
    AddEncoders(c, encoders, 0);
  }
  return c.Take();
}

std::vector<NamedCell> Disaggregated(const DisaggregatedRow& r,
                                     const std::optional<EncoderStage>& encoders) {
  Columns c;
  c.Add("model", r.prefill.worker->model);
  c.Add("isl", r.isl);
  c.Add("osl", r.osl);
  c.Add("prefix", r.prefix);
  c.AddCount("concurrency", r.concurrency);
  c.Add("request_rate", r.request_rate);
  c.Add("(p)bs", r.prefill.bs);
  c.Add("(p)global_bs", r.prefill.global_bs);
  c.Add("(p)workers", r.prefill_workers);
  c.Add("(d)bs", r.decode.bs);
  c.Add("(d)global_bs", r.decode.global_bs);
  c.Add("(d)workers", r.decode_workers);
  c.Add("ttft", r.ttft);
  c.Add("tpot", r.tpot);
  c.Add("request_latency", r.request_latency);
  c.Add("encoder_latency", r.encoder_latency);
  c.Add("seq/s", r.seq_s);
  c.Add("seq/s/gpu", r.seq_s_gpu);
  c.Add("tokens/s", r.tokens_s);
  c.Add("tokens/s/gpu", r.tokens_s_gpu);
  c.Add("tokens/s/user", r.tokens_s_user);
  c.Add("(p)seq/s/worker", r.prefill.seq_s);
  c.Add("(d)seq/s/worker", r.decode.seq_s);
  c.Add("num_total_gpus", r.num_total_gpus);
  const ParallelLayout& p = r.prefill.worker->layout;
  const QuantModes& pq = r.prefill.worker->quant;
  c.Add("(p)tp", p.tp);
  c.Add("(p)pp", p.pp);
  c.Add("(p)dp", p.dp);
  c.AddOptional("(p)moe_tp", p.moe_tp);
  c.AddOptional("(p)moe_ep", p.moe_ep);
  c.Add("(p)cp", p.cp);
  c.Add("(p)parallel", r.prefill.worker->parallel);
  c.Add("(p)gemm", ToString(pq.gemm));
  c.Add("(p)kvcache", ToString(pq.kv));
  c.Add("(p)fmha", ToString(pq.fmha));
  c.Add("(p)moe", ToString(pq.moe));
  c.Add("(p)comm", ToString(pq.comm));
  c.Add("(p)memory", r.prefill.memory.total);
  c.Add("(p)backend", ToString(r.prefill.worker->backend));
  c.Add("(p)version", r.prefill.worker->version);
  c.Add("(p)system", r.prefill.worker->system);
  const ParallelLayout& d = r.decode.worker->layout;
  const QuantModes& dq = r.decode.worker->quant;
  c.Add("(d)tp", d.tp);
  c.Add("(d)pp", d.pp);
  c.Add("(d)dp", d.dp);
  c.AddOptional("(d)moe_tp", d.moe_tp);
  c.AddOptional("(d)moe_ep", d.moe_ep);
  c.Add("(d)parallel", r.decode.worker->parallel);
  c.Add("(d)gemm", ToString(dq.gemm));
  c.Add("(d)kvcache", ToString(dq.kv));
  c.Add("(d)fmha", ToString(dq.fmha));
  c.Add("(d)moe", ToString(dq.moe));
  c.Add("(d)comm", ToString(dq.comm));
  c.Add("(d)memory", r.decode.memory.total);
  c.Add("(d)backend", ToString(r.decode.worker->backend));
  c.Add("(d)version", r.decode.worker->version);
  c.Add("(d)system", r.decode.worker->system);
  // Without a pool the encoder runs on the prefill workers.
  AddEncoders(c, encoders, r.prefill.encoder_memory);
  c.Add("power_w", r.power_w);
  return c.Take();
}

struct LayerNames {
  std::string_view attention, feed_forward, to_ff, to_attention, comm, step, balance, hidden;
};
constexpr LayerNames kHeadline = {"t_a_layer", "t_f_layer", "t_a2f_layer",   "t_f2a_layer",
                                  "t_c_layer", "t_step",    "balance_ratio", "comm_hidden"};
constexpr LayerNames kPrefill = {
    "prefill_t_a_layer", "prefill_t_f_layer", "prefill_t_a2f_layer",   "prefill_t_f2a_layer",
    "prefill_t_c_layer", "prefill_t_step",    "prefill_balance_ratio", "prefill_comm_hidden"};
constexpr LayerNames kDecode = {"decode_t_a_layer",     "decode_t_f_layer",  "decode_t_a2f_layer",
                                "decode_t_f2a_layer",   "decode_t_c_layer",  "decode_t_step",
                                "decode_balance_ratio", "decode_comm_hidden"};

void AddLayer(Columns& c, const LayerNames& n, const AfdLayerFigures& f) {
  c.Add(n.attention, f.attention);
  c.Add(n.feed_forward, f.feed_forward);
  c.Add(n.to_ff, f.to_feed_forward);
  c.Add(n.to_attention, f.to_attention);
  c.Add(n.comm, f.communication);
  c.Add(n.step, f.step);
  c.Add(n.balance, f.balance);
  c.AddFlag(n.hidden, f.comm_hidden);
}

std::vector<NamedCell> Afd(const AfdRow& row) {
  const AfdFigures r = FiguresOf(row, false);
  Columns c;
  c.Add("model", r.model);
  c.Add("phase", r.phase);
  c.Add("isl", r.isl);
  c.Add("osl", r.osl);
  c.Add("gpus_per_node", r.gpus_per_node);
  c.Add("(a)nodes", r.a_nodes);
  c.Add("(a)tp", r.a_tp);
  c.Add("(a)bs", r.a_bs);
  c.Add("(a)micro_bs", r.a_micro_bs);
  c.Add("(a)workers", r.a_workers);
  c.Add("(a)memory", r.a_memory);
  c.AddFlag("(a)is_oom", r.a_oom);
  c.Add("(f)nodes", r.f_nodes);
  c.Add("(f)tp", r.f_tp);
  c.Add("(f)ep", r.f_ep);
  c.Add("(f)workers", r.f_workers);
  c.Add("(f)memory", r.f_memory);
  c.AddFlag("(f)is_oom", r.f_oom);
  AddLayer(c, kHeadline, r.headline);
  AddLayer(c, kPrefill, r.prefill_layer);
  AddLayer(c, kDecode, r.decode_layer);
  c.Add("ttft", r.ttft);
  c.Add("tpot", r.tpot);
  c.Add("request_latency", r.request_latency);
  c.AddCount("b_total", r.b_total);
  c.AddCount("b_micro_total", r.b_micro_total);
  c.Add("tokens/s", r.tokens_s);
  c.Add("tokens/s/gpu", r.tokens_s_gpu);
  c.Add("tokens/s/user", r.tokens_s_user);
  c.Add("seq/s", r.seq_s);
  c.Add("request_rate", r.request_rate);
  c.AddCount("concurrency", r.concurrency);
  c.Add("parallel", r.parallel);
  c.Add("pipeline_model", r.pipeline_model);
  c.Add("num_microbatches", r.num_microbatches);
  c.Add("nextn", r.nextn);
  c.AddFlag("combined_with_pd", r.combined_with_pd);
  c.AddFlag("boundary_on_attn", r.boundary_on_attn);
  const auto count = [&](const char* name, std::int64_t AfdPartner::* field) {
    c.AddOptional(name, r.partner ? std::optional((*r.partner).*field) : std::nullopt);
  };
  const auto text = [&](const char* name, const std::string& value) {
    if (value.empty()) {
      c.AddOptional(name, std::nullopt);
    } else {
      c.Add(name, value);
    }
  };
  count("(p)workers", &AfdPartner::workers);
  count("(p)tp", &AfdPartner::tp);
  count("(p)pp", &AfdPartner::pp);
  count("(p)dp", &AfdPartner::dp);
  count("(p)moe_tp", &AfdPartner::moe_tp);
  count("(p)ep", &AfdPartner::moe_ep);
  count("(p)bs", &AfdPartner::bs);
  count("(p)num_gpus", &AfdPartner::num_gpus);
  text("(p)system", r.partner ? r.partner->system : "");
  text("(p)backend", r.partner ? r.partner->backend : "");
  text("(p)version", r.partner ? r.partner->version : "");
  text("(p)impl", r.prefill_implementation);
  text("(d)impl", r.decode_implementation);
  c.Add("num_total_gpus", r.num_total_gpus);
  c.Add("memory", r.memory);
  c.Add("backend", r.backend);
  c.Add("version", r.version);
  c.Add("system", r.system);
  c.Add("power_w", r.power_w);
  return c.Take();
}

}  // namespace

std::vector<NamedCell> ColumnsOf(const StaticRow& r) {
  Columns c;
  AddRequest(c, r);
  AddRates(c, r);
  c.Add("request_latency", r.request_latency);
  c.Add("encoder_latency", r.encoder_latency);
  c.Add("encoder_memory", r.encoder_memory);
  c.Add("context_latency", r.context_latency);
  c.Add("generation_latency", r.generation_latency);
  AddLayout(c, r);
  AddPlace(c, r);
  return c.Take();
}

std::vector<NamedCell> ColumnsOf(const TaskRow& row) {
  if (const AggregatedRow* r = row.aggregated()) return Aggregated(*r, row.encoders);
  if (const DisaggregatedRow* r = row.disaggregated()) return Disaggregated(*r, row.encoders);
  return Afd(*row.afd());
}

std::vector<NamedCell> ColumnsOf(const PickedRow& row, bool load) {
  std::vector<NamedCell> cells = ColumnsOf(row.row);
  if (row.backend && row.row.disaggregated() != nullptr) {
    cells.push_back({"backend", std::string(ToString(*row.backend))});
  }
  cells.push_back({"tokens/s/gpu_cluster", row.pick.tokens_s_gpu_cluster});
  if (load) {
    cells.push_back({"replicas_needed", row.pick.replicas_needed});
    cells.push_back({"total_gpus_needed", row.pick.total_gpus_needed});
    if (row.pick.load_served_percent) {
      cells.push_back({"load_served_pct", *row.pick.load_served_percent});
    }
  }
  return cells;
}

}  // namespace infercast
