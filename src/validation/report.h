// A validation as people and programs read it: a table, CSV of the rows, JSON, a page of scatter
// plots.
#pragma once

#include <span>
#include <string>

#include "validation/validation.h"

namespace infercast {

// What headline figures count: aggregated deployments where there are any (else disaggregated
// ones), each measurement once, rows that speculate in secret left out.
ScoreScope HeadlineScope(std::span<const ValidatedRow> rows);

std::string ValidationText(std::span<const ValidatedRow> rows);
// One line per row of the file.
std::string ValidationCsv(std::span<const ValidatedRow> rows);
// Members: overall, scope, by (dimension -> list), scopes (other ways to count), points.
std::string ValidationJson(std::span<const ValidatedRow> rows, const std::string& file);
// A self-contained page.
std::string ValidationHtml(std::span<const ValidatedRow> rows, const std::string& file);

}  // namespace infercast
