#include "report/result_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "serving/replica_forecast.h"

namespace infercast {

namespace {

std::string NodesText(std::int64_t n) { return fmt::format("{} node{}", n, n == 1 ? "" : "s"); }

// Where a column applies.
enum class When : std::uint8_t {
  kAlways,
  kPicked,
  kScored,
  kLoad,
  kLoadCapped,
  kEncoderPool,
  kAggregatedPool
};

struct ResultColumn {
  ColumnInfo info;
  Cell (*value)(const ResultRow&);
  When when = When::kAlways;
};

constexpr double kEnoughPower = 0.9;  // share of the latency that must have measured power

const AggregatedRow& A(const ResultRow& r) { return *r.row->aggregated(); }
const DisaggregatedRow& D(const ResultRow& r) { return *r.row->disaggregated(); }
const AfdRow& F(const ResultRow& r) { return *r.row->afd(); }

Cell Text(std::string_view text) {
  if (text.empty()) return std::monostate{};
  return std::string(text);
}

// A size that counts requests or GPUs though it is kept as a real number.
Cell CountCell(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  if (static_cast<double>(whole) == value) return whole;
  return RealCell(value);
}

// Figures that every kind of row has.
template <typename Get>
auto OfAny(const ResultRow& r, Get get) {
  return std::visit([&](const auto& figures) { return get(figures); }, r.row->figures);
}

// Over the tokens after the first or, where asked for, over all of them.
double Tpot(const ResultRow& r, double ttft, double tpot) {
  return OfAny(r, [&](const auto& f) -> double {
    if (!r.context->inclusive_tpot || f.osl <= 0) return tpot;
    return (ttft + tpot * static_cast<double>(f.osl - 1)) / static_cast<double>(f.osl);
  });
}

double ShownTpot(const ResultRow& r) {
  return OfAny(r, [&](const auto& f) { return Tpot(r, f.ttft, f.tpot); });
}

// --- what a row is ranked by: its benchmark run where it has one, else the formula ---

// A figure that runs and rows both have.
#define IC_RANKED(member) \
  OfAny(r, [&](const auto& f) -> double { return r.row->score ? r.row->score->member : f.member; })

Cell RankedTpot(const ResultRow& r) {
  return RealCell(r.row->score ? Tpot(r, r.row->score->ttft, r.row->score->tpot) : ShownTpot(r));
}

// Of the run alone.
#define IC_RUN(value)                           \
  [](const ResultRow& r) -> Cell {              \
    if (!r.row->score) return std::monostate{}; \
    const ReplicaScore& s = *r.row->score;      \
    return RealCell(value);                     \
  }

Cell MeasuredPower(double watts, double coverage) {
  return coverage < kEnoughPower ? Cell() : RealCell(watts);
}

Cell PowerCell(const ResultRow& r, double watts, double coverage) {
  return r.context->behaviour == Behaviour::kNative ? MeasuredPower(watts, coverage)
                                                    : RealCell(watts);
}

// --- columns that all modes share ---

#define IC_ANY(member) \
  [](const ResultRow& r) -> Cell { return OfAny(r, [](const auto& f) -> Cell { return member; }); }

constexpr ResultColumn kRank = {{"rank", "rank", "", "#"},
                                [](const ResultRow& r) -> Cell {
                                  return r.rank > 0 ? Cell(static_cast<std::int64_t>(r.rank))
                                                    : Cell();
                                },
                                When::kPicked};
constexpr ResultColumn kExperiment = {
    {"experiment", "experiment", "", ""},
    [](const ResultRow& r) -> Cell { return Text(r.context->experiment); }};

// What a person reads first, the same in every mode.
constexpr ResultColumn kHeadline[] = {
    {{"", "", "1/s", "tok/s/GPU"},
     [](const ResultRow& r) -> Cell {
       if (r.pick != nullptr && r.context->total_gpus > 0 && !r.context->load) {
         return RealCell(r.pick->tokens_s_gpu_cluster);
       }
       return RealCell(IC_RANKED(tokens_s_gpu));
     }},
    {{"", "", "1/s", "tok/s/user"},
     [](const ResultRow& r) -> Cell { return RealCell(IC_RANKED(tokens_s_user)); }},
    {{"", "", "1/s", "req/s"},
     [](const ResultRow& r) -> Cell {
       const auto replicas = static_cast<double>(std::max<std::int64_t>(ReplicasOf(r), 1));
       return RealCell(IC_RANKED(seq_s) * replicas);
     }},
    {{"", "", "ms", "TTFT"}, [](const ResultRow& r) -> Cell { return RealCell(IC_RANKED(ttft)); }},
    {{"", "", "ms", "p99", 0}, IC_RUN(s.ttft_p99), When::kScored},
    {{"", "", "ms", "formula TTFT"}, IC_ANY(RealCell(f.ttft)), When::kScored},
    {{"", "", "ms", "TPOT"}, RankedTpot},
    {{"", "", "ms", "formula TPOT"},
     [](const ResultRow& r) -> Cell { return RealCell(ShownTpot(r)); },
     When::kScored},
    {{"", "", "ms", "latency", 0},
     [](const ResultRow& r) -> Cell { return RealCell(IC_RANKED(request_latency)); }},
    {{"", "", "", "users"},
     [](const ResultRow& r) -> Cell {
       const auto replicas = static_cast<double>(std::max<std::int64_t>(ReplicasOf(r), 1));
       return OfAny(r, [&](const auto& f) -> Cell { return CountCell(f.concurrency * replicas); });
     }},
    {{"", "", "", "GPUs"},
     [](const ResultRow& r) -> Cell {
       const std::int64_t replicas = ReplicasOf(r);
       const std::int64_t gpus = GpusPerReplica(*r.row);
       if (replicas == 0) return gpus;
       return fmt::format("{} = {} x {}", replicas * gpus, replicas, gpus);
     }},
};

// Of the benchmark run in virtual time; those without "closed_loop" are the formula's.
constexpr ResultColumn kScoreColumns[] = {
    {{"scored_by", "scored_by", "", ""},
     [](const ResultRow& r) -> Cell {
       const bool by_run = r.row->score && !r.context->runs_beside;
       return std::string(by_run ? "closed_loop" : "formula");
     },
     When::kScored},
    {{"closed_loop_concurrency", "closed_loop_concurrency", "", ""},
     [](const ResultRow& r) -> Cell {
       if (!r.row->run || r.row->run->load.concurrency < 1) return std::monostate{};
       return r.row->run->load.concurrency;
     },
     When::kScored},
    {{"closed_loop_rate", "closed_loop_rate", "1/s", ""},
     [](const ResultRow& r) -> Cell {
       if (!r.row->run || !(r.row->run->load.rate > 0)) return std::monostate{};
       return r.row->run->load.rate;
     },
     When::kScored},
    {{"closed_loop_ttft", "closed_loop_ttft_ms", "ms", ""}, IC_RUN(s.ttft), When::kScored},
    {{"closed_loop_ttft_p99", "closed_loop_ttft_p99_ms", "ms", ""},
     IC_RUN(s.ttft_p99),
     When::kScored},
    {{"closed_loop_tpot", "closed_loop_tpot_ms", "ms", ""},
     IC_RUN(Tpot(r, s.ttft, s.tpot)),
     When::kScored},
    {{"closed_loop_tpot_p99", "closed_loop_tpot_p99_ms", "ms", ""},
     IC_RUN(s.tpot_p99),
     When::kScored},
    {{"closed_loop_request_latency", "closed_loop_request_latency_ms", "ms", ""},
     IC_RUN(s.request_latency),
     When::kScored},
    {{"closed_loop_seq/s", "closed_loop_requests_per_s", "1/s", ""},
     IC_RUN(s.seq_s),
     When::kScored},
    {{"closed_loop_tokens/s", "closed_loop_tokens_per_s", "1/s", ""},
     IC_RUN(s.tokens_s),
     When::kScored},
    {{"closed_loop_tokens/s/gpu", "closed_loop_tokens_per_s_per_gpu", "1/s", ""},
     IC_RUN(s.tokens_s_gpu),
     When::kScored},
    {{"closed_loop_tokens/s/user", "closed_loop_tokens_per_s_per_user", "1/s", ""},
     IC_RUN(s.tokens_s_user),
     When::kScored},
};

constexpr ResultColumn kPickColumns[] = {
    {{"tokens/s/gpu_cluster", "tokens_per_s_per_cluster_gpu", "1/s", ""},
     [](const ResultRow& r) -> Cell {
       return r.pick != nullptr ? RealCell(r.pick->tokens_s_gpu_cluster) : Cell();
     },
     When::kPicked},
    {{"replicas", "replicas", "", ""},
     [](const ResultRow& r) -> Cell {
       const std::int64_t replicas = ReplicasOf(r);
       return replicas > 0 ? Cell(replicas) : Cell();
     },
     When::kPicked},
    {{"replicas_needed", "replicas_needed", "", ""},
     [](const ResultRow& r) -> Cell {
       return r.pick != nullptr ? Cell(r.pick->replicas_needed) : Cell();
     },
     When::kLoad},
    {{"total_gpus_needed", "total_gpus_needed", "", ""},
     [](const ResultRow& r) -> Cell {
       return r.pick != nullptr ? Cell(r.pick->total_gpus_needed) : Cell();
     },
     When::kLoad},
    {{"load_served_pct", "load_served_percent", "%", "load served", 1},
     [](const ResultRow& r) -> Cell {
       return r.pick != nullptr && r.pick->load_served_percent ? Cell(*r.pick->load_served_percent)
                                                               : Cell();
     },
     When::kLoadCapped},
};

constexpr ResultColumn kProvenance[] = {
    {{"database_mode", "database_mode", "", ""},
     [](const ResultRow& r) -> Cell { return Text(ToString(r.context->database_mode)); }},
    {{"behaviour", "behaviour", "", ""},
     [](const ResultRow& r) -> Cell { return Text(ToString(r.context->behaviour)); }},
};

// --- aggregated ---

#define IC_AGG(value)              \
  [](const ResultRow& r) -> Cell { \
    const AggregatedRow& a = A(r); \
    return value;                  \
  }

constexpr ResultColumn kAggregated[] = {
    {{"model", "model", "", ""}, IC_AGG(Text(a.worker->model))},
    {{"isl", "isl", "", ""}, IC_AGG(a.isl)},
    {{"osl", "osl", "", ""}, IC_AGG(a.osl)},
    {{"prefix", "prefix", "", ""}, IC_AGG(a.prefix)},
    {{"concurrency", "concurrency", "", ""}, IC_AGG(CountCell(a.concurrency))},
    {{"request_rate", "request_rate", "1/s", ""}, IC_AGG(RealCell(a.request_rate))},
    {{"bs", "batch_size", "", ""}, IC_AGG(a.bs)},
    {{"global_bs", "global_batch_size", "", ""}, IC_AGG(a.global_bs)},
    {{"ttft", "ttft_ms", "ms", ""}, IC_AGG(RealCell(a.ttft))},
    {{"tpot", "tpot_ms", "ms", ""}, [](const ResultRow& r) -> Cell { return ShownTpot(r); }},
    {{"request_latency", "request_latency_ms", "ms", ""}, IC_AGG(RealCell(a.request_latency))},
    {{"encoder_latency", "encoder_latency_ms", "ms", ""}, IC_AGG(RealCell(a.encoder_latency))},
    {{"encoder_memory", "encoder_memory_gib", "GiB", ""}, IC_AGG(RealCell(a.encoder_memory))},
    {{"seq/s", "requests_per_s", "1/s", ""}, IC_AGG(RealCell(a.seq_s))},
    {{"seq/s/gpu", "requests_per_s_per_gpu", "1/s", ""}, IC_AGG(RealCell(a.seq_s_gpu))},
    {{"tokens/s", "tokens_per_s", "1/s", ""}, IC_AGG(RealCell(a.tokens_s))},
    {{"tokens/s/gpu", "tokens_per_s_per_gpu", "1/s", ""}, IC_AGG(RealCell(a.tokens_s_gpu))},
    {{"tokens/s/user", "tokens_per_s_per_user", "1/s", ""}, IC_AGG(RealCell(a.tokens_s_user))},
    {{"num_total_gpus", "num_total_gpus", "", ""}, IC_AGG(a.num_total_gpus)},
    {{"tp", "tp_size", "", ""}, IC_AGG(a.worker->layout.tp)},
    {{"pp", "pp_size", "", ""}, IC_AGG(a.worker->layout.pp)},
    {{"dp", "attention_dp_size", "", ""}, IC_AGG(a.worker->layout.dp)},
    {{"moe_tp", "moe_tp_size", "", ""}, IC_AGG(a.worker->layout.moe_tp.value_or(1))},
    {{"moe_ep", "moe_ep_size", "", ""}, IC_AGG(a.worker->layout.moe_ep.value_or(1))},
    {{"cp", "cp_size", "", ""}, IC_AGG(a.worker->layout.cp)},
    {{"parallel", "parallel", "", ""}, IC_AGG(Text(a.worker->parallel))},
    {{"gemm", "gemm_quant_mode", "", ""}, IC_AGG(Text(ToString(a.worker->quant.gemm)))},
    {{"kvcache", "kvcache_quant_mode", "", ""}, IC_AGG(Text(ToString(a.worker->quant.kv)))},
    {{"fmha", "fmha_quant_mode", "", ""}, IC_AGG(Text(ToString(a.worker->quant.fmha)))},
    {{"moe", "moe_quant_mode", "", ""}, IC_AGG(Text(ToString(a.worker->quant.moe)))},
    {{"comm", "comm_quant_mode", "", ""}, IC_AGG(Text(ToString(a.worker->quant.comm)))},
    {{"memory", "memory_gib", "GiB", ""}, IC_AGG(RealCell(a.memory.total))},
    {{"balance_score", "balance_score", "", ""}, IC_AGG(RealCell(a.balance_score))},
    {{"num_ctx_reqs", "num_context_requests", "", ""}, IC_AGG(RealCell(a.num_ctx_reqs))},
    {{"num_gen_reqs", "num_generation_requests", "", ""}, IC_AGG(RealCell(a.num_gen_reqs))},
    {{"num_tokens", "num_tokens", "", ""}, IC_AGG(RealCell(a.num_tokens))},
    {{"ctx_tokens", "ctx_tokens", "", ""}, IC_AGG(a.ctx_tokens)},
    {{"gen_tokens", "gen_tokens", "", ""}, IC_AGG(RealCell(a.num_gen_reqs))},
    {{"backend", "backend", "", ""}, IC_AGG(Text(ToString(a.worker->backend)))},
    {{"version", "backend_version", "", ""}, IC_AGG(Text(a.worker->version))},
    {{"system", "system", "", ""}, IC_AGG(Text(a.worker->system))},
    {{"power_w", "power_w", "W", ""}, IC_AGG(PowerCell(r, a.power_w, a.power_coverage))},
    // For people.
    {{"", "", "W", "power", 0}, IC_AGG(MeasuredPower(a.power_w, a.power_coverage))},
    {{"", "", "", "backend"}, IC_AGG(Text(ToString(a.worker->backend)))},
    {{"", "", "", "worker"}, IC_AGG(Text(ShortLayout(a.worker->layout)))},
    {{"", "", "", "batch"}, IC_AGG(a.bs)},
    {{"", "", "", "ctx tokens"}, IC_AGG(a.ctx_tokens)},
};

// --- disaggregated ---

#define IC_DIS(value)                 \
  [](const ResultRow& r) -> Cell {    \
    const DisaggregatedRow& d = D(r); \
    return value;                     \
  }
#define IC_PRE(value)                  \
  [](const ResultRow& r) -> Cell {     \
    const StaticRow& w = D(r).prefill; \
    return value;                      \
  }
#define IC_DEC(value)                 \
  [](const ResultRow& r) -> Cell {    \
    const StaticRow& w = D(r).decode; \
    return value;                     \
  }
// The columns of one pool; CSV spells the pools "(p)" and "(d)".
#define IC_POOL_LAYOUT(csv, json, GET)                                                          \
  {{csv "tp", json "tp_size", "", ""}, GET(w.worker->layout.tp)},                               \
      {{csv "pp", json "pp_size", "", ""}, GET(w.worker->layout.pp)},                           \
      {{csv "dp", json "attention_dp_size", "", ""}, GET(w.worker->layout.dp)},                 \
      {{csv "moe_tp", json "moe_tp_size", "", ""}, GET(w.worker->layout.moe_tp.value_or(1))}, { \
    {csv "moe_ep", json "moe_ep_size", "", ""}, GET(w.worker->layout.moe_ep.value_or(1))        \
  }
#define IC_POOL_REST(csv, json, GET)                                                             \
  {{csv "parallel", json "parallel", "", ""}, GET(Text(w.worker->parallel))},                    \
      {{csv "gemm", json "gemm_quant_mode", "", ""}, GET(Text(ToString(w.worker->quant.gemm)))}, \
      {{csv "kvcache", json "kvcache_quant_mode", "", ""},                                       \
       GET(Text(ToString(w.worker->quant.kv)))},                                                 \
      {{csv "fmha", json "fmha_quant_mode", "", ""}, GET(Text(ToString(w.worker->quant.fmha)))}, \
      {{csv "moe", json "moe_quant_mode", "", ""}, GET(Text(ToString(w.worker->quant.moe)))},    \
      {{csv "comm", json "comm_quant_mode", "", ""}, GET(Text(ToString(w.worker->quant.comm)))}, \
      {{csv "memory", json "memory_gib", "GiB", ""}, GET(RealCell(w.memory.total))},             \
      {{csv "backend", json "backend", "", ""}, GET(Text(ToString(w.worker->backend)))},         \
      {{csv "version", json "backend_version", "", ""}, GET(Text(w.worker->version))}, {         \
    {csv "system", json "system", "", ""}, GET(Text(w.worker->system))                           \
  }

// "2 x tp1 batch 1", and the system where the pools run on different ones.
std::string PoolText(std::int64_t workers, const StaticRow& row, bool name_system) {
  std::string text =
      fmt::format("{} x {} batch {}", workers, ShortLayout(row.worker->layout), row.bs);
  if (name_system) text += " on " + row.worker->system;
  return text;
}

constexpr ResultColumn kDisaggregated[] = {
    {{"model", "model", "", ""}, IC_PRE(Text(w.worker->model))},
    {{"isl", "isl", "", ""}, IC_DIS(d.isl)},
    {{"osl", "osl", "", ""}, IC_DIS(d.osl)},
    {{"prefix", "prefix", "", ""}, IC_DIS(d.prefix)},
    {{"concurrency", "concurrency", "", ""}, IC_DIS(CountCell(d.concurrency))},
    {{"request_rate", "request_rate", "1/s", ""}, IC_DIS(RealCell(d.request_rate))},
    {{"(p)bs", "prefill_batch_size", "", ""}, IC_PRE(w.bs)},
    {{"(p)global_bs", "prefill_global_batch_size", "", ""}, IC_PRE(w.global_bs)},
    {{"(p)workers", "prefill_workers", "", ""}, IC_DIS(d.prefill_workers)},
    {{"(d)bs", "decode_batch_size", "", ""}, IC_DEC(w.bs)},
    {{"(d)global_bs", "decode_global_batch_size", "", ""}, IC_DEC(w.global_bs)},
    {{"(d)workers", "decode_workers", "", ""}, IC_DIS(d.decode_workers)},
    {{"ttft", "ttft_ms", "ms", ""}, IC_DIS(RealCell(d.ttft))},
    {{"tpot", "tpot_ms", "ms", ""}, [](const ResultRow& r) -> Cell { return ShownTpot(r); }},
    {{"request_latency", "request_latency_ms", "ms", ""}, IC_DIS(RealCell(d.request_latency))},
    {{"encoder_latency", "encoder_latency_ms", "ms", ""}, IC_DIS(RealCell(d.encoder_latency))},
    {{"seq/s", "requests_per_s", "1/s", ""}, IC_DIS(RealCell(d.seq_s))},
    {{"seq/s/gpu", "requests_per_s_per_gpu", "1/s", ""}, IC_DIS(RealCell(d.seq_s_gpu))},
    {{"tokens/s", "tokens_per_s", "1/s", ""}, IC_DIS(RealCell(d.tokens_s))},
    {{"tokens/s/gpu", "tokens_per_s_per_gpu", "1/s", ""}, IC_DIS(RealCell(d.tokens_s_gpu))},
    {{"tokens/s/user", "tokens_per_s_per_user", "1/s", ""}, IC_DIS(RealCell(d.tokens_s_user))},
    {{"(p)seq/s/worker", "prefill_requests_per_s_per_worker", "1/s", ""},
     IC_PRE(RealCell(w.seq_s))},
    {{"(d)seq/s/worker", "decode_requests_per_s_per_worker", "1/s", ""}, IC_DEC(RealCell(w.seq_s))},
    {{"num_total_gpus", "num_total_gpus", "", ""}, IC_DIS(d.num_total_gpus)},
    IC_POOL_LAYOUT("(p)", "prefill_", IC_PRE),
    {{"(p)cp", "prefill_cp_size", "", ""}, IC_PRE(w.worker->layout.cp)},
    IC_POOL_REST("(p)", "prefill_", IC_PRE),
    IC_POOL_LAYOUT("(d)", "decode_", IC_DEC),
    IC_POOL_REST("(d)", "decode_", IC_DEC),
    {{"power_w", "power_w", "W", ""},
     IC_DIS(PowerCell(r, d.power_w, std::min(d.prefill.power_coverage, d.decode.power_coverage)))},
    // For people.
    {{"", "", "W", "power", 0},
     IC_DIS(MeasuredPower(d.power_w, std::min(d.prefill.power_coverage, d.decode.power_coverage)))},
    {{"", "", "", "backend"}, IC_PRE(Text(ToString(w.worker->backend)))},
    {{"", "", "", "prefill"},
     IC_DIS(PoolText(d.prefill_workers, d.prefill,
                     d.prefill.worker->system != d.decode.worker->system))},
    {{"", "", "", "decode"},
     IC_DIS(PoolText(d.decode_workers, d.decode,
                     d.prefill.worker->system != d.decode.worker->system))},
};

// --- attention/feed-forward disaggregated ---

#define IC_AFD(value)              \
  [](const ResultRow& r) -> Cell { \
    const AfdRow& f = F(r);        \
    return value;                  \
  }
#define IC_PARTNER(value)                       \
  [](const ResultRow& r) -> Cell {              \
    if (!F(r).partner) return std::monostate{}; \
    const AfdStaticPartner& p = *F(r).partner;  \
    return value;                               \
  }

// Times of the one phase that ran; of prefill; of decode.
const AfdPhaseTimes* Headline(const AfdRow& f) { return f.HeadlineTimes(); }
const AfdPhaseTimes* Prefill(const AfdRow& f) { return f.prefill ? &*f.prefill : nullptr; }
const AfdPhaseTimes* Decode(const AfdRow& f) { return f.decode ? &*f.decode : nullptr; }

template <auto phase, auto member>
Cell PhaseCell(const ResultRow& r) {
  const AfdPhaseTimes* times = phase(F(r));
  if (times == nullptr) return std::monostate{};
  return times->*member;
}

// What a phase is served by; "" when nobody does.
std::string Implementation(const AfdRow& f, bool prefill) {
  // Of a phase that runs alone, its own column says that.
  if (!f.partner) return f.phase == AfdPhase::kBoth && !f.combined_with_static ? "afd" : "";
  if (f.partner->prefills != prefill) return "afd";
  return prefill ? "static_ctx" : "static_gen";
}

std::string PartnerText(const AfdStaticPartner& p) {
  return fmt::format("{} x {} batch {}", p.workers, ShortLayout(p.worker->layout), p.bs);
}

#define IC_AFD_PHASE(prefix, phase)                                                            \
  {{prefix "t_a_layer", prefix "attention_layer_ms", "ms", ""},                                \
   PhaseCell<phase, &AfdPhaseTimes::attention>},                                               \
      {{prefix "t_f_layer", prefix "feed_forward_layer_ms", "ms", ""},                         \
       PhaseCell<phase, &AfdPhaseTimes::ffn>},                                                 \
      {{prefix "t_a2f_layer", prefix "attention_to_feed_forward_ms", "ms", ""},                \
       PhaseCell<phase, &AfdPhaseTimes::to_ffn>},                                              \
      {{prefix "t_f2a_layer", prefix "feed_forward_to_attention_ms", "ms", ""},                \
       PhaseCell<phase, &AfdPhaseTimes::to_attention>},                                        \
      {{prefix "t_c_layer", prefix "communication_layer_ms", "ms", ""},                        \
       PhaseCell<phase, &AfdPhaseTimes::transfers>},                                           \
      {{prefix "t_step", prefix "step_ms", "ms", ""}, PhaseCell<phase, &AfdPhaseTimes::step>}, \
      {{prefix "balance_ratio", prefix "balance_ratio", "", ""},                               \
       PhaseCell<phase, &AfdPhaseTimes::balance_ratio>},                                       \
  {                                                                                            \
    {prefix "comm_hidden", prefix "communication_hidden", "", ""},                             \
        PhaseCell<phase, &AfdPhaseTimes::transfers_hidden>                                     \
  }

constexpr ResultColumn kAfd[] = {
    {{"model", "model", "", ""}, IC_AFD(Text(f.attention_worker->model))},
    {{"phase", "phase", "", ""}, IC_AFD(Text(ToString(f.phase)))},
    {{"isl", "isl", "", ""}, IC_AFD(f.isl)},
    {{"osl", "osl", "", ""}, IC_AFD(f.osl)},
    {{"gpus_per_node", "gpus_per_node", "", ""}, IC_AFD(f.layout.gpus_per_node)},
    {{"(a)nodes", "attention_nodes", "", ""}, IC_AFD(f.layout.attention_nodes)},
    {{"(a)tp", "attention_tp_size", "", ""}, IC_AFD(f.layout.attention_tp)},
    {{"(a)bs", "attention_batch_size", "", ""}, IC_AFD(f.schedule.batch)},
    {{"(a)micro_bs", "attention_micro_batch_size", "", ""}, IC_AFD(f.schedule.MicroBatch())},
    {{"(a)workers", "attention_workers", "", ""}, IC_AFD(f.layout.AttentionWorkers())},
    {{"(a)memory", "attention_memory_gib", "GiB", ""},
     IC_AFD(RealCell(f.attention_memory.usage.total))},
    {{"(a)is_oom", "attention_out_of_memory", "", ""}, IC_AFD(f.attention_memory.verdict.oom)},
    {{"(f)nodes", "feed_forward_nodes", "", ""}, IC_AFD(f.layout.ffn_nodes)},
    {{"(f)tp", "feed_forward_tp_size", "", ""}, IC_AFD(f.layout.FfnGpus())},
    {{"(f)ep", "feed_forward_ep_size", "", ""}, IC_AFD(f.layout.expert_parallel)},
    {{"(f)workers", "feed_forward_workers", "", ""}, IC_AFD(f.layout.FfnGpus())},
    {{"(f)memory", "feed_forward_memory_gib", "GiB", ""},
     IC_AFD(RealCell(f.ffn_memory.usage.total))},
    {{"(f)is_oom", "feed_forward_out_of_memory", "", ""}, IC_AFD(f.ffn_memory.verdict.oom)},
    IC_AFD_PHASE("", Headline),
    IC_AFD_PHASE("prefill_", Prefill),
    IC_AFD_PHASE("decode_", Decode),
    {{"ttft", "ttft_ms", "ms", ""}, IC_AFD(RealCell(f.ttft))},
    {{"tpot", "tpot_ms", "ms", ""}, [](const ResultRow& r) -> Cell { return ShownTpot(r); }},
    {{"request_latency", "request_latency_ms", "ms", ""}, IC_AFD(RealCell(f.request_latency))},
    {{"b_total", "total_batch_size", "", ""}, IC_AFD(f.total_batch)},
    {{"b_micro_total", "total_micro_batch_size", "", ""}, IC_AFD(f.micro_batch_total)},
    {{"tokens/s", "tokens_per_s", "1/s", ""}, IC_AFD(RealCell(f.tokens_s))},
    {{"tokens/s/gpu", "tokens_per_s_per_gpu", "1/s", ""}, IC_AFD(RealCell(f.tokens_s_gpu))},
    {{"tokens/s/user", "tokens_per_s_per_user", "1/s", ""}, IC_AFD(RealCell(f.tokens_s_user))},
    {{"seq/s", "requests_per_s", "1/s", ""}, IC_AFD(RealCell(f.seq_s))},
    {{"request_rate", "request_rate", "1/s", ""}, IC_AFD(RealCell(f.request_rate))},
    {{"concurrency", "concurrency", "", ""}, IC_AFD(CountCell(f.concurrency))},
    {{"parallel", "parallel", "", ""}, IC_AFD(Text(f.layout.Text()))},
    {{"pipeline_model", "pipeline_model", "", ""}, IC_AFD(Text(ToString(f.schedule.pipeline)))},
    {{"num_microbatches", "num_microbatches", "", ""}, IC_AFD(f.schedule.micro_batches)},
    {{"nextn", "nextn", "", ""}, IC_AFD(f.nextn)},
    {{"combined_with_pd", "combined_with_pd", "", ""}, IC_AFD(f.combined_with_static)},
    {{"boundary_on_attn", "boundary_on_attention", "", ""}, IC_AFD(f.layout.boundary_on_attention)},
    {{"(p)workers", "partner_workers", "", ""}, IC_PARTNER(p.workers)},
    {{"(p)tp", "partner_tp_size", "", ""}, IC_PARTNER(p.worker->layout.tp)},
    {{"(p)pp", "partner_pp_size", "", ""}, IC_PARTNER(p.worker->layout.pp)},
    {{"(p)dp", "partner_attention_dp_size", "", ""}, IC_PARTNER(p.worker->layout.dp)},
    {{"(p)moe_tp", "partner_moe_tp_size", "", ""}, IC_PARTNER(p.worker->layout.moe_tp.value_or(1))},
    {{"(p)ep", "partner_moe_ep_size", "", ""}, IC_PARTNER(p.worker->layout.moe_ep.value_or(1))},
    {{"(p)bs", "partner_batch_size", "", ""}, IC_PARTNER(p.bs)},
    {{"(p)num_gpus", "partner_gpus_per_worker", "", ""}, IC_PARTNER(p.gpus_per_worker)},
    {{"(p)system", "partner_system", "", ""}, IC_PARTNER(Text(p.worker->system))},
    {{"(p)backend", "partner_backend", "", ""}, IC_PARTNER(Text(ToString(p.worker->backend)))},
    {{"(p)version", "partner_backend_version", "", ""}, IC_PARTNER(Text(p.worker->version))},
    {{"(p)impl", "prefill_implementation", "", ""}, IC_AFD(Text(Implementation(f, true)))},
    {{"(d)impl", "decode_implementation", "", ""}, IC_AFD(Text(Implementation(f, false)))},
    {{"num_total_gpus", "num_total_gpus", "", ""}, IC_AFD(f.num_total_gpus)},
    {{"memory", "memory_gib", "GiB", ""}, IC_AFD(RealCell(f.memory))},
    {{"backend", "backend", "", ""}, IC_AFD(Text(ToString(f.attention_worker->backend)))},
    {{"version", "backend_version", "", ""}, IC_AFD(Text(f.attention_worker->version))},
    {{"system", "system", "", ""}, IC_AFD(Text(f.attention_worker->system))},
    {{"power_w", "power_w", "W", ""}, [](const ResultRow&) -> Cell { return {}; }},
    // For people.
    {{"", "", "", "backend"}, IC_AFD(Text(ToString(f.attention_worker->backend)))},
    {{"", "", "", "attention"},
     IC_AFD(fmt::format("{} tp{} batch {} in {}", NodesText(f.layout.attention_nodes),
                        f.layout.attention_tp, f.schedule.batch, f.schedule.micro_batches))},
    {{"", "", "", "feed-forward"},
     IC_AFD(fmt::format("{} ep{}", NodesText(f.layout.ffn_nodes), f.layout.expert_parallel))},
    {{"", "", "", "other phase"}, IC_PARTNER(PartnerText(p))},
};

// --- encoder pool ---

#define IC_ENC(value)                              \
  [](const ResultRow& r) -> Cell {                 \
    if (!r.row->encoders) return std::monostate{}; \
    const EncoderStage& e = *r.row->encoders;      \
    return value;                                  \
  }

// Of an encode worker; without a pool, the encoder's part of a prefill worker.
Cell EncoderMemory(const ResultRow& r) {
  if (r.row->encoders) return RealCell(r.row->encoders->memory);
  if (const DisaggregatedRow* d = r.row->disaggregated()) {
    return RealCell(d->prefill.encoder_memory);
  }
  return std::monostate{};
}

constexpr ResultColumn kEncoderPool[] = {
    {{"(a)workers", "language_workers", "", "language"},
     IC_ENC(e.language_workers),
     When::kAggregatedPool},
    {{"(e)workers", "encoder_workers", "", ""}, IC_ENC(e.workers), When::kEncoderPool},
    {{"(e)tp", "encoder_tp_size", "", ""}, IC_ENC(e.tp), When::kEncoderPool},
    {{"(e)pp", "encoder_pp_size", "", ""},
     [](const ResultRow& r) -> Cell { return r.row->encoders ? Cell(std::int64_t{1}) : Cell(); },
     When::kEncoderPool},
    {{"(e)bs", "encoder_batch_size", "", ""}, IC_ENC(e.bs), When::kEncoderPool},
    {{"(e)parallel", "encoder_parallel", "", ""},
     IC_ENC(fmt::format("tp{}", e.tp)),
     When::kEncoderPool},
    {{"(e)memory", "encoder_worker_memory_gib", "GiB", ""}, EncoderMemory, When::kEncoderPool},
    {{"", "", "", "encode"},
     IC_ENC(fmt::format("{} x tp{} batch {}", e.workers, e.tp, e.bs)),
     When::kEncoderPool},
};

std::span<const ResultColumn> ColumnsOf(ServingMode mode) {
  switch (mode) {
    case ServingMode::kAggregated:
      return kAggregated;
    case ServingMode::kDisaggregated:
      return kDisaggregated;
    case ServingMode::kAfd:
      return kAfd;
  }
  return kAggregated;
}

}  // namespace

std::int64_t GpusPerReplica(const TaskRow& row) {
  return std::visit([](const auto& figures) { return figures.num_total_gpus; }, row.figures);
}

std::int64_t ReplicasOf(const ResultRow& row) {
  if (row.context->load) return row.pick != nullptr ? row.pick->replicas_needed : 0;
  const std::int64_t gpus = GpusPerReplica(*row.row);
  return row.context->total_gpus > 0 && gpus > 0 ? row.context->total_gpus / gpus : 0;
}

double ClusterTokensPerSecond(const ResultRow& row) {
  const auto replicas = static_cast<double>(std::max<std::int64_t>(ReplicasOf(row), 1));
  return std::visit(
      [&](const auto& f) {
        return (row.row->score ? row.row->score->tokens_s : f.tokens_s) * replicas;
      },
      row.row->figures);
}

std::string ShortLayout(const ParallelLayout& layout) {
  std::string text = fmt::format("tp{}", layout.tp);
  const auto add = [&](const char* name, std::int64_t size) {
    if (size > 1) text += fmt::format(" {}{}", name, size);
  };
  add("pp", layout.pp);
  add("dp", layout.dp);
  add("cp", layout.cp);
  add("etp", layout.moe_tp.value_or(1));
  add("ep", layout.moe_ep.value_or(1));
  return text;
}

std::string DescribeDeployment(const TaskRow& row) {
  std::string text;
  if (const AggregatedRow* a = row.aggregated()) {
    const std::int64_t workers = row.encoders ? row.encoders->language_workers : 1;
    text = fmt::format("{} x {}, batch {}, {} prefill tokens a step", workers,
                       ShortLayout(a->worker->layout), a->bs, a->ctx_tokens);
  } else if (const DisaggregatedRow* d = row.disaggregated()) {
    text = fmt::format("prefill {} x {} (batch {}), decode {} x {} (batch {})", d->prefill_workers,
                       ShortLayout(d->prefill.worker->layout), d->prefill.bs, d->decode_workers,
                       ShortLayout(d->decode.worker->layout), d->decode.bs);
  } else if (const AfdRow* f = row.afd()) {
    text =
        fmt::format("attention on {} (tp{}, batch {}), feed-forward on {} (ep{})",
                    NodesText(f->layout.attention_nodes), f->layout.attention_tp, f->schedule.batch,
                    NodesText(f->layout.ffn_nodes), f->layout.expert_parallel);
    if (f->partner) {
      text += fmt::format(", {} {}", f->partner->prefills ? "prefill" : "decode",
                          PartnerText(*f->partner));
    }
  }
  if (row.encoders) {
    text += fmt::format(", encode {} x tp{} (batch {})", row.encoders->workers, row.encoders->tp,
                        row.encoders->bs);
  }
  return text;
}

ResultTable TableOf(std::span<const ResultRow> rows, const ResultContext& context) {
  const bool scored =
      std::ranges::any_of(rows, [](const ResultRow& r) { return r.row->score.has_value(); });
  const auto applies = [&](When when) {
    switch (when) {
      case When::kAlways:
      case When::kPicked:
        return true;
      case When::kScored:
        return scored;
      case When::kLoad:
        return context.load;
      case When::kLoadCapped:
        return context.load_capped;
      case When::kEncoderPool:
        // Disaggregated tables always show the pool, empty or not, as the field's tables do.
        return (context.encoder_pool && context.mode == ServingMode::kAggregated) ||
               context.mode == ServingMode::kDisaggregated;
      case When::kAggregatedPool:
        return context.encoder_pool && context.mode == ServingMode::kAggregated;
    }
    return true;
  };
  std::vector<const ResultColumn*> columns;
  const auto add = [&](std::span<const ResultColumn> list) {
    for (const ResultColumn& column : list) {
      if (applies(column.when)) columns.push_back(&column);
    }
  };
  add({&kRank, 1});
  add(kHeadline);
  add({&kExperiment, 1});
  add(ColumnsOf(context.mode));
  add(kEncoderPool);
  add(kScoreColumns);
  add(kPickColumns);
  add(kProvenance);
  ResultTable table;
  for (const ResultColumn* column : columns) table.columns.push_back(column->info);
  for (const ResultRow& row : rows) {
    std::vector<Cell>& cells = table.rows.emplace_back();
    cells.reserve(columns.size());
    for (const ResultColumn* column : columns) cells.push_back(column->value(row));
  }
  return table;
}

ResultTable TableOf(const StaticRow& row, const ResultContext& context) {
  AggregatedRow shared;
  static_cast<WorkerRow&>(shared) = row;
  const TaskRow task_row{shared, std::nullopt};
  const ResultRow result{&task_row, nullptr, 0, &context};
  ResultTable table = TableOf({&result, 1}, context);
  const auto at = [&](std::string_view name) {
    return std::find_if(table.columns.begin(), table.columns.end(),
                        [&](const ColumnInfo& c) { return c.name == name; }) -
           table.columns.begin();
  };
  for (const char* continuous : {"balance_score", "num_ctx_reqs", "num_gen_reqs", "num_tokens",
                                 "ctx_tokens", "gen_tokens"}) {
    table.rows[0].erase(table.rows[0].begin() + at(continuous));
    table.columns.erase(table.columns.begin() + at(continuous));
  }
  const auto place = at("encoder_memory") + 1;
  const ColumnInfo phases[] = {{"context_latency", "context_latency_ms", "ms", ""},
                               {"generation_latency", "generation_latency_ms", "ms", ""}};
  const Cell cells[] = {RealCell(row.context_latency), RealCell(row.generation_latency)};
  table.columns.insert(table.columns.begin() + place, std::begin(phases), std::end(phases));
  table.rows[0].insert(table.rows[0].begin() + place, std::begin(cells), std::end(cells));
  return table;
}

}  // namespace infercast
