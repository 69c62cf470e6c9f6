// How rows become leaves: cell rules, duplicates, corrections, what each odd table does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "synthetic_root.h"

namespace infercast {
namespace {

using testing::Column;
using testing::Flags;
using testing::Integers;
using testing::Reals;
using testing::SyntheticRoot;
using testing::Texts;
using testing::WriteParquet;

// The leaf at a full key, texts and numbers as stored.
std::optional<Leaf> LeafOf(const Table& table, std::initializer_list<Table::Key> key) {
  GridView view = table.Root();
  std::size_t left = key.size();
  for (const Table::Key& part : key) {
    std::optional<double> number = part.number;
    if (part.is_text) number = table.CodeOf(view.level, part.text);
    if (!number) return std::nullopt;
    const auto node = view.Find(*number);
    if (!node) return std::nullopt;
    if (--left == 0) return table.LeafAt(*node);
    view = view.Child(*node);
  }
  return std::nullopt;
}

std::vector<Column> GemmRows(std::vector<std::optional<std::int64_t>> m,
                             std::vector<std::optional<std::int64_t>> nk,
                             std::vector<std::optional<double>> latency) {
  const std::vector<std::optional<std::string>> dtype(m.size(), "bfloat16");
  return {Texts("gemm_dtype", dtype), Integers("m", std::move(m)), Integers("n", nk),
          Integers("k", nk), Reals("latency", std::move(latency))};
}

TEST(LoadRules, FirstRowWinsAcrossSourcesAndEnergyKeepsTheMeasuredTime) {
  const SyntheticRoot root;
  std::vector<Column> rows = GemmRows({64, 64, 8192}, {4096, 4096, 8192}, {0.1, 0.2, 0.001});
  rows.push_back(Reals("power", {500, 600, 700}));
  WriteParquet(root.data() / "gemm/vllm/1.0/gemm_perf.parquet", rows);
  WriteParquet(root.data() / "gemm/vllm/0.9/gemm_perf.parquet",
               GemmRows({64, 128}, {4096, 4096}, {0.3, 0.4}));
  const auto store = root.Open("1.0");
  ASSERT_NE(store, nullptr);
  const auto& slot = store->Get(TableId::kGemm);
  ASSERT_NE(slot.table, nullptr) << slot.error.message;
  const auto first = LeafOf(*slot.table, {"bfloat16", 64, 4096, 4096});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->latency, 0.1);
  EXPECT_EQ(first->energy, 50.0);
  const auto borrowed = LeafOf(*slot.table, {"bfloat16", 128, 4096, 4096});
  ASSERT_TRUE(borrowed);
  EXPECT_EQ(borrowed->latency, 0.4);
  EXPECT_EQ(borrowed->energy, 0.0);
  const auto raised = LeafOf(*slot.table, {"bfloat16", 8192, 8192, 8192});
  ASSERT_TRUE(raised);
  EXPECT_EQ(raised->latency, 0.48867183456711116);
  EXPECT_EQ(raised->energy, 0.7000000000000001);
  ASSERT_EQ(slot.table->sources.size(), 2U);
  EXPECT_EQ(slot.table->sources[1].channel, SourceChannel::kFallback);
  const auto view = slot.table->Slice({"bfloat16", 128, 4096});
  EXPECT_EQ(slot.table->source[*view->Find(4096)], 1);

