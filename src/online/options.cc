// Options of online models: reading and checking.
#include "online/options.h"

#include <cmath>
#include <string>

#include "engine/json_reader.h"

namespace infercast {

namespace {

// Floor of the square root; exact for perfect squares of any size.
std::uint64_t IntegerRoot(std::uint64_t value) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root > value / root) --root;
  while (root + 1 <= value / (root + 1)) ++root;
  return root;
}

}  // namespace

Status ValidateOptions(const OnlineOptions& o) {
  const auto invalid = [](std::string_view what) {
    return Fail(ErrorKind::kInvalidEngineConfig,
                "invalid forward pass perf options: " + std::string(what));
  };
  if (o.max_observations < 1) return invalid("max_observations must be >= 1");
  if (o.min_observations < 1) return invalid("min_observations must be >= 1");
  if (const auto f = o.min_faster_correction_factor;
      f && !(std::isfinite(*f) && *f > 0.0 && *f <= 1.0)) {
    return invalid("min_faster_correction_factor must be finite and in (0.0, 1.0]");
  }
  if (const auto f = o.max_slower_correction_factor; f && !(std::isfinite(*f) && *f >= 1.0)) {
    return invalid("max_slower_correction_factor must be finite and >= 1.0");
  }
  if (o.bucket_count < 1) return invalid("bucket_count must be >= 1");
  if (o.max_num_tokens < 1) return invalid("max_num_tokens must be >= 1");
  if (o.max_batch_size < 1) return invalid("max_batch_size must be >= 1");
  if (o.max_kv_tokens < 1) return invalid("max_kv_tokens must be >= 1");
  if (o.min_observations > o.max_observations) {
    return invalid("min_observations must be <= max_observations");
  }
  const std::uint64_t root = IntegerRoot(o.bucket_count);
  if (root * root != o.bucket_count) return invalid("bucket_count must be a perfect square");
  return {};
}

Result<OnlineOptions> ParseOnlineOptions(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return OnlineOptions{};
  return internal::ParseJsonAs<OnlineOptions>(text, ErrorKind::kInvalidArgument,
                                              "invalid options JSON");
}

}  // namespace infercast
