// Describes each view as a table with its own key levels and prints it depth first.
#include "tables/raw_view.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <map>
#include <memory>

#include "tables/load_plan.h"
#include "tables/readers/families.h"
#include "tables/table_image.h"

namespace infercast {
namespace {

enum class LeafShape : std::uint8_t { kFull, kLatency, kMegaMoe };

constexpr double kNoSequence = -1;

struct View {
  TableRecipe recipe;
  LeafShape shape = LeafShape::kFull;
  bool none_when_empty = false;
  bool empty_generation = false;  // one-axis rows print as an empty object
  // Per accepted row (by order): further members of its leaf, as JSON text.
  std::shared_ptr<std::vector<std::string>> extras;
};

// A key column whose cells must be sound wherever the column exists.
KeyColumn StrictOptionalU32Key(std::string level, std::string_view column, double fallback) {
  return {std::move(level),
          false,
          {column},
          [column, fallback](RowFile& file, TableBuilder&, std::size_t) -> KeyCell {
            const ParquetColumn* cells = file.Optional(column);
            return [&file, cells, fallback](std::size_t row) {
              return cells == nullptr ? fallback : file.U32(cells, row);
            };
          }};
}

// Several integer columns as one text "a|b|c".
KeyColumn JoinedKey(std::string level, const std::vector<std::string_view>& columns) {
  return {std::move(level), true, columns,
          [columns](RowFile& file, TableBuilder& builder, std::size_t at) -> KeyCell {
            std::vector<const ParquetColumn*> cells;
            for (const std::string_view column : columns) cells.push_back(file.Require(column));
            return [&file, &builder, at, cells](std::size_t row) {
              std::string text;
              for (const ParquetColumn* cell : cells) {
                if (!text.empty()) text += '|';
                text += fmt::format("{}", file.U32(cell, row));
              }
              return builder.Code(at, text);
            };
          }};
}

View Plain(TableRecipe recipe) {
  recipe.adjust = {};
  recipe.strict_power = true;
  return {std::move(recipe), LeafShape::kFull, false, false, nullptr};
}

View Gemm() {
  View view = Plain(GemmRecipe());
  view.recipe.only = {};
  return view;
}

// Lanes are merged: the first row of a coordinate wins, whatever its kernel.
View Attention(TableRecipe recipe) {
  View view = Plain(std::move(recipe));
  view.recipe.keys.erase(view.recipe.keys.begin());
  for (KeyColumn& key : view.recipe.keys) {
    if (key.level == "window") key = StrictOptionalU32Key("window", "window_size", 0);
  }
  return view;
}

View Module(TableRecipe recipe) {
  View view = Plain(std::move(recipe));
  view.recipe.first_file_decides_power = true;
  return view;
}

View ExpertLayer(std::string basename) {
  View view = Plain(MoeRecipe(false));
  view.recipe.basenames = {std::move(basename)};
  view.recipe.only = {};
  return view;
}

// Microseconds, summed over the steps of one exchange.
View DeepEp(std::string basename, bool normal) {
  View view;
  TableRecipe& recipe = view.recipe;
  recipe.basenames = {std::move(basename)};
  recipe.keys = {U32Key("node_num", "node_num"), U32Key("hidden_size", "hidden_size"),
                 U32Key("topk", "num_topk"), U32Key("num_experts", "num_experts")};
  if (normal) recipe.keys.push_back(U32Key("sms", "dispatch_sms"));
  recipe.keys.push_back(U32Key("num_tokens", "num_token"));
  const std::vector<std::string_view> times =
      normal ? std::vector<std::string_view>{"dispatch_transmit_us", "dispatch_notify_us",
                                             "combine_transmit_us", "combine_notify_us"}
             : std::vector<std::string_view>{"combine_avg_t_us", "dispatch_avg_t_us"};
  recipe.more_columns = times;
  recipe.custom = [times](const LoadContext&, const TableRecipe& self) -> CustomReader {
    return {[times, &self](RowFile& file, TableBuilder& builder, std::uint64_t) {
              std::vector<KeyCell> cells;
              for (std::size_t i = 0; i < self.keys.size(); ++i) {
                cells.push_back(self.keys[i].open(file, builder, i));
              }
              std::vector<const ParquetColumn*> columns;
              for (const std::string_view time : times) columns.push_back(file.Optional(time));
              std::vector<double> keys(cells.size());
              for (std::size_t row = 0; row < file.num_rows() && file.ok(); ++row) {
                if (!file.Passes(row)) continue;
                for (std::size_t i = 0; i < cells.size(); ++i) keys[i] = cells[i](row);
                double sum = 0;
                for (const ParquetColumn* column : columns) {
                  sum += RowFile::OptionalReal(column, row).value_or(0);
                }
                if (file.ok()) builder.Add(keys, Leaf{sum, 0, 0});
              }
            },
            {}};
  };
  return view;
}

View WideEpCompute() {
  View view = Plain(MoeRecipe(false));
  view.recipe.basenames = {"wideep_moe_perf"};
  view.recipe.only = {};
  view.recipe.keys = {
      TextKey("kernel_source", "kernel_source"), TextKey("moe_dtype", "moe_dtype"),
      TextKey("distribution", "distribution"),   U32Key("topk", "topk"),
      U32Key("num_experts", "num_experts"),      U32Key("hidden_size", "hidden_size"),
      U32Key("inter_size", "inter_size"),        U32Key("num_slots", "num_slots"),
      U32Key("moe_tp", "moe_tp_size"),           U32Key("moe_ep", "moe_ep_size"),
      U32Key("num_tokens", "num_tokens")};
  return view;
}

View AllReduce() {
  View view = Plain(CustomAllReduceRecipe());
  view.recipe.keys.insert(view.recipe.keys.begin() + 2, FixedTextKey("kind", "AUTO"));
  return view;
}

// Modules of both compression kinds in one view.
View CompressedAttention(bool context) {
  TableRecipe csa = context ? Dsv4ContextRecipe("csa") : Dsv4GenerationRecipe("csa");
  const TableRecipe hca = context ? Dsv4ContextRecipe("hca") : Dsv4GenerationRecipe("hca");
  csa.basenames.push_back(hca.basenames[0]);
  const std::size_t local = context ? 4 : 3;
  csa.keys.insert(csa.keys.begin() + local + 1, U32Key("compress_ratio", "compress_ratio"));
  View view = Module(std::move(csa));
  view.recipe.strict_power = false;
  std::vector<std::string_view> columns;
  for (const KeyColumn& key : view.recipe.keys) {
    columns.insert(columns.end(), key.columns.begin(), key.columns.end());
  }
  view.recipe.only = [columns](RowFile& file) -> RowRule {
    std::vector<const ParquetColumn*> cells;
    for (const std::string_view column : columns) cells.push_back(file.Require(column));
    return [cells](std::size_t row) {
      for (const ParquetColumn* cell : cells) {
        if (cell != nullptr && cell->IsNull(row)) return false;
      }
      return true;
    };
  };
  return view;
}

View TopkCalibration() {
  View view{Dsv4TopkCalibrationRecipe(), LeafShape::kLatency, true, false, nullptr};
  std::vector<KeyColumn>& keys = view.recipe.keys;
  keys = {keys[0], keys[2], keys[3], keys[4], keys[1]};
  return view;
}

// Rows of one axis carry no sequence key.
View StateSpace(std::string basename, const std::vector<std::string_view>& shape,
                const std::function<bool(std::string_view)>& one_axis,
                const std::function<std::string(std::string_view)>& kernel) {
  View view;
  TableRecipe& recipe = view.recipe;
  recipe.basenames = {std::move(basename)};
  recipe.strict_power = true;
  recipe.keys = {kernel ? RewrittenTextKey("kernel_source", "kernel_source", kernel)
                        : TextKey("kernel_source", "kernel_source"),
                 TextKey("phase", "phase"),
                 JoinedKey("shape", shape),
                 U32Key("batch", "batch_size"),
                 {"seq",
                  false,
                  {"seq_len", "phase"},
                  [one_axis](RowFile& file, TableBuilder&, std::size_t) -> KeyCell {
                    const ParquetColumn* seq = file.Require("seq_len");
                    const ParquetColumn* phase = file.Require("phase");
                    return [&file, seq, phase, one_axis](std::size_t row) {
                      return one_axis(file.Text(phase, row)) ? kNoSequence : file.U32(seq, row);
                    };
                  }}};
  return view;
}

View Mamba2() {
  View view =
      StateSpace("mamba2_perf",
                 {"d_model", "d_state", "d_conv", "nheads", "head_dim", "n_groups", "chunk_size"},
                 [](std::string_view phase) { return phase == "generation"; }, {});
  view.empty_generation = true;
  return view;
}
View DeltaRule(std::string basename, bool kda) {
  const auto rename = [](std::string_view kernel) {
    const bool recurrent = kernel == "fused_recurrent_gated_delta_rule" ||
                           kernel == "fused_recurrent_gated_delta_rule_packed_decode";
    return std::string(recurrent ? "fused_sigmoid_gating_delta_rule_update" : kernel);
  };
  return StateSpace(
      std::move(basename),
      {"d_model", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim", "d_conv"},
      [kda](std::string_view phase) {
        return kda ? phase != "context" && phase != "verify" : phase == "generation";
      },
      kda ? std::function<std::string(std::string_view)>() : rename);
}

View MegaMoe() {
  View view{MegaMoeRecipe(), LeafShape::kMegaMoe, false, false,
            std::make_shared<std::vector<std::string>>()};
  view.recipe.more_columns.insert(
      view.recipe.more_columns.end(),
      {"global_num_tokens", "num_max_tokens_per_rank", "effective_num_max_tokens_per_rank",
       "buffer_policy", "includes_buffer_init"});
  view.recipe.custom = [extras = view.extras, checked = view.recipe.custom](
                           const LoadContext& context, const TableRecipe& self) -> CustomReader {
    const CustomReader base = checked(context, self);
    return {
        [extras, base](RowFile& file, TableBuilder& builder, std::uint64_t rank) {
          base.read(file, builder, rank);
          const auto number = [&](std::string_view name, std::size_t row, double fallback) {
            return file.OptionalU32(file.Optional(name), row).value_or(fallback);
          };
          const auto flag = [&](std::string_view name, std::size_t row) {
            const ParquetColumn* column = file.Optional(name);
            return column != nullptr && !column->IsNull(row) && file.Flag(column, row);
          };
          const auto text = [&](std::string_view name, std::size_t row) {
            return RowFile::OptionalText(file.Optional(name), row).value_or("");
          };
          for (std::size_t row = 0; row < file.num_rows() && file.ok(); ++row) {
            if (!file.Passes(row)) continue;
            const double tokens = number("num_tokens", row, 0);
            const double most = number("num_max_tokens_per_rank", row, 0);
            extras->push_back(fmt::format(
                R"("global_num_tokens":{},"num_max_tokens_per_rank":{},)"
                R"("effective_num_max_tokens_per_rank":{},"used_cuda_graph":{},)"
                R"("kernel_dtype":"{}","routed_scaling_factor":{},"includes_routed_scale":{},)"
                R"("includes_gate_topk":{},"buffer_policy":"{}","includes_buffer_init":{},)"
                R"("phase":"{}")",
                number("global_num_tokens", row, tokens * number("moe_ep_size", row, 1)), most,
                number("effective_num_max_tokens_per_rank", row, most),
                flag("used_cuda_graph", row), text("kernel_dtype", row),
                file.Real(file.Optional("routed_scaling_factor"), row),
                flag("includes_routed_scale", row), flag("includes_gate_topk", row),
                text("buffer_policy", row), flag("includes_buffer_init", row), text("phase", row)));
          }
        },
        base.finish};
  };
  return view;
}

View LatencyView(TableRecipe recipe) {
  return {std::move(recipe), LeafShape::kLatency, true, false, nullptr};
}

View GenerationDsa(bool skip) {
  // Decoding does not tell the prefill's number format apart.
  View view = Module(MsaGenerationRecipe());
  view.recipe.basenames = {"dsa_generation_module_perf"};
  view.recipe.only = DsaGenerationRecipe(skip).only;
  return view;
}

const std::map<std::string, View (*)(), std::less<>>& Views() {
  static const auto* const views = new std::map<std::string, View (*)(), std::less<>>{
      {"_gemm_data", [] { return Gemm(); }},
      {"_compute_scale_data", [] { return Plain(ComputeScaleRecipe()); }},
      {"_scale_matrix_data", [] { return Plain(ScaleMatrixRecipe()); }},
      {"_context_attention_data", [] { return Attention(ContextAttentionRecipe()); }},
      {"_generation_attention_data", [] { return Attention(GenerationAttentionRecipe()); }},
      {"_encoder_attention_data", [] { return Plain(EncoderAttentionRecipe()); }},
      {"_context_mla_data", [] { return Plain(ContextMlaRecipe()); }},
      {"_generation_mla_data", [] { return Plain(GenerationMlaRecipe()); }},
      {"_mla_bmm_data", [] { return Plain(MlaBmmRecipe()); }},
      {"_context_mla_module_data", [] { return Module(MlaContextModuleRecipe()); }},
      {"_generation_mla_module_data", [] { return Module(MlaGenerationModuleRecipe()); }},
      {"_wideep_context_mla_data", [] { return Plain(WideEpContextMlaRecipe()); }},
      {"_wideep_generation_mla_data", [] { return Plain(WideEpGenerationMlaRecipe()); }},
      {"_moe_data", [] { return Plain(MoeRecipe(false)); }},
      {"_moe_low_latency_data", [] { return Plain(MoeRecipe(true)); }},
      {"_wideep_context_moe_data", [] { return ExpertLayer("wideep_context_moe_perf"); }},
      {"_wideep_generation_moe_data", [] { return ExpertLayer("wideep_generation_moe_perf"); }},
      {"_wideep_deepep_normal_data", [] { return DeepEp("wideep_deepep_normal_perf", true); }},
      {"_wideep_deepep_ll_data", [] { return DeepEp("wideep_deepep_ll_perf", false); }},
      {"_wideep_moe_compute_data", [] { return WideEpCompute(); }},
      {"_trtllm_alltoall_data", [] { return Plain(TrtllmAllToAllRecipe()); }},
      {"_moe_a2a_data", [] { return Plain(MoeAllToAllRecipe()); }},
      {"_moe_ep_data", [] { return Plain(MoeExpertComputeRecipe()); }},
      {"_custom_allreduce_data", [] { return AllReduce(); }},
      {"_nccl_data", [] { return Plain(NcclRecipe()); }},
      {"_oneccl_data", [] { return Plain(OneCclRecipe()); }},
      {"_context_dsa_module_data", [] { return Module(DsaContextRecipe(false)); }},
      {"_context_dsa_module_skip_data", [] { return Module(DsaContextRecipe(true)); }},
      {"_generation_dsa_module_data", [] { return GenerationDsa(false); }},
      {"_generation_dsa_module_skip_data", [] { return GenerationDsa(true); }},
      {"_mhc_module_data", [] { return Module(MhcRecipe()); }},
      {"_context_deepseek_v4_attention_module_data", [] { return CompressedAttention(true); }},
      {"_generation_deepseek_v4_attention_module_data", [] { return CompressedAttention(false); }},
      {"_dsv4_sparse_kernel_data.paged_mqa_logits",
       [] { return LatencyView(Dsv4PagedMqaLogitsRecipe()); }},
      {"_dsv4_csa_topk_calib_data", [] { return TopkCalibration(); }},
      {"_dsv4_megamoe_module_data", [] { return MegaMoe(); }},
      {"_mamba2_data", [] { return Mamba2(); }},
      {"_gdn_data", [] { return DeltaRule("gdn_perf", false); }},
      {"_kda_data", [] { return DeltaRule("kda_perf", true); }},
  };
  return *views;
}

std::string JsonNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string JsonText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out += '"';
}

class Printer {
 public:
  Printer(const Table& table, const View& view) : table_(table), view_(view) {}

