// Whole latent-attention blocks: which model's block answers, then the kernels' rules.
#include "operators/mla_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

namespace infercast {

namespace {

// The block measured for `native` heads, or the one that stands for it: the only one there is, else
// the next smaller head count, else the smallest. An operator that does not say its head count is
// answered only where there is no choice.
Result<GridView> BlockOf(const GridView& blocks, std::optional<std::uint32_t> native,
                         std::string_view key) {
  const std::span<const double> heads = blocks.keys();
  if (heads.size() == 1) return blocks.Child(blocks.begin);
  if (heads.empty() || !native) {
    return Fail(ErrorKind::kPerfDatabase,
                fmt::format("{}: {} blocks measured and no head count of the model to choose by",
                            key, heads.size()));
  }
  const auto above = std::upper_bound(heads.begin(), heads.end(), static_cast<double>(*native));
  const auto chosen = above == heads.begin() ? above : above - 1;
  return blocks.Child(blocks.begin + static_cast<std::uint32_t>(chosen - heads.begin()));
}

std::string NativeText(std::optional<std::uint32_t> native) {
  return native ? fmt::format("{}", *native) : "any";
}

}  // namespace

BoundMlaModuleContext::BoundMlaModuleContext(const MlaModuleContext& op, const Database& db)
    : prefill_([&] {
        const std::string key =
            fmt::format("mla_context_module/{}/{}/{}/{}", ToString(op.fmha_quant_mode),
                        ToString(op.kv_cache_dtype), ToString(op.gemm_quant_mode),
                        NativeText(op.native_num_heads));
        return latent::Prefill(
            db, op.num_heads, op.kv_cache_dtype, op.fmha_quant_mode, key,
            [&]() -> Result<GridView> {
              IC_ASSIGN(const GridView blocks,
                        SliceOf(db.Get(TableId::kMlaContextModule),
                                {ToString(op.fmha_quant_mode), ToString(op.kv_cache_dtype),
                                 ToString(op.gemm_quant_mode)},
                                key));
              return BlockOf(blocks, op.native_num_heads, key);
            });
      }()),
      scale_factor_(op.scale_factor) {}

Result<PerfResult> BoundMlaModuleContext::Query(const QueryContext& ctx) const {
  IC_ASSIGN(PerfResult result, prefill_.Query(ctx.batch_size, ctx.s, ctx.prefix));
  result.Clamp();
  result.Scale(scale_factor_);
  return result;
}

BoundMlaModuleGeneration::BoundMlaModuleGeneration(const MlaModuleGeneration& op,
                                                   const Database& db)
    : decode_([&] {
        const std::string key =
            fmt::format("mla_generation_module/{}/{}/{}", ToString(op.kv_cache_dtype),
                        ToString(op.gemm_quant_mode), NativeText(op.native_num_heads));
        return latent::Decode(
            db, op.num_heads, op.kv_cache_dtype, op.gemm_quant_mode, key,
            [&]() -> Result<GridView> {
              IC_ASSIGN(const GridView blocks,
                        SliceOf(db.Get(TableId::kMlaGenerationModule),
                                {ToString(op.kv_cache_dtype), ToString(op.gemm_quant_mode)}, key));
              return BlockOf(blocks, op.native_num_heads, key);
            });
      }()),
      scale_factor_(op.scale_factor) {}

Result<PerfResult> BoundMlaModuleGeneration::Query(const QueryContext& ctx) const {
  IC_ASSIGN(PerfResult result, decode_.Query(ctx.batch_size, ctx.s));
  result.Clamp();
  result.Scale(scale_factor_);
  return result;
}

}  // namespace infercast
