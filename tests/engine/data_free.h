// An engine whose operators need no measured table: memory-bound kernels on a system of 4.8e12
// bytes/s at 80 % with 3 us per kernel, so that latency(x) = scale * 1000 * (x * bytes / 3.84e12 +
// 3e-6) ms.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "engine/engine_spec.h"
#include "support/data_files.h"

namespace infercast::testing {

class DataFreeSystem {
 public:
  DataFreeSystem();
  const std::filesystem::path& root() const { return root_.path(); }

  // Context: a, context_attention, a, ov{[p], [q, r]}; generation: g, generation_attention, g.
  EngineSpec Spec(std::optional<std::uint32_t> nextn) const;
  std::shared_ptr<const Engine> Open(std::optional<std::uint32_t> nextn) const;
  Database OpenDatabase() const;

 private:
  TemporaryDirectory root_;
};

Elementwise Kernel(std::string name, double bytes_per_token, double scale_factor);

}  // namespace infercast::testing
