// Sub-kernels of context-parallel sparse attention.
#include "operators/dsa_context_parallel.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

namespace infercast::latent {

namespace {

// Index of the key nearest to `at`, the smaller one of two at equal distance. `keys` not empty.
std::uint32_t Nearest(std::span<const double> keys, double at) {
  std::uint32_t best = 0;
  for (std::uint32_t i = 1; i < keys.size(); ++i) {
    if (std::abs(keys[i] - at) < std::abs(keys[best] - at)) best = i;
  }
  return best;
}

}  // namespace

SparseKernels::SparseKernels(const Database& db, std::string_view architecture,
                             std::uint32_t num_heads) {
  const bool v32 = architecture == "DeepseekV32ForCausalLM";
  const auto table = [&](TableId id) -> const Table* {
    const Result<const Table*> found = db.Get(id);
    if (found) return *found;
    if (!unreadable_ && db.store().Get(id).corrupt) unreadable_ = found.error();
    return nullptr;
  };
  const Table* scores = table(v32 ? TableId::kDsv32MqaLogits : TableId::kGlm5MqaLogits);
  const Table* choice = table(v32 ? TableId::kDsv32Topk : TableId::kGlm5Topk);
  // Part of the same measurement: unused, but it has to be readable.
  table(v32 ? TableId::kDsv32DsaAttn : TableId::kGlm5DsaAttn);
  // Files that do not tell head counts apart serve every one of them; their rows stand under -1.
  for (const double heads : {static_cast<double>(num_heads), -1.0}) {
    if (scores != nullptr && !scores_) scores_ = scores->Slice({heads});
    if (choice == nullptr) continue;
    if (!choice_last_) choice_last_ = choice->Slice({heads, 0});
    if (!choice_flat_) choice_flat_ = choice->Slice({heads, 1});
  }
  const auto note = [&](const Grid& grid, std::string_view name) {
    if (grid && !grid->empty()) return;
    missing_ += fmt::format("{}{}", missing_.empty() ? "" : ", ", name);
  };
  note(scores_, "scores (mqa_logits)");
  note(choice_last_, "choice over ranks (topk)");
  note(choice_flat_, "choice over own tokens (topk, flat)");
  if (!missing_.empty()) {
    missing_ = fmt::format(
        "context-parallel sparse attention of {} with {} heads needs measured {}: "
        "collect {}_mqa_logits and {}_topk",
        architecture, num_heads, missing_, v32 ? "dsv32" : "glm5", v32 ? "dsv32" : "glm5");
  }
}

Status SparseKernels::RequireIndexer() const {
  if (unreadable_) return std::unexpected(*unreadable_);
  if (!missing_.empty()) return Fail(ErrorKind::kPerfDatabase, missing_);
  return {};
}

Result<double> SparseKernels::At(const Grid& grid, std::uint32_t b, std::uint32_t s,
                                 std::uint32_t p) {
  if (!grid || grid->empty()) return 0.0;
  const GridView lengths = grid->Child(grid->begin + Nearest(grid->keys(), b));
  const std::span<const double> s_keys = lengths.keys();
  if (s > s_keys.back()) {
    return Fail(ErrorKind::kPerfDatabase,
                fmt::format("context-parallel sparse attention: {} new tokens are more than the "
                            "longest measured length ({})",
                            s, s_keys.back()));
  }
  const GridView steps = lengths.Child(lengths.begin + Nearest(s_keys, s));
  const std::span<const double> p_keys = steps.keys();
  const std::span<const double> latency = steps.table->latency.subspan(steps.begin, steps.size());
  if (p <= p_keys.front()) return latency.front();
  if (p >= p_keys.back()) return latency.back();
  std::size_t hi = 1;
  while (p_keys[hi] < p) ++hi;
  if (p_keys[hi] == p) return latency[hi];
  const std::size_t lo = hi - 1;
  const double w = (p - p_keys[lo]) / (p_keys[hi] - p_keys[lo]);
  return latency[lo] + (latency[hi] - latency[lo]) * w;
}

Result<double> SparseKernels::IndexerCorrection(std::uint32_t b, std::uint32_t s,
                                                std::uint32_t share, std::uint32_t p,
                                                std::uint32_t cp_size) const {
  if (unreadable_) return std::unexpected(*unreadable_);
  IC_ASSIGN(const double scores_all, At(scores_, b, s, p));
  IC_ASSIGN(const double scores_own, At(scores_, b, share, p));
  IC_ASSIGN(const double choice_all, At(choice_last_, b, s, p));
  IC_ASSIGN(const double choice_own, At(choice_flat_, b, share, p));
  const double scores = scores_all / cp_size - scores_own;
  const double choice = choice_all / cp_size - choice_own;
  return scores + choice;
}

}  // namespace infercast::latent
