// Attention kernels. Context and generation tables are split into lanes: one for each kernel
// implementation that was measured.
#include <algorithm>

#include "base/modes.h"
#include "tables/readers/families.h"

namespace infercast {
namespace {

// 0 stands for "as many key/value heads as query heads".
KeyColumn KvHeadsKey() {
  return {"kv",
          false,
          {"num_heads", "num_key_value_heads"},
          [](RowFile& file, TableBuilder&, std::size_t) -> KeyCell {
            const ParquetColumn* heads = file.Require("num_heads");
            const ParquetColumn* kv_heads = file.Require("num_key_value_heads");
            return [&file, heads, kv_heads](std::size_t row) {
              const double kv = file.U32(kv_heads, row);
              return kv == file.U32(heads, row) ? 0.0 : kv;
            };
          }};
}
KeyColumn LaneKey() {
  return {"lane",
          true,
          {"kernel_source"},
          [](RowFile& file, TableBuilder& builder, std::size_t at) -> KeyCell {
            const ParquetColumn* kernel = file.Optional("kernel_source");
            return [&builder, at, kernel](std::size_t row) {
              const std::string_view lane = RowFile::OptionalText(kernel, row).value_or("");
              return builder.Code(at, lane.empty() ? "default" : lane);
            };
          }};
}

// Decode attention is never served faster than the hardware's own limits allow.
// Key: lane, kv_cache_dtype, kv, head_dim, window, num_heads, batch, seq.
LeafRule RaiseToSpeedOfLight(const LoadContext& context, const TableBuilder& builder) {
  struct Rate {
    bool known = false;
    double flops = 0, kv_memory = 0;
  };
  const SystemSpec& system = context.system;
  return [&system, &builder, rates = std::vector<std::optional<Rate>>()](
             std::span<const double> key, Leaf& leaf) mutable {
    const auto code = static_cast<std::size_t>(key[1]);
    if (code >= rates.size()) rates.resize(code + 1);
    if (!rates[code]) {
      Rate rate;
      if (const auto kv_quant = ParseEnum<KvQuant>(builder.TextOf(1, key[1]))) {
        const bool fp8_math =
            *kv_quant == KvQuant::kFp8 && system.sm_version && *system.sm_version >= 89;
        const auto flops = system.TensorCoreFlops(
            Profile(fp8_math ? FmhaQuant::kFp8 : FmhaQuant::kBfloat16).dtype);
        if (flops) rate = {true, *flops, Profile(*kv_quant).memory};
      }
      rates[code] = rate;
    }
    if (!rates[code]->known) return;
    const double kv = key[2], head_dim = key[3], window = key[4];
    const double heads = key[5], batch = key[6], seq = key[7];
    const double kv_heads = kv == 0 ? heads : kv;
    const double length = window > 0 ? std::min(seq - 1, window) : seq - 1;
    const double ops = 2.0 * batch * heads * head_dim * 2.0 * length;
    const double bytes = batch * (heads * head_dim * 2.0 +
                                  2.0 * kv_heads * length * head_dim * rates[code]->kv_memory +
                                  heads * head_dim * 2.0);
    const double sol = std::max(ops / rates[code]->flops * 1000.0, bytes / system.mem_bw * 1000.0);
    if (sol > leaf.latency) leaf.latency = sol;
  };
}

}  // namespace

TableRecipe ContextAttentionRecipe() {
  TableRecipe recipe;
  recipe.basenames = {"context_attention_perf"};
  recipe.keys = {LaneKey(),
                 TextKey("attn_dtype", "attn_dtype"),
                 TextKey("kv_cache_dtype", "kv_cache_dtype"),
                 KvHeadsKey(),
                 U32Key("head_dim", "head_dim"),
                 OptionalU32Key("window", "window_size", 0),
                 U32Key("num_heads", "num_heads"),
                 U32Key("seq", "isl"),
                 U32Key("batch", "batch_size")};
  return recipe;
}

TableRecipe GenerationAttentionRecipe() {
  TableRecipe recipe;
  recipe.basenames = {"generation_attention_perf"};
  recipe.keys = {LaneKey(),
                 TextKey("kv_cache_dtype", "kv_cache_dtype"),
                 KvHeadsKey(),
                 U32Key("head_dim", "head_dim"),
                 OptionalU32Key("window", "window_size", 0),
                 U32Key("num_heads", "num_heads"),
                 U32Key("batch", "batch_size"),
                 SumKey("seq", "isl", "step")};
  recipe.adjust = RaiseToSpeedOfLight;
  recipe.uses_system = true;
  return recipe;
}

TableRecipe EncoderAttentionRecipe() {
  TableRecipe recipe;
  recipe.basenames = {"encoder_attention_perf"};
  recipe.keys = {TextKey("attn_dtype", "attn_dtype"), U32Key("head_dim", "head_dim"),
                 U32Key("num_heads", "num_heads"), U32Key("seq", "isl"),
                 U32Key("batch", "batch_size")};
  return recipe;
}

}  // namespace infercast