  DatabaseIdentity own = root.Identity("1.0");
  own.shared_layer = false;
  const auto alone = TableStore::Open(own);
  ASSERT_TRUE(alone);
  EXPECT_FALSE(LeafOf(*(*alone)->Get(TableId::kGemm).table, {"bfloat16", 128, 4096, 4096}));
}

TEST(LoadRules, OtherTablesOfTheSameStoreAreNotAffected) {
  const SyntheticRoot root;
  WriteParquet(root.data() / "gemm/vllm/1.0/gemm_perf.parquet", GemmRows({64}, {4096}, {0.1}));
  const auto store = root.Open("1.0");
  const auto& moe = store->Get(TableId::kMoe);
  EXPECT_EQ(moe.table, nullptr);
  EXPECT_FALSE(moe.corrupt);
  EXPECT_EQ(moe.error.kind, ErrorKind::kPerfDatabase);
}

TEST(LoadRules, DecodeAttentionIsRaisedToTheSpeedOfLight) {
  const SyntheticRoot root;
  WriteParquet(
      root.data() / "attention/vllm/1.0/generation_attention_perf.parquet",
      {Texts("kv_cache_dtype", {"bfloat16", "fp8"}), Integers("batch_size", {4, 4}),
       Integers("isl", {1023, 1000}), Integers("step", {1, 24}), Integers("num_heads", {32, 32}),
       Integers("num_key_value_heads", {32, 8}), Integers("head_dim", {128, 128}),
       Integers("window_size", {256, std::nullopt}), Texts("kernel_source", {"", std::nullopt}),
       Reals("latency", {1e-9, 1e-9}), Reals("power", {100, 100})});
  const auto store = root.Open("1.0");
  const auto& slot = store->Get(TableId::kGenerationAttention);
  ASSERT_NE(slot.table, nullptr) << slot.error.message;
  const auto windowed = LeafOf(*slot.table, {"default", "bfloat16", 0, 128, 256, 32, 4, 1024});
  ASSERT_TRUE(windowed);
  EXPECT_EQ(windowed->latency, 0.0021873703896103896);
  EXPECT_EQ(windowed->energy, 100 * 1e-9);
  const auto grouped = LeafOf(*slot.table, {"default", "fp8", 8, 128, 0, 32, 4, 1024});
  ASSERT_TRUE(grouped);
  EXPECT_EQ(grouped->latency, 0.001096876883116883);
}

TEST(LoadRules, BrokenCellsSpoilTheTableAndSaySo) {
  struct Case {
    const char* about;
    std::vector<Column> columns;
  };
  const std::vector<std::optional<std::string>> text = {"bfloat16"};
  const Case cases[] = {
      {"null latency", GemmRows({64}, {64}, {std::nullopt})},
      {"null key", GemmRows({std::nullopt}, {64}, {1.0})},
      {"negative key", GemmRows({-1}, {64}, {1.0})},
      {"key beyond 32 bits", GemmRows({4294967296}, {64}, {1.0})},
      {"integer latency",
       {Texts("gemm_dtype", text), Integers("m", {1}), Integers("n", {1}), Integers("k", {1}),
        Integers("latency", {1})}},
      {"32-bit key",
       {Texts("gemm_dtype", text), Column{"m", std::vector<std::optional<std::int32_t>>{1}},
        Integers("n", {1}), Integers("k", {1}), Reals("latency", {1.0})}},
      {"missing column",
       {Texts("gemm_dtype", text), Integers("m", {1}), Integers("n", {1}),
        Reals("latency", {1.0})}},
  };
  for (const Case& c : cases) {
    const SyntheticRoot root;
    WriteParquet(root.data() / "gemm/vllm/1.0/gemm_perf.parquet", c.columns);
    const auto store = root.Open("1.0");
    const auto& slot = store->Get(TableId::kGemm);
    EXPECT_EQ(slot.table, nullptr) << c.about;
    EXPECT_TRUE(slot.corrupt) << c.about;
    EXPECT_THAT(slot.error.message, ::testing::HasSubstr("gemm_perf.parquet")) << c.about;
    const Database native(store, DatabaseMode::kSilicon, {}, Behaviour::kNative);
    EXPECT_EQ(native.Get(TableId::kGemm).error().kind, ErrorKind::kCorruptData) << c.about;
    const Database reference(store, DatabaseMode::kSilicon, {}, Behaviour::kReference);
    EXPECT_EQ(reference.Get(TableId::kGemm).error().kind, ErrorKind::kPerfDatabase) << c.about;
  }
}

TEST(LoadRules, OptionalCellsOfAnotherTypeCountAsAbsent) {
  const SyntheticRoot root;
  auto rows = GemmRows({64}, {64}, {1.0});
  rows.push_back(Integers("power", {500}));
  WriteParquet(root.data() / "gemm/vllm/1.0/gemm_perf.parquet", rows);
  const auto slot_store = root.Open("1.0");
  const auto& slot = slot_store->Get(TableId::kGemm);
  ASSERT_NE(slot.table, nullptr);
  EXPECT_EQ(LeafOf(*slot.table, {"bfloat16", 64, 64, 64})->power, 0);
}

TEST(LoadRules, AGitLfsPointerIsNamedAsSuch) {
  const SyntheticRoot root;
  std::filesystem::create_directories(root.data() / "gemm/vllm/1.0");
  testing::WriteText(root.data() / "gemm/vllm/1.0/gemm_perf.parquet",
                     "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  const auto slot_store = root.Open("1.0");
  const auto& slot = slot_store->Get(TableId::kGemm);
  EXPECT_TRUE(slot.corrupt);
  EXPECT_THAT(slot.error.message, ::testing::HasSubstr("git-lfs"));
}

TEST(LoadRules, SparseAttentionKeepsTheLastRowOfTheFirstSource) {
  const SyntheticRoot root;
  const auto rows = [](std::vector<std::optional<double>> latency) -> std::vector<Column> {
    const std::size_t n = latency.size();
    const auto texts = [n](const char* t) { return std::vector<std::optional<std::string>>(n, t); };
    const auto numbers = [n](std::int64_t v) {
      return std::vector<std::optional<std::int64_t>>(n, v);
    };
    return {Texts("architecture", texts("A")),
            Texts("mla_dtype", texts("bfloat16")),
            Texts("kv_cache_dtype", texts("fp8")),
            Texts("gemm_type", texts("fp8_block")),
            Texts("op_name", texts("dsa_context_module")),
            Texts("kernel_source", texts("some_trtllm_kernel")),
            Integers("num_heads", numbers(128)),
            Integers("batch_size", numbers(1)),
            Integers("isl", numbers(16)),
            Integers("step", numbers(0)),
            Reals("latency", std::move(latency))};
  };
  WriteParquet(root.data() / "sparse_attention/vllm/1.0/dsa_context_module_perf.parquet",
               rows({1.0, 2.0}));
  WriteParquet(root.data() / "sparse_attention/vllm/0.9/dsa_context_module_perf.parquet",
               rows({3.0, 4.0}));
  const auto store = root.Open("1.0");
  const auto& full = store->Get(TableId::kDsaContextFull);
  ASSERT_NE(full.table, nullptr) << full.error.message;
  EXPECT_EQ(
      LeafOf(*full.table, {"bfloat16", "fp8", "fp8_block", "A", "trtllm", 128, 0, 16, 1})->latency,
      2.0);
  EXPECT_FALSE(full.table->CodeOf(4, "flashmla_kv"));
  const auto& skip = store->Get(TableId::kDsaContextSkip);
  EXPECT_EQ(skip.table, nullptr);
  EXPECT_FALSE(skip.corrupt);
}

TEST(LoadRules, LatentAttentionModulesOfAnUnknownModelSpoilTheTable) {
  const auto rows = [](const char* model, std::int64_t heads, std::int64_t tp) {
    return std::vector<Column>{Texts("model", {model}),
                               Texts("mla_dtype", {"bfloat16"}),
                               Texts("kv_cache_dtype", {"bfloat16"}),
                               Texts("gemm_type", {"bfloat16"}),
                               Integers("num_heads", {heads}),
                               Integers("tp_size", {tp}),
                               Integers("batch_size", {1}),
                               Integers("isl", {16}),
                               Integers("step", {0}),
                               Reals("latency", {1.0})};
  };
  const auto load = [&](const char* model, std::int64_t heads, std::int64_t tp) {
    const SyntheticRoot root;
    WriteParquet(root.data() / "mla/vllm/1.0/mla_context_module_perf.parquet",
                 rows(model, heads, tp));
    return root.Open("1.0")->Get(TableId::kMlaContextModule).table != nullptr;
  };
  EXPECT_TRUE(load("deepseek-ai/DeepSeek-V3", 16, 8));
  EXPECT_TRUE(load("moonshotai/Kimi-K3", 96, 1));
  EXPECT_FALSE(load("deepseek-ai/DeepSeek-V3", 16, 4));
  EXPECT_FALSE(load("someone/else", 128, 1));
  EXPECT_FALSE(load("", 128, 1));
}

TEST(LoadRules, CompressedAttentionCollapsesOntoTheLargerStep) {
  const SyntheticRoot root;
  WriteParquet(
      root.data() / "sparse_attention/vllm/1.0/dsv4_csa_generation_module_perf.parquet",
      {Texts("kv_cache_dtype", {"fp8_e4m3", "fp8", "fp8"}), Texts("gemm_type", {"bf", "bf", "bf"}),
       Integers("num_heads", {16, 16, 16}), Integers("tp_size", {4, 4, 4}),
       Integers("batch_size", {1, 1, 1}), Integers("isl", {10, 1, 1}),
       Integers("step", {10, 19, 19}), Reals("latency", {1.0, 2.0, 3.0})});
  const auto slot_store = root.Open("1.0");
  const auto& slot = slot_store->Get(TableId::kDsv4CsaGeneration);
  ASSERT_NE(slot.table, nullptr) << slot.error.message;
  EXPECT_EQ(LeafOf(*slot.table, {"fp8", "bf", 64, 16, 1, 20})->latency, 2.0);
}

TEST(LoadRules, CompressedAttentionRejectsWholeModelHeadCounts) {
  const SyntheticRoot root;
  WriteParquet(root.data() / "sparse_attention/vllm/1.0/dsv4_hca_context_module_perf.parquet",
               {Texts("mla_dtype", {"bf", "bf"}), Texts("kv_cache_dtype", {"fp8", "fp8"}),
                Texts("gemm_type", {"bf", "bf"}), Integers("num_heads", {64, 64}),
                Integers("tp_size", {1, 2}), Integers("batch_size", {1, 1}),
                Integers("isl", {10, 10}), Integers("step", {0, 0}), Reals("latency", {1.0, 2.0})});
  EXPECT_TRUE(root.Open("1.0")->Get(TableId::kDsv4HcaContext).corrupt);
}

TEST(LoadRules, TokenExchangeMergesItsFilesTierByTier) {
  const SyntheticRoot root;
  const auto unified = [](double latency) {
    return std::vector<Column>{Texts("comm_backend", {"deepep_ht"}),
                               Texts("phase", {"dispatch"}),
                               Texts("comm_dtype", {"default"}),
                               Integers("ep_size", {8}),
                               Integers("node_num", {1}),
                               Integers("hidden_size", {7168}),
                               Integers("topk", {8}),
                               Integers("num_experts", {256}),
                               Integers("num_tokens", {16}),
                               Reals("sms", {20.7}),
                               Reals("latency", {latency})};
  };
  const auto normal = [](double us, std::int64_t tokens) {
    return std::vector<Column>{
        Integers("node_num", {1}),           Integers("hidden_size", {7168}),
        Integers("num_token", {tokens}),     Integers("num_topk", {8}),
        Integers("num_experts", {256}),      Integers("dispatch_sms", {20}),
        Reals("dispatch_transmit_us", {us}), Reals("dispatch_notify_us", {1.0})};
  };
  WriteParquet(root.data() / "comm/sglang/0.9/moe_a2a_perf.parquet", unified(900));
  WriteParquet(root.data() / "comm/sglang/1.0/wideep_deepep_normal_perf.parquet", normal(49, 16));
  WriteParquet(root.data() / "comm/sglang/0.9/wideep_deepep_normal_perf.parquet", normal(9, 32));
  const auto store = root.Open("1.0", Backend::kSglang);
  const auto& slot = store->Get(TableId::kMoeAllToAll);
  ASSERT_NE(slot.table, nullptr) << slot.error.message;
  // The newer version's older file outranks the older version's newer file.
  EXPECT_EQ(LeafOf(*slot.table, {"deepep_ht", "dispatch", "default", 8, 1, 7168, 8, 256, 20, 16})
                ->latency,
            0.05);
  EXPECT_EQ(LeafOf(*slot.table, {"deepep_ht", "dispatch", "default", 8, 1, 7168, 8, 256, 20, 32})
                ->latency,
            0.01);
  EXPECT_EQ(
      LeafOf(*slot.table, {"deepep_ht", "combine", "default", 8, 1, 7168, 8, 256, 20, 32})->latency,
      0.0);
  // Within a tier the unified file wins.
  WriteParquet(root.data() / "comm/sglang/1.1/wideep_deepep_normal_perf.parquet", normal(49, 16));
  WriteParquet(root.data() / "comm/sglang/1.1/moe_a2a_perf.parquet", unified(900));
  const auto later_store = root.Open("1.1", Backend::kSglang);
  const auto& later = later_store->Get(TableId::kMoeAllToAll);
  EXPECT_EQ(LeafOf(*later.table, {"deepep_ht", "dispatch", "default", 8, 1, 7168, 8, 256, 20, 16})
                ->latency,
            0.9);
}

TEST(LoadRules, MegaMoeRejectsRowsOfOtherConditions) {
  const auto load = [](bool graph, const char* phase, bool twice) {
    const SyntheticRoot root;
    const std::size_t n = twice ? 2 : 1;
    const auto texts = [n](const char* t) { return std::vector<std::optional<std::string>>(n, t); };
    const auto numbers = [n](std::int64_t v) {
      return std::vector<std::optional<std::int64_t>>(n, v);
    };
    const auto flags = [n](bool v) { return std::vector<std::optional<bool>>(n, v); };
    const auto reals = [n](double v) { return std::vector<std::optional<double>>(n, v); };
    WriteParquet(
        root.data() / "moe/sglang/1.0/dsv4_megamoe_module_perf.parquet",
        {Texts("phase", texts(phase)), Texts("kernel_dtype", texts("fp8_fp4")),
         Texts("moe_dtype", texts("w4a8_mxfp4_mxfp8")), Texts("pre_dispatch", texts("x")),
         Texts("source_policy", texts("random")), Texts("distribution", texts("balanced")),
         Integers("topk", numbers(6)), Integers("num_experts", numbers(256)),
         Integers("hidden_size", numbers(4096)), Integers("inter_size", numbers(2048)),
         Integers("moe_ep_size", numbers(8)), Integers("num_tokens", numbers(64)),
         Reals("latency", reals(1.5)), Reals("routed_scaling_factor", reals(2.5)),
         Flags("used_cuda_graph", flags(graph)), Integers("includes_gate_topk", numbers(0)),
         Texts("includes_routed_scale", texts(" Yes "))});
    const auto slot_store = root.Open("1.0", Backend::kSglang);
    const auto& slot = slot_store->Get(TableId::kMegaMoe);
    return slot.table != nullptr;
  };
  EXPECT_TRUE(load(true, "context", false));
  EXPECT_FALSE(load(false, "context", false));
  EXPECT_FALSE(load(true, "decode", false));
  EXPECT_FALSE(load(true, "context", true));
}

TEST(LoadRules, ExpertComputePrefersTheUnifiedFile) {
  const SyntheticRoot root;
  const auto legacy = [](double latency) {
    return std::vector<Column>{
        Texts("kernel_source", {"ignored"}), Texts("moe_dtype", {"fp8_block"}),
        Texts("distribution", {"uniform"}),  Integers("topk", {8}),
        Integers("num_experts", {256}),      Integers("hidden_size", {7168}),
        Integers("inter_size", {2048}),      Integers("moe_ep_size", {8}),
        Integers("num_tokens", {32}),        Reals("latency", {latency})};
  };
  WriteParquet(root.data() / "moe/sglang/1.0/wideep_context_moe_perf.parquet", legacy(1.0));
  WriteParquet(root.data() / "moe/sglang/1.0/wideep_generation_moe_perf.parquet", legacy(2.0));
  auto rows = legacy(3.0);
  rows[0] = Texts("kernel_source", {"deepep_moe"});
  rows.push_back(Texts("inference_phase", {"context"}));
  rows.push_back(Integers("num_slots", {256}));
  rows.push_back(Integers("moe_tp_size", {1}));
  WriteParquet(root.data() / "moe/sglang/1.0/moe_expert_compute_perf.parquet", rows);
  const auto slot_store = root.Open("1.0", Backend::kSglang);
  const auto& slot = slot_store->Get(TableId::kMoeExpertCompute);
  ASSERT_NE(slot.table, nullptr) << slot.error.message;
  EXPECT_EQ(LeafOf(*slot.table, {"deepep_moe", "fp8_block", "uniform", "context", 8, 256, 256, 7168,
                                 2048, 1, 8, 32})
                ->latency,
            3.0);
  EXPECT_EQ(LeafOf(*slot.table, {"deepep_moe", "fp8_block", "uniform", "generation", 8, 256, 256,
                                 7168, 2048, 1, 8, 32})
                ->latency,
            2.0);
}

}  // namespace
}  // namespace infercast
