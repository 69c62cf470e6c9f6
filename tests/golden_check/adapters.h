// One adapter per kind of case: runs one document of a file and answers with its outcomes.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "golden_check/environment.h"
#include "golden_check/outcome.h"

namespace infercast::golden {

using Adapter = std::vector<Outcome> (*)(const nlohmann::json& document, Environment& environment);

std::vector<Outcome> RunOperatorCase(const nlohmann::json& document, Environment& environment);
std::vector<Outcome> RunEngineCase(const nlohmann::json& document, Environment& environment);
std::vector<Outcome> RunToyEngineCase(const nlohmann::json& document, Environment& environment);
std::vector<Outcome> RunOnlineCase(const nlohmann::json& document, Environment& environment);
std::vector<Outcome> RunKvCase(const nlohmann::json& document, Environment& environment);
std::vector<Outcome> RunAppCase(const nlohmann::json& document, Environment& environment);
std::vector<Outcome> RunOracleFile(const nlohmann::json& document, Environment& environment);
std::vector<Outcome> RunDeployCase(const nlohmann::json& document, Environment& environment);
std::vector<Outcome> RunSimulationFile(const nlohmann::json& document, Environment& environment);

// The adapter for a document, told by its content; null when it is data but no case (with
// `is_data`), or nothing we know.
Adapter AdapterFor(const nlohmann::json& document, bool& is_data);

}  // namespace infercast::golden
