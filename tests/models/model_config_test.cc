// Checkpoint configurations: the sizes that are read, and what is said about those that are wrong.
#include "models/model_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "models/checkpoint.h"
#include "models/family.h"
#include "models/generic_architecture.h"
#include "models/model_support.h"
#include "operators/bound_operator.h"
#include "support/data_files.h"

namespace infercast {
namespace {

using testing::Parse;

// The configuration with a member renamed to something nobody reads.
std::string Without(std::string config, const std::string& key) {
  return config.insert(config.find("\"" + key + "\"") + 1, "x_");
}

TEST(ModelConfig, ReadsTheSizesOfADenseDecoder) {
  const ModelConfig m = Parse(testing::Qwen3Dense());
  EXPECT_EQ(m.family_id(), ModelFamily::kLlama);
  EXPECT_FALSE(m.IsMoe());
  EXPECT_TRUE(m.qk_norm);
  EXPECT_EQ(m.layers, 64);
  EXPECT_EQ(m.hidden_size, 5120);
  EXPECT_EQ(m.heads, 64);
  EXPECT_EQ(m.kv_heads, 8);
  EXPECT_EQ(m.head_dim, 128);
  EXPECT_EQ(m.inter_size, 25600);
  EXPECT_EQ(m.vocab, 151936);
  EXPECT_EQ(m.context, 40960);
  EXPECT_EQ(m.num_experts, 0);
}

TEST(ModelConfig, HeadSizeFollowsFromTheWidthWhenAbsent) {
  const ModelConfig m = Parse(Without(testing::Qwen3Dense(), "head_dim"));
  EXPECT_EQ(m.head_dim, 80);
}

TEST(ModelConfig, ReadsExpertsUnderTheirSeveralNames) {
  const ModelConfig qwen = Parse(testing::Qwen3Moe());
  EXPECT_TRUE(qwen.IsMoe());
  EXPECT_EQ(qwen.num_experts, 128);
  EXPECT_EQ(qwen.topk, 8);
  EXPECT_EQ(qwen.moe_inter_size, 1536);
  EXPECT_EQ(qwen.moe_layers, 94);
  const ModelConfig oss = Parse(testing::GptOss());
  EXPECT_EQ(oss.num_experts, 128);
  EXPECT_EQ(oss.moe_inter_size, 2880);  // falls back to the dense width
}

TEST(ModelConfig, CountsSharedExpertsAndMoeLayers) {
  const ModelConfig m = Parse(testing::Qwen3Moe(
      R"(, "shared_expert_intermediate_size": 3072, "first_k_dense_replace": 3,
         "moe_layer_freq": 2)"));
  EXPECT_EQ(m.shared_experts, 2);
  EXPECT_EQ(m.moe_layers, 45);  // even layers from the fourth on
}

TEST(ModelConfig, ReadsTheNestedLanguageModel) {
  const ModelConfig m = Parse(testing::Qwen3Vl());
  EXPECT_EQ(m.family_id(), ModelFamily::kQwen3Vl);
  EXPECT_EQ(m.layers, 36);
  EXPECT_FALSE(m.qk_norm);
}

TEST(ModelConfig, NamesTheMissingKey) {
  for (const char* key : {"hidden_size", "num_attention_heads", "vocab_size",
                          "max_position_embeddings", "architectures"}) {
    const auto model = ParseCheckpoint("m", Without(testing::Qwen3Dense(), key));
    ASSERT_FALSE(model) << key;
    EXPECT_EQ(model.error().kind, ErrorKind::kModelConfig);
    EXPECT_NE(model.error().message.find(key), std::string::npos) << model.error().message;
  }
}

TEST(ModelConfig, RejectsSizesThatAreNone) {
  for (const char* value : {"-1", "1073741824", "1.5", "\"12\"", "true", "1e300", "null"}) {
    const auto model =
        ParseCheckpoint("m", testing::Qwen3Dense(std::string(", \"hidden_size\": ") + value));
    ASSERT_FALSE(model) << value;
    EXPECT_EQ(model.error().kind, ErrorKind::kModelConfig);
    EXPECT_NE(model.error().message.find("hidden_size"), std::string::npos);
  }
}

// Tables have an entry a layer: a hostile count must not take the memory.
TEST(ModelConfig, RejectsMoreLayersThanAnyModelHas) {
  const std::string many = R"(, "num_hidden_layers": 65537)";
  for (const auto& config :
       {testing::Qwen3Dense(many),
        std::string(R"({"architectures": ["MadeUp"], "num_hidden_layers": 65537,
            "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 100,
            "max_position_embeddings": 64, "intermediate_size": 64})")}) {
    const auto model = ParseCheckpoint("m", config, "", UnlistedArchitecture::kMap);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().kind, ErrorKind::kModelConfig);
    EXPECT_NE(model.error().message.find("65536"), std::string::npos) << model.error().message;
  }
}

TEST(ModelConfig, RejectsFeedForwardsOfNoSize) {
  for (const char* mult : {"-1", "1e300", "65537"}) {
    const auto model =
        ParseCheckpoint("m", R"({"architectures": ["DeciLMForCausalLM"], "num_hidden_layers": 1,
                 "hidden_size": 64, "num_attention_heads": 8, "vocab_size": 100,
                 "max_position_embeddings": 64,
                 "block_configs": [{"attention": {"n_heads_in_group": 8},
                                    "ffn": {"ffn_mult": )" +
                                 std::string(mult) + "}}]}");
    ASSERT_FALSE(model) << mult;
    EXPECT_EQ(model.error().kind, ErrorKind::kModelConfig);
    EXPECT_NE(model.error().message.find("ffn_mult"), std::string::npos);
  }
}

TEST(ModelConfig, RejectsTextsThatAreNoConfiguration) {
  for (const char* text : {"", "[]", "{}", "{\"architectures\": []}", "{\"architectures\": [1]}",
                           "not json", "{\"architectures\": \"Qwen3ForCausalLM\"}"}) {
    const auto model = ParseCheckpoint("m", text);
    ASSERT_FALSE(model) << text;
    EXPECT_EQ(model.error().kind, ErrorKind::kModelConfig) << model.error().message;
  }
}

TEST(ModelConfig, RejectsLayerPatternsOfAnotherLength) {
  const auto model = ParseCheckpoint("m", testing::MiMoV2(R"(, "num_hidden_layers": 47)"));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::kInvalidArgument);
}

TEST(ModelConfig, EveryArchitectureBelongsToOneFamily) {
  std::vector<std::string_view> names;
  for (const FamilyEntry* family : AllFamilies()) {
    for (const Architecture& a : family->architectures) {
      EXPECT_EQ(FindFamily(a.name), family) << a.name;
      names.push_back(a.name);
    }
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_EQ(names.size(), 32u);
}

std::string Unlisted(const std::string& architecture, const std::string& members) {
  return R"({"architectures": [")" + architecture + R"("], "vocab_size": 32000)" + members + "}";
}

TEST(UnlistedArchitecture, IsRejectedUnlessAskedFor) {
  const std::string config =
      Unlisted("MistralForCausalLM",
               R"(, "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
         "num_key_value_heads": 8, "intermediate_size": 14336, "max_position_embeddings": 32768)");
  const auto rejected = ParseCheckpoint("m", config);
  ASSERT_FALSE(rejected);
  EXPECT_EQ(rejected.error().kind, ErrorKind::kUnsupportedModel);
  const auto mapped = ParseCheckpoint("m", config, "", UnlistedArchitecture::kMap);
  ASSERT_TRUE(mapped) << mapped.error().message;
  EXPECT_EQ(mapped->family_id(), ModelFamily::kLlama);
  EXPECT_EQ(mapped->kv_heads, 8);
  ASSERT_FALSE(mapped->notes.empty());
  EXPECT_NE(mapped->notes[0].find("MistralForCausalLM"), std::string::npos);
}

TEST(UnlistedArchitecture, ReadsOtherSpellings) {
  const auto falcon = ParseCheckpoint(
      "m",
      Unlisted("FalconForCausalLM",
               R"(, "n_layer": 32, "hidden_size": 4544, "n_head": 71, "multi_query": true)"),
      "", UnlistedArchitecture::kMap);
  ASSERT_TRUE(falcon) << falcon.error().message;
  EXPECT_EQ(falcon->family_id(), ModelFamily::kGpt);
  EXPECT_EQ(falcon->kv_heads, 1);
  EXPECT_EQ(falcon->inter_size, 4 * 4544);
  EXPECT_EQ(falcon->head_dim, 64);

  const auto experts = ParseCheckpoint(
      "m",
      Unlisted("OlmoeForCausalLM",
               R"(, "num_hidden_layers": 16, "hidden_size": 2048, "num_attention_heads": 16,
                  "intermediate_size": 1024, "num_experts": 64, "num_experts_per_tok": 8)"),
      "", UnlistedArchitecture::kMap);
  ASSERT_TRUE(experts) << experts.error().message;
  EXPECT_TRUE(experts->IsMoe());
  EXPECT_EQ(experts->moe_inter_size, 1024);
}

TEST(UnlistedArchitecture, NamesWhatIsMissingOrForeign) {
  const auto missing = ParseCheckpoint("m", Unlisted("NewForCausalLM", R"(, "hidden_size": 64)"),
                                       "", UnlistedArchitecture::kMap);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("num_hidden_layers, num_attention_heads"),
            std::string::npos);
  const auto latent = ParseCheckpoint("m", Unlisted("NewForCausalLM", R"(, "kv_lora_rank": 512)"),
                                      "", UnlistedArchitecture::kMap);
  ASSERT_FALSE(latent);
  EXPECT_EQ(latent.error().kind, ErrorKind::kUnsupportedModel);
}

// The keys under which checkpoints of the field tell the number and the width of shared experts.
TEST(UnlistedArchitecture, ReadsSharedExpertsAsTheFieldWritesThem) {
  const struct {
    const char* members;
    std::int64_t width;
  } cases[] = {
      {"", 0},
      {R"(, "n_shared_experts": 0)", 0},
      {R"(, "n_shared_experts": 2)", 2 * 1024},
      {R"(, "num_shared_experts": 1)", 1024},
      {R"(, "moe_num_shared_experts": 2)", 2 * 1024},
      {R"(, "num_shared_expert": [1, 1])", 1024},
      {R"(, "shared_expert_intermediate_size": 5632)", 5632},
      {R"(, "moe_shared_expert_intermediate_size": 768, "num_shared_experts": 2)", 2 * 768},
      {R"(, "shared_intermediate_size": 512)", 512},
      {R"(, "share_expert_dim": 1280)", 1280},
  };
  for (const auto& c : cases) {
    const auto model = ParseCheckpoint(
        "m",
        Unlisted("NewMoeForCausalLM", std::string(R"(, "num_hidden_layers": 4, "hidden_size": 2048,
                    "num_attention_heads": 16, "intermediate_size": 4096, "num_experts": 16,
                    "moe_intermediate_size": 1024, "num_experts_per_tok": 2)") +
                                          c.members),
        "", UnlistedArchitecture::kMap);
    ASSERT_TRUE(model) << c.members << model.error().message;
    EXPECT_EQ(model->RecordAs<GenericMoe>().shared_inter, c.width) << c.members;
    EXPECT_EQ(model->shared_experts, (c.width + 1023) / 1024) << c.members;
  }
}

// The weights of the operator lists are the parameters of the checkpoint.
TEST(UnlistedArchitecture, ExpertModelsKeepAllTheirParameters) {
  for (const auto& [file, published, shared] :
       {std::tuple{"zai-org--GLM-4.5-Air", 106e9, true},
        {"zai-org--GLM-4.5", 355e9, true},
        {"rednote-hilab--dots.llm1.base", 142e9, true},
        {"allenai--OLMoE-1B-7B-0924", 6.92e9, false},
        {"microsoft--Phi-3.5-MoE-instruct", 41.87e9, false}}) {
    CheckpointSearch search;
    search.unlisted = UnlistedArchitecture::kMap;
    const auto model =
        LoadModelConfig("tests/models/configs/" + std::string(file) + ".json", search);
    ASSERT_TRUE(model) << file << model.error().message;
    for (const std::int64_t tp : {1, 4}) {
      BuildOptions options =
          testing::Options(Backend::kVllm, {.tp = tp, .moe_tp = tp, .moe_ep = 1});
      options.quant = {.gemm = GemmQuant::kBfloat16, .moe = MoeQuant::kBfloat16};
      const ModelPlan plan = testing::Build(*model, options);
      double bytes = 0;
      for (const Operator& op : plan.context_ops) bytes += WeightBytes(op);
      // Prefill lists no output head.
      const double head = static_cast<double>(model->vocab * model->hidden_size);
      EXPECT_NEAR(bytes / 2 * static_cast<double>(tp) + head, published, 0.015 * published)
          << file << " at tp " << tp;
      for (const auto& ops : {plan.context_ops, plan.generation_ops}) {
        const std::vector<std::string> names = testing::Names(ops);
        EXPECT_EQ(std::ranges::any_of(
                      names, [](const std::string& n) { return n.ends_with("shared_ffn2_gemm"); }),
                  shared)
            << file;
      }
    }
  }
}

class Checkpoints : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto& dir = files_.path();
    testing::WriteText(dir / "acme--Meta-Large-3.1_config.json", testing::Qwen3Dense());
    testing::WriteText(dir / "acme--small-moe_config.json", testing::Qwen3Moe());
    testing::WriteText(
        dir / "acme--small-moe_hf_quant_config.json",
        R"({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}})");
    search_.config_dirs = {dir};
  }
  testing::TemporaryDirectory files_;
  CheckpointSearch search_;
};

TEST_F(Checkpoints, FindsBundledNamesAndTheirQuantisation) {
  EXPECT_EQ(BundledModels(search_),
            (std::vector<std::string>{"acme/Meta-Large-3.1", "acme/small-moe"}));
  const auto model = LoadModelConfig("acme/small-moe", search_);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->quant.algorithm, "nvfp4");
  EXPECT_EQ(model->inferred_quant.kv, KvQuant::kFp8);
}