  std::string Print() {
    Object(table_.Root());
    return std::move(out_);
  }

 private:
  void Object(const GridView& nodes) {
    const bool last = nodes.level + 1 == table_.levels.size();
    if (last && nodes.size() == 1 && nodes.keys()[0] == kNoSequence) {
      if (view_.empty_generation) {
        out_ += "{}";
      } else {
        Leaf(nodes.begin);
      }
      return;
    }
    out_ += '{';
    bool first = true;
    for (const std::uint32_t node : table_.NodesByFirstAppearance(nodes)) {
      if (!first) out_ += ',';
      first = false;
      const TableLevel& level = table_.levels[nodes.level];
      out_ += level.is_text ? JsonText(table_.TextAt(nodes.level, node))
                            : fmt::format("\"{:.0f}\"", level.keys[node]);
      out_ += ':';
      if (last) {
        Leaf(node);
      } else {
        Object(nodes.Child(node));
      }
    }
    out_ += '}';
  }

  void Leaf(std::uint32_t leaf) {
    out_ += "{\"latency\":" + JsonNumber(table_.latency[leaf]);
    if (view_.shape != LeafShape::kLatency) {
      out_ += ",\"power\":" + JsonNumber(table_.power[leaf]);
      out_ += ",\"energy\":" + JsonNumber(table_.energy[leaf]);
    }
    if (view_.shape == LeafShape::kMegaMoe) out_ += "," + (*view_.extras)[table_.order[leaf]];
    out_ += '}';
  }

