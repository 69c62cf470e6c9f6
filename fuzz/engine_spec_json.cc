// Engine descriptions and operator lists as JSON: no input may crash, and what is accepted must
// survive both encodings unchanged.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/forward_pass_metrics.h"
#include "engine/spec_binary.h"
#include "engine/spec_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace infercast;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto spec = ParseEngineSpecJson(text)) {
    const auto json = ParseEngineSpecJson(WriteEngineSpecJson(*spec));
    if (!json || !(*json == *spec)) std::abort();
    EngineSpec current = *spec;
    current.schema_version = kEngineSpecSchemaVersion;
    const auto binary = ParseEngineSpecBinary(WriteEngineSpecBinary(current));
    if (!binary || !(*binary == current)) std::abort();
  }
  if (const auto ops = ParseOperatorListJson(text)) {
    const auto again = ParseOperatorListJson(WriteOperatorListJson(*ops));
    if (!again || !(*again == *ops)) std::abort();
  }
  (void)ParseRankMetrics(text);
  (void)ParseAnyIterations(text);
  return 0;
}
