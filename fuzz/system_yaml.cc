// The yaml files of a systems root: the figures of a system and the three documents that govern
// which rows may be borrowed.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "hardware/system_spec.h"
#include "memory_file.h"
#include "tables/reuse_documents.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace infercast;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto system = ParseSystemSpec("made_up", text)) {
    for (const ComputeDtype dtype :
         {ComputeDtype::kBfloat16, ComputeDtype::kInt8, ComputeDtype::kFp8, ComputeDtype::kFp4}) {
      const auto rate = system->TensorCoreFlops(dtype);
      if (rate && !(std::isfinite(*rate) && *rate > 0)) std::abort();
    }
    for (const std::uint32_t gpus : {1U, 8U, 9U, 1024U}) (void)system->P2pBandwidth(gpus);
  } else if (system.error().message.empty()) {
    std::abort();
  }
  (void)ParseReuseDocument(text);
  (void)ParseCollectionMeta(text);
  static fuzzing::MemoryFile file;
  file.Write(data, size);
  (void)LoadManifest(file.path());
  return 0;
}
