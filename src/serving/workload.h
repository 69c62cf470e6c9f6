// What is served: request lengths, reuse, images, and the corrections a caller may set.
#pragma once

#include <cstdint>
#include <optional>

namespace infercast {

struct Workload {
  std::int64_t isl = 4000;  // text input tokens of a request
  std::int64_t osl = 1000;  // generated tokens of a request
  std::int64_t prefix = 0;  // input tokens whose KV is already cached (counted in isl)
  std::int64_t beam_width = 1;
  // Images, where the model sees them.
  std::int64_t image_height = 0;
  std::int64_t image_width = 0;
  std::int64_t num_image_tokens = 0;  // alternative to height and width
  std::int64_t num_images = 1;
  // Imbalance between ranks: scales of prefill and of decode attention.
  double context_imbalance = 1.0;
  double generation_imbalance = 1.0;

  bool operator==(const Workload&) const = default;
};

// Tokens decoded per request and iteration: 1 without speculation, 1 + accepted drafts with it.
struct Speculation {
  std::int64_t nextn = 0;
  double accepted = 0;  // expected accepted draft tokens per iteration, 0 <= accepted <= nextn

  double progress() const { return nextn > 0 ? 1 + accepted : 1; }
};

}  // namespace infercast
