// Token exchange between expert-parallel ranks. Four kinds of files, from three generations of
// measuring programs, are read into one table in milliseconds.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "tables/readers/families.h"

namespace infercast {
namespace {

constexpr std::string_view kNormal = "wideep_deepep_normal_perf";
constexpr std::string_view kLowLatency = "wideep_deepep_ll_perf";
constexpr std::string_view kTrtllm = "trtllm_alltoall_perf";

constexpr double kMicrosecondsPerMillisecond = 1000.0;
constexpr double kGpusPerDeepEpNode = 8;
constexpr double kGpusPerTrtllmNode = 4;

// One row's coordinate; texts are interned when it is added.
struct Exchange {
  std::string_view backend, phase, dtype;
  double ep_size = 0, node_num = 0, hidden = 0, topk = 0, experts = 0, sms = 0, tokens = 0;
};

class ExchangeReader {
 public:
  ExchangeReader(RowFile& file, TableBuilder& builder, std::uint64_t tier)
      : file_(file), builder_(builder), tier_(tier) {}

  void Read() {
    if (file_.basename() == kNormal) {
      ReadDeepEp(true);
    } else if (file_.basename() == kLowLatency) {
      ReadDeepEp(false);
    } else if (file_.basename() == kTrtllm) {
      ReadTrtllm();
    } else {
      ReadUnified();
    }
  }

 private:
  // Rows of the unified file displace those of the older files of the same tier.
  void Add(const Exchange& at, double latency_ms, bool unified = false) {
    if (!file_.ok()) return;
    const std::array<double, 10> keys = {builder_.Code(0, at.backend),
                                         builder_.Code(1, at.phase),
                                         builder_.Code(2, at.dtype),
                                         at.ep_size,
                                         at.node_num,
                                         at.hidden,
                                         at.topk,
                                         at.experts,
                                         at.sms,
                                         at.tokens};
    builder_.Add(keys, Leaf{latency_ms, 0, 0}, tier_ * 2 + (unified ? 0 : 1));
  }

  void ReadDeepEp(bool normal) {
    const ParquetColumn* nodes = file_.Require("node_num");
    const ParquetColumn* hidden = file_.Require("hidden_size");
    const ParquetColumn* tokens = file_.Require("num_token");
    const ParquetColumn* topk = file_.Require("num_topk");
    const ParquetColumn* experts = file_.Require("num_experts");
    const ParquetColumn* sms = normal ? file_.Require("dispatch_sms") : nullptr;
    const auto times =
        normal
            ? std::array{file_.Optional("dispatch_transmit_us"),
                         file_.Optional("dispatch_notify_us"),
                         file_.Optional("combine_transmit_us"), file_.Optional("combine_notify_us")}
            : std::array<const ParquetColumn*, 4>{file_.Optional("dispatch_avg_t_us"), nullptr,
                                                  file_.Optional("combine_avg_t_us"), nullptr};
    for (std::size_t row = 0; row < file_.num_rows() && file_.ok(); ++row) {
      if (!file_.Passes(row)) continue;
      Exchange at;
      at.backend = normal ? "deepep_ht" : "deepep_ll";
      at.dtype = "default";
      at.node_num = file_.U32(nodes, row);
      at.ep_size = kGpusPerDeepEpNode * at.node_num;
      at.hidden = file_.U32(hidden, row);
      at.topk = file_.U32(topk, row);
      at.experts = file_.U32(experts, row);
      at.tokens = file_.U32(tokens, row);
      at.sms = file_.U32(sms, row);
      const auto microseconds = [&](std::size_t first) {
        return RowFile::OptionalReal(times[first], row).value_or(0) +
               RowFile::OptionalReal(times[first + 1], row).value_or(0);
      };
      at.phase = "dispatch";
      Add(at, microseconds(0) / kMicrosecondsPerMillisecond);
      at.phase = "combine";
      Add(at, microseconds(2) / kMicrosecondsPerMillisecond);
    }
  }

  void ReadTrtllm() {
    const ParquetColumn* kernel = file_.Optional("kernel_source");
    const ParquetColumn* op = file_.Require("op_name");
    const ParquetColumn* dtype = file_.Require("moe_dtype");
    const ParquetColumn* nodes = file_.Optional("num_nodes");
    const ParquetColumn* hidden = file_.Require("hidden_size");
    const ParquetColumn* topk = file_.Require("topk");
    const ParquetColumn* experts = file_.Require("num_experts");
    const ParquetColumn* ep = file_.Require("moe_ep_size");
    const ParquetColumn* tokens = file_.Require("num_tokens");
    const ParquetColumn* latency = file_.Require("latency");
    for (std::size_t row = 0; row < file_.num_rows() && file_.ok(); ++row) {
      if (!file_.Passes(row)) continue;
      const std::string_view source =
          kernel == nullptr ? "NVLinkTwoSided" : RowFile::OptionalText(kernel, row).value_or("");
      Exchange at;
      if (source == "NVLinkTwoSided") {
        at.backend = "nvlink_two_sided";
      } else if (source == "NVLinkOneSided") {
        at.backend = "nvlink_one_sided";
      } else {
        continue;
      }
      const std::string_view name = file_.Text(op, row);
      at.dtype = file_.Text(dtype, row);
      if (name == "alltoall_prepare") {
        at.phase = "prepare";
      } else if (name == "alltoall_dispatch") {
        at.phase = "dispatch";
      } else if (name == "alltoall_combine") {
        at.phase = "combine";
      } else if (name == "alltoall_combine_low_precision") {
        at.phase = "combine";
        at.dtype = "fp4";
      } else {
        continue;
      }
      at.ep_size = file_.U32(ep, row);
      at.node_num = nodes != nullptr ? file_.U32(nodes, row)
                                     : std::max(1.0, std::floor(at.ep_size / kGpusPerTrtllmNode));
      at.hidden = file_.U32(hidden, row);
      at.topk = file_.U32(topk, row);
      at.experts = file_.U32(experts, row);
      at.tokens = file_.U32(tokens, row);
      Add(at, file_.Real(latency, row));
    }
  }

