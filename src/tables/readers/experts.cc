// Mixture of experts: grouped feed-forward kernels.
#include <fmt/format.h>

#include <memory>
#include <set>

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

// Four kinds of files feed the table of large expert-parallel layouts. The first two are implied to
// be one kernel in one phase; the third was measured without telling the phases apart.
TableRecipe MoeExpertComputeRecipe() {
  TableRecipe recipe;
  recipe.basenames = {"wideep_context_moe_perf", "wideep_generation_moe_perf", "wideep_moe_perf",
                      "moe_expert_compute_perf"};
  recipe.latency_only = true;
  recipe.keys = {OpenKey("kernel_source", true),
                 TextKey("moe_dtype", "moe_dtype"),
                 TextKey("distribution", "distribution"),
                 OpenKey("inference_phase", true, {"inference_phase"}),
                 U32Key("topk", "topk"),
                 U32Key("num_experts", "num_experts"),
                 OpenKey("num_slots", false, {"num_slots"}),
                 U32Key("hidden_size", "hidden_size"),
                 OpenKey("inter_size", false, {"inter_size"}),
                 OpenKey("moe_tp", false, {"moe_tp_size"}),
                 U32Key("moe_ep", "moe_ep_size"),
                 U32Key("num_tokens", "num_tokens")};
  constexpr std::size_t kKernel = 0, kPhase = 3, kExperts = 5, kSlots = 6, kInter = 8, kTp = 9;
  recipe.custom = [](const LoadContext&, const TableRecipe& self) -> CustomReader {
    const auto read = [&self](RowFile& file, TableBuilder& builder, std::uint64_t) {
      const bool unified = file.basename() == "moe_expert_compute_perf";
      const bool both_phases = file.basename() == "wideep_moe_perf";
      const bool context = file.basename() == "wideep_context_moe_perf";
      const bool pinned = !unified && !both_phases;
      const ParquetColumn* kernel =
          unified ? file.Require("kernel_source") : file.Optional("kernel_source");
      const ParquetColumn* phase = unified ? file.Require("inference_phase") : nullptr;
      const ParquetColumn* slots = pinned ? nullptr : file.Require("num_slots");
      const ParquetColumn* inter =
          pinned ? file.Optional("inter_size") : file.Require("inter_size");
      const ParquetColumn* tp = pinned ? file.Optional("moe_tp_size") : file.Require("moe_tp_size");
      ForEachRow(self, file, builder, [&](std::size_t row, std::span<double> keys, Leaf& leaf) {
        std::string_view name = "deepep_moe";
        if (unified) name = file.Text(kernel, row);
        if (both_phases) {
          name = kernel == nullptr ? "moe_torch_flow"
                                   : RowFile::OptionalText(kernel, row).value_or("");
        }
        keys[kKernel] = builder.Code(kKernel, name);
        keys[kSlots] = pinned ? keys[kExperts] : file.U32(slots, row);
        keys[kInter] = pinned ? file.OptionalU32(inter, row).value_or(0) : file.U32(inter, row);
        keys[kTp] = pinned ? file.OptionalU32(tp, row).value_or(1) : file.U32(tp, row);
        const std::string_view own =
            unified ? file.Text(phase, row) : (context || both_phases ? "context" : "generation");
        if (!file.ok()) return;
        keys[kPhase] = builder.Code(kPhase, own);
        builder.Add(keys, leaf, unified ? 0 : 1);
        if (!both_phases) return;
        keys[kPhase] = builder.Code(kPhase, "generation");
        builder.Add(keys, leaf, 1);
      });
    };
    return {read, {}};
  };
  return recipe;
}

// The fused expert module. Its rows must all have been taken under the same conditions; a row that
// was not, or a coordinate that occurs twice, spoils the whole table.
TableRecipe MegaMoeRecipe() {
  TableRecipe recipe;
  recipe.basenames = {"dsv4_megamoe_module_perf"};
  recipe.sources = SourceRule::kFirstOnly;
  recipe.keys = {TextKey("phase", "phase"),
                 OptionalTextKey("kernel_source", "kernel_source", "deepgemm_megamoe"),
                 TextKey("kernel_dtype", "kernel_dtype"),
                 TextKey("moe_dtype", "moe_dtype"),
                 TextKey("pre_dispatch", "pre_dispatch"),
                 TextKey("source_policy", "source_policy"),
                 TextKey("distribution", "distribution"),
                 U32Key("topk", "topk"),
                 U32Key("num_experts", "num_experts"),
                 OptionalU32Key("num_fused_shared_experts", "num_fused_shared_experts", 0),
                 U32Key("hidden_size", "hidden_size"),
                 U32Key("inter_size", "inter_size"),
                 OptionalU32Key("moe_tp", "moe_tp_size", 1),
                 U32Key("moe_ep", "moe_ep_size"),
                 U32Key("num_tokens", "num_tokens")};
  recipe.more_columns = {"used_cuda_graph", "includes_gate_topk", "includes_routed_scale",
                         "routed_scaling_factor"};
  recipe.custom = [](const LoadContext&, const TableRecipe& self) -> CustomReader {
    const auto read = [&self](RowFile& file, TableBuilder& builder, std::uint64_t) {
      const ParquetColumn* graph = file.Require("used_cuda_graph");
      const ParquetColumn* gate = file.Require("includes_gate_topk");
      const ParquetColumn* scale = file.Require("includes_routed_scale");
      const ParquetColumn* factor = file.Require("routed_scaling_factor");
      const ParquetColumn* phase = file.Require("phase");
      const ParquetColumn* dtype = file.Require("moe_dtype");
      std::set<std::vector<double>> seen;
      ForEachRow(self, file, builder, [&](std::size_t row, std::span<double> keys, Leaf& leaf) {
        const auto violation = [&](std::string_view what) {
          file.SetError(ErrorKind::kPerfDatabase,
                        fmt::format("MegaMoE row {} {} at {}", row, what, file.source().path));
        };
        file.Real(factor, row);
        if (!file.Flag(graph, row)) violation("was measured without CUDA graph");
        if (file.Flag(gate, row)) violation("includes the gate's top-k");
        if (!file.Flag(scale, row)) violation("lacks the routed scale");
        const std::string_view name = file.Text(phase, row);
        if (name != "context" && name != "generation") violation("has an unknown phase");
        if (!ParseEnum<MoeQuant>(file.Text(dtype, row))) violation("has an unknown moe_dtype");
        if (!file.ok()) return;
        if (!seen.emplace(keys.begin(), keys.end()).second) violation("repeats a coordinate");
        builder.Add(keys, leaf);
      });
    };
    return {read, {}};
  };
  return recipe;
}

}  // namespace infercast
