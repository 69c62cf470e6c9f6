// Decodes Parquet column chunks through the low-level readers of the Parquet library: the physical
// type of a cell decides what it is, whatever schema an Arrow writer stored beside it.
#include "tables/parquet_reader.h"

#include <fmt/format.h>
#include <parquet/api/reader.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <unordered_map>

namespace infercast {
namespace {

constexpr std::string_view kLfsMagic = "version https://git-lfs";
// More than any measured table holds; a damaged row count must not make us allocate the machine.
constexpr std::int64_t kMaxRows = 50'000'000;
constexpr std::int64_t kBatch = 16'384;

ParquetColumn::Type TypeOf(const parquet::ColumnDescriptor& column) {
  using Type = ParquetColumn::Type;
  if (column.max_repetition_level() > 0 || column.max_definition_level() > 1) return Type::kOther;
  const auto& logical = column.logical_type();
  const bool plain = logical == nullptr || logical->is_none();
  switch (column.physical_type()) {
    case parquet::Type::BYTE_ARRAY:
      return logical != nullptr && (logical->is_string() || logical->is_enum()) ? Type::kText
                                                                                : Type::kOther;
    case parquet::Type::INT64: {
      if (plain) return Type::kInteger;
      const auto* integer = dynamic_cast<const parquet::IntLogicalType*>(logical.get());
      return integer != nullptr && integer->is_signed() ? Type::kInteger : Type::kOther;
    }
    case parquet::Type::DOUBLE:
      return plain ? Type::kReal : Type::kOther;
    case parquet::Type::BOOLEAN:
      return plain ? Type::kBoolean : Type::kOther;
    default:
      return Type::kOther;
  }
}

// Interns texts; the same dictionary entry of a page arrives at the same address again and again.
class TextInterner {
 public:
  explicit TextInterner(ParquetColumn& column) : column_(column) {
    for (std::size_t i = 0; i < column.dictionary.size(); ++i) {
      codes_.emplace(column.dictionary[i], static_cast<std::uint32_t>(i));
    }
  }
  std::uint32_t Code(const parquet::ByteArray& text) {
    const std::string_view view(reinterpret_cast<const char*>(text.ptr), text.len);
    if (last_ && view == *last_text_) return *last_;
    const auto it = codes_.find(std::string(view));
    if (it != codes_.end()) {
      last_ = it->second;
    } else {
      last_ = static_cast<std::uint32_t>(column_.dictionary.size());
      column_.dictionary.emplace_back(view);
      codes_.emplace(std::string(view), *last_);
    }
    last_text_ = &column_.dictionary[*last_];
    return *last_;
  }

