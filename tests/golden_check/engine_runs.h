// Runs of a whole engine as golden cases describe them.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/engine.h"
#include "golden_check/comparer.h"

namespace infercast::golden {

// One entry of `runs`: asks the engine and compares answer or error.
void CheckRun(const nlohmann::json& run, const Engine& engine, Comparer& compare);

// `expected` is an error where the run has one; else every value of the run counts as missed.
void CheckRunFailed(const nlohmann::json& run, const Error& error, Comparer& compare);

// Name and arguments of a run, for reports.
std::string DescribeRun(const nlohmann::json& run);

}  // namespace infercast::golden
