#include "cli/ops_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files.h"
#include "cli/database_flags.h"
#include "cli/deployment_flags.h"
#include "engine/op_lists.h"
#include "engine/spec_json.h"

namespace infercast {

namespace {

using nlohmann::ordered_json;

struct OpsFlags {
  DatabaseFlags database;
  std::string file;
  std::string phase = "context";
  std::int64_t batch = 1;
  std::int64_t s = 1;
  std::int64_t prefix = 0;
  std::optional<std::int64_t> x;
  bool roofline = false;
};

// One {"Kind": {...}} object or an array of them.
Result<std::vector<Operator>> ReadOperators(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '[') return ParseOperatorListJson(text);
  IC_ASSIGN(Operator op, ParseOperatorJson(text));
  std::vector<Operator> ops;
  ops.push_back(std::move(op));
  return ops;
}

Result<std::uint32_t> Size(const char* name, std::int64_t value, std::int64_t low) {
  if (value < low || value > std::int64_t{0xffffffff}) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} is {}: expected {} to 4294967295", name, value, low));
  }
  return static_cast<std::uint32_t>(value);
}

Result<int> Run(const OpsFlags& flags, CliContext& context) {
  if (flags.phase != "context" && flags.phase != "generation") {
    return Fail(ErrorKind::kUsage,
                fmt::format("unknown --phase '{}': use context or generation", flags.phase));
  }
  OpListQuery query;
  query.is_context = flags.phase == "context";
  IC_ASSIGN(query.batch_size, Size("--batch-size", flags.batch, 1));
  IC_ASSIGN(query.s, Size("--s", flags.s, 0));
  IC_ASSIGN(query.prefix, Size("--prefix", flags.prefix, 0));
  if (flags.x) {
    IC_ASSIGN(query.x, Size("--x", *flags.x, 0));
  }
  IC_ASSIGN(const std::string text,
            flags.file == "-" ? ReadStandardInput() : ReadTextFile(flags.file));
  IC_ASSIGN(const std::vector<Operator> ops, ReadOperators(text));
  IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
  IC_ASSIGN(const SystemsCatalog::OpenRequest request, flags.database.Request(context));
  IC_ASSIGN(const Database db, around.systems.Open(request));

  const std::vector<BoundOperator> bound =
      flags.roofline ? BindRooflines(ops, db) : BindOps(ops, db);
  IC_ASSIGN(const Breakdown answer,
            flags.roofline ? DecomposeOps(bound, query) : EvaluateOps(bound, query));
  ordered_json list = ordered_json::array();
  std::string table = flags.roofline ? fmt::format("{:<36} {:>14} {:>14} {:>14}\n", "operator",
                                                   "sol ms", "math ms", "memory ms")
                                     : fmt::format("{:<36} {:>14} {:>14}  {:<10} {}\n", "operator",
                                                   "ms", "W*ms", "source", "from");
  if (context.csv) {
    table = flags.roofline ? "name,sol_ms,sol_math_ms,sol_mem_ms\n"
                           : "name,latency_ms,energy_wms,source,origin\n";
  }
  for (const OpEntry& e : answer.entries) {
    if (flags.roofline) {
      list.push_back({{"name", e.name},
                      {"sol_ms", e.sol_ms},
                      {"sol_math_ms", e.sol_math_ms},
                      {"sol_mem_ms", e.sol_mem_ms}});
      table += context.csv
                   ? fmt::format("{},{},{},{}\n", e.name, e.sol_ms, e.sol_math_ms, e.sol_mem_ms)
                   : fmt::format("{:<36} {:>14.6f} {:>14.6f} {:>14.6f}\n", e.name, e.sol_ms,
                                 e.sol_math_ms, e.sol_mem_ms);
      continue;
    }
    ordered_json op = {{"name", e.name},
                       {"latency_ms", e.latency_ms},
                       {"energy_wms", e.energy_wms},
                       {"source", ToString(e.source)},
                       {"origin", ToString(e.origin.kind)},
                       {"octaves_beyond_measurements", e.origin.octaves}};
    if (e.tier != Tier::kSilicon) op["estimation_tier"] = ToString(e.tier);
    if (e.origin.source != nullptr) {
      op["measured_in"] = {{"version", e.origin.source->version},
                           {"channel", ToString(e.origin.source->channel)}};
    }
    list.push_back(std::move(op));
    table += context.csv
                 ? fmt::format("{},{},{},{},{}\n", e.name, e.latency_ms, e.energy_wms,
                               ToString(e.source), ToString(e.origin.kind))
                 : fmt::format("{:<36} {:>14.6f} {:>14.4f}  {:<10} {}\n", e.name, e.latency_ms,
                               e.energy_wms, ToString(e.source), ToString(e.origin.kind));
  }
  if (context.json) {
    const ordered_json json = {{"system", request.system},
                               {"backend", ToString(request.backend)},
                               {"backend_version", db.store().identity().version},
                               {"database_mode", ToString(db.mode())},
                               {"phase", flags.phase},
                               {"operators", std::move(list)}};
    context.Print(json.dump(2) + "\n");
  } else {
    context.Print(table);
  }
  return kExitAnswer;
}

}  // namespace

void AddOpsCommand(CLI::App& app, CliContext& context) {
  CLI::App& ops = *app.add_subcommand("ops", "Single operators");
  ops.require_subcommand(1);
  CLI::App& query = *ops.add_subcommand(
      "query", "Price operators: {\"Gemm\": {...}} or an array of such objects");
  auto flags = std::make_shared<OpsFlags>();
  query.add_option("file", flags->file, "JSON file with the operators; - reads standard input")
      ->required();
  flags->database.Declare(query);
  query.add_option("--phase", flags->phase, "context (prefill) or generation (decode)")
      ->capture_default_str();
  query.add_option("--batch-size,--bs", flags->batch, "Requests per rank")->capture_default_str();
  query.add_option("--s", flags->s, "New tokens per request; KV length in generation")
      ->capture_default_str();
  query.add_option("--prefix", flags->prefix, "Cached tokens per request")->capture_default_str();
  query.add_option("--x", flags->x, "Tokens of the step (default: follows from the batch)");
  query.add_flag("--roofline", flags->roofline, "Speed of light, split into math and memory");
  OnRun(query, context, [flags, &context] { return Run(*flags, context); });
}

}  // namespace infercast
