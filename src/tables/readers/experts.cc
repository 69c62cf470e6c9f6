// Mixture of experts: grouped feed-forward kernels.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/modes.h"
#include "tables/readers/families.h"

namespace infercast {
namespace {

constexpr std::string_view kLowLatencyKernel = "moe_torch_flow_min_latency";

// Two number formats share a stored name between kernels that behave differently; the kernel's name
// tells them apart.
KeyColumn MoeDtypeKey() {
  return {"moe_dtype",
          true,
          {"moe_dtype", "kernel_source"},
          [](RowFile& file, TableBuilder& builder, std::size_t at) -> KeyCell {
            const ParquetColumn* dtype = file.Require("moe_dtype");
            const ParquetColumn* kernel = file.Optional("kernel_source");
            return [&file, &builder, at, dtype, kernel](std::size_t row) {
              std::string_view text = file.Text(dtype, row);
              const std::string_view source = RowFile::OptionalText(kernel, row).value_or("");
              if (text == "w4a8_mxfp4_mxfp8" && source == "sglang_mxfp4_flashinfer_trtllm_moe") {
                text = "w4a8_mxfp4_mxfp8_trtllm";
              } else if (text == "w4a16_mxfp4" && source == "sglang_flashinfer_cutlass_moe") {
                text = "w4a16_mxfp4_cutlass";
              }
              return builder.Code(at, text);
            };
          }};
}

}  // namespace

TableRecipe MoeRecipe(bool low_latency) {
  TableRecipe recipe;
  recipe.basenames = {"moe_perf"};
  recipe.keys = {MoeDtypeKey(),
                 TextKey("distribution", "distribution"),
                 U32Key("topk", "topk"),
                 U32Key("num_experts", "num_experts"),
                 U32Key("hidden_size", "hidden_size"),
                 U32Key("inter_size", "inter_size"),
                 U32Key("moe_tp", "moe_tp_size"),
                 U32Key("moe_ep", "moe_ep_size"),
                 U32Key("num_tokens", "num_tokens")};
  recipe.only = [low_latency](RowFile& file) -> RowRule {
    const ParquetColumn* kernel = file.Optional("kernel_source");
    return [kernel, low_latency](std::size_t row) {
      return (RowFile::OptionalText(kernel, row) == kLowLatencyKernel) == low_latency;
    };
  };
  return recipe;
}

}  // namespace infercast
