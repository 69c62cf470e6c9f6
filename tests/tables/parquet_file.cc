// Writes Parquet through the library's column writers, as one row group.
#include "parquet_file.h"

#include <arrow/io/file.h>
#include <parquet/api/writer.h>

namespace infercast::testing {
namespace {

using parquet::ConvertedType;
using parquet::Repetition;
using parquet::Type;
using parquet::schema::PrimitiveNode;

parquet::schema::NodePtr NodeOf(const Column& column) {
  constexpr std::pair<Type::type, ConvertedType::type> kTypes[] = {
      {Type::BYTE_ARRAY, ConvertedType::UTF8}, {Type::INT64, ConvertedType::NONE},
      {Type::DOUBLE, ConvertedType::NONE},     {Type::BOOLEAN, ConvertedType::NONE},
      {Type::INT32, ConvertedType::NONE},      {Type::FLOAT, ConvertedType::NONE}};
  const auto& [type, converted] = kTypes[column.cells.index()];
  return PrimitiveNode::Make(column.name, Repetition::OPTIONAL, type, converted);
}

template <typename Writer, typename Value, typename Cell, typename Convert>
void Write(parquet::ColumnWriter* writer, const std::vector<std::optional<Cell>>& cells,
           Convert convert) {
  std::vector<std::int16_t> levels;
  const auto values = std::make_unique<Value[]>(cells.size() + 1);
  std::size_t count = 0;
  for (const auto& cell : cells) {
    levels.push_back(cell ? 1 : 0);
    if (cell) values[count++] = convert(*cell);
  }
  static_cast<Writer*>(writer)->WriteBatch(static_cast<std::int64_t>(cells.size()), levels.data(),
                                           nullptr, values.get());
}

struct CellWriter {
  parquet::ColumnWriter* to;
  void operator()(const std::vector<std::optional<std::string>>& cells) const {
    Write<parquet::ByteArrayWriter, parquet::ByteArray>(to, cells, [](const std::string& text) {
      return parquet::ByteArray(std::string_view(text));
    });
  }
  void operator()(const std::vector<std::optional<std::int64_t>>& cells) const {
    Write<parquet::Int64Writer, std::int64_t>(to, cells, [](auto v) { return v; });
  }
  void operator()(const std::vector<std::optional<double>>& cells) const {
    Write<parquet::DoubleWriter, double>(to, cells, [](auto v) { return v; });
  }
  void operator()(const std::vector<std::optional<bool>>& cells) const {
    Write<parquet::BoolWriter, bool>(to, cells, [](auto v) { return v; });
  }
  void operator()(const std::vector<std::optional<std::int32_t>>& cells) const {
    Write<parquet::Int32Writer, std::int32_t>(to, cells, [](auto v) { return v; });
  }
  void operator()(const std::vector<std::optional<float>>& cells) const {
    Write<parquet::FloatWriter, float>(to, cells, [](auto v) { return v; });
  }
};

}  // namespace

void WriteParquet(const std::filesystem::path& file, const std::vector<Column>& columns) {
  std::filesystem::create_directories(file.parent_path());
  parquet::schema::NodeVector fields;
  for (const Column& column : columns) fields.push_back(NodeOf(column));
  const auto schema = std::static_pointer_cast<parquet::schema::GroupNode>(
      parquet::schema::GroupNode::Make("schema", Repetition::REQUIRED, fields));
  const auto sink = arrow::io::FileOutputStream::Open(file.string()).ValueOrDie();
  const auto writer = parquet::ParquetFileWriter::Open(sink, schema);
  parquet::RowGroupWriter* group = writer->AppendRowGroup();
  for (const Column& column : columns) {
    parquet::ColumnWriter* to = group->NextColumn();
    std::visit(CellWriter{to}, column.cells);
    to->Close();
  }
  writer->Close();
  (void)sink->Close();
}

}  // namespace infercast::testing