  const Table& table_;
  const View& view_;
  std::string out_;
};

}  // namespace

std::vector<std::string> RawViewNames() {
  std::vector<std::string> names;
  for (const auto& [name, make] : Views()) names.push_back(name);
  return names;
}

Result<std::optional<std::string>> RawTableView(const TableStore& store, std::string_view name) {
  const auto it = Views().find(name);
  if (it == Views().end()) {
    return Fail(ErrorKind::kPerfDatabase, fmt::format("no table view is called '{}'", name));
  }
  const View view = it->second();
  const DatabaseIdentity& identity = store.identity();
  const LoadContext context{store.system(), identity};
  const DataTree tree(identity.systems_root / store.system().data_dir);
  const SourceResolver resolver(
      tree, {identity.systems_root, std::string(ToString(identity.backend)), identity.version,
             identity.shared_layer, identity.strict_provenance, false});
  const auto plan = PlanSources(view.recipe, resolver, context);
  if (!plan) {
    // A collective library that a system does not have is no error of a view.
    if (view.recipe.sources == SourceRule::kNccl || view.recipe.sources == SourceRule::kOneccl) {
      return std::nullopt;
    }
    return std::unexpected(plan.error());
  }
  bool any = false;
  for (const PlannedSource& planned : *plan) any = any || planned.source.exists;
  if (!any) return std::nullopt;
  auto parts = LoadRows(view.recipe, *plan, context);
  if (!parts) return std::unexpected(std::move(parts).error().error);
  if (parts->latency.empty() && view.none_when_empty) return std::nullopt;
  const auto image =
      std::make_shared<const std::vector<std::uint64_t>>(EncodeTableImage(*parts, {}));
  IC_ASSIGN(const std::unique_ptr<Table> table,
            DecodeTableImage(std::as_bytes(std::span(*image)), {}, image));
  return Printer(*table, view).Print();
}

}  // namespace infercast
