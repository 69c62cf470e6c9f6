// The support matrix that comes with the measured data (what its publishers found their own tool to
// answer), and how our computed answers differ from it, by kind of difference.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "search/support.h"

namespace infercast {

struct PublishedSupport {
  SupportQuestion question;  // with the version and the number of GPUs that were tried
  ServingMode mode = ServingMode::kAggregated;
  std::string status;  // "PASS", "HYBRID_PASS", "FAIL", "HW_INCOMPATIBLE", ...
  std::string error;   // last line of what went wrong

  bool measured() const { return status == "PASS"; }
  bool estimated() const { return status == "HYBRID_PASS"; }
};

// All rows of the support_matrix folder of a tree of systems, files in order of their names. Empty
// where there is no such folder; kIo, kCorruptData for a table that cannot be read.
Result<std::vector<PublishedSupport>> ReadPublishedSupport(
    const std::filesystem::path& systems_root);
// Rows of one table; `name` is shown in messages. Systems, models or backends that are not known
// here are kept out of the result.
Result<std::vector<PublishedSupport>> ParsePublishedSupport(std::string_view csv,
                                                            const std::string& name);

// Texts that differ in numbers and names only become one: what is quoted and every number is left
// out.
std::string GeneralForm(std::string_view message);

struct SupportComparison {
  std::size_t rows = 0;  // compared
  std::size_t published_pass = 0;
  std::size_t agreed = 0;
  std::size_t agreed_pass = 0;  // of published_pass: measured here too
  std::size_t not_asked = 0;    // rows without an answer
  struct Difference {
    std::string kind;  // "published as PASS, not answered here: <why>"
    std::size_t count = 0;
    std::string example;  // "Qwen/Qwen3-8B h200_sxm trtllm 1.3.0rc20 agg"
  };
  std::vector<Difference> differences;  // most frequent first
};

SupportComparison CompareSupport(std::span<const PublishedSupport> published,
                                 std::span<const SupportAnswer> answers);

}  // namespace infercast
