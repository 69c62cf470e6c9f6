#include "search/search_result.h"

#include <fmt/format.h>

namespace infercast {

Error NothingFound(const SearchTally& tally, const char* what, Behaviour behaviour) {
  const bool others = tally.evaluated + tally.kv_oom + tally.oom + tally.not_measured > 0;
  const bool interrupted = tally.failure && tally.failure->kind == ErrorKind::kInterrupted;
  if (tally.failure && (behaviour == Behaviour::kReference || !others || interrupted)) {
    return {tally.failure->kind,
            fmt::format("{}: no layout could be evaluated; {}", what, tally.failure->message)};
  }
  if (tally.evaluated == 0 && tally.kv_oom == 0) {
    if (tally.not_measured > 0 && (behaviour == Behaviour::kReference || tally.oom == 0)) {
      return {ErrorKind::kNoFeasibleConfig,
              fmt::format("{}: no point could be evaluated, {} lack measurements (try "
                          "--database-mode HYBRID)",
                          what, tally.not_measured)};
    }
    return {ErrorKind::kDoesNotFit,
            fmt::format("{}: the model does not fit in memory at any layout that was tried", what)};
  }
  if (tally.evaluated == 0) {
    return {ErrorKind::kDoesNotFit,
            fmt::format("{}: the weights fit, but no batch's KV cache does", what)};
  }
  return {ErrorKind::kNoFeasibleConfig,
          fmt::format("{}: {} configurations were evaluated and none meets the targets", what,
                      tally.evaluated)};
}

}  // namespace infercast
