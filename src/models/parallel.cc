// Validation of parallel layouts.
#include "models/parallel.h"

#include <fmt/format.h>

namespace infercast {

namespace {

constexpr std::int64_t kMaxSize = 1 << 20;

Status CheckSize(const char* name, std::int64_t value) {
  if (value < 1 || value > kMaxSize) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} must be between 1 and {}, got {}", name, kMaxSize, value));
  }
  return {};
}

}  // namespace

Status CheckSizes(const ParallelLayout& layout) {
  IC_RETURN_IF_ERROR(CheckSize("tensor parallelism (tp)", layout.tp));
  IC_RETURN_IF_ERROR(CheckSize("attention data parallelism (dp)", layout.dp));
  IC_RETURN_IF_ERROR(CheckSize("context parallelism (cp)", layout.cp));
  IC_RETURN_IF_ERROR(CheckSize("pipeline parallelism (pp)", layout.pp));
  return {};
}

Status ResolveExpertWidth(ParallelLayout& layout) {
  const std::int64_t width = layout.AttentionWidth();
  if (!layout.moe_tp && !layout.moe_ep) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("an MoE model needs moe_tp or moe_ep: their product must be tp * dp * "
                            "cp = {}",
                            width));
  }
  const auto other = [&](const char* name, std::int64_t given) -> Result<std::int64_t> {
    IC_RETURN_IF_ERROR(CheckSize(name, given));
    if (width % given != 0) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("{} = {} does not divide tp * dp * cp = {}", name, given, width));
    }
    return width / given;
  };
  if (!layout.moe_tp) {
    IC_ASSIGN(layout.moe_tp, other("moe_ep", *layout.moe_ep));
  } else if (!layout.moe_ep) {
    IC_ASSIGN(layout.moe_ep, other("moe_tp", *layout.moe_tp));
  }
  IC_RETURN_IF_ERROR(CheckSize("moe_tp", *layout.moe_tp));
  IC_RETURN_IF_ERROR(CheckSize("moe_ep", *layout.moe_ep));
  if (*layout.moe_tp * *layout.moe_ep != width) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("moe_tp * moe_ep = {} * {} must equal tp * dp * cp = {} * {} * {}",
                            *layout.moe_tp, *layout.moe_ep, layout.tp, layout.dp, layout.cp));
  }
  return {};
}

std::string Describe(const ParallelLayout& layout) {
  std::string text = fmt::format("tp{} pp{} dp{}", layout.tp, layout.pp, layout.dp);
  if (layout.cp > 1) text += fmt::format(" cp{}", layout.cp);
  if (layout.moe_tp) text += fmt::format(" moe_tp{}", *layout.moe_tp);
  if (layout.moe_ep) text += fmt::format(" moe_ep{}", *layout.moe_ep);
  return text;
}

}  // namespace infercast
