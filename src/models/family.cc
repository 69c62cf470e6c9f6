// What all family builders share: derived sizes and checks.
#include "models/family.h"

#include <fmt/format.h>

namespace infercast {

std::int64_t BuildContext::KvHeadsPerGpu() const { return (model->kv_heads + tp - 1) / tp; }

double BuildContext::KvBytesPerElement() const { return Profile(quant.kv).memory; }

double BuildContext::CommBytesPerElement() const { return Profile(quant.comm).memory; }

std::string BuildContext::Distribution(std::string_view alpha, std::string_view suffix) const {
  if (options->workload_distribution != "power_law") return options->workload_distribution;
  return fmt::format("power_law_{}{}", alpha, suffix);
}

Status CheckExpertWidth(const BuildContext& b) {
  if (b.moe_tp * b.moe_ep != b.tp * b.dp * b.cp) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("moe_tp * moe_ep = {} * {} must equal tp * dp * cp = {} * {} * {}",
                            b.moe_tp, b.moe_ep, b.tp, b.dp, b.cp));
  }
  if (b.model->num_experts < b.moe_ep) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("moe_ep = {} is larger than the {} experts of {}", b.moe_ep,
                            b.model->num_experts, b.model->name));
  }
  return {};
}

Status CheckExpertBlockAlignment(const BuildContext& b) {
  if (b.quant.moe != MoeQuant::kFp8Block) return {};
  constexpr std::int64_t kDefaultBlock = 128;
  const JsonView qc = b.model->root()["quantization_config"];
  if (qc.is_null()) {
    return Fail(ErrorKind::kModelConfig,
                "quantization_config is null: the block width of fp8_block experts is unknown");
  }
  std::int64_t block = kDefaultBlock;
  if (const JsonView size = qc["weight_block_size"]; size.exists()) {
    if (!size.is_array() || size.size() == 0) {
      return Fail(ErrorKind::kModelConfig, "weight_block_size is not a list of sizes");
    }
    IC_ASSIGN(block, ToSize(size.Item(0), "weight_block_size[0]"));
    if (block == 0) return Fail(ErrorKind::kModelConfig, "weight_block_size[0] is 0");
  }
  const std::int64_t shard = b.model->moe_inter_size / b.moe_tp;
  if (shard % block != 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("moe_tp = {} cuts the experts' width {} into {}, which is no multiple "
                            "of the fp8 block width {}",
                            b.moe_tp, b.model->moe_inter_size, shard, block));
  }
  return {};
}

Status CheckNoDraft(const BuildContext& b) {
  if (b.nextn == 0) return {};
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("the {} family has no draft tokens, got a depth of {}",
                          ToString(b.model->family_id()), b.nextn));
}

Status CheckNoLargeExpertParallelism(const BuildContext& b) {
  if (!b.options->moe_comm.any()) return {};
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("large expert parallelism is not modelled for the {} family",
                          ToString(b.model->family_id())));
}

}  // namespace infercast
