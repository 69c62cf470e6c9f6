// Test helper: a small dense and a small MoE checkpoint, and commands asked about them on the
// invented system of the golden fixtures at the speed of light, which needs no measured data.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/run_command.h"
#include "support/data_files.h"

namespace infercast::testing {

class SmallModel {
 public:
  SmallModel() {
    std::filesystem::create_directories(dense_);
    std::filesystem::create_directories(moe_);
    WriteText(dense_ / "config.json",
              R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
                  "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 8,
                  "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                  "vocab_size": 32000, "max_position_embeddings": 32768,
                  "torch_dtype": "bfloat16"})");
    WriteText(moe_ / "config.json",
              R"({"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
                  "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
                  "num_hidden_layers": 8, "num_attention_heads": 32, "num_key_value_heads": 4,
                  "head_dim": 128, "vocab_size": 32000, "num_experts": 16,
                  "num_experts_per_tok": 4, "max_position_embeddings": 32768,
                  "torch_dtype": "bfloat16"})");
  }

  std::string dense() const { return dense_.string(); }
  std::string moe() const { return moe_.string(); }
  std::string path(const std::string& name) const { return (directory_.path() / name).string(); }

  // `command` with the model, the system and the mode added, then `more`.
  Outcome Ask(const std::function<void(CLI::App&, CliContext&)>& add, const char* command,
              const std::vector<const char*>& more, bool moe = false) const {
    const std::string model = moe ? this->moe() : dense();
    std::vector<const char*> arguments = {
        command,    "--model",         model.c_str(),
        "--system", "toy_sxm",         "--database-mode",
        "SOL",      "--systems-paths", "tests/golden/fixtures/toy"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunCommand(std::move(arguments), add);
  }

 private:
  TemporaryDirectory directory_;
  std::filesystem::path dense_ = directory_.path() / "dense";
  std::filesystem::path moe_ = directory_.path() / "moe";
};

}  // namespace infercast::testing
