// Our own build of a golden engine's model: description and memory against the recorded ones.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "engine/engine_spec.h"
#include "golden_check/comparer.h"
#include "golden_check/environment.h"
#include "golden_check/outcome.h"
#include "models/model_plan.h"

namespace infercast::golden {

struct BuiltModel {
  ModelPlan plan;
  EngineSpec spec;
  Database database;
};

// Builds the model that `document` names, with its configuration, against its database.
Result<BuiltModel> BuildGoldenModel(const nlohmann::json& document, Environment& environment);

// The compiled description, or the error that the build must end in; the number formats too.
void CheckBuiltSpec(const nlohmann::json& document, const Result<BuiltModel>& built,
                    Comparer& compare);

// Memory by part, KV bytes per sequence, and capacity: one outcome each.
void CheckBuiltMemory(const nlohmann::json& document, const Result<BuiltModel>& built,
                      Environment& environment, std::vector<Outcome>& outcomes);

}  // namespace infercast::golden
