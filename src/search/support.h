// Can a question be answered? For a model on a system under a backend: whether at least one layout
// of each serving mode evaluates, from measurements alone or with estimates, and what stands in the
// way.
//
// Nothing is looked up: the candidates of an ordinary search are built, bound to the measured
// tables and evaluated until one answers and fits in memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "models/checkpoint.h"
#include "search/task.h"
#include "tables/versions.h"

namespace infercast {

enum class SupportKind : std::uint8_t {
  kMeasured,   // every operator from measurements of this system, backend and version
  kEstimated,  // some operators from estimates
  kNo,
  kNotAsked,  // interrupted before it was looked at
};
template <>
struct EnumNames<SupportKind> {
  static constexpr std::string_view kType = "kind of support";
  static constexpr std::array<std::string_view, 4> kNames = {"measured", "estimated", "no",
                                                             "not_asked"};
};

struct ModeSupport {
  SupportKind kind = SupportKind::kNotAsked;
  std::string layout;    // one that answers; of pools: "prefill + decode"
  std::string estimate;  // kEstimated: the boldest kind of estimate in it
  // Not kMeasured: why measurements alone do not answer.
  std::optional<Error> missing;
};

struct SupportQuestion {
  std::string model;
  std::string system;
  Backend backend = Backend::kTrtllm;
  std::optional<std::string> version;  // absent: the current one
  std::int64_t total_gpus = 128;       // limits the candidates

  auto operator<=>(const SupportQuestion&) const = default;
};

struct SupportAnswer {
  SupportQuestion question;
  std::string architecture;  // "" where the model cannot be read
  std::string version;       // "" where there is none
  ModeSupport aggregated, disaggregated;
};

struct SupportOptions {
  Workload workload{.isl = 256, .osl = 256, .prefix = 128};
  bool estimates = true;  // try estimates where measurements do not answer
  Behaviour behaviour = Behaviour::kNative;
  bool allow_unlisted_versions = false;
  // Called now and then, from any thread, one call at a time.
  std::function<void(std::size_t done, std::size_t total)> progress;
  const std::atomic<bool>* stop = nullptr;  // set: the rest stays kNotAsked
};

// Answers in the order of the questions, whatever the number of threads.
std::vector<SupportAnswer> CheckSupport(std::span<const SupportQuestion> questions,
                                        const SupportOptions& options,
                                        const SystemsCatalog& systems,
                                        const CheckpointSearch& checkpoints);

}  // namespace infercast
