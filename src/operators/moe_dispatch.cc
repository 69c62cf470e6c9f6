// Which collectives move the tokens, by framework and layout.
#include "operators/moe_dispatch.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace infercast {

namespace {

constexpr std::string_view kAllGather = "all_gather";
constexpr std::string_view kReduceScatter = "reduce_scatter";
constexpr std::uint32_t kRackScaleNode = 72;  // GPUs behind one NVLink switch

// Share of the bf16 payload that dispatch sends: nvfp4 sends values and their
// scales.
double PayloadShare(MoeQuant quant) {
  switch (quant) {
    case MoeQuant::kNvfp4:
      return 0.25 + 0.25 / 8;
    case MoeQuant::kFp8:
    case MoeQuant::kFp8Block:
      return 0.5;
    default:
      return 1.0;
  }
}

}  // namespace

class BoundMoeDispatch::Builder {
 public:
  Builder(const MoeDispatch& op, const Database& db, BoundMoeDispatch& bound)
      : op_(op),
        db_(db),
        bound_(bound),
        group_(std::max(op.moe_tp_size * op.moe_ep_size, 1u)),
        dp_(std::max(op.attention_dp_size, 1u)),
        attention_tp_(std::max(op.moe_tp_size * op.moe_ep_size / dp_, 1u)) {}

  void Build() {
    switch (op_.flavor) {
      case DispatchFlavor::kRetiredDeepEp:
        bound_.retired_ = true;
        return;
      case DispatchFlavor::kTrtllmAlltoall:
        return Trtllm();
      case DispatchFlavor::kCustomAllReduce:
        switch (op_.backend) {
          case Backend::kVllm:
            return Vllm();
          case Backend::kSglang:
            return Sglang();
          case Backend::kTrtllm:
            return AllReduce(attention_tp_);
        }
    }
  }

 private:
  // Tokens of the attention ranks are summed or gathered, then reduced the same
  // way back. With both kinds of attention parallelism both exchanges happen.
  void Vllm() {
    if (attention_tp_ > 1 && !(op_.pre_dispatch && op_.attn_ar_modeled)) AllReduce(group_);
    if (dp_ > 1) Collective(Direction(), group_, dp_);
  }

  void Sglang() {
    if (attention_tp_ > 1 && dp_ > 1) {
      if (op_.pre_dispatch) {
        Collective(kReduceScatter, attention_tp_, 1);
        Collective(kAllGather, group_, dp_);
      } else {
        Collective(kReduceScatter, group_, dp_);
        Collective(kAllGather, attention_tp_, 1);
      }
    } else if (op_.attn_cp_size > 1) {
      if (op_.is_context) {
        Collective(Direction(), group_, 1);
      } else if (!op_.pre_dispatch) {
        AllReduce(group_);
      }
    } else if (attention_tp_ > 1) {
      AllReduce(group_);
    } else if (dp_ > 1) {
      Collective(Direction(), group_, dp_);
    }
  }

  void Trtllm() {
    if (db_.system().sm_version.value_or(-1) == 100) {
      if (dp_ > 1) {
        if (op_.moe_tp_size == 1 && db_.system().num_gpus_per_node >= kRackScaleNode) {
          bound_.all_to_all_.emplace(op_, db_);
        } else {
          Collective(Direction(), group_, dp_,
                     op_.pre_dispatch ? PayloadShare(op_.moe_quant) : 1.0);
        }
      } else if (attention_tp_ > 1) {
        AllReduce(group_);
      }
      return;
    }
    if (attention_tp_ > 1) {
      AllReduce(group_);
    } else if (dp_ > 1) {
      Collective(Direction(), group_, dp_);
    }
  }

  std::string_view Direction() const { return op_.pre_dispatch ? kAllGather : kReduceScatter; }

  void AllReduce(std::uint32_t gpus) {
    CustomAllReduce part;
    part.name = op_.name;
    part.scale_factor = 1.0;
    part.hidden_size = op_.hidden_size;
    part.tp_size = gpus;
    part.quant = CommQuant::kHalf;
    bound_.parts_.push_back({BoundCustomAllReduce(part, db_), 1});
  }

  void Collective(std::string_view operation, std::uint32_t gpus, std::uint32_t token_factor,
                  double payload_share = 1.0) {
    Nccl part;
    part.name = op_.name;
    part.scale_factor = 1.0;
    part.hidden_size = static_cast<double>(op_.hidden_size) * payload_share;
    part.num_gpus = gpus;
    part.dtype = CommQuant::kHalf;
    part.operation = std::string(operation);
    bound_.parts_.push_back({BoundNccl(part, db_), token_factor});
  }

  const MoeDispatch& op_;
  const Database& db_;
  BoundMoeDispatch& bound_;
  std::uint32_t group_;         // GPUs around the experts
  std::uint32_t dp_;            // attention data-parallel ranks
  std::uint32_t attention_tp_;  // attention tensor-parallel ranks
};

BoundMoeDispatch::BoundMoeDispatch(const MoeDispatch& op, const Database& db)
    : scale_factor_(op.scale_factor) {
  Builder(op, db, *this).Build();
}

Result<PerfResult> BoundMoeDispatch::Query(const QueryContext& ctx) const {
  if (retired_) {
    return Fail(ErrorKind::kInvalidEngineConfig,
                "the DeepEP dispatch flavor is retired; use the all-to-all and "
                "expert compute "
                "operators");
  }
  PerfResult total = PerfResult::Of(0, 0, Source::kSilicon, OriginKind::kExact);
  const auto add = [&](const PerfResult& part) {
    total.latency_ms += part.latency_ms;
    total.tier = std::max(total.tier, part.tier);
    total.origin = Origin::Weaker(total.origin, part.origin);
  };
  if (all_to_all_) {
    IC_ASSIGN(const PerfResult part, all_to_all_->Query(ctx.num_tokens));
    add(part);
  }
  for (const Part& part : parts_) {
    QueryContext sub = ctx;
    sub.num_tokens = ctx.num_tokens * part.token_factor;  // 32 bits wide in the wire format: wraps
    IC_ASSIGN(const PerfResult result,
              std::visit([&](const auto& c) { return c.Query(sub); }, part.collective));
    add(result);
  }
  total.Clamp();
  total.Scale(scale_factor_);
  return total;
}

}  // namespace infercast