TEST_F(Checkpoints, AcceptsOtherSpellings) {
  for (const char* name :
       {"acme/Large-3.1", "acme/meta-large-3.1", "Meta-Large-3.1", "ACME/META_LARGE-3.1"}) {
    const auto model = LoadModelConfig(name, search_);
    ASSERT_TRUE(model) << name << ": " << model.error().message;
    EXPECT_EQ(model->name, "acme/Meta-Large-3.1");
  }
}

TEST_F(Checkpoints, ListsNearNamesForAnUnknownOne) {
  const auto model = LoadModelConfig("acme/smal-moe", search_);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::kUnknownName);
  EXPECT_NE(model.error().message.find("acme/small-moe"), std::string::npos);
}

TEST_F(Checkpoints, ReadsADirectoryAndAFile) {
  testing::TemporaryDirectory local;
  const auto missing = LoadModelConfig(local.path().string(), search_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::kModelConfig);

  testing::WriteText(local.path() / "config.json", testing::Qwen3Dense());
  testing::WriteText(local.path() / "hf_quant_config.json",
                     R"({"quantization": {"quant_algo": "FP8"}})");
  for (const auto& path : {local.path(), local.path() / "config.json"}) {
    const auto model = LoadModelConfig(path.string(), search_);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->layers, 64);
    EXPECT_EQ(model->quant.algorithm, "fp8");
  }
}

TEST_F(Checkpoints, NamesTheFileThatIsWrong) {
  testing::TemporaryDirectory local;
  testing::WriteText(local.path() / "config.json", "{\"architectures\": ");
  const auto model = LoadModelConfig(local.path().string(), search_);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::kModelConfig);
  EXPECT_NE(model.error().message.find("config.json"), std::string::npos);
}

}  // namespace
}  // namespace infercast
