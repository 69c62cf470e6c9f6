// Measured points for tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace infercast::testing {

// The folder of public measured points, when it is on this machine: $INFERCAST_SILICON_PATH, or
// shared/silicon beside a folder above the source root.
inline std::optional<std::filesystem::path> SiliconFolder() {
  namespace fs = std::filesystem;
  if (const char* path = std::getenv("INFERCAST_SILICON_PATH"); path != nullptr && *path != 0) {
    return fs::path(path);
  }
  fs::path at = fs::current_path();
  for (int up = 0; up < 4; ++up) {
    at = at.parent_path();
    if (fs::is_regular_file(at / "shared" / "silicon" / "train.csv"))
      return at / "shared" / "silicon";
  }
  return std::nullopt;
}

inline constexpr const char* kHeader =
    "id,silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,"
    "gemm_quant_mode,moe_quant_mode,batch_size,tp_size,pp_size,attention_dp_size,moe_tp_size,"
    "moe_ep_size,prefill_num_workers,prefill_tp_size,decode_num_workers,decode_tp_size,"
    "silicon_ttft_ms,silicon_tpot_ms\n";

}  // namespace infercast::testing
