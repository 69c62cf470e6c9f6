// Sorts rows by packed key ranks: each level's distinct keys are numbered in ascending order and
// the numbers of all levels are packed into one wide integer, so that a row compares in one step.
#include "tables/table_builder.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace infercast {
namespace {

// Numbers the distinct values of one column in ascending order.
class RankedColumn {
 public:
  RankedColumn(std::span<const double> keys, std::size_t stride, std::size_t offset) {
    const std::size_t rows = keys.size() / stride;
    indices_.reserve(rows);
    slots_.assign(64, kEmpty);
    for (std::size_t row = 0; row < rows; ++row) {
      // Adding zero turns -0.0 into 0.0, so that equal keys have equal bits.
      indices_.push_back(Insert(keys[row * stride + offset] + 0.0));
    }
    std::vector<std::uint32_t> sorted(values_.size());
    std::iota(sorted.begin(), sorted.end(), 0U);
    std::sort(sorted.begin(), sorted.end(),
              [&](std::uint32_t a, std::uint32_t b) { return values_[a] < values_[b]; });
    ranks_.resize(values_.size());
    for (std::uint32_t rank = 0; rank < sorted.size(); ++rank) ranks_[sorted[rank]] = rank;
  }
  std::uint32_t RankOf(std::size_t row) const { return ranks_[indices_[row]]; }
  int bits() const { return std::bit_width(values_.empty() ? 0 : values_.size() - 1); }

 private:
  static constexpr std::uint32_t kEmpty = UINT32_MAX;

  static std::size_t Hash(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value) * 0x9E3779B97F4A7C15ULL;
    return static_cast<std::size_t>(bits ^ (bits >> 29));
  }
  std::uint32_t Insert(double value) {
    if (!values_.empty() && values_[last_] == value) return last_;
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = Hash(value) & mask;
    while (slots_[at] != kEmpty) {
      if (values_[slots_[at]] == value) return last_ = slots_[at];
      at = (at + 1) & mask;
    }
    last_ = static_cast<std::uint32_t>(values_.size());
    slots_[at] = last_;
    values_.push_back(value);
    if (values_.size() * 2 > slots_.size()) Grow();
    return last_;
  }
  void Grow() {
    slots_.assign(slots_.size() * 4, kEmpty);
    const std::size_t mask = slots_.size() - 1;
    for (std::uint32_t i = 0; i < values_.size(); ++i) {
      std::size_t at = Hash(values_[i]) & mask;
      while (slots_[at] != kEmpty) at = (at + 1) & mask;
      slots_[at] = i;
    }
  }

  std::vector<double> values_;          // by first appearance
  std::vector<std::uint32_t> slots_;    // hash table of indices into values_
  std::vector<std::uint32_t> indices_;  // per row
  std::vector<std::uint32_t> ranks_;    // per value
  std::uint32_t last_ = 0;
};

struct SortEntry {
  std::uint64_t high = 0, low = 0;
  std::uint32_t row = 0;
  bool operator<(const SortEntry& o) const {
    if (high != o.high) return high < o.high;
    if (low != o.low) return low < o.low;
    return row < o.row;
  }
};

}  // namespace

TableBuilder::TableBuilder(std::vector<Level> levels)
    : levels_(std::move(levels)), texts_(levels_.size()) {}

double TableBuilder::Code(std::size_t level, std::string_view text) {
  TextLevel& known = texts_[level];
  if (known.last_code >= 0 && known.last_text == text) return known.last_code;
  const auto [it, fresh] =
      known.codes.emplace(std::string(text), static_cast<std::uint32_t>(known.names.size()));
  if (fresh) known.names.emplace_back(text);
  known.last_text = text;
  return known.last_code = it->second;
}

void TableBuilder::Add(std::span<const double> keys, const Leaf& leaf, std::uint64_t rank) {
  keys_.insert(keys_.end(), keys.begin(), keys.end());
  latency_.push_back(leaf.latency);
  power_.push_back(leaf.power);
  energy_.push_back(leaf.energy);
  ranks_.push_back(rank);
  sources_.push_back(source_);
}

