// Look-ups in a table's key tree.
#include "tables/table.h"

#include <algorithm>
#include <cmath>

namespace infercast {

std::string_view ToString(SourceChannel channel) {
  switch (channel) {
    case SourceChannel::kPrimary:
      return "primary";
    case SourceChannel::kDeclaredReuse:
      return "declared_reuse";
    case SourceChannel::kFallback:
      return "fallback";
    case SourceChannel::kCrossBackend:
      return "cross_backend";
  }
  return "primary";
}

std::optional<std::uint32_t> GridView::Find(double key) const {
  const std::span<const double> k = keys();
  const auto it = std::lower_bound(k.begin(), k.end(), key);
  if (it == k.end() || *it != key) return std::nullopt;
  return begin + static_cast<std::uint32_t>(it - k.begin());
}

std::pair<std::uint32_t, std::uint32_t> GridView::LeafRange() const {
  std::uint32_t first = begin;
  std::uint32_t last = end;
  for (std::uint32_t l = level; l + 1 < table->levels.size(); ++l) {
    const auto& offsets = table->levels[l].child_begin;
    first = offsets[first];
    last = offsets[last];
  }
  return {first, last};
}

std::optional<GridView> Table::Slice(GridView from, std::span<const Key> keys) const {
  GridView view = from;
  for (const Key& key : keys) {
    double number = key.number;
    if (key.is_text) {
      const auto code = CodeOf(view.level, key.text);
      if (!code) return std::nullopt;
      number = *code;
    }
    const auto node = view.Find(number);
    if (!node) return std::nullopt;
    view = view.Child(*node);
  }
  return view;
}

const std::string& Table::TextAt(std::uint32_t level, std::uint32_t node) const {
  return levels[level].names[static_cast<std::size_t>(levels[level].keys[node])];
}

std::optional<double> Table::CodeOf(std::uint32_t level, std::string_view text) const {
  const auto& names = levels[level].names;
  const auto it = std::lower_bound(names.begin(), names.end(), text);
  if (it == names.end() || *it != text) return std::nullopt;
  return static_cast<double>(it - names.begin());
}

std::uint32_t Table::FirstOrder(const GridView& view, std::uint32_t node) const {
  const GridView one{this, view.level, node, node + 1};
  const auto [first, last] = one.LeafRange();
  return *std::min_element(order.begin() + first, order.begin() + last);
}

std::vector<std::uint32_t> Table::NodesByFirstAppearance(const GridView& view) const {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranked;
  ranked.reserve(view.size());
  for (std::uint32_t node = view.begin; node < view.end; ++node) {
    ranked.emplace_back(FirstOrder(view, node), node);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::uint32_t> nodes;
  nodes.reserve(ranked.size());
  for (const auto& [rank, node] : ranked) nodes.push_back(node);
  return nodes;
}

}  // namespace infercast
