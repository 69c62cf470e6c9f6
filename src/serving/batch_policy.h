// How a serving engine forms its steps: which prompts join, how much of them, beside which running
// requests. Policies know nothing of clocks and costs, so a forecast over mean loads and a replay
// of single requests can share them.
//
// The three rules are those of the engines' default schedulers: running requests first and prompts
// cut to the rest of the token budget (vLLM); a step of prompts alone whenever one waits (SGLang);
// whole prompts beside the running requests (TensorRT-LLM).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/modes.h"
#include "hardware/system_spec.h"

namespace infercast {

enum class BatchingRule : std::uint8_t { kMixedChunks, kPromptsFirst, kMixedWholePrompts };
template <>
struct EnumNames<BatchingRule> {
  static constexpr std::string_view kType = "batching rule";
  static constexpr std::array<std::string_view, 3> kNames = {"mixed_chunks", "prompts_first",
                                                             "mixed_whole_prompts"};
};

// Properties of a deployment, not of a model: what its launch flags say.
struct BatchPolicy {
  BatchingRule rule = BatchingRule::kMixedChunks;
  std::int64_t token_budget = 8192;  // of one step of one rank
  // Decode steps between two looks at newly arrived requests; a step with prompts always looks.
  std::int64_t poll_interval = 1;
  // Steps for which prompts are held back until every data-parallel rank has one.
  std::int64_t hold_steps = 0;
  // Batch waiting, without data parallelism: prompts join running requests only when the step
  // reaches this share of its budget, or after so many steps.
  std::int64_t wait_steps = 0;
  double wait_budget_share = 0;
  // Requests that one rank serves at once; 0: as many as its memory holds.
  std::int64_t max_requests = 0;
  // KV memory reserved at admission: the prompt and this share of the output.
  double kv_output_share = 1.0;
  // Share of GPU memory for the engine (of all, or of what is free beside the weights: the
  // backend's way).
  double memory_fraction = 0.9;

  bool operator==(const BatchPolicy&) const = default;
};

// What a backend does when nothing is configured. `concurrency` and `isl` size TensorRT-LLM's
// budget.
BatchPolicy DefaultBatchPolicy(Backend backend, const SystemSpec& system, std::int64_t concurrency,
                               std::int64_t isl);

// Tokens of a step of a worker that only prefills.
std::int64_t PrefillPoolBudget(Backend backend);

// Launch flags that the public nightly benchmark's recipes set for a model (matched by its usual
// name), beyond the defaults. `note` tells what was set, empty when nothing was.
struct RecipeSubject {
  Backend backend = Backend::kTrtllm;
  const SystemSpec* system = nullptr;
  std::string_view model;
  std::string_view precision;  // bf16, fp8, fp4 ...
  std::int64_t concurrency = 1;
  std::int64_t isl = 1;
  std::int64_t osl = 1;
  std::int64_t tp = 1;
  std::int64_t dp = 1;
};
BatchPolicy BenchmarkRecipe(const RecipeSubject& subject, std::string* note = nullptr);

// A prompt that waits, perhaps with a part done.
struct WaitingPrompt {
  std::uint32_t request = 0;
  std::int64_t tokens = 0;  // to be computed in all
  std::int64_t done = 0;
};
using PromptLine = std::deque<WaitingPrompt>;  // first come, first served

struct PromptChunk {
  std::uint32_t request = 0;
  std::int64_t tokens = 0;
  std::int64_t done_before = 0;
  bool completes = false;
};

// Takes the prompts' part of one rank's next step from its line. `admit(request)` is asked once per
// prompt, before its first chunk: it reserves memory and says whether there was enough.
template <typename Admit>
void TakeChunks(const BatchPolicy& policy, std::int64_t decodes, PromptLine& line, Admit&& admit,
                std::vector<PromptChunk>& out) {
  std::int64_t left =
      policy.token_budget - (policy.rule == BatchingRule::kPromptsFirst ? 0 : decodes);
  while (!line.empty() && left > 0) {
    WaitingPrompt& prompt = line.front();
    const std::int64_t rest = prompt.tokens - prompt.done;
    const std::int64_t take = rest < left ? rest : left;
    const bool never_fits = prompt.tokens > policy.token_budget;
    if (policy.rule == BatchingRule::kMixedWholePrompts && take < rest && !never_fits) break;
    if (prompt.done == 0 && !admit(prompt.request)) break;
    out.push_back({prompt.request, take, prompt.done, take == rest});
    left -= take;
    prompt.done += take;
    if (prompt.done == prompt.tokens) line.pop_front();
  }
}

}  // namespace infercast
