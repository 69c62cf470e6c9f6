// Engine descriptions in binary form: no input may crash, and what is accepted is written back to
// the same operators.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "engine/spec_binary.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace infercast;
  const std::span<const std::uint8_t> bytes(data, size);
  if (const auto spec = ParseEngineSpecBinary(bytes, Behaviour::kReference)) {
    // Bytes, not values: a description may hold a NaN, which differs from itself.
    const auto written = WriteEngineSpecBinary(*spec);
    const auto again = ParseEngineSpecBinary(written);
    if (!again || WriteEngineSpecBinary(*again) != written) std::abort();
  }
  if (const auto op = ParseOperatorBinary(bytes)) {
    if (WriteOperatorBinary(*op) != std::vector<std::uint8_t>(data, data + size)) std::abort();
  }
  return 0;
}
