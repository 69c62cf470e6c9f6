// Writes tables as Parquet files.
#include <arrow/io/file.h>
#include <fmt/format.h>
#include <parquet/api/writer.h>

#include <cmath>
#include <memory>

#include "base/files.h"
#include "tables/introspection.h"

namespace infercast {
namespace {

using parquet::ConvertedType;
using parquet::Repetition;
using parquet::Type;
using parquet::schema::PrimitiveNode;

bool AllWhole(const TableLevel& level) {
  for (const double key : level.keys) {
    if (key != std::floor(key) || std::fabs(key) >= 0x1p63) return false;
  }
  return true;
}

parquet::schema::NodePtr Field(const std::string& name, Type::type type,
                               ConvertedType::type converted = ConvertedType::NONE) {
  return PrimitiveNode::Make(name, Repetition::REQUIRED, type, converted);
}

void WriteReals(parquet::RowGroupWriter& group, std::span<const double> values) {
  auto* writer = static_cast<parquet::DoubleWriter*>(group.NextColumn());
  writer->WriteBatch(static_cast<std::int64_t>(values.size()), nullptr, nullptr, values.data());
  writer->Close();
}

void WriteFile(const Table& table, const std::string& path) {
  bool has_power = false;
  for (const double power : table.power) has_power = has_power || power != 0;
  parquet::schema::NodeVector fields;
  for (const TableLevel& level : table.levels) {
    if (level.is_text) {
      fields.push_back(Field(level.name, Type::BYTE_ARRAY, ConvertedType::UTF8));
    } else {
      fields.push_back(Field(level.name, AllWhole(level) ? Type::INT64 : Type::DOUBLE));
    }
  }
  fields.push_back(Field("latency_ms", Type::DOUBLE));
  if (has_power) {
    fields.push_back(Field("power_w", Type::DOUBLE));
    fields.push_back(Field("energy_wms", Type::DOUBLE));
  }
  const auto schema = std::static_pointer_cast<parquet::schema::GroupNode>(
      parquet::schema::GroupNode::Make("schema", Repetition::REQUIRED, fields));
  const auto opened = arrow::io::FileOutputStream::Open(path);
  if (!opened.ok()) throw parquet::ParquetException(opened.status().message());
  const auto properties =
      parquet::WriterProperties::Builder().compression(arrow::Compression::ZSTD)->build();
  const auto writer = parquet::ParquetFileWriter::Open(*opened, schema, properties);
  parquet::RowGroupWriter* group = writer->AppendRowGroup();

  for (std::size_t i = 0; i < table.levels.size(); ++i) {
    const TableLevel& level = table.levels[i];
    std::vector<parquet::ByteArray> texts;
    std::vector<std::int64_t> integers;
    std::vector<double> reals;
    const bool whole = !level.is_text && AllWhole(level);
    VisitRows(table, [&](std::span<const RowCell> cells, std::uint32_t) {
      if (level.is_text) {
        texts.emplace_back(std::string_view(*cells[i].text));
      } else if (whole) {
        integers.push_back(static_cast<std::int64_t>(cells[i].number));
      } else {
        reals.push_back(cells[i].number);
      }
      return true;
    });
    if (level.is_text) {
      auto* to = static_cast<parquet::ByteArrayWriter*>(group->NextColumn());
      to->WriteBatch(static_cast<std::int64_t>(texts.size()), nullptr, nullptr, texts.data());
      to->Close();
    } else if (whole) {
      auto* to = static_cast<parquet::Int64Writer*>(group->NextColumn());
      to->WriteBatch(static_cast<std::int64_t>(integers.size()), nullptr, nullptr, integers.data());
      to->Close();
    } else {
      WriteReals(*group, reals);
    }
  }
  WriteReals(*group, table.latency);
  if (has_power) {
    WriteReals(*group, table.power);
    WriteReals(*group, table.energy);
  }
  writer->Close();
  const auto closed = (*opened)->Close();
  if (!closed.ok()) throw parquet::ParquetException(closed.message());
}

}  // namespace

Status WriteTableParquet(const Table& table, const std::filesystem::path& file) {
  return ReplaceFile(file, [&](const std::filesystem::path& temporary) -> Status {
    WriteFile(table, temporary.string());
    return {};
  });
}

}  // namespace infercast
