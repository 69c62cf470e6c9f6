// `infercast models`: the list, and the page of one model.
#include "cli/models_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/run_command.h"
#include "support/data_files.h"

namespace infercast {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;

Outcome Ask(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "models");
  arguments.insert(arguments.end(), {"--systems-paths", "tests/golden/fixtures/toy"});
  return testing::RunCommand(std::move(arguments), AddModelsCommand);
}

TEST(ModelsCommand, ExplainsAModel) {
  const Outcome text = Ask({"tests/models/configs/openai--gpt-oss-120b.json"});
  ASSERT_EQ(text.exit_code, kExitAnswer) << text.err;
  EXPECT_THAT(text.out, HasSubstr("Parameters  116.8 B, of which a token visits 5.1 B"));
  EXPECT_THAT(text.out, HasSubstr("18 x  sliding-window attention (128 tokens), 64 heads of 64, 8 "
                                  "KV heads; 4 of 128 experts of 2,880"));
  EXPECT_THAT(text.out, HasSubstr("18 x  full attention"));
  EXPECT_THAT(text.out, HasSubstr("36864"));  // bytes a token of the layers that see everything
  EXPECT_THAT(text.out, HasSubstr("a sequence: windows, once they are full"));
  EXPECT_THAT(text.out, HasSubstr("output layer"));
  // What no sequence has is not shown.
  const Outcome plain = Ask({"tests/models/configs/Qwen--Qwen2-7B.json"});
  EXPECT_THAT(plain.out, ::testing::Not(HasSubstr("a sequence:")));
}

TEST(ModelsCommand, AnswersInJson) {
  const Outcome answer =
      Ask({"tests/models/configs/nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B.json", "--json"});
  ASSERT_EQ(answer.exit_code, kExitAnswer) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json["layers"], 52);
  EXPECT_EQ(json["layer_groups"].size(), 3U);
  EXPECT_EQ(json["kv_cache"][0]["format"], "bfloat16");
  EXPECT_EQ(json["kv_cache"][0]["bytes_per_token"], 6 * 1024);
  EXPECT_EQ(json["kv_cache"][0]["bytes_per_sequence"], 23 * 2134016);
  EXPECT_EQ(json["kv_cache"][1]["bytes_per_token"], 3 * 1024);
}

TEST(ModelsCommand, ListsWhatIsThere) {
  testing::TemporaryDirectory directory;
  testing::WriteText(directory.path() / "org--small_config.json",
                     R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 2048,
                         "intermediate_size": 8192, "num_hidden_layers": 8,
                         "num_attention_heads": 16, "vocab_size": 32000,
                         "max_position_embeddings": 32768})");
  testing::WriteText(directory.path() / "org--broken_config.json", "{");
  ::setenv("INFERCAST_MODEL_CONFIGS_PATH", directory.path().c_str(), 1);
  const Outcome text = Ask({});
  const Outcome json = Ask({"--json"});
  const Outcome csv = Ask({"--csv"});
  const Outcome near = Ask({"small"});
  ::unsetenv("INFERCAST_MODEL_CONFIGS_PATH");
  ASSERT_EQ(text.exit_code, kExitAnswer) << text.err;
  EXPECT_THAT(text.out, HasSubstr("org/small"));
  EXPECT_THAT(text.out, HasSubstr("org/broken"));
  EXPECT_THAT(csv.out, HasSubstr("org/small,"));
  bool found = false;
  for (const auto& model : nlohmann::json::parse(json.out)) {
    if (model["model"] != "org/small") continue;
    found = true;
    EXPECT_EQ(model["layers"], 8);
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(near.exit_code, kExitAnswer) << near.err;  // another spelling of the only one
}

TEST(ModelsCommand, AnUnknownNameIsAnError) {
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  const Outcome answer = Ask({"nobody/nothing-of-that-name"});
  ::unsetenv("HF_HUB_OFFLINE");
  EXPECT_EQ(answer.exit_code, kExitIo);
  EXPECT_THAT(answer.err, HasSubstr("HF_HUB_OFFLINE"));
}

}  // namespace
}  // namespace infercast
