#include "serving/corrections.h"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/near_names.h"

namespace infercast {

namespace {

constexpr std::array<CorrectionFacts, 7> kNames = {{
    {"first_token_ms", "ms added to every TTFT", &ServingCorrections::first_token_ms, nullptr},
    {"first_token_steps", "decode steps added to every TTFT",
     &ServingCorrections::first_token_steps, nullptr},
    {"front_end_ms_per_1000", "serial front end, ms per 1000 prompt tokens",
     &ServingCorrections::front_end_ms_per_1000, nullptr},
    {"transfer_ms_per_1000", "KV transfer, ms per 1000 prompt tokens",
     &ServingCorrections::transfer_ms_per_1000, nullptr},
    {"context_scale", "factor on the work of prompts", nullptr, &StepCorrections::context_scale},
    {"decode_scale", "factor on decode work", nullptr, &StepCorrections::decode_scale},
    {"host_ms_per_layer", "host ms per layer of a decode step", nullptr,
     &StepCorrections::host_ms_per_layer},
}};

constexpr double kMost = 1e6;  // of any of them

using Row = std::array<FittedRange, kNames.size()>;

// Fitted by tools/fit_corrections on the public training points.
constexpr Row kTrtllm = {
    {{0, 0, 0}, {7.2, 6.6, 9.1}, {0, 0, 0}, {0, 0, 0}, {1.07, 0.91, 1.10}, {1, 1, 1}, {0, 0, 0}}};
constexpr Row kSglang = {{{160, 156, 180},
                          {0, 0, 0},
                          {2.1, 0, 4.7},
                          {0, 0, 0},
                          {1.40, 1.17, 1.50},
                          {1, 1, 1},
                          {0.033, 0.029, 0.039}}};
constexpr Row kVllm = {{{45, 30, 51},
                        {0, 0, 0},
                        {0, 0, 0},
                        {0, 0, 0},
                        {1.30, 1.26, 1.34},
                        {1, 1, 1},
                        {0.019, 0.015, 0.020}}};
constexpr Row kTrtllmPools = {{{160, 156, 176},
                               {0, 0, 0},
                               {0, 0, 0},
                               {2, 0, 7},
                               {1.0, 0.98, 1.07},
                               {1, 0.93, 1.08},
                               {0, 0, 0}}};
constexpr Row kSglangPools = {{{145, 126, 162},
                               {0, 0, 0},
                               {0, 0, 0},
                               {3.5, 2.7, 4.5},
                               {1.57, 1.55, 1.67},
                               {1, 1.00, 1.06},
                               {0, 0, 0}}};

}  // namespace

std::span<const CorrectionFacts> CorrectionNames() { return kNames; }

std::span<const FittedRange> FittedCorrections(Backend backend, bool disaggregated) {
  switch (backend) {
    case Backend::kTrtllm:
      return disaggregated ? kTrtllmPools : kTrtllm;
    case Backend::kSglang:
      return disaggregated ? kSglangPools : kSglang;
    case Backend::kVllm:
      // Two measured rows of pools: too few to fit, so the aggregated values; the transfer takes no
      // time.
      return kVllm;
  }
  return kVllm;
}

ServingCorrections DefaultCorrections(Backend backend, bool disaggregated) {
  ServingCorrections corrections;
  const std::span<const FittedRange> values = FittedCorrections(backend, disaggregated);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i].member != nullptr) {
      corrections.*kNames[i].member = values[i].value;
    } else {
      corrections.step.*kNames[i].step_member = values[i].value;
    }
  }
  return corrections;
}

double GetCorrection(const ServingCorrections& corrections, const CorrectionFacts& facts) {
  return facts.member != nullptr ? corrections.*facts.member : corrections.step.*facts.step_member;
}

Status SetCorrection(ServingCorrections& corrections, std::string_view name, double value) {
  for (const CorrectionFacts& facts : kNames) {
    if (facts.name != name) continue;
    if (!(value >= 0 && value <= kMost)) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("{} is {}: expected a number from 0 to {}", name, value, kMost));
    }
    if (facts.member != nullptr) {
      corrections.*facts.member = value;
    } else {
      corrections.step.*facts.step_member = value;
    }
    return {};
  }
  std::vector<std::string> names;
  for (const CorrectionFacts& facts : kNames) names.emplace_back(facts.name);
  return Fail(ErrorKind::kUnknownName,
              fmt::format("unknown correction '{}'{}; known: {}", name,
                          DidYouMean(std::string(name), names), JoinNames(names)));
}

}  // namespace infercast
