// `infercast memory` on the invented system of the golden fixtures.
#include "cli/memory_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/run_command.h"

namespace infercast {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;

constexpr char kConfigs[] = "tests/models/configs/";

Outcome Ask(const std::string& model, std::vector<const char*> more) {
  const std::string path = kConfigs + model + ".json";
  std::vector<const char*> arguments = {"memory",   "--model",         path.c_str(),
                                        "--system", "toy_sxm",         "--database-mode",
                                        "SOL",      "--systems-paths", "tests/golden/fixtures/toy"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return testing::RunCommand(std::move(arguments), AddMemoryCommand);
}

TEST(MemoryCommand, PrintsTheLogOfGptOss120b) {
  const Outcome text =
      Ask("openai--gpt-oss-120b", {"--backend", "vllm", "--kv-cache-memory", "5.3825"});
  ASSERT_EQ(text.exit_code, kExitAnswer) << text.err;
  EXPECT_THAT(text.out, HasSubstr("KV cache: 78,384 tokens in blocks of 16"));
  EXPECT_THAT(text.out, HasSubstr("2 groups of 18 layers share the blocks"));
}

TEST(MemoryCommand, PartsAddUpToTheEnginesShare) {
  const Outcome answer =
      Ask("mistralai--Mistral-7B-v0.3", {"--backend", "vllm", "--tp-size", "2", "--json"});
  ASSERT_EQ(answer.exit_code, kExitAnswer) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  const auto& memory = json["memory_gib"];
  double sum = 0;
  for (const char* part :
       {"weights", "draft_weights", "activations", "communication", "runtime", "kv_cache"}) {
    sum += memory[part].get<double>();
  }
  EXPECT_NEAR(sum, json["memory_fraction"].get<double>() * memory["capacity"].get<double>(), 1e-9);
  EXPECT_NEAR(memory["weights"].get<double>() * 1073741824, 7.25e9, 0.1e9);  // half of 14.5 GB
  const double tokens = json["kv_cache"]["tokens"].get<double>();
  EXPECT_EQ(json["kv_cache"]["bytes_per_token"], 65536);
  EXPECT_NEAR(tokens, std::floor(memory["kv_cache"].get<double>() * 1073741824 / 65536), 16);
  EXPECT_EQ(json["max_batch_size"]["batch_size"].get<std::int64_t>(),
            static_cast<std::int64_t>(tokens) / 8192);
}

TEST(MemoryCommand, LongestContextIsTheModelsWhereItFits) {
  const Outcome answer =
      Ask("meta-llama--Llama-3.2-1B", {"--backend", "sglang", "--batch-size", "2", "--json"});
  ASSERT_EQ(answer.exit_code, kExitAnswer) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json["max_context_length"]["context_length"], 131072);
  EXPECT_EQ(json["max_context_length"]["batch_size"], 2);
}

TEST(MemoryCommand, AnUnlistedArchitectureIsMappedWithANote) {
  const Outcome text = Ask("ibm-granite--granite-3.1-8b-base", {"--backend", "vllm"});
  ASSERT_EQ(text.exit_code, kExitAnswer) << text.err;
  EXPECT_THAT(text.out, HasSubstr("GraniteForCausalLM is not listed"));
  const Outcome reference =
      Ask("ibm-granite--granite-3.1-8b-base", {"--backend", "vllm", "--behaviour", "reference"});
  EXPECT_EQ(reference.exit_code, kExitInvalidConfig);
}

TEST(MemoryCommand, WhatDoesNotFitHasAnExitCodeOfItsOwn) {
  const Outcome answer = Ask("mistralai--Mistral-Large-Instruct-2407", {"--backend", "vllm"});
  EXPECT_EQ(answer.exit_code, kExitDoesNotFit);
  EXPECT_THAT(answer.err, HasSubstr("nothing is left for the KV cache"));
}

TEST(MemoryCommand, RefusesNonsense) {
  for (const std::vector<const char*>& more : {std::vector<const char*>{"--memory-fraction", "1.5"},
                                               {"--batch-size", "0"},
                                               {"--kv-cache-memory", "-1"},
                                               {"--nextn", "many"},
                                               {"--context-length", "0"}}) {
    const Outcome answer = Ask("mistralai--Mistral-7B-v0.3", more);
    EXPECT_EQ(answer.exit_code, kExitInvalidConfig) << more[0];
  }
}

}  // namespace
}  // namespace infercast