  void ReadUnified() {
    const ParquetColumn* backend = file_.Require("comm_backend");
    const ParquetColumn* phase = file_.Require("phase");
    const ParquetColumn* dtype = file_.Require("comm_dtype");
    const ParquetColumn* ep = file_.Require("ep_size");
    const ParquetColumn* nodes = file_.Require("node_num");
    const ParquetColumn* hidden = file_.Require("hidden_size");
    const ParquetColumn* topk = file_.Require("topk");
    const ParquetColumn* experts = file_.Require("num_experts");
    const ParquetColumn* tokens = file_.Require("num_tokens");
    const ParquetColumn* latency = file_.Require("latency");
    const ParquetColumn* sms = file_.Optional("sms");
    for (std::size_t row = 0; row < file_.num_rows() && file_.ok(); ++row) {
      if (!file_.Passes(row)) continue;
      Exchange at;
      at.backend = file_.Text(backend, row);
      at.phase = file_.Text(phase, row);
      at.dtype = file_.Text(dtype, row);
      at.ep_size = file_.U32(ep, row);
      at.node_num = file_.U32(nodes, row);
      at.hidden = file_.U32(hidden, row);
      at.topk = file_.U32(topk, row);
      at.experts = file_.U32(experts, row);
      at.tokens = file_.U32(tokens, row);
      at.sms = Sms(sms, row);
      Add(at, file_.Real(latency, row) / kMicrosecondsPerMillisecond, true);
    }
  }

  // Some writers stored the count as a real number.
  double Sms(const ParquetColumn* column, std::size_t row) {
    if (const auto real = RowFile::OptionalReal(column, row)) {
      return std::isfinite(*real) && *real > 0 ? std::trunc(*real) : 0;
    }
    return file_.OptionalU32(column, row).value_or(0);
  }

  RowFile& file_;
  TableBuilder& builder_;
  const std::uint64_t tier_;
};

// Without a column that says so, four ranks make a node.
KeyColumn NumNodesKey() {
  return {"num_nodes",
          false,
          {"num_nodes", "moe_ep_size"},
          [](RowFile& file, TableBuilder&, std::size_t) -> KeyCell {
            const ParquetColumn* nodes = file.Optional("num_nodes");
            const ParquetColumn* ep = file.Require("moe_ep_size");
            return [&file, nodes, ep](std::size_t row) {
              const auto stored = file.OptionalU32(nodes, row);
              return stored ? *stored
                            : std::max(1.0, std::floor(file.U32(ep, row) / kGpusPerTrtllmNode));
            };
          }};
}

}  // namespace

TableRecipe MoeAllToAllRecipe() {
  TableRecipe recipe;
  recipe.basenames = {std::string(kNormal), std::string(kLowLatency), std::string(kTrtllm),
                      "moe_a2a_perf"};
  recipe.sources = SourceRule::kTiers;
  recipe.latency_only = true;
  recipe.keys = {OpenKey("comm_backend", true, {"comm_backend"}),
                 OpenKey("phase", true, {"phase"}),
                 OpenKey("comm_dtype", true, {"comm_dtype"}),
                 OpenKey("ep_size", false, {"ep_size", "moe_ep_size"}),
                 OpenKey("node_num", false, {"node_num", "num_nodes"}),
                 OpenKey("hidden_size", false, {"hidden_size"}),
                 OpenKey("topk", false, {"topk", "num_topk"}),
                 OpenKey("num_experts", false, {"num_experts"}),
                 OpenKey("sms", false, {"sms", "dispatch_sms"}),
                 OpenKey("num_tokens", false, {"num_tokens", "num_token"})};
  recipe.more_columns = {"dispatch_transmit_us",
                         "dispatch_notify_us",
                         "combine_transmit_us",
                         "combine_notify_us",
                         "dispatch_avg_t_us",
                         "combine_avg_t_us",
                         "op_name",
                         "moe_dtype"};
  recipe.custom = [](const LoadContext&, const TableRecipe&) -> CustomReader {
    return {[](RowFile& file, TableBuilder& builder, std::uint64_t tier) {
              ExchangeReader(file, builder, tier).Read();
            },
            {}};
  };
  return recipe;
}

TableRecipe TrtllmAllToAllRecipe() {
  TableRecipe recipe;
  recipe.basenames = {std::string(kTrtllm)};
  recipe.latency_only = true;
  recipe.keys = {OptionalTextKey("kernel_source", "kernel_source", "NVLinkTwoSided"),
                 TextKey("op_name", "op_name"),
                 TextKey("moe_dtype", "moe_dtype"),
                 NumNodesKey(),
                 U32Key("hidden_size", "hidden_size"),
                 U32Key("topk", "topk"),
                 U32Key("num_experts", "num_experts"),
                 U32Key("moe_ep", "moe_ep_size"),
                 U32Key("num_tokens", "num_tokens")};
  return recipe;
}

}  // namespace infercast
