// One decoded source file while its rows become table rows: typed cell access with one sticky
// error.
//
// A cell that breaks its rule records the first error and yields a neutral value; the loop checks
// ok() once a row. Rules: a required cell must be there and have its physical type; an optional one
// that is absent, null or of another type counts as absent; integers must fit their width.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tables/parquet_reader.h"
#include "tables/table.h"

namespace infercast {

class RowFile {
 public:
  RowFile(const ParquetColumns& columns, const TableSource& source, std::string_view basename)
      : columns_(columns), source_(source), basename_(basename) {
    if (source.kernel_filter) kernel_ = Optional("kernel_source");
  }

  std::size_t num_rows() const { return columns_.num_rows; }
  const TableSource& source() const { return source_; }
  std::string_view basename() const { return basename_; }

  bool reads_power() const { return reads_power_; }
  void set_reads_power(bool reads) { reads_power_ = reads; }

  bool ok() const { return !error_; }
  const Error& error() const { return *error_; }
  void SetError(ErrorKind kind, std::string message) {
    if (!error_) error_ = Error{kind, std::move(message)};
  }

  // The column, or null. Require() records an error when the file lacks it.
  const ParquetColumn* Optional(std::string_view name) const { return columns_.Find(name); }
  const ParquetColumn* Require(std::string_view name);

  // False when the source's kernel filter excludes the row.
  bool Passes(std::size_t row) const;

  // Required cells. A null column pointer (already reported) yields the neutral value.
  std::string_view Text(const ParquetColumn* column, std::size_t row);
  double U32(const ParquetColumn* column, std::size_t row);
  double U64(const ParquetColumn* column, std::size_t row);
  double Real(const ParquetColumn* column, std::size_t row);
  bool Flag(const ParquetColumn* column, std::size_t row);        // boolean, 1, or a word of yes
  bool StrictFlag(const ParquetColumn* column, std::size_t row);  // boolean only

  // Optional cells; `column` may be null.
  static std::optional<std::string_view> OptionalText(const ParquetColumn* column, std::size_t row);
  std::optional<double> OptionalU32(const ParquetColumn* column, std::size_t row);
  static std::optional<double> OptionalReal(const ParquetColumn* column, std::size_t row);

 private:
  void BadCell(const ParquetColumn& column, std::size_t row, std::string_view expected);

  const ParquetColumns& columns_;
  const TableSource& source_;
  const std::string basename_;
  const ParquetColumn* kernel_ = nullptr;
  bool reads_power_ = true;
  std::optional<Error> error_;
};

}  // namespace infercast
