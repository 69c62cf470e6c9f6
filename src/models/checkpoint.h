// From what a user types to a checkpoint's configuration: a local directory, a config.json, a name
// of the bundled collection, also under its common other spellings, or a repository of a model hub.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/hub.h"
#include "models/model_config.h"

namespace infercast {

struct CheckpointSearch {
  // Folders with bundled configurations (`<org>--<model>_config.json`), in order of precedence; see
  // ModelConfigPaths in tables/systems_paths.h for those of this machine.
  std::vector<std::filesystem::path> config_dirs;
  UnlistedArchitecture unlisted = UnlistedArchitecture::kReject;
  // Keep what was parsed for the life of the process; a changed file is read again all the same.
  bool remember = true;
  std::optional<HubOptions> hub =
      std::nullopt;  // where names that are not bundled are looked up; none: nowhere
};

// Reads, merges and parses. A directory counts before a file and a file before a name. kUnknownName
// (listing near names) when nothing of that name is here or on the hub; kModelConfig when a
// configuration is missing in a directory, malformed or incomplete; kIo when a file cannot be read
// and kNetwork when the hub cannot; kUnsupportedModel when no family builds the architecture.
Result<ModelConfig> LoadModelConfig(std::string_view name, const CheckpointSearch& search);

// The merged configuration as it is, whatever its architecture. Errors as above, save
// kUnsupportedModel.
Result<JsonDocument> LoadCheckpointDocument(std::string_view name, const CheckpointSearch& search);

// "organisation/model" of every bundled configuration, sorted.
std::vector<std::string> BundledModels(const CheckpointSearch& search);

// The bundled name that `name` is another spelling of (case, a "Meta-" more or less, no
// organisation ...), or empty.
std::string ResolveSpelling(std::string_view name, const std::vector<std::string>& bundled);

// The few of `names` that look most like `name`, nearest first.
std::vector<std::string> NearModelNames(std::string_view name,
                                        const std::vector<std::string>& names);

// Merges a checkpoint's separate quantisation file into its configuration and promotes the
// quantisation part of a nested language model, as serving engines do on load.
void MergeQuantisation(JsonDocument& config, std::optional<JsonDocument> hf_quant_config);

// Merges, attaches and parses the texts of a config.json and (may be empty) an
// hf_quant_config.json.
Result<ModelConfig> ParseCheckpoint(std::string name, std::string_view config_text,
                                    std::string_view hf_quant_text = {},
                                    UnlistedArchitecture unlisted = UnlistedArchitecture::kReject);

}  // namespace infercast