// Replaces provisional text codes by positions in the sorted list of the texts that rows use.
void TableBuilder::SortTexts() {
  const std::size_t width = levels_.size();
  for (std::size_t level = 0; level < width; ++level) {
    if (!levels_[level].is_text) continue;
    TextLevel& known = texts_[level];
    std::vector<bool> used(known.names.size(), false);
    for (std::size_t at = level; at < keys_.size(); at += width) {
      used[static_cast<std::size_t>(keys_[at])] = true;
    }
    std::vector<std::string> sorted;
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (used[i]) sorted.push_back(known.names[i]);
    }
    std::sort(sorted.begin(), sorted.end());
    std::vector<double> final_code(known.names.size(), 0);
    for (std::size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      const auto it = std::lower_bound(sorted.begin(), sorted.end(), known.names[i]);
      final_code[i] = static_cast<double>(it - sorted.begin());
    }
    for (std::size_t at = level; at < keys_.size(); at += width) {
      keys_[at] = final_code[static_cast<std::size_t>(keys_[at])];
    }
    known.names = std::move(sorted);
  }
}

TableParts TableBuilder::Finish() && {
  SortTexts();
  const std::size_t width = levels_.size();
  const std::size_t rows = latency_.size();

  std::vector<RankedColumn> columns;
  columns.reserve(width);
  int bits = 0;
  for (std::size_t level = 0; level < width; ++level) {
    columns.emplace_back(keys_, width, level);
    bits += columns.back().bits();
  }
  std::vector<SortEntry> entries(rows);
  for (std::size_t row = 0; row < rows; ++row) entries[row].row = static_cast<std::uint32_t>(row);
  if (bits <= 128) {
    for (std::size_t level = 0; level < width; ++level) {
      const int shift = columns[level].bits();
      if (shift == 0) continue;
      for (SortEntry& entry : entries) {
        entry.high = entry.high << shift | entry.low >> (64 - shift);
        entry.low = entry.low << shift | columns[level].RankOf(entry.row);
      }
    }
    std::sort(entries.begin(), entries.end());
  } else {
    std::sort(entries.begin(), entries.end(), [&](const SortEntry& a, const SortEntry& b) {
      for (const RankedColumn& column : columns) {
        const std::uint32_t x = column.RankOf(a.row);
        const std::uint32_t y = column.RankOf(b.row);
        if (x != y) return x < y;
      }
      return a.row < b.row;
    });
  }

  TableParts parts;
  parts.levels.resize(width);
  for (std::size_t level = 0; level < width; ++level) {
    parts.levels[level].name = levels_[level].name;
    parts.levels[level].is_text = levels_[level].is_text;
    if (levels_[level].is_text) parts.levels[level].names = std::move(texts_[level].names);
  }
  const double* previous = nullptr;
  for (std::size_t i = 0; i < rows;) {
    const std::uint32_t first = entries[i].row;
    const double* key = &keys_[first * width];
    std::uint32_t winner = first;
    std::size_t end = i + 1;
    for (; end < rows; ++end) {
      const std::uint32_t row = entries[end].row;
      if (!std::equal(key, key + width, &keys_[row * width])) break;
      if (ranks_[row] < ranks_[winner]) winner = row;
    }
    i = end;

    std::size_t level = 0;
    if (previous != nullptr) {
      while (previous[level] == key[level]) ++level;
    }
    for (; level < width; ++level) {
      TableParts::Level& out = parts.levels[level];
      out.keys.push_back(key[level] + 0.0);
      if (level + 1 < width) {
        out.child_begin.push_back(static_cast<std::uint32_t>(parts.levels[level + 1].keys.size()));
      }
    }
    previous = key;
    parts.latency.push_back(latency_[winner]);
    parts.power.push_back(power_[winner]);
    parts.energy.push_back(energy_[winner]);
    parts.order.push_back(first);
    parts.source.push_back(sources_[winner]);
  }
  for (std::size_t level = 0; level + 1 < width; ++level) {
    parts.levels[level].child_begin.push_back(
        static_cast<std::uint32_t>(parts.levels[level + 1].keys.size()));
  }
  return parts;
}

}  // namespace infercast
