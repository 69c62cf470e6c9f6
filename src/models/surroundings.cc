// Opening them from the environment.
#include "models/surroundings.h"

#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "models/hub.h"
#include "tables/systems_paths.h"

namespace infercast {

Result<Surroundings> OpenSurroundings(std::optional<std::string_view> systems_paths,
                                      Behaviour behaviour) {
  IC_ASSIGN(std::vector<std::filesystem::path> roots, ResolveSystemsPaths(systems_paths));
  CheckpointSearch checkpoints;
  if (behaviour == Behaviour::kNative) checkpoints.unlisted = UnlistedArchitecture::kMap;
  if (Result<HubOptions> hub = HubOptionsFromEnvironment()) checkpoints.hub = *std::move(hub);
  for (const char* name : {"INFERCAST_MODEL_CONFIGS_PATH", "AICONFIGURATOR_MODEL_CONFIGS_PATH"}) {
    if (const char* dir = std::getenv(name); dir != nullptr && *dir != 0) {
      checkpoints.config_dirs.emplace_back(dir);
    }
  }
  for (std::filesystem::path& dir : ModelConfigPaths(roots)) {
    checkpoints.config_dirs.push_back(std::move(dir));
  }
  return Surroundings{SystemsCatalog(std::move(roots)), std::move(checkpoints)};
}

}  // namespace infercast
