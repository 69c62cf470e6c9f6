// The wanted columns of one Parquet file, decoded to plain arrays.
//
// Accepted physical types: UTF-8 text, signed 64-bit integer, double, boolean; anything else counts
// as "another type". Rows keep the order of the file. No Arrow or Parquet type leaves this wrapper,
// and nothing a damaged file holds may do more than produce an Error.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace infercast {

struct ParquetColumn {
  enum class Type : std::uint8_t { kText, kInteger, kReal, kBoolean, kOther };
  std::string name;
  Type type = Type::kOther;
  std::vector<std::int64_t> integers;   // kInteger; 0 or 1 for kBoolean
  std::vector<double> reals;            // kReal
  std::vector<std::uint32_t> codes;     // kText: index into dictionary
  std::vector<std::string> dictionary;  // kText: distinct values by first appearance
  std::vector<bool> nulls;              // empty when no cell is null

  bool IsNull(std::size_t row) const { return !nulls.empty() && nulls[row]; }
};

struct ParquetColumns {
  std::size_t num_rows = 0;
  std::vector<std::string> all_names;  // every column of the file, in order
  std::vector<ParquetColumn> columns;  // the wanted ones that exist

  const ParquetColumn* Find(std::string_view name) const;
};

// Reads the columns of `wanted` that the file has (all of them when `wanted` is empty). kIo when
// the file cannot be opened; kPerfDatabase when it is a git-lfs pointer instead of the data;
// kParquet when it cannot be decoded.
Result<ParquetColumns> ReadParquet(const std::string& path,
                                   std::span<const std::string_view> wanted);

}  // namespace infercast
