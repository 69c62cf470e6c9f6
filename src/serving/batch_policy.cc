#include "serving/batch_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace infercast {

namespace {

bool Mentions(std::string_view model, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  return !std::ranges::search(model, part, same).empty();
}

// Decode steps between two looks at the inbox in SGLang's recipes; 1 where they set none.
std::int64_t RecipePollInterval(const RecipeSubject& s) {
  if (!s.system->IsBlackwell()) return 1;
  const bool b300 = s.system->name == "b300_sxm";
  if (Mentions(s.model, "DeepSeek")) return s.concurrency >= 16 ? 30 : 10;
  if (Mentions(s.model, "Qwen3.5")) {
    if (s.precision == "bf16" || s.precision.empty()) return s.concurrency >= 16 ? 30 : 10;
    if (b300 && s.precision == "fp8") return 10;
    return s.concurrency > 4 ? 30 : 10;
  }
  return 1;
}

// Batch waiting in TensorRT-LLM's recipes.
struct Wait {
  std::int64_t steps = 0;
  double budget_share = 0;
};
Wait RecipeWait(const RecipeSubject& s) {
  if (s.backend != Backend::kTrtllm || s.dp > 1 || s.isl != 1024 || s.osl != 1024) return {};
  if (Mentions(s.model, "Llama-3.1-70B") && s.tp < 8) return {20, 0.9};
  if (Mentions(s.model, "DeepSeek") && s.precision == "fp8" && s.system->IsBlackwell() &&
      s.concurrency >= 64 && s.concurrency < 256) {
    return {40, 0.8};
  }
  return {};
}

std::optional<std::int64_t> RecipeBudget(const RecipeSubject& s) {
  const bool hopper = s.system->IsHopper();
  switch (s.backend) {
    case Backend::kVllm:
      if (!Mentions(s.model, "MiniMax")) return std::nullopt;
      return hopper ? 32768 : 2 * s.isl;
    case Backend::kSglang:
      if (Mentions(s.model, "GLM-5")) return 32768;
      if (Mentions(s.model, "DeepSeek") && hopper) return 32768;
      return std::nullopt;
    case Backend::kTrtllm:
      if (Mentions(s.model, "gpt-oss")) return 20000;
      if (Mentions(s.model, "Llama-3.1-70B")) {
        // The longest request, on B200 in fp8 more.
        return !hopper && s.precision == "fp8" ? 16384 : s.isl + s.osl + 200;
      }
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t PrefillPoolBudget(Backend backend) {
  return backend == Backend::kSglang ? 16384 : 8192;
}

BatchPolicy DefaultBatchPolicy(Backend backend, const SystemSpec& system, std::int64_t concurrency,
                               std::int64_t isl) {
  BatchPolicy policy;
  switch (backend) {
    case Backend::kVllm:
      policy.rule = BatchingRule::kMixedChunks;
      policy.kv_output_share = 0.5;
      policy.memory_fraction = 0.90;
      break;
    case Backend::kSglang:
      policy.rule = BatchingRule::kPromptsFirst;
      policy.token_budget = system.IsBlackwell() ? 16384 : 8192;
      // Its estimate for running requests falls from 0.7 to a tenth of their rest within some
      // hundred steps: about what they hold on average.
      policy.kv_output_share = 0.5;
      policy.memory_fraction = 0.85;
      break;
    case Backend::kTrtllm:
      policy.rule = BatchingRule::kMixedWholePrompts;
      policy.token_budget = std::max<std::int64_t>(8192, (concurrency + isl + 64 + 63) / 64 * 64);
      policy.hold_steps = 60;
      policy.memory_fraction = 0.85;
      break;
  }
  return policy;
}

BatchPolicy BenchmarkRecipe(const RecipeSubject& s, std::string* note) {
  BatchPolicy policy = DefaultBatchPolicy(s.backend, *s.system, s.concurrency, s.isl);
  std::string set;
  if (const std::optional<std::int64_t> budget = RecipeBudget(s)) {
    policy.token_budget = *budget;
    set = fmt::format("{} tokens a step", *budget);
  }
  if (s.backend == Backend::kSglang) {
    policy.poll_interval = RecipePollInterval(s);
    if (policy.poll_interval > 1) {
      set += fmt::format("{}new requests are looked for every {} decode steps",
                         set.empty() ? "" : ", ", policy.poll_interval);
    }
  }
  if (const Wait wait = RecipeWait(s); wait.steps > 0) {
    policy.wait_steps = wait.steps;
    policy.wait_budget_share = wait.budget_share;
    set += fmt::format("{}prompts wait up to {} steps for {:g} % of a step's tokens",
                       set.empty() ? "" : ", ", wait.steps, 100 * wait.budget_share);
  }
  if (note != nullptr) *note = set;
  return policy;
}

}  // namespace infercast
