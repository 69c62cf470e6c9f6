// The order that the reference leaves among rows of equal key: its one-key sorts are an introsort
// that is not stable beyond 16 rows. Used where its tables are reproduced; everything else sorts
// stably by a total order. (On processors for which numpy has vectorised sorts, the reference's
// order among equals is another one wherever a column holds plain numbers. This is the order that
// it has on all others, and with NPY_DISABLE_CPU_FEATURES on every one.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace infercast {

// Positions of `keys` in descending order as the reference returns them.
std::vector<std::uint32_t> ReferenceSortDescending(std::span<const double> keys);

// `items` in descending order of `key(item)`.
template <typename Item, typename Key>
std::vector<Item> SortedAsReference(std::span<const Item> items, const Key& key) {
  std::vector<double> keys;
  keys.reserve(items.size());
  for (const Item& item : items) keys.push_back(key(item));
  std::vector<Item> sorted;
  sorted.reserve(items.size());
  for (const std::uint32_t i : ReferenceSortDescending(keys)) sorted.push_back(items[i]);
  return sorted;
}

}  // namespace infercast
