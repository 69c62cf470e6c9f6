// Prints summaries and rows of measured tables, a thin layer over tables/introspection.h.
#include "cli/data_tables_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/database_flags.h"
#include "cli/deployment_flags.h"
#include "report/csv.h"
#include "tables/introspection.h"

namespace infercast {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Result<Database> OpenDatabase(const DatabaseFlags& flags, const CliContext& context) {
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  IC_ASSIGN(const SystemsCatalog::OpenRequest request, flags.Request(context));
  return around.systems.Open(request);
}

// What a level spans: "m 1..65536 (40 values)", or the values themselves where they are few.
std::string Span(const LevelSummary& level) {
  constexpr std::size_t kFewTexts = 8;
  constexpr std::size_t kFewNumbers = 6;
  if (level.is_text) {
    if (level.texts.size() > kFewTexts) {
      return fmt::format("{} {} values", level.name, level.texts.size());
    }
    return fmt::format("{} {}", level.name, fmt::join(level.texts, "|"));
  }
  if (level.values.empty()) return level.name;
  if (level.values.size() == 1) return fmt::format("{} {}", level.name, level.values.front());
  if (!level.is_axis && level.values.size() <= kFewNumbers) {
    return fmt::format("{} {}", level.name, fmt::join(level.values, "|"));
  }
  return fmt::format("{} {}..{} ({} values)", level.name, level.values.front(), level.values.back(),
                     level.values.size());
}

std::string Spans(const TableSummary& table, bool axes, const char* separator) {
  std::vector<std::string> spans;
  for (const LevelSummary& level : table.levels) {
    if (level.is_axis == axes) spans.push_back(Span(level));
  }
  return fmt::format("{}", fmt::join(spans, separator));
}

std::string SourcesText(const TableSummary& table) {
  std::vector<std::string> sources;
  for (const auto& [source, points] : table.sources) {
    sources.push_back(
        fmt::format("{} {} ({} rows)", source.version, ToString(source.channel), points));
  }
  return fmt::format("{}", fmt::join(sources, "; "));
}

Json LevelJson(const LevelSummary& level) {
  Json json = {{"name", level.name}};
  if (level.is_text) {
    json["values"] = level.texts;
  } else {
    json["count"] = level.values.size();
    if (!level.values.empty()) {
      json["min"] = level.values.front();
      json["max"] = level.values.back();
    }
    json["values"] = level.values;
  }
  return json;
}

Json SourceJson(const TableSource& source) {
  Json json = {
      {"version", source.version}, {"channel", ToString(source.channel)}, {"path", source.path}};
  if (source.kernel_filter) json["kernels"] = *source.kernel_filter;
  return json;
}

Json TableJson(const TableSummary& table) {
  Json json = {{"table", table.name}, {"file", table.file}, {"rows", table.points}};
  if (table.corrupt) {
    json["damaged"] = table.problem;
    return json;
  }
  Json keys = Json::array();
  Json axes = Json::array();
  for (const LevelSummary& level : table.levels) {
    (level.is_axis ? axes : keys).push_back(LevelJson(level));
  }
  Json sources = Json::array();
  for (const auto& [source, points] : table.sources) {
    Json one = SourceJson(source);
    one["rows"] = points;
    sources.push_back(std::move(one));
  }
  json["has_power"] = table.has_power;
  json["quant_modes"] = table.quant_modes;
  json["keys"] = std::move(keys);
  json["axes"] = std::move(axes);
  json["sources"] = std::move(sources);
  return json;
}

Json Heading(const Database& db) {
  return {{"system", db.store().identity().system},
          {"backend", ToString(db.backend())},
          {"backend_version", db.store().identity().version}};
}

std::string TableText(const TableSummary& table) {
  if (table.corrupt) {
    return fmt::format("\n{}: damaged\n  {}\n", table.name, table.problem);
  }
  std::string text = fmt::format("\n{}: {} rows{}, file {}\n", table.name, table.points,
                                 table.has_power ? " with power" : "", table.file);
  if (!table.quant_modes.empty()) {
    text += fmt::format("  quant modes  {}\n", fmt::join(table.quant_modes, ", "));
  }
  if (const std::string keys = Spans(table, false, ", "); !keys.empty()) {
    text += fmt::format("  keys         {}\n", keys);
  }
  text += fmt::format("  axes         {}\n", Spans(table, true, ", "));
  text += fmt::format("  sources      {}\n", SourcesText(table));
  return text;
}

Result<int> ListAll(const DatabaseFlags& flags, const CliContext& context) {
  IC_ASSIGN(const Database db, OpenDatabase(flags, context));
  const std::vector<TableSummary> tables = ListTables(db.store());
  if (context.json) {
    Json json = Heading(db);
    json["tables"] = Json::array();
    for (const TableSummary& table : tables) json["tables"].push_back(TableJson(table));
    context.Print(Dump(json, 2) + "\n");
    return kExitAnswer;
  }
  if (context.csv) {
    std::string text = CsvLine(
        {"table", "file", "rows", "power", "quant_modes", "keys", "axes", "sources", "problem"});
    for (const TableSummary& table : tables) {
      text += CsvLine(
          {table.name, table.file, fmt::format("{}", table.points), table.has_power ? "yes" : "no",
           fmt::format("{}", fmt::join(table.quant_modes, ";")), Spans(table, false, ";"),
           Spans(table, true, ";"), SourcesText(table), table.problem});
    }
    context.Print(text);
    return kExitAnswer;
  }
  std::size_t rows = 0;
  for (const TableSummary& table : tables) rows += table.points;
  const DatabaseIdentity& identity = db.store().identity();
  std::string text =
      fmt::format("{} on {}, version {}: {} tables, {} rows\n", ToString(identity.backend),
                  identity.system, identity.version, tables.size(), rows);
  for (const TableSummary& table : tables) text += TableText(table);
  context.Print(text);
  return kExitAnswer;
}

struct ShowFlags {
  DatabaseFlags database;
  std::string table;
  std::string parquet;
  std::optional<std::uint64_t> limit;
};

// Column names of the rows of a table: its levels, what was measured, and where that comes from.
std::vector<std::string> Columns(const Table& table, bool has_power) {
  std::vector<std::string> columns;
  for (const TableLevel& level : table.levels) columns.push_back(level.name);
  columns.emplace_back("latency_ms");
  if (has_power) {
    columns.emplace_back("power_w");
    columns.emplace_back("energy_wms");
  }
  columns.emplace_back("source_version");
  columns.emplace_back("source_channel");
  return columns;
}

std::vector<std::string> TextRow(const Table& table, bool has_power, std::span<const RowCell> cells,
                                 std::uint32_t leaf) {
  std::vector<std::string> row;
  for (const RowCell& cell : cells) {
    row.push_back(cell.text != nullptr ? *cell.text : fmt::format("{}", cell.number));
  }
  row.push_back(fmt::format("{}", table.latency[leaf]));
  if (has_power) {
    row.push_back(fmt::format("{}", table.power[leaf]));
    row.push_back(fmt::format("{}", table.energy[leaf]));
  }
  const TableSource& source = table.sources[table.source[leaf]];
  row.push_back(source.version);
  row.emplace_back(ToString(source.channel));
  return row;
}

Json Number(double value) {
  // Keys are doubles, yet nearly all of them are counts: 4096 reads better than 4096.0.
  constexpr double kExact = 0x1p53;
  if (std::fabs(value) < kExact && value == std::floor(value)) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

Json JsonRow(const Table& table, bool has_power, std::span<const RowCell> cells,
             std::uint32_t leaf) {
  Json row = Json::object();
  for (std::size_t i = 0; i < cells.size(); ++i) {
    row[table.levels[i].name] =
        cells[i].text != nullptr ? Json(*cells[i].text) : Number(cells[i].number);
  }
  row["latency_ms"] = table.latency[leaf];
  if (has_power) {
    row["power_w"] = table.power[leaf];
    row["energy_wms"] = table.energy[leaf];
  }
  const TableSource& source = table.sources[table.source[leaf]];
  row["source_version"] = source.version;
  row["source_channel"] = ToString(source.channel);
  return row;
}

// Rows aligned in columns; numbers to the right.
std::string Aligned(const std::vector<std::vector<std::string>>& rows,
                    const std::vector<bool>& is_text) {
  std::vector<std::size_t> width(is_text.size(), 0);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i > 0 ? "  " : "";
      line += is_text[i] ? fmt::format("{:<{}}", row[i], width[i])
                         : fmt::format("{:>{}}", row[i], width[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

void PrintJsonRows(const Database& db, TableId id, const Table& table, bool has_power,
                   std::uint64_t limit, const CliContext& context) {
  // Row by row: a large table as one JSON value would need many times its size.
  Json heading = Heading(db);
  heading["table"] = TableName(id);
  heading["total_rows"] = table.num_leaves();
  std::string text = Dump(heading, -1);
  text.back() = ',';
  text += "\"rows\":[";
  std::uint64_t printed = 0;
  VisitRows(table, [&](std::span<const RowCell> cells, std::uint32_t leaf) {
    if (printed == limit) return false;
    text += printed++ == 0 ? "\n" : ",\n";
    text += Dump(JsonRow(table, has_power, cells, leaf), -1);
    constexpr std::size_t kFlushAt = std::size_t{1} << 16;
    if (text.size() > kFlushAt) {
      context.Print(text);
      text.clear();
    }
    return true;
  });
  context.Print(text + "\n]}\n");
}

void PrintCsvRows(const Table& table, bool has_power, std::uint64_t limit,
                  const CliContext& context) {
  context.Print(CsvLine(Columns(table, has_power)));
  std::uint64_t printed = 0;
  VisitRows(table, [&](std::span<const RowCell> cells, std::uint32_t leaf) {
    if (printed == limit) return false;
    ++printed;
    context.Print(CsvLine(TextRow(table, has_power, cells, leaf)));
    return true;
  });
}

void PrintTextRows(const Table& table, bool has_power, std::uint64_t limit,
                   const CliContext& context) {
  std::vector<std::vector<std::string>> rows = {Columns(table, has_power)};
  std::vector<bool> is_text(rows.front().size(), false);
  for (std::size_t i = 0; i < table.levels.size(); ++i) is_text[i] = table.levels[i].is_text;
  is_text[is_text.size() - 2] = is_text[is_text.size() - 1] = true;
  VisitRows(table, [&](std::span<const RowCell> cells, std::uint32_t leaf) {
    if (rows.size() > limit) return false;
    rows.push_back(TextRow(table, has_power, cells, leaf));
    return true;
  });
  context.Print(Aligned(rows, is_text));
  const std::size_t printed = rows.size() - 1;
  if (printed < table.num_leaves()) {
    context.Note(fmt::format("{} of {} rows; --limit N prints more, --csv and --json all", printed,
                             table.num_leaves()));
  }
}

Result<int> Show(const ShowFlags& flags, const CliContext& context) {
  constexpr std::uint64_t kTextRows = 40;
  if (!flags.parquet.empty() && (context.csv || flags.limit)) {
    return Fail(ErrorKind::kUsage,
                "--parquet writes all rows: it goes with neither --csv nor "
                "--limit");
  }
  IC_ASSIGN(const TableId id, ParseTableName(flags.table));
  IC_ASSIGN(const Database db, OpenDatabase(flags.database, context));
  IC_ASSIGN(const Table* const found, db.Get(id));
  const Table& table = *found;
  if (table.num_leaves() == 0) {
    const DatabaseIdentity& identity = db.store().identity();
    return Fail(ErrorKind::kPerfDatabase,
                fmt::format("{} was not measured for {} {} on {}", TableName(id),
                            ToString(identity.backend), identity.version, identity.system));
  }
  if (!flags.parquet.empty()) {
    IC_RETURN_IF_ERROR(WriteTableParquet(table, flags.parquet));
    if (context.json) {
      Json json = Heading(db);
      json["table"] = TableName(id);
      json["total_rows"] = table.num_leaves();
      json["file"] = flags.parquet;
      context.Print(Dump(json, 2) + "\n");
    } else {
      context.Print(fmt::format("Wrote {} rows to {}\n", table.num_leaves(), flags.parquet));
    }
    return kExitAnswer;
  }
  const bool has_power =
      std::any_of(table.power.begin(), table.power.end(), [](double power) { return power != 0; });
  if (context.json) {
    PrintJsonRows(db, id, table, has_power, flags.limit.value_or(table.num_leaves()), context);
  } else if (context.csv) {
    PrintCsvRows(table, has_power, flags.limit.value_or(table.num_leaves()), context);
  } else {
    PrintTextRows(table, has_power, flags.limit.value_or(kTextRows), context);
  }
  return kExitAnswer;
}

}  // namespace

void AddDataTablesCommands(CLI::App& data, CliContext& context) {
  CLI::App& tables = *data.add_subcommand("tables", "What is measured for a backend on a system");
  auto list_flags = std::make_shared<DatabaseFlags>();
  list_flags->Declare(tables);
  OnRun(tables, context, [&context, list_flags] { return ListAll(*list_flags, context); });

  CLI::App& show = *data.add_subcommand("show", "The measured rows of a table");
  auto show_flags = std::make_shared<ShowFlags>();
  show.add_option("table", show_flags->table, "Name of the table, as `data tables` lists it")
      ->required()
      ->option_text("TABLE");
  show_flags->database.Declare(show);
  show.add_option("--limit", show_flags->limit,
                  "Rows to print (default: 40 as text, all as CSV or JSON)")
      ->option_text("N");
  show.add_option("--parquet", show_flags->parquet, "Write all rows to this Parquet file")
      ->option_text("FILE");
  OnRun(show, context, [&context, show_flags] { return Show(*show_flags, context); });
}

}  // namespace infercast
