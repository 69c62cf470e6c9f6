#include "tables/column_file.h"

#include <arrow/io/file.h>
#include <fmt/format.h>
#include <parquet/api/writer.h>

#include <memory>
#include <type_traits>

#include "base/files.h"

namespace infercast {
namespace {

using parquet::ConvertedType;
using parquet::Repetition;
using parquet::Type;

// Parquet's writer, physical type and stored form of each kind of value.
template <typename T>
struct Form;
template <>
struct Form<bool> {
  using Writer = parquet::BoolWriter;
  using Stored = std::uint8_t;  // vector<bool> has no array behind it
  static constexpr Type::type kType = Type::BOOLEAN;
};
template <>
struct Form<std::int64_t> {
  using Writer = parquet::Int64Writer;
  using Stored = std::int64_t;
  static constexpr Type::type kType = Type::INT64;
};
template <>
struct Form<double> {
  using Writer = parquet::DoubleWriter;
  using Stored = double;
  static constexpr Type::type kType = Type::DOUBLE;
};
template <>
struct Form<std::string> {
  using Writer = parquet::ByteArrayWriter;
  using Stored = parquet::ByteArray;
  static constexpr Type::type kType = Type::BYTE_ARRAY;
};

template <typename T>
void WriteValues(const std::vector<std::optional<T>>& values, parquet::RowGroupWriter& group) {
  std::vector<std::int16_t> present;
  std::vector<typename Form<T>::Stored> stored;
  for (const std::optional<T>& value : values) {
    present.push_back(value ? 1 : 0);
    if (!value) continue;
    if constexpr (std::is_same_v<T, std::string>) {
      stored.emplace_back(std::string_view(*value));
    } else {
      stored.push_back(*value);
    }
  }
  auto* writer = static_cast<typename Form<T>::Writer*>(group.NextColumn());
  const auto count = static_cast<std::int64_t>(present.size());
  if constexpr (std::is_same_v<T, bool>) {
    static_assert(sizeof(bool) == 1);
    writer->WriteBatch(count, present.data(), nullptr, reinterpret_cast<bool*>(stored.data()));
  } else {
    writer->WriteBatch(count, present.data(), nullptr, stored.data());
  }
  writer->Close();
}

void Write(std::span<const FileColumn> columns, const std::string& path) {
  parquet::schema::NodeVector fields;
  for (const FileColumn& column : columns) {
    fields.push_back(std::visit(
        [&]<typename T>(const std::vector<std::optional<T>>&) {
          const bool text = std::is_same_v<T, std::string>;
          return parquet::schema::PrimitiveNode::Make(
              column.name, Repetition::OPTIONAL, Form<T>::kType,
              text ? ConvertedType::UTF8 : ConvertedType::NONE);
        },
        column.values));
  }
  const auto schema = std::static_pointer_cast<parquet::schema::GroupNode>(
      parquet::schema::GroupNode::Make("schema", Repetition::REQUIRED, fields));
  const auto opened = arrow::io::FileOutputStream::Open(path);
  if (!opened.ok()) throw parquet::ParquetException(opened.status().message());
  const auto properties =
      parquet::WriterProperties::Builder().compression(arrow::Compression::ZSTD)->build();
  const auto writer = parquet::ParquetFileWriter::Open(*opened, schema, properties);
  parquet::RowGroupWriter* group = writer->AppendRowGroup();
  for (const FileColumn& column : columns) {
    std::visit([&](const auto& values) { WriteValues(values, *group); }, column.values);
  }
  writer->Close();
  const auto closed = (*opened)->Close();
  if (!closed.ok()) throw parquet::ParquetException(closed.message());
}

}  // namespace

Status WriteColumnFile(std::span<const FileColumn> columns, const std::filesystem::path& file) {
  return ReplaceFile(file, [&](const std::filesystem::path& temporary) -> Status {
    Write(columns, temporary.string());
    return {};
  });
}

}  // namespace infercast
