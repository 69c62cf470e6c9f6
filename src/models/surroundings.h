// What every entry to the library sees of the machine it runs on: the systems with their
// measurements, and where model names are looked up. The program, the C++ and C interfaces and
// Python open the same, so that a name means the same model everywhere.
#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/modes.h"
#include "models/checkpoint.h"
#include "tables/versions.h"

namespace infercast {

struct Surroundings {
  SystemsCatalog systems;
  CheckpointSearch checkpoints;
};

// `systems_paths`: see ResolveSystemsPaths. Models are looked up in $INFERCAST_MODEL_CONFIGS_PATH
// (and its older name), beside the systems and in the data package, then on the hub that the
// environment names (HubOptionsFromEnvironment; nowhere when there is no cache directory).
// Architectures that no family lists are mapped to a generic builder, with notes, save in reference
// behaviour. kDataRoot when the data package is needed and has not been fetched.
Result<Surroundings> OpenSurroundings(std::optional<std::string_view> systems_paths,
                                      Behaviour behaviour);

}  // namespace infercast
