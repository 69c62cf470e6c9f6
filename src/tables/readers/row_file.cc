// Cell access rules of measured tables.
#include "tables/readers/row_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <limits>

namespace infercast {
namespace {
using Type = ParquetColumn::Type;
constexpr std::int64_t kU32Max = std::numeric_limits<std::uint32_t>::max();
}  // namespace

const ParquetColumn* RowFile::Require(std::string_view name) {
  const ParquetColumn* column = columns_.Find(name);
  if (column == nullptr) {
    SetError(ErrorKind::kPerfDatabase, fmt::format("parquet column \"{}\" missing at {} (have: {})",
                                                   name, source_.path, columns_.all_names));
  }
  return column;
}

bool RowFile::Passes(std::size_t row) const {
  if (!source_.kernel_filter) return true;
  const auto kernel = OptionalText(kernel_, row);
  return kernel &&
         std::binary_search(source_.kernel_filter->begin(), source_.kernel_filter->end(), *kernel);
}

void RowFile::BadCell(const ParquetColumn& column, std::size_t row, std::string_view expected) {
  SetError(ErrorKind::kParquet, fmt::format("Parquet error at {}: row {} of column \"{}\" is {}",
                                            source_.path, row, column.name, expected));
}

std::string_view RowFile::Text(const ParquetColumn* column, std::size_t row) {
  if (column == nullptr) return {};
  if (column->type != Type::kText || column->IsNull(row)) {
    BadCell(*column, row, "no text");
    return {};
  }
  return column->dictionary[column->codes[row]];
}

double RowFile::U32(const ParquetColumn* column, std::size_t row) {
  if (column == nullptr) return 0;
  if (column->type != Type::kInteger || column->IsNull(row)) {
    BadCell(*column, row, "no 64-bit integer");
    return 0;
  }
  const std::int64_t value = column->integers[row];
  if (value < 0 || value > kU32Max) {
    SetError(ErrorKind::kPerfDatabase,
             fmt::format("parquet column[{}] = {} does not fit in u32 at {}", column->name, value,
                         source_.path));
    return 0;
  }
  return static_cast<double>(value);
}

double RowFile::U64(const ParquetColumn* column, std::size_t row) {
  if (column == nullptr) return 0;
  if (column->type != Type::kInteger || column->IsNull(row)) {
    BadCell(*column, row, "no 64-bit integer");
    return 0;
  }
  const std::int64_t value = column->integers[row];
  if (value < 0) {
    SetError(ErrorKind::kPerfDatabase,
             fmt::format("parquet column[{}] = {} does not fit in u64 at {}", column->name, value,
                         source_.path));
    return 0;
  }
  return static_cast<double>(value);
}

double RowFile::Real(const ParquetColumn* column, std::size_t row) {
  if (column == nullptr) return 0;
  if (column->type != Type::kReal || column->IsNull(row)) {
    BadCell(*column, row, "no double");
    return 0;
  }
  return column->reals[row];
}

bool RowFile::Flag(const ParquetColumn* column, std::size_t row) {
  if (column == nullptr) return false;
  if (column->IsNull(row)) {
    BadCell(*column, row, "no flag");
    return false;
  }
  switch (column->type) {
    case Type::kBoolean:
    case Type::kInteger:
      return column->integers[row] == 1;
    case Type::kText: {
      std::string word = column->dictionary[column->codes[row]];
      for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      const auto from = word.find_first_not_of(" \t\r\n");
      if (from == std::string::npos) return false;
      word = word.substr(from, word.find_last_not_of(" \t\r\n") - from + 1);
      return word == "1" || word == "true" || word == "yes" || word == "y";
    }
    default:
      BadCell(*column, row, "no flag");
      return false;
  }
}

bool RowFile::StrictFlag(const ParquetColumn* column, std::size_t row) {
  if (column == nullptr) return false;
  if (column->type != Type::kBoolean || column->IsNull(row)) {
    BadCell(*column, row, "no boolean");
    return false;
  }
  return column->integers[row] != 0;
}

std::optional<std::string_view> RowFile::OptionalText(const ParquetColumn* column,
                                                      std::size_t row) {
  if (column == nullptr || column->type != Type::kText || column->IsNull(row)) return std::nullopt;
  return column->dictionary[column->codes[row]];
}

std::optional<double> RowFile::OptionalU32(const ParquetColumn* column, std::size_t row) {
  if (column == nullptr || column->type != Type::kInteger || column->IsNull(row)) {
    return std::nullopt;
  }
  return U32(column, row);
}

std::optional<double> RowFile::OptionalReal(const ParquetColumn* column, std::size_t row) {
  if (column == nullptr || column->type != Type::kReal || column->IsNull(row)) return std::nullopt;
  return column->reals[row];
}

}  // namespace infercast
