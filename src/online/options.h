// How an online model keeps and uses what it observes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "operators/fields.h"

namespace infercast {

struct OnlineOptions {
  std::uint64_t max_observations = 64;  // kept per kind of work
  std::uint64_t min_observations = 5;   // needed before a kind is corrected or fitted
  // Bounds of one observation's correction, observed / native; none: unbounded.
  std::optional<double> min_faster_correction_factor = 0.5;
  std::optional<double> max_slower_correction_factor = 2.0;
  std::uint64_t bucket_count = 16;  // of the operating range; a perfect square
  // The operating range that corrections cover.
  std::uint32_t max_num_tokens = 8192;
  std::uint32_t max_batch_size = 512;
  std::uint32_t max_kv_tokens = 2000000;

  bool operator==(const OnlineOptions&) const = default;
  static constexpr auto Fields() {
    using S = OnlineOptions;
    return std::tuple{Defaulted("max_observations", &S::max_observations),
                      Defaulted("min_observations", &S::min_observations),
                      Defaulted("min_faster_correction_factor", &S::min_faster_correction_factor),
                      Defaulted("max_slower_correction_factor", &S::max_slower_correction_factor),
                      Defaulted("bucket_count", &S::bucket_count),
                      Defaulted("max_num_tokens", &S::max_num_tokens),
                      Defaulted("max_batch_size", &S::max_batch_size),
                      Defaulted("max_kv_tokens", &S::max_kv_tokens)};
  }
};

// kInvalidEngineConfig, naming the first option that is out of its range.
Status ValidateOptions(const OnlineOptions& options);

// A JSON object; blank text means all defaults. kInvalidArgument when it is not that. Ranges are
// not checked.
Result<OnlineOptions> ParseOnlineOptions(std::string_view text);

}  // namespace infercast
