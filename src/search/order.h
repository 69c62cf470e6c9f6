// The order of the rows of a search: best value first. Among rows of equal value a user expects the
// faster one per token, then the faster first token, then fewer GPUs; what still ties keeps the
// search order. The reference's order among equals is that of its sort.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/modes.h"
#include "search/reference_sort.h"
#include "serving/disaggregated.h"
#include "serving/rows.h"

namespace infercast {

template <typename Row>
bool BetterAmongEquals(const Row& a, const Row& b) {
  if (a.tpot != b.tpot) return a.tpot < b.tpot;
  if (a.ttft != b.ttft) return a.ttft < b.ttft;
  return a.num_total_gpus < b.num_total_gpus;
}

// A pool's target that is just met is met; the reference's pools must stay below it.
inline bool PoolMeets(double value, double limit, Behaviour behaviour) {
  return behaviour == Behaviour::kReference ? value < limit : value <= limit;
}

// Positions by `key`, descending; natively equals stay in order.
template <typename Key>
void Descending(std::vector<std::uint32_t>& items, Behaviour behaviour, const Key& key) {
  if (behaviour == Behaviour::kReference) {
    items = SortedAsReference(std::span<const std::uint32_t>(items), key);
    return;
  }
  std::ranges::stable_sort(items, std::ranges::greater{}, key);
}

// By tokens per second and GPU, descending; `of` gives the figures of an item.
template <typename Item, typename Of = std::identity>
void SortByValue(std::vector<Item>& items, Behaviour behaviour, const Of& of = {}) {
  if (behaviour == Behaviour::kReference) {
    items = SortedAsReference(std::span<const Item>(items),
                              [&](const Item& item) { return of(item).tokens_s_gpu; });
    return;
  }
  std::ranges::stable_sort(items, [&](const Item& x, const Item& y) {
    const auto& a = of(x);
    const auto& b = of(y);
    if (a.tokens_s_gpu != b.tokens_s_gpu) return a.tokens_s_gpu > b.tokens_s_gpu;
    return BetterAmongEquals(a, b);
  });
}

}  // namespace infercast
