// Turns rows in any order into the sorted key tree of a table.
//
// Each row is a full key (one number a level; texts are interned) with a leaf. Of the rows at one
// coordinate the one of smallest rank stays, the earliest of them; nothing is averaged.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tables/table.h"

namespace infercast {

// A finished table as plain arrays, before it is laid out as one image.
struct TableParts {
  struct Level {
    std::string name;
    bool is_text = false;
    std::vector<std::string> names;
    std::vector<double> keys;
    std::vector<std::uint32_t> child_begin;  // empty on the last level
  };
  std::vector<Level> levels;
  std::vector<double> latency, power, energy;
  std::vector<std::uint32_t> order;
  std::vector<std::uint16_t> source;
};

class TableBuilder {
 public:
  struct Level {
    std::string name;
    bool is_text = false;
  };
  explicit TableBuilder(std::vector<Level> levels);

  std::size_t num_levels() const { return levels_.size(); }
  std::size_t num_rows() const { return latency_.size(); }

  // Provisional code of a text at a level; final codes follow the ascending order of the texts.
  double Code(std::size_t level, std::string_view text);
  const std::string& TextOf(std::size_t level, double code) const {
    return texts_[level].names[static_cast<std::size_t>(code)];
  }

  // Rows added from here on come from this source.
  void BeginSource(std::uint16_t source) { source_ = source; }
  void Add(std::span<const double> keys, const Leaf& leaf, std::uint64_t rank = 0);

  // Access to collected rows, for rules that need to see all of them first.
  std::span<const double> RowKeys(std::size_t row) const {
    return std::span(keys_).subspan(row * levels_.size(), levels_.size());
  }
  std::uint64_t& RowRank(std::size_t row) { return ranks_[row]; }

  // Consumes the rows. At most 2^32 - 1 of them.
  TableParts Finish() &&;

 private:
  struct TextLevel {
    std::vector<std::string> names;
    std::unordered_map<std::string, std::uint32_t> codes;
    std::string last_text;
    double last_code = -1;
  };
  void SortTexts();

  std::vector<Level> levels_;
  std::vector<TextLevel> texts_;
  std::vector<double> keys_;  // row-major
  std::vector<double> latency_, power_, energy_;
  std::vector<std::uint64_t> ranks_;
  std::vector<std::uint16_t> sources_;
  std::uint16_t source_ = 0;
};

}  // namespace infercast
