// The one in-memory form of every measured table.
//
// A table is a tree of sorted keys: first the discrete levels (number format, head size, lane ...),
// then the numeric axes of its grid. Levels are arrays: the children of node i of level l are the
// nodes [child_begin[i], child_begin[i+1]) of level l+1, so a slice is a range and a leaf index is
// the node index of the last level. Ragged tables cost nothing extra. Text keys are codes into a
// sorted dictionary per level. The arrays live in memory that the table owns, heap or file mapping.
//
// Keys are doubles: integers below 2^53 are exact, and queries may be fractional.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace infercast {

// One measured point. Units: ms, W, W*ms. power = energy = 0 where the table has no power column.
struct Leaf {
  double latency = 0;
  double power = 0;
  double energy = 0;

  // Power that interpolation blends: energy over latency where both are known, else the column.
  double BlendPower() const { return energy > 0 && latency > 0 ? energy / latency : power; }
};

// Where rows came from. Channels in falling priority.
enum class SourceChannel : std::uint8_t { kPrimary, kDeclaredReuse, kFallback, kCrossBackend };
std::string_view ToString(SourceChannel channel);

struct TableSource {
  std::string version;
  std::string path;
  SourceChannel channel = SourceChannel::kPrimary;
  bool exists = false;
  std::optional<std::vector<std::string>> kernel_filter;  // sorted; none = every row
};

struct TableLevel {
  std::string name;  // column or axis name
  bool is_text = false;
  std::vector<std::string> names;              // dictionary, ascending (text levels only)
  std::span<const double> keys;                // node key, or dictionary code
  std::span<const std::uint32_t> child_begin;  // size = nodes + 1; empty on the last level
};

class Table;

// The nodes [begin, end) of one level under one parent: a slice or sub-grid. Cheap to copy; valid
// as long as its table.
struct GridView {
  const Table* table = nullptr;
  std::uint32_t level = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;

  bool empty() const { return begin == end; }
  std::uint32_t size() const { return end - begin; }
  int depth() const;                     // axes left, this level included
  std::span<const double> keys() const;  // ascending keys of this level's nodes
  std::optional<std::uint32_t> Find(
      double key) const;                     // node index (absolute) with exactly this key
  GridView Child(std::uint32_t node) const;  // node: absolute index at this level
  // Range of leaves below: absolute leaf indices [first, last).
  std::pair<std::uint32_t, std::uint32_t> LeafRange() const;
};

class Table {
 public:
  std::string name;  // basename stem, for messages
  std::vector<TableLevel> levels;
  std::span<const double> latency, power, energy;  // per leaf
  std::span<const std::uint32_t>
      order;  // per leaf: rank of the row among accepted rows (file order)
  std::span<const std::uint16_t> source;  // per leaf: index into sources
  std::vector<TableSource> sources;
  std::shared_ptr<const void> storage;  // keeps the arrays alive

  GridView Root() const {
    return {this, 0, 0, levels.empty() ? 0 : static_cast<std::uint32_t>(levels[0].keys.size())};
  }
  Leaf LeafAt(std::uint32_t i) const { return {latency[i], power[i], energy[i]}; }
  std::size_t num_leaves() const { return latency.size(); }

  // The slice below the given discrete keys (text or number, outermost first), or none.
  struct Key {
    Key(std::string_view t) : text(t), is_text(true) {}    // NOLINT
    Key(const char* t) : text(t), is_text(true) {}         // NOLINT
    Key(const std::string& t) : text(t), is_text(true) {}  // NOLINT
    template <typename N>
      requires std::is_arithmetic_v<N>
    Key(N n) : number(static_cast<double>(n)) {}  // NOLINT
    std::string_view text;
    double number = 0;
    bool is_text = false;
  };
  std::optional<GridView> Slice(std::initializer_list<Key> keys) const {
    return Slice(Root(), std::span<const Key>(keys.begin(), keys.size()));
  }
  std::optional<GridView> Slice(GridView from, std::initializer_list<Key> keys) const {
    return Slice(from, std::span<const Key>(keys.begin(), keys.size()));
  }
  std::optional<GridView> Slice(GridView from, std::span<const Key> keys) const;

  // Text of a node of a text level.
  const std::string& TextAt(std::uint32_t level, std::uint32_t node) const;
  // Dictionary code of a text at a level, if it occurs there.
  std::optional<double> CodeOf(std::uint32_t level, std::string_view text) const;
  // Nodes of `view` ordered by the first accepted row below each: the order of first appearance.
  std::vector<std::uint32_t> NodesByFirstAppearance(const GridView& view) const;
  // Smallest row order below one node of `view.level`.
  std::uint32_t FirstOrder(const GridView& view, std::uint32_t node) const;
};

inline int GridView::depth() const { return static_cast<int>(table->levels.size() - level); }
inline std::span<const double> GridView::keys() const {
  return table->levels[level].keys.subspan(begin, end - begin);
}
inline GridView GridView::Child(std::uint32_t node) const {
  const auto& offsets = table->levels[level].child_begin;
  return {table, level + 1, offsets[node], offsets[node + 1]};
}

}  // namespace infercast
