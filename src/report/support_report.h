// Answers about support as people and programs read them: one model on one system in words, many as
// a matrix of models and systems.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "report/table.h"
#include "search/support.h"
#include "search/support_matrix.h"

namespace infercast {

// In words: for each backend and serving mode whether and how it answers, or what is missing.
std::string SupportText(std::span<const SupportAnswer> answers);

// Models down, systems across; a cell has a letter of each backend: T, S, V (trtllm, sglang, vllm).
// Capital: measured in both modes; small: with estimates; "1": one of the two modes only; "-": no.
std::string SupportMatrixText(std::span<const SupportAnswer> answers);

// One row per answer and serving mode.
ResultTable SupportTable(std::span<const SupportAnswer> answers);

std::string ComparisonText(const SupportComparison& comparison);

// {"answers": [...], "comparison": {...} | null}
std::string SupportJson(std::span<const SupportAnswer> answers,
                        const std::optional<SupportComparison>& comparison);

}  // namespace infercast
