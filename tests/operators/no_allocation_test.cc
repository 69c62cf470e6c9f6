// A query of a bound operator does not allocate, whatever kind of answer it gets. Families add
// their kinds to Cases() with rows that make each way to an answer happen; the recorded cases over
// invented tables, and those over the measured data where they are there, are asked as well.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/spec_json.h"
#include "golden_check/loader.h"
#include "golden_check/operator_case.h"
#include "operators/allocation_counter.h"
#include "operators/bound_operator.h"
#include "operators/made_up_rows.h"
#include "tables/systems_paths.h"

namespace infercast {
namespace {

using testing::MadeUpSystem;

struct QueryCase {
  std::string name;
  Operator op;
  DatabaseMode mode;
  QueryContext ctx;
  OriginKind expected;  // how the answer has to come about
};

testing::Row ExpertRow(std::int64_t tokens, double latency) {
  return {{"moe_dtype", std::string("bfloat16")},
          {"distribution", std::string("power_law_1.2")},
          {"num_tokens", tokens},
          {"hidden_size", std::int64_t{2048}},
          {"inter_size", std::int64_t{512}},
          {"topk", std::int64_t{4}},
          {"num_experts", std::int64_t{32}},
          {"moe_tp_size", std::int64_t{1}},
          {"moe_ep_size", std::int64_t{8}},
          {"latency", latency}};
}

testing::Row ExchangeRow(const char* phase, std::int64_t tokens, double latency_us) {
  return {{"comm_backend", std::string("deepep_ht")},
          {"phase", std::string(phase)},
          {"comm_dtype", std::string("default")},
          {"ep_size", std::int64_t{8}},
          {"node_num", std::int64_t{1}},
          {"hidden_size", std::int64_t{2048}},
          {"topk", std::int64_t{4}},
          {"num_experts", std::int64_t{32}},
          {"sms", std::int64_t{20}},
          {"num_tokens", tokens},
          {"latency", latency_us}};
}

testing::Row RecurrentRow(const char* kernel, std::int64_t batch, std::int64_t length) {
  return {{"kernel_source", std::string(kernel)},
          {"phase", std::string("context")},
          {"d_model", std::int64_t{512}},
          {"d_conv", std::int64_t{4}},
          {"num_k_heads", std::int64_t{8}},
          {"head_k_dim", std::int64_t{32}},
          {"num_v_heads", std::int64_t{8}},
          {"head_v_dim", std::int64_t{32}},
          {"batch_size", batch},
          {"seq_len", length},
          {"latency", 1e-5 * static_cast<double>(batch * length)}};
}

void PutRecurrentRows(MadeUpSystem& system) {
  std::vector<testing::Row> gated, kimi;
  for (const std::int64_t batch : {1, 4}) {
    for (const std::int64_t length : {128, 1024}) {
      gated.push_back(RecurrentRow("chunk_gated_delta_rule", batch, length));
      kimi.push_back(RecurrentRow("chunk_kda", batch, length));
    }
  }
  system.Put("gdn_perf", gated);
  system.Put("kda_perf", kimi);
}

testing::Row CompressedPrefillRow(std::int64_t length, double latency) {
  return {{"mla_dtype", std::string("bfloat16")},
          {"kv_cache_dtype", std::string("fp8_e4m3")},
          {"gemm_type", std::string("fp8_block")},
          {"num_heads", std::int64_t{64}},
          {"tp_size", std::int64_t{1}},
          {"batch_size", std::int64_t{1}},
          {"isl", length},
          {"step", std::int64_t{0}},
          {"latency", latency}};
}

testing::Row FusedExpertsRow(std::int64_t tokens, double latency) {
  return {{"phase", std::string("context")},
          {"kernel_source", std::string("deepgemm_megamoe")},
          {"kernel_dtype", std::string("fp8_fp4")},
          {"moe_dtype", std::string("nvfp4")},
          {"pre_dispatch", std::string("sglang_jit")},
          {"source_policy", std::string("random")},
          {"distribution", std::string("balanced")},
          {"topk", std::int64_t{6}},
          {"num_experts", std::int64_t{384}},
          {"hidden_size", std::int64_t{7168}},
          {"inter_size", std::int64_t{3072}},
          {"moe_ep_size", std::int64_t{8}},
          {"num_tokens", tokens},
          {"latency", latency},
          {"routed_scaling_factor", 2.5},
          {"used_cuda_graph", std::int64_t{1}},
          {"includes_gate_topk", std::int64_t{0}},
          {"includes_routed_scale", std::int64_t{1}}};
}

void PutRows(MadeUpSystem& system) {
  system.Put("gemm_perf", testing::GemmRows());
  system.Put("computescale_perf", testing::ComputeScaleRows());
  system.Put("scale_matrix_perf", testing::ScaleMatrixRows());
  system.Put("nccl_perf", testing::NcclRows(), testing::kNcclFolder);
  system.Put("custom_allreduce_perf", {testing::AllReduceRow(2, 1024, 0.004, 100),
                                       testing::AllReduceRow(2, 4096, 0.008, 100)});
  std::vector<testing::Row> decode;
  std::vector<testing::Row> prefill;
  std::vector<testing::Row> encoder;
  for (const std::int64_t batch : {1, 2, 4}) {
    for (const std::int64_t length : {128, 256, 1024}) {
      const double time = 1e-6 * static_cast<double>(batch * length);
      decode.push_back(testing::DecodeRow("lane", length - 1, batch, 1e-3 + time, 100));
      prefill.push_back(testing::PrefillRow(length, batch, 1e-3 + 10 * time, 100));
      encoder.push_back(testing::EncoderRow(8, length, batch, 1e-3 + 10 * time, 100));
    }
  }
  std::vector<testing::Row> scan, streams, module;
  for (const std::int64_t n : {128, 256, 1024}) {
    const double time = 1e-5 * static_cast<double>(n);
    for (const std::int64_t batch : {1, 4}) {
      scan.push_back({{"kernel_source", std::string("mamba_chunk_scan_combined")},
                      {"phase", std::string("context")},
                      {"d_model", std::int64_t{512}},
                      {"d_state", std::int64_t{128}},
                      {"d_conv", std::int64_t{4}},
                      {"nheads", std::int64_t{16}},
                      {"head_dim", std::int64_t{64}},
                      {"n_groups", std::int64_t{8}},
                      {"chunk_size", std::int64_t{128}},
                      {"batch_size", batch},
                      {"seq_len", n},
                      {"latency", time}});
      module.push_back({{"kv_cache_dtype", std::string("fp8")},
                        {"gemm_type", std::string("fp8_block")},
                        {"num_heads", std::int64_t{64}},
                        {"tp_size", std::int64_t{1}},
                        {"batch_size", batch},
                        {"isl", std::int64_t{1}},
                        {"step", n - 1},
                        {"latency", time}});
    }
    streams.push_back({{"op_name", std::string("pre")},
                       {"num_tokens", n},
                       {"hc_mult", std::int64_t{4}},
                       {"hidden_size", std::int64_t{256}},
                       {"latency", time}});
  }
  system.Put("mamba2_perf", scan);
  system.Put("mhc_module_perf", streams);
  system.Put("dsv4_hca_generation_module_perf", module);
  PutRecurrentRows(system);
  system.Put("dsv4_hca_context_module_perf",
             {CompressedPrefillRow(256, 1.0), CompressedPrefillRow(1024, 3.0)});
  system.Put("dsv4_megamoe_module_perf", {FusedExpertsRow(16, 0.5), FusedExpertsRow(64, 1.5)});
  system.Put("generation_attention_perf", decode);
  system.Put("context_attention_perf", prefill);
  system.Put("encoder_attention_perf", encoder);
  system.Put("moe_perf", {ExpertRow(1, 0.1), ExpertRow(64, 0.2), ExpertRow(4096, 3.0)});
  system.Put("moe_a2a_perf", {ExchangeRow("dispatch", 1, 10), ExchangeRow("dispatch", 64, 30),
                              ExchangeRow("combine", 1, 12), ExchangeRow("combine", 64, 40)});
}

Gemm Product(std::uint32_t n, std::uint32_t k, GemmQuant quant = GemmQuant::kBfloat16) {
  Gemm op;
  op.name = "a_name_too_long_for_the_small_string_optimisation";
  op.scale_factor = 2;
  op.n = n;
  op.k = k;
  op.quant_mode = quant;
  op.scale_num_tokens = 1;
  op.low_precision_input = true;
  return op;
}

ContextAttention Prefill(std::uint32_t head_size, std::uint32_t cp = 1) {
  ContextAttention op;
  op.name = "context_attention";
  op.scale_factor = 2;
  op.n = 8;
  op.n_kv = 8;
  op.head_size = head_size;
  op.use_qk_norm = true;
  op.cp_size = cp;
  return op;
}

GenerationAttention Decode(std::uint32_t head_size) {
  GenerationAttention op;
  op.name = "generation_attention";
  op.scale_factor = 2;
  op.n = 8;
  op.n_kv = 8;
  op.head_size = head_size;
  return op;
}

EncoderAttention Encoder() {
  EncoderAttention op;
  op.name = "encoder_attention";
  op.scale_factor = 2;
  op.n = 8;
  op.head_size = 64;
  return op;
}

CustomAllReduce AllReduce(std::uint32_t tp) {
  CustomAllReduce op;
  op.name = "allreduce";
  op.scale_factor = 2;
  op.hidden_size = 1024;
  op.tp_size = tp;
  return op;
}

Nccl Library(std::uint32_t gpus) {
  Nccl op;
  op.name = "nccl";
  op.scale_factor = 2;
  op.hidden_size = 1024;
  op.num_gpus = gpus;
  op.operation = "all_reduce";
  return op;
}

Moe Experts(std::uint32_t inter) {
  Moe op;
  op.name = "moe";
  op.scale_factor = 2;
  op.hidden_size = 2048;
  op.inter_size = inter;
  op.topk = 4;
  op.num_experts = 32;
  op.moe_tp_size = 1;
  op.moe_ep_size = 8;
  op.workload_distribution = "power_law_1.2";
  op.is_gated = true;
  return op;
}

// On vLLM measured routed experts answer for it.
MoeExpertCompute ExpertCompute() {
  MoeExpertCompute op;
  op.name = "expert_compute";
  op.scale_factor = 2;
  op.hidden_size = 2048;
  op.inter_size = 512;
  op.topk = 4;
  op.num_experts = 32;
  op.moe_ep_size = 8;
  op.workload_distribution = "power_law_1.2";
  op.inference_phase = "context";
  return op;
}

MoeAllToAll Exchange(std::uint32_t nodes, std::uint32_t sms) {
  MoeAllToAll op;
  op.name = "exchange";
  op.scale_factor = 2;
  op.phase = "dispatch";
  op.comm_backend = "deepep_ht";
  op.hidden_size = 2048;
  op.topk = 4;
  op.num_experts = 32;
  op.moe_ep_size = 8 * nodes;
  op.node_num = nodes;
  op.sms = sms;
  return op;
}

MoeDispatch Dispatch() {
  MoeDispatch op;
  op.name = "dispatch";
  op.scale_factor = 2;
  op.hidden_size = 1024;
  op.moe_tp_size = 1;
  op.moe_ep_size = 2;
  op.attention_dp_size = 1;
  op.backend = Backend::kVllm;
  return op;
}

Mamba2 Scan(std::uint32_t hidden_size) {
  return {.name = "scan",
          .scale_factor = 2,
          .kernel_source = "mamba_chunk_scan_combined",
          .phase = "context",
          .d_model = hidden_size,
          .d_state = 128,
          .d_conv = 4,
          .nheads = 16,
          .head_dim = 64,
          .n_groups = 8,
          .chunk_size = 128};
}

Mhc Streams() {
  Mhc op;
  op.name = "streams";
  op.scale_factor = 2;
  op.op = "pre";
  op.hc_mult = 4;
  op.hidden_size = 256;
  return op;
}

Dsv4Generation CompressedDecode() {
  Dsv4Generation op;
  op.name = "compressed";
  op.scale_factor = 2;
  op.attn_kind = Dsv4AttentionKind::kHca;
  op.num_heads = 64;
  op.native_heads = 64;
  op.tp_size = 1;
  op.kv_cache_dtype = KvQuant::kFp8;
  op.gemm_quant_mode = GemmQuant::kFp8Block;
  return op;
}

template <typename Op>
Op Recurrent(const char* kernel) {
  Op op;
  op.name = "recurrent";
  op.scale_factor = 2;
  op.kernel_source = kernel;
  op.phase = "context";
  op.d_model = 512;
  op.d_conv = 4;
  op.num_k_heads = 8;
  op.head_k_dim = 32;
  op.num_v_heads = 8;
  op.head_v_dim = 32;
  return op;
}

Gdn GatedDelta() {
  Gdn op = Recurrent<Gdn>("chunk_gated_delta_rule");
  op.mamba_ssm_dtype = "float32";
  return op;
}

Dsv4Context CompressedPrefill() {
  Dsv4Context op;
  op.name = "compressed";
  op.scale_factor = 2;
  op.attn_kind = Dsv4AttentionKind::kHca;
  op.num_heads = 64;
  op.native_heads = 64;
  op.tp_size = 1;
  op.kv_cache_dtype = KvQuant::kFp8;
  op.gemm_quant_mode = GemmQuant::kFp8Block;
  op.window_size = 128;
  op.hidden_size = 4096;
  op.q_lora_rank = 1024;
  op.index_topk = 512;
  return op;
}

Dsv4MegaMoe FusedExperts() {
  Dsv4MegaMoe op;
  op.name = "fused";
  op.scale_factor = 2;
  op.hidden_size = 7168;
  op.inter_size = 3072;
  op.topk = 6;
  op.num_experts = 384;
  op.moe_tp_size = 1;
  op.moe_ep_size = 8;
  op.quant_mode = MoeQuant::kNvfp4;
  op.workload_distribution = "uniform";
  op.is_context = true;
  op.source_policy = "random";
  op.pre_dispatch = "sglang_jit";
  op.kernel_source = "deepgemm_megamoe";
  op.kernel_dtype = "fp8_fp4";
  return op;
}

// Its table is not there.
MlaModuleGeneration LatentBlock() {
  MlaModuleGeneration op;
  op.name = "latent_block";
  op.scale_factor = 2;
  op.num_heads = 16;
  return op;
}

std::vector<QueryCase> Cases() {
  using enum DatabaseMode;
  using enum OriginKind;
  const auto x = [](std::uint32_t tokens) { return QueryContext{.num_tokens = tokens}; };
  const auto bs = [](std::uint32_t b, std::uint32_t s, std::uint32_t p = 0) {
    return QueryContext{.batch_size = b, .s = s, .prefix = p};
  };
  const Gemm fp8_static = Product(4096, 4096, GemmQuant::kFp8Static);
  Overlap overlap{.name = "overlap",
                  .group_a = {Product(4096, 1024), Library(2)},
                  .group_b = {Product(4608, 1536), Decode(128)}};
  Elementwise norm{.name = "norm", .scale_factor = 1, .bytes_per_token = 8192};
  Fallback chain{.name = "chain",
                 .primary = Box<Operator>(LatentBlock()),
                 .fallback = {Product(4096, 1024), norm}};
  return {
      {"gemm point", Product(4096, 1024), kSilicon, x(64), kPoint},
      {"gemm between", Product(4096, 1024), kSilicon, x(40), kInterpolated},
      {"gemm beyond", Product(4096, 1024), kSilicon, x(4096), kExtrapolated},
      {"gemm unmeasured shape", Product(4608, 1536), kSilicon, x(64), kExtrapolated},
      {"gemm larger on one axis", Product(65536, 2048), kSilicon, x(64), kExtrapolated},
      {"gemm estimate", Product(4608, 1536), kEmpirical, x(64), kEstimated},
      {"gemm miss, then estimate", Product(65536, 65536), kHybrid, x(64), kEstimated},
      {"gemm borrowed", Product(4096, 1024, GemmQuant::kInt8Wo), kHybrid, x(40), kTransferred},
      {"gemm roofline", Product(4096, 1024), kSol, x(40), kSpeedOfLight},
      {"gemm static", fp8_static, kSilicon, x(64), kInterpolated},
      {"gemm static beyond", fp8_static, kSilicon, x(4096), kExtrapolated},
      {"gemm static estimate", fp8_static, kEmpirical, x(64), kEstimated},
      {"prefill point", Prefill(128), kSilicon, bs(2, 256), kPoint},
      {"prefill cached", Prefill(128), kSilicon, bs(3, 200, 100), kInterpolated},
      {"prefill beyond", Prefill(128), kSilicon, bs(9, 4096), kExtrapolated},
      {"prefill split", Prefill(128, 4), kSilicon, bs(1, 2000), kExtrapolated},
      {"prefill estimate", Prefill(128), kEmpirical, bs(3, 200), kEstimated},
      {"prefill borrowed", Prefill(64), kHybrid, bs(3, 200), kTransferred},
      {"scan between", Scan(512), kSilicon, bs(2, 200), kInterpolated},
      {"scan beyond", Scan(512), kSilicon, bs(9, 4096), kExtrapolated},
      {"scan not measured", Scan(1024), kSilicon, bs(2, 200), kSpeedOfLight},
      {"streams between", Streams(), kSilicon, x(200), kInterpolated},
      {"streams estimate", Streams(), kEmpirical, x(200), kEstimated},
      {"compressed decode between", CompressedDecode(), kSilicon, bs(2, 200), kInterpolated},
      {"compressed decode beyond", CompressedDecode(), kSilicon, bs(9, 4096), kExtrapolated},
      {"compressed decode estimate", CompressedDecode(), kEmpirical, bs(2, 200), kEstimated},
      {"compressed prefill between", CompressedPrefill(), kSilicon, bs(1, 500), kInterpolated},
      {"compressed prefill beyond", CompressedPrefill(), kSilicon, bs(1, 9000), kExtrapolated},
      {"compressed prefill estimate", CompressedPrefill(), kEmpirical, bs(1, 500), kEstimated},
      {"gated delta between", GatedDelta(), kSilicon, bs(2, 500), kInterpolated},
      {"gated delta beyond", GatedDelta(), kSilicon, bs(9, 4096), kExtrapolated},
      {"kimi delta between", Recurrent<Kda>("chunk_kda"), kSilicon, bs(2, 500), kInterpolated},
      {"kimi delta beyond", Recurrent<Kda>("chunk_kda"), kSilicon, bs(9, 4096), kExtrapolated},
      {"fused experts between", FusedExperts(), kSilicon, x(40), kInterpolated},
      {"decode between", Decode(128), kSilicon, bs(3, 200), kInterpolated},
      {"decode beyond", Decode(128), kSilicon, bs(9, 4096), kExtrapolated},
      {"decode borrowed", Decode(64), kHybrid, bs(3, 200), kTransferred},
      {"encoder point", Encoder(), kSilicon, bs(2, 256), kPoint},
      {"encoder between", Encoder(), kSilicon, bs(3, 300), kInterpolated},
      {"encoder beyond", Encoder(), kSilicon, bs(9, 4096), kExtrapolated},
      {"encoder estimate", Encoder(), kEmpirical, bs(3, 300), kEstimated},
      {"all-reduce between", AllReduce(2), kSilicon, x(3), kInterpolated},
      {"all-reduce borrowed", AllReduce(8), kSilicon, x(3), kSubstituted},
      {"all-reduce estimate", AllReduce(2), kEmpirical, x(3), kEstimated},
      {"nccl point", Library(2), kSilicon, x(1024), kPoint},
      {"nccl beyond", Library(2), kSilicon, x(1 << 20), kExtrapolated},
      {"nccl borrowed estimate", Library(8), kEmpirical, x(3), kTransferred},
      {"experts point", Experts(512), kSilicon, x(64), kPoint},
      {"experts between", Experts(512), kSilicon, x(100), kInterpolated},
      {"experts beyond", Experts(512), kSilicon, x(9999), kExtrapolated},
      {"experts estimate", Experts(512), kEmpirical, x(100), kEstimated},
      {"experts borrowed", Experts(600), kHybrid, x(100), kTransferred},
      {"experts roofline", Experts(512), kSol, x(100), kSpeedOfLight},
      {"expert compute substituted", ExpertCompute(), kSilicon, x(100), kInterpolated},
      {"exchange between", Exchange(1, 20), kSilicon, x(33), kInterpolated},
      {"exchange at another topology", Exchange(4, 20), kSilicon, x(33), kSubstituted},
      {"exchange held round trip", Exchange(1, 12), kSilicon, x(33), kExtrapolated},
      {"dispatch", Dispatch(), kSilicon, x(3), kInterpolated},
      {"memory-bound", norm, kSilicon, x(3), kAnalytic},
      {"chain without its first choice", chain, kSilicon, x(64), kPoint},
      {"chain that may not estimate", chain, kHybrid, x(64), kPoint},
      {"overlap", overlap, kSilicon, {.batch_size = 2, .s = 200, .num_tokens = 64}, kExtrapolated},
  };
}

TEST(NoAllocation, QueriesDoNotAllocate) {
  MadeUpSystem system(Backend::kVllm, "  fp4_tc_flops: 400000000000000\n  sm_version: 100\n");
  PutRows(system);
  for (const QueryCase& query : Cases()) {
    const Database db = system.Open(query.mode);
    const BoundOperator bound = BoundOperator::Bind(query.op, db);
    // The first query may build what is shared and lazy.
    const auto first = bound.Query(query.ctx);
    ASSERT_TRUE(first) << query.name << ": " << first.error().message;
    EXPECT_EQ(first->origin.kind, query.expected) << query.name;
    double latency = 0;
    const auto allocations = testing::AllocationsDuring([&] {
      const auto again = bound.Query(query.ctx);
      if (again) latency = again->latency_ms;
    });
    EXPECT_EQ(latency, first->latency_ms) << query.name;
    EXPECT_EQ(allocations, 0u) << query.name;
  }
}

// A chain asks its first choice at every query unless that one knows from its binding that it was
// never measured, as the whole blocks do that models put there; an error of any other carries text.
std::size_t TextsOf(const BoundOperator& bound, const QueryContext& ctx) {
  const auto* chain = std::get_if<BoundFallback>(&bound.bound());
  if (chain == nullptr) return 0;
  const BoundVariant& primary = chain->primary().bound();
  if (std::holds_alternative<BoundMlaModuleContext>(primary) ||
      std::holds_alternative<BoundMlaModuleGeneration>(primary)) {
    return 0;
  }
  return chain->primary().Query(ctx) ? 0 : 1;
}

// Asks the cases of a file twice; adds the kinds that answered to `kinds`. Cases of at most
// `identities` sets of data, so that few tables are opened.
void AskRecorded(const std::filesystem::path& file, std::size_t identities,
                 golden::Environment& environment, std::set<std::string>& kinds) {
  const auto documents = golden::LoadDocuments(file);
  ASSERT_TRUE(documents) << documents.error().message;
  environment.set_file(file);
  std::map<std::string, std::vector<const nlohmann::json*>> by_data;
  for (const nlohmann::json& document : *documents) {
    if (document.at("expect").contains("error")) continue;
    by_data[document.at("system").get<std::string>() + document.at("backend").get<std::string>() +
            document.at("version").get<std::string>()]
        .push_back(&document);
  }
  std::vector<std::vector<const nlohmann::json*>> groups;
  for (auto& [key, cases] : by_data) groups.push_back(std::move(cases));
  std::ranges::stable_sort(groups, std::ranges::greater{}, [](const auto& g) { return g.size(); });
  if (groups.size() > identities) groups.resize(identities);
  for (const auto& group : groups) {
    for (const nlohmann::json* document : group) {
      const std::string id = document->at("id");
      const auto op = ParseOperatorJson(document->at("op").dump());
      ASSERT_TRUE(op) << id << ": " << op.error().message;
      const auto bound = golden::BindCase(*document, *op, environment);
      ASSERT_TRUE(bound) << id << ": " << bound.error().message;
      const QueryContext ctx = golden::ParseContext(document->at("ctx"));
      const auto first = bound->Query(ctx);
      ASSERT_TRUE(first) << id << ": " << first.error().message;
      bool answered = false;
      const auto allocations =
          testing::AllocationsDuring([&] { answered = bound->Query(ctx).has_value(); });
      EXPECT_TRUE(answered) << id;
      EXPECT_LE(allocations, TextsOf(*bound, ctx)) << id << ", " << ToString(first->origin.kind);
      kinds.insert(document->at("op").begin().key());
    }
  }
}

TEST(NoAllocation, RecordedQueriesOverInventedTables) {
  golden::Environment environment(std::nullopt, 0);
  std::set<std::string> kinds;
  for (const char* file :
       {"fixtures/latent_ops.jsonl.gz", "fixtures/toy_ops.jsonl.gz", "ops/FpmForward.jsonl.gz"}) {
    AskRecorded(std::filesystem::path("tests/golden") / file, 4, environment, kinds);
  }
  for (const char* kind :
       {"ContextMla", "GenerationMla", "MlaBmm", "MlaModuleContext", "MlaModuleGeneration",
        "WideEpContextMla", "WideEpGenerationMla", "DsaContext", "DsaGeneration", "MsaContext",
        "MsaGeneration", "FpmForward", "Embedding", "P2P", "Fallback", "Overlap"}) {
    EXPECT_TRUE(kinds.contains(kind)) << kind;
  }
}

TEST(NoAllocation, RecordedQueriesOverMeasuredTables) {
  if (!ResolveSystemsPaths()) GTEST_SKIP() << "no measured data";
  golden::Environment environment(std::nullopt, 0);
  std::set<std::string> kinds;
  for (const auto& entry : std::filesystem::directory_iterator("tests/golden/ops")) {
    AskRecorded(entry.path(), 2, environment, kinds);
  }
  EXPECT_EQ(kinds.size(), std::variant_size_v<OperatorVariant>);
}

TEST(NoAllocation, TheCounterSeesAllocations) {
  EXPECT_EQ(testing::AllocationsDuring([] { const std::vector<double> some(100); }), 1u);
}

}  // namespace
}  // namespace infercast
