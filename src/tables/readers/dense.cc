// Matrix products and their quantisation overheads.
#include <algorithm>

#include "base/modes.h"
#include "tables/readers/families.h"

namespace infercast {
namespace {

// A product is never served faster than the hardware's own limits allow: measurement noise on
// small shapes would otherwise undercut them. Energy keeps the measured time.
LeafRule RaiseToSpeedOfLight(const LoadContext& context, const TableBuilder& builder) {
  struct Rate {
    bool known = false;
    double flops = 0, memory = 0;
  };
  const double mem_bw = context.system.mem_bw;
  const SystemSpec& system = context.system;
  return [mem_bw, &system, &builder, rates = std::vector<std::optional<Rate>>()](
             std::span<const double> key, Leaf& leaf) mutable {
    const auto code = static_cast<std::size_t>(key[0]);
    if (code >= rates.size()) rates.resize(code + 1);
    if (!rates[code]) {
      Rate rate;
      if (const auto quant = ParseEnum<GemmQuant>(builder.TextOf(0, key[0]))) {
        const QuantProfile profile = Profile(*quant);
        if (const auto flops = system.TensorCoreFlops(profile.dtype)) {
          rate = {true, *flops, profile.memory};
        }
      }
      rates[code] = rate;
    }
    if (!rates[code]->known) return;
    const auto& [known, flops, memory] = *rates[code];
    const double m = key[1], n = key[2], k = key[3];
    const double math = 2.0 * m * n * k / flops * 1000.0;
    const double mem = memory * (m * n + m * k + n * k) / mem_bw * 1000.0;
    const double sol = std::max(math, mem);
    if (sol > leaf.latency) leaf.latency = sol;
  };
}

TableRecipe ScaleRecipe(std::string basename) {
  TableRecipe recipe;
  recipe.basenames = {std::move(basename)};
  recipe.keys = {TextKey("quant_dtype", "quant_dtype"), U32Key("m", "m"), U32Key("k", "k")};
  return recipe;
}

}  // namespace

TableRecipe GemmRecipe() {
  TableRecipe recipe;
  recipe.basenames = {"gemm_perf"};
  recipe.keys = {TextKey("gemm_dtype", "gemm_dtype"), U32Key("m", "m"), U32Key("n", "n"),
                 U32Key("k", "k")};
  recipe.only = [](RowFile& file) -> RowRule {
    const ParquetColumn* dtype = file.Require("gemm_dtype");
    return [&file, dtype](std::size_t row) {
      const std::string_view text = file.Text(dtype, row);
      return text != "awq" && text != "gptq";
    };
  };
  recipe.adjust = RaiseToSpeedOfLight;
  recipe.uses_system = true;
  return recipe;
}

TableRecipe ComputeScaleRecipe() { return ScaleRecipe("computescale_perf"); }
TableRecipe ScaleMatrixRecipe() { return ScaleRecipe("scale_matrix_perf"); }

}  // namespace infercast
