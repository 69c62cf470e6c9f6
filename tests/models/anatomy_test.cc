// Layers and parameters of well-known checkpoints: the published counts, and layer kinds by hand.
#include "models/anatomy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "models/checkpoint.h"

namespace infercast {
namespace {

ModelConfig Load(const std::string& name) {
  std::string file = name;
  file.replace(file.find('/'), 1, "--");
  CheckpointSearch search;
  search.unlisted = UnlistedArchitecture::kMap;
  auto model = LoadModelConfig("tests/models/configs/" + file + ".json", search);
  if (!model) throw std::runtime_error(model.error().message);
  return *std::move(model);
}

ModelAnatomy Describe(const std::string& name) {
  auto anatomy = DescribeModel(Load(name));
  if (!anatomy) throw std::runtime_error(anatomy.error().message);
  return *std::move(anatomy);
}

struct Published {
  const char* name;
  double billions;  // total, as the publisher's page or paper says
  double active = 0;
};

// Without draft layers. Biases, norms and learned positions are within the tolerance.
constexpr Published kPublished[] = {
    {"mistralai/Mistral-7B-v0.3", 7.248},
    {"mistralai/Mistral-Nemo-Base-2407", 12.248},
    {"mistralai/Mistral-Large-Instruct-2407", 122.61},
    {"microsoft/phi-2", 2.780},
    {"microsoft/Phi-3-mini-4k-instruct", 3.821},
    {"microsoft/phi-4", 14.66},
    {"microsoft/Phi-3.5-MoE-instruct", 41.87, 6.6},
    {"Qwen/Qwen2-7B", 7.616},
    {"Qwen/Qwen2.5-0.5B", 0.494},
    {"Qwen/Qwen2.5-72B", 72.71},
    {"Qwen/Qwen1.5-MoE-A2.7B", 14.32, 2.69},
    {"01-ai/Yi-34B", 34.39},
    {"meta-llama/Llama-3.2-1B", 1.236},
    {"deepseek-ai/deepseek-llm-67b-base", 67.42},
    {"allenai/OLMo-2-1124-7B", 7.299},
    {"allenai/OLMoE-1B-7B-0924", 6.92, 1.28},
    {"THUDM/GLM-4-9B-0414", 9.40},
    {"THUDM/chatglm3-6b", 6.244},
    {"zai-org/GLM-4.5-Air", 106},
    {"zai-org/GLM-4.5", 355},
    {"tiiuae/falcon-7b", 7.22},
    {"tiiuae/falcon-40b", 41.8},
    {"ibm-granite/granite-3.1-8b-base", 8.17},
    {"ibm-granite/granite-3.0-3b-a800m-base", 3.3},
    {"CohereForAI/c4ai-command-r-v01", 34.98},
    {"CohereForAI/c4ai-command-r-plus", 103.81},
    {"CohereForAI/c4ai-command-r7b-12-2024", 8.03},
    {"internlm/internlm2_5-7b", 7.74},
    {"internlm/internlm2-20b", 19.86},
    {"baichuan-inc/Baichuan2-13B-Base", 13.9},
    {"stabilityai/stablelm-2-12b", 12.14},
    {"stabilityai/stablelm-3b-4e1t", 2.795},
    {"bigcode/starcoder2-3b", 3.03},
    {"bigcode/starcoder2-7b", 7.17},
    {"openai-community/gpt2-xl", 1.558},
    {"facebook/opt-30b", 29.97},
    {"bigscience/bloom", 176.25},
    {"EleutherAI/gpt-neox-20b", 20.55},
    {"EleutherAI/gpt-j-6b", 6.05},
    {"EleutherAI/pythia-12b", 11.85},
    {"mosaicml/mpt-30b", 29.96},
    {"google/gemma-7b", 8.54},
    {"google/gemma-2-9b", 9.24},
    {"google/gemma-2-27b", 27.23},
    {"google/gemma-3-1b-pt", 1.0},
    {"deepseek-ai/deepseek-moe-16b-base", 16.38, 2.8},
    {"nvidia/Nemotron-4-340B-Base", 341},
    {"rednote-hilab/dots.llm1.base", 142.8, 14},
    {"LGAI-EXAONE/EXAONE-3.5-32B-Instruct", 32.0},
    {"xai-org/grok-1", 314},
    {"openai/gpt-oss-120b", 116.8, 5.1},
    {"deepseek-ai/DeepSeek-V3", 671, 37},
    {"Qwen/Qwen3-30B-A3B", 30.5, 3.3},
    {"mistralai/Mixtral-8x7B-v0.1", 46.7, 12.9},
    {"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B", 31.6, 3.6},
};

class PublishedCounts : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedCounts, AreMetWithinOnePercent) {
  const Published& p = GetParam();
  const ModelAnatomy anatomy = Describe(p.name);
  EXPECT_NEAR(anatomy.TotalParams() / 1e9, p.billions, 0.01 * p.billions);
  EXPECT_EQ(anatomy.Layers(), Load(p.name).layers);
  if (p.active > 0) {
    // Publishers round these, and not all of them count the embedding.
    EXPECT_NEAR(anatomy.ActiveParams() / 1e9, p.active, 0.05 * p.active + 0.35);
  } else if (anatomy.groups.front().experts == 0) {
    EXPECT_LE(anatomy.ActiveParams(), anatomy.TotalParams());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PublishedCounts, ::testing::ValuesIn(kPublished),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

// A configuration without an expectation is not tested.
TEST(Anatomy, EveryConfigurationHasItsPublishedCount) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/models/configs")) {
    files += entry.path().extension() == ".json" ? 1 : 0;
  }
  EXPECT_EQ(files, std::size(kPublished));
}

TEST(Anatomy, GptOssAlternatesWindowsAndFullAttention) {
  const ModelAnatomy a = Describe("openai/gpt-oss-120b");
  ASSERT_EQ(a.groups.size(), 2U);
  EXPECT_EQ(a.groups[0].mixer, Mixer::kSliding);
  EXPECT_EQ(a.groups[0].layers, 18);
  EXPECT_EQ(a.groups[0].window, 128);
  EXPECT_EQ(a.groups[1].mixer, Mixer::kFull);
  EXPECT_EQ(a.groups[1].layers, 18);
  EXPECT_EQ(a.groups[1].experts, 128);
  // 8 KV heads of 64, keys and values, two bytes each.
  EXPECT_DOUBLE_EQ(KvBytesPerToken(a.groups[1], 1, 2), 2048);
  EXPECT_DOUBLE_EQ(KvBytesPerToken(a.groups[1], 4, 2), 512);
  EXPECT_DOUBLE_EQ(KvBytesPerToken(a.groups[1], 16, 2), 256);  // a head is not split
}

TEST(Anatomy, WindowsOfPatternsWithoutAList) {
  const ModelAnatomy gemma3 = Describe("google/gemma-3-1b-pt");
  ASSERT_EQ(gemma3.groups.size(), 2U);
  EXPECT_EQ(gemma3.groups[0].mixer, Mixer::kSliding);
  EXPECT_EQ(gemma3.groups[0].layers, 22);  // five of six
  const ModelAnatomy cohere2 = Describe("CohereForAI/c4ai-command-r7b-12-2024");
  EXPECT_EQ(cohere2.groups[1].layers, 8);
  const ModelAnatomy qwen2 = Describe("Qwen/Qwen2-7B");  // has a window but does not use it
  ASSERT_EQ(qwen2.groups.size(), 1U);
  EXPECT_EQ(qwen2.groups[0].mixer, Mixer::kFull);
}

TEST(Anatomy, DeepSeekHasDenseLayersFirstAndADraftLayer) {
  const ModelAnatomy a = Describe("deepseek-ai/DeepSeek-V3");
  ASSERT_EQ(a.groups.size(), 2U);
  EXPECT_EQ(a.groups[0].layers, 3);
  EXPECT_EQ(a.groups[0].feed_forward, FeedForward::kDense);
  EXPECT_EQ(a.groups[1].mixer, Mixer::kLatent);
  EXPECT_EQ(a.groups[1].shared_inter, 2048);
  EXPECT_DOUBLE_EQ(KvBytesPerToken(a.groups[1], 8, 2), 576 * 2);  // replicated
  ASSERT_TRUE(a.draft);
  EXPECT_NEAR(a.DraftParams() / 1e9, 11.6, 0.1);  // 14 with the embedding and output it shares
}

TEST(Anatomy, NemotronIsReadLetterByLetter) {
  const ModelAnatomy a = Describe("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B");
  std::int64_t mamba = 0, attention = 0, experts = 0;
  for (const LayerGroup& g : a.groups) {
    if (g.mixer == Mixer::kMamba2) mamba += g.layers;
    if (g.mixer == Mixer::kFull) attention += g.layers;
    if (g.feed_forward == FeedForward::kExperts) experts += g.layers;
  }
  EXPECT_EQ(mamba, 23);
  EXPECT_EQ(attention, 6);
  EXPECT_EQ(experts, 23);
  // 64 heads x 64 x 128 in float32, and three steps of 6144 convolution channels in 16 bits.
  EXPECT_DOUBLE_EQ(StateBytes(a.groups.front(), 1), 64 * 64 * 128 * 4 + 6144 * 3 * 2);
  EXPECT_DOUBLE_EQ(StateBytes(a.groups.front(), 4) * 4, StateBytes(a.groups.front(), 1));
}

}  // namespace
}  // namespace infercast
