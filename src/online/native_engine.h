// An engine from an engine's identity alone: the model is looked up, built for the layout and
// number formats that the identity names, and bound to its measurements.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "engine/engine.h"
#include "engine/engine_spec.h"

namespace infercast {

// `systems_roots`: where measurements and model configurations are (the identity's own systems path
// is the caller's business). kUnsupportedModel when there is no such model, version or layout; kIo
// for an unknown system; errors of opening the data and of binding as they are.
Result<std::shared_ptr<const Engine>> BuildNativeEngine(
    const EngineConfig& config, const std::vector<std::filesystem::path>& systems_roots,
    Behaviour behaviour);

}  // namespace infercast