 private:
  ParquetColumn& column_;
  std::unordered_map<std::string, std::uint32_t> codes_;
  std::optional<std::uint32_t> last_;
  const std::string* last_text_ = nullptr;
};

// Reads one column chunk; `store(value)` appends a value, `skip()` a null cell's placeholder.
template <typename ReaderType, typename Value, typename Store, typename Skip>
void ReadChunk(parquet::ColumnReader& base, const parquet::ColumnDescriptor& descriptor,
               std::int64_t rows, std::vector<bool>& nulls, std::size_t rows_before, Store store,
               Skip skip) {
  auto& reader = static_cast<ReaderType&>(base);
  const bool optional = descriptor.max_definition_level() > 0;
  std::vector<std::int16_t> levels(static_cast<std::size_t>(kBatch));
  const auto values = std::make_unique<Value[]>(static_cast<std::size_t>(kBatch));
  std::int64_t done = 0;
  while (done < rows && reader.HasNext()) {
    std::int64_t values_read = 0;
    const std::int64_t got =
        reader.ReadBatch(std::min(kBatch, rows - done), optional ? levels.data() : nullptr, nullptr,
                         values.get(), &values_read);
    if (got <= 0 && values_read <= 0) break;
    // Without definition levels the library reports values only.
    const std::int64_t cells = optional ? got : values_read;
    std::int64_t next = 0;
    for (std::int64_t i = 0; i < cells; ++i) {
      if (optional && levels[static_cast<std::size_t>(i)] == 0) {
        nulls.resize(rows_before + static_cast<std::size_t>(done + i), false);
        nulls.push_back(true);
        skip();
      } else {
        if (next >= values_read) throw parquet::ParquetException("fewer values than rows");
        store(values[static_cast<std::size_t>(next++)]);
      }
    }
    done += cells;
  }
  if (done != rows) throw parquet::ParquetException("column chunk ends early");
}

void ReadColumn(parquet::RowGroupReader& group, int index,
                const parquet::ColumnDescriptor& descriptor, std::int64_t rows,
                std::size_t rows_before, ParquetColumn& out) {
  const auto reader = group.Column(index);
  if (reader == nullptr) throw parquet::ParquetException("column cannot be read");
  switch (out.type) {
    case ParquetColumn::Type::kText: {
      TextInterner interner(out);
      ReadChunk<parquet::ByteArrayReader, parquet::ByteArray>(
          *reader, descriptor, rows, out.nulls, rows_before,
          [&](const parquet::ByteArray& text) { out.codes.push_back(interner.Code(text)); },
          [&] { out.codes.push_back(0); });
      return;
    }
    case ParquetColumn::Type::kInteger:
      ReadChunk<parquet::Int64Reader, std::int64_t>(
          *reader, descriptor, rows, out.nulls, rows_before,
          [&](std::int64_t v) { out.integers.push_back(v); }, [&] { out.integers.push_back(0); });
      return;
    case ParquetColumn::Type::kReal:
      ReadChunk<parquet::DoubleReader, double>(
          *reader, descriptor, rows, out.nulls, rows_before,
          [&](double v) { out.reals.push_back(v); }, [&] { out.reals.push_back(0); });
      return;
    case ParquetColumn::Type::kBoolean:
      ReadChunk<parquet::BoolReader, bool>(
          *reader, descriptor, rows, out.nulls, rows_before,
          [&](bool v) { out.integers.push_back(v ? 1 : 0); }, [&] { out.integers.push_back(0); });
      return;
    case ParquetColumn::Type::kOther:
      return;
  }
}

Result<ParquetColumns> Decode(const std::string& path, std::span<const std::string_view> wanted) {
  const auto file = parquet::ParquetFileReader::OpenFile(path, /*memory_map=*/false);
  const auto metadata = file->metadata();
  const parquet::SchemaDescriptor& schema = *metadata->schema();
  ParquetColumns out;
  if (metadata->num_rows() < 0 || metadata->num_rows() > kMaxRows) {
    throw parquet::ParquetException("implausible row count");
  }

  std::vector<int> indices;
  for (int i = 0; i < schema.num_columns(); ++i) {
    const parquet::ColumnDescriptor& column = *schema.Column(i);
    out.all_names.push_back(column.name());
    const bool nested = column.path()->ToDotVector().size() > 1;
    if (nested ||
        (!wanted.empty() &&
         std::find(wanted.begin(), wanted.end(), column.name()) == wanted.end()) ||
        out.Find(column.name()) != nullptr) {
      continue;
    }
    out.columns.emplace_back();
    out.columns.back().name = column.name();
    out.columns.back().type = TypeOf(column);
    indices.push_back(i);
  }

  std::size_t rows_before = 0;
  for (int g = 0; g < metadata->num_row_groups(); ++g) {
    const auto group = file->RowGroup(g);
    const std::int64_t rows = group->metadata()->num_rows();
    if (rows < 0 || rows > kMaxRows - static_cast<std::int64_t>(rows_before)) {
      throw parquet::ParquetException("implausible row count");
    }
    for (std::size_t c = 0; c < indices.size(); ++c) {
      ReadColumn(*group, indices[c], *schema.Column(indices[c]), rows, rows_before, out.columns[c]);
    }
    rows_before += static_cast<std::size_t>(rows);
  }
  if (rows_before != static_cast<std::size_t>(metadata->num_rows())) {
    throw parquet::ParquetException("row groups do not add up to the file's row count");
  }
  out.num_rows = rows_before;
  for (ParquetColumn& column : out.columns) {
    if (!column.nulls.empty()) column.nulls.resize(out.num_rows, false);
    if (column.type == ParquetColumn::Type::kText && column.dictionary.empty()) {
      column.dictionary.emplace_back();  // so that the code of a null cell is valid
    }
  }
  return out;
}

}  // namespace

const ParquetColumn* ParquetColumns::Find(std::string_view name) const {
  for (const ParquetColumn& column : columns) {
    if (column.name == name) return &column;
  }
  return nullptr;
}

Result<ParquetColumns> ReadParquet(const std::string& path,
                                   std::span<const std::string_view> wanted) {
  {
    std::ifstream in(path, std::ios::binary);
    char head[kLfsMagic.size()] = {};
    in.read(head, sizeof(head));
    if (!in && in.gcount() == 0 && !in.eof()) {
      return Fail(ErrorKind::kIo, fmt::format("I/O error at {}: cannot be opened", path));
    }
    if (std::string_view(head, static_cast<std::size_t>(in.gcount())) == kLfsMagic) {
      return Fail(
          ErrorKind::kPerfDatabase,
          fmt::format("{} is an unresolved git-lfs pointer, not data: run git lfs pull", path));
    }
  }
  try {
    return Decode(path, wanted);
  } catch (const std::exception& e) {
    return Fail(ErrorKind::kParquet, fmt::format("Parquet error at {}: {}", path, e.what()));
  } catch (...) {
    return Fail(ErrorKind::kParquet, fmt::format("Parquet error at {}: cannot be decoded", path));
  }
}

}  // namespace infercast
