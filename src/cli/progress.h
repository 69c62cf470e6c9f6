// Progress of long work on standard error: a line that is redrawn on a terminal, nothing in a pipe.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "cli/cli_context.h"

namespace infercast {

class ProgressLine {
 public:
  // Silent with --quiet, or when the context's `err` is not a terminal.
  explicit ProgressLine(const CliContext& context);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool visible() const { return visible_; }

  // Redraws at most ten times a second, always at done == total. `unit` follows the figures; with
  // total 0 only the text is shown.
  void Update(std::string_view text, std::uint64_t done, std::uint64_t total,
              std::string_view unit);

  // Wipes the line; the destructor does it too.
  void Clear();

 private:
  std::FILE* stream_;
  bool visible_;
  bool drawn_ = false;
  std::string last_text_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace infercast
