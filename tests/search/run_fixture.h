// The measured data as tests of whole runs use it.
#pragma once

#include <memory>
#include <string>

#include "models/checkpoint.h"
#include "search/workbench.h"
#include "tables/measured_data.h"
#include "tables/systems_paths.h"
#include "tables/versions.h"

namespace infercast::testing {

struct MeasuredSystems {
  SystemsCatalog systems;
  CheckpointSearch checkpoints;

  // Null on a machine without the data package.
  static std::unique_ptr<MeasuredSystems> Find() {
    const auto root = SystemsRoot();
    if (!root) return nullptr;
    return std::unique_ptr<MeasuredSystems>(
        new MeasuredSystems{SystemsCatalog({*root}), {ModelConfigPaths({*root})}});
  }
};

}  // namespace infercast::testing
