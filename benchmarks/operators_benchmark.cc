// Time of one query of a bound operator, for the dense, collective and expert kinds: on measured
// points, between them, beyond them, and estimated. Needs the measured data
// ($INFERCAST_SYSTEMS_PATH or the fetched data package); without them every benchmark is skipped
// with the reason.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "operators/bound_operator.h"
#include "tables/systems_paths.h"

namespace infercast {
namespace {

constexpr const char* kSystem = "b200_sxm";
constexpr const char* kVersion = "0.24.0";

Result<Database> OpenData(DatabaseMode mode) {
  static const Result<std::shared_ptr<const TableStore>> store =
      []() -> Result<std::shared_ptr<const TableStore>> {
    IC_ASSIGN(const auto roots, ResolveSystemsPaths());
    DatabaseIdentity identity;
    identity.systems_root = roots.front();
    identity.system = kSystem;
    identity.backend = Backend::kVllm;
    identity.version = kVersion;
    IC_ASSIGN(std::shared_ptr<const TableStore> opened, TableStore::Open(identity));
    return opened;
  }();
  if (!store) return std::unexpected(store.error());
  return Database(*store, mode, TransferPolicy{}, Behaviour::kNative);
}

// Queries `op` with the contexts in turn, after one round that builds what is built lazily.
void RunQueries(benchmark::State& state, const Operator& op, DatabaseMode mode,
                const std::vector<QueryContext>& contexts) {
  const auto db = OpenData(mode);
  if (!db) {
    state.SkipWithError(db.error().message.c_str());
    return;
  }
  const BoundOperator bound = BoundOperator::Bind(op, *db);
  for (const QueryContext& ctx : contexts) {
    const auto answer = bound.Query(ctx);
    if (!answer) {
      state.SkipWithError(answer.error().message.c_str());
      return;
    }
  }
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(bound.Query(contexts[i]));
    if (++i == contexts.size()) i = 0;
  }
}

std::vector<QueryContext> Tokens(std::vector<std::uint32_t> counts) {
  std::vector<QueryContext> contexts;
  for (const std::uint32_t x : counts) contexts.push_back({.num_tokens = x});
  return contexts;
}

struct BatchLength {
  std::uint32_t b, s, prefix = 0;
};
std::vector<QueryContext> Batches(std::vector<BatchLength> shapes) {
  std::vector<QueryContext> contexts;
  for (const auto& [b, s, prefix] : shapes) {
    contexts.push_back({.batch_size = b, .s = s, .prefix = prefix});
  }
  return contexts;
}

Gemm Product(std::uint32_t n, std::uint32_t k) {
  Gemm op;
  op.name = "gemm";
  op.scale_factor = 61;
  op.n = n;
  op.k = k;
  op.scale_num_tokens = 1;
  return op;
}

ContextAttention Prefill() {
  ContextAttention op;
  op.name = "context_attention";
  op.scale_factor = 61;
  op.n = 64;
  op.n_kv = 8;
  op.head_size = 128;
  op.kv_cache_dtype = KvQuant::kFp8;
  return op;
}

GenerationAttention Decode() {
  GenerationAttention op;
  op.name = "generation_attention";
  op.scale_factor = 61;
  op.n = 64;
  op.n_kv = 8;
  op.head_size = 128;
  op.kv_cache_dtype = KvQuant::kFp8;
  return op;
}

EncoderAttention Encoder(std::uint32_t n) {
  EncoderAttention op;
  op.name = "encoder_attention";
  op.scale_factor = 27;
  op.n = n;
  op.head_size = 72;
  return op;
}

CustomAllReduce AllReduce(std::uint32_t tp) {
  CustomAllReduce op;
  op.name = "allreduce";
  op.scale_factor = 122;
  op.hidden_size = 8192;
  op.tp_size = tp;
  return op;
}

Nccl Gather(std::uint32_t gpus) {
  Nccl op;
  op.name = "all_gather";
  op.scale_factor = 61;
  op.hidden_size = 8192;
  op.num_gpus = gpus;
  op.operation = "all_gather";
  return op;
}

// A DeepSeek-V3 layer over eight expert ranks.
Moe Experts(std::uint32_t inter) {
  Moe op;
  op.name = "moe";
  op.scale_factor = 58;
  op.hidden_size = 7168;
  op.inter_size = inter;
  op.topk = 8;
  op.num_experts = 256;
  op.moe_tp_size = 1;
  op.moe_ep_size = 8;
  op.attention_dp_size = 8;
  op.quant_mode = MoeQuant::kFp8Block;
  op.workload_distribution = "power_law_1.01";
  op.is_gated = true;
  return op;
}

MoeDispatch Dispatch() {
  MoeDispatch op;
  op.name = "moe_dispatch";
  op.scale_factor = 58;
  op.hidden_size = 7168;
  op.topk = 8;
  op.num_experts = 256;
  op.moe_tp_size = 1;
  op.moe_ep_size = 8;
  op.attention_dp_size = 4;
  op.pre_dispatch = true;
  op.backend = Backend::kVllm;
  return op;
}

MoeAllToAll Exchange(std::uint32_t nodes, std::uint32_t sms) {
  MoeAllToAll op;
  op.name = "moe_a2a";
  op.scale_factor = 58;
  op.phase = "dispatch";
  op.comm_backend = "deepep_ht";
  op.hidden_size = 7168;
  op.topk = 8;
  op.num_experts = 256;
  op.moe_ep_size = 8 * nodes;
  op.node_num = nodes;
  op.sms = sms;
  return op;
}

const auto kMeasured = DatabaseMode::kSilicon;
const auto kEstimated = DatabaseMode::kEmpirical;

#define IC_BENCH(name, op, mode, contexts)                                                \
  void name(benchmark::State& state) { RunQueries(state, Operator(op), mode, contexts); } \
  BENCHMARK(name)

IC_BENCH(GemmPoint, Product(4096, 4096), kMeasured, Tokens({1, 16, 64, 256, 1024, 4096}));
IC_BENCH(GemmBetween, Product(4096, 4096), kMeasured, Tokens({100, 333, 777, 1500, 3000, 9000}));
IC_BENCH(GemmBeyond, Product(4096, 4096), kMeasured, Tokens({0, 50000, 200000, 1000000}));
IC_BENCH(GemmUnmeasuredShape, Product(5000, 3000), kMeasured, Tokens({1, 100, 777, 3000}));
IC_BENCH(GemmFrontier, Product(262144, 4096), kMeasured, Tokens({1, 64, 777}));
IC_BENCH(GemmEstimate, Product(5000, 3000), kEstimated, Tokens({1, 100, 777, 3000}));

IC_BENCH(PrefillPoint, Prefill(), kMeasured, Batches({{1, 1024}, {4, 2048}, {2, 4096}, {8, 512}}));
IC_BENCH(PrefillBetween, Prefill(), kMeasured,
         Batches({{3, 1000}, {4, 2048, 256}, {5, 3333, 100}, {1, 700}}));
IC_BENCH(PrefillBeyond, Prefill(), kMeasured, Batches({{512, 262144}, {256, 131072}}));
IC_BENCH(PrefillEstimate, Prefill(), kEstimated,
         Batches({{3, 1000}, {4, 2048, 256}, {5, 3333, 100}, {1, 700}}));

IC_BENCH(DecodePoint, Decode(), kMeasured, Batches({{1, 1024}, {8, 4096}, {32, 2048}}));
IC_BENCH(DecodeBetween, Decode(), kMeasured, Batches({{5, 1111}, {100, 3333}, {30, 5000}}));
IC_BENCH(DecodeBeyond, Decode(), kMeasured, Batches({{2048, 200000}, {4096, 100000}}));
IC_BENCH(DecodeEstimate, Decode(), kEstimated, Batches({{5, 1111}, {100, 3333}, {30, 5000}}));

IC_BENCH(EncoderPoint, Encoder(16), kMeasured, Batches({{2, 576}, {2, 1024}}));
IC_BENCH(EncoderBetween, Encoder(16), kMeasured, Batches({{2, 1000}, {3, 777}}));

IC_BENCH(AllReduceBetween, AllReduce(8), kMeasured, Tokens({3, 100, 777, 3000}));
IC_BENCH(AllReduceBorrowed, AllReduce(16), kMeasured, Tokens({3, 100, 777, 3000}));
IC_BENCH(AllReduceEstimate, AllReduce(8), kEstimated, Tokens({3, 100, 777, 3000}));
IC_BENCH(NcclBetween, Gather(8), kMeasured, Tokens({3, 100, 777, 3000}));

IC_BENCH(ElementwiseQuery,
         (Elementwise{.name = "norm", .scale_factor = 61, .bytes_per_token = 32768}), kMeasured,
         Tokens({1, 777}));

IC_BENCH(ExpertsBetween, Experts(2048), kMeasured, Tokens({3, 100, 777, 3000}));
IC_BENCH(ExpertsBeyond, Experts(2048), kMeasured, Tokens({50000, 200000}));
IC_BENCH(ExpertsEstimate, Experts(2048), kEstimated, Tokens({3, 100, 777, 3000}));
IC_BENCH(ExpertsBorrowed, Experts(2000), kEstimated, Tokens({3, 100, 777, 3000}));
IC_BENCH(DispatchBetween, Dispatch(), kMeasured, Tokens({3, 100, 777, 3000}));
IC_BENCH(ExchangeBetween, Exchange(1, 20), kMeasured, Tokens({100, 777, 3000}));
IC_BENCH(ExchangeSubstituted, Exchange(8, 20), kMeasured, Tokens({100, 777, 3000}));
IC_BENCH(ExchangeHeldRoundTrip, Exchange(1, 12), kMeasured, Tokens({100, 777, 3000}));

}  // namespace
}  // namespace infercast
