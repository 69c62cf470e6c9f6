// A redrawn progress line.
#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

namespace infercast {
namespace {

constexpr std::chrono::milliseconds kInterval{100};
constexpr std::size_t kBarWidth = 24;

}  // namespace

ProgressLine::ProgressLine(const CliContext& context)
    : stream_(context.err), visible_(!context.quiet && isatty(fileno(context.err)) == 1) {}

ProgressLine::~ProgressLine() { Clear(); }

void ProgressLine::Update(std::string_view text, std::uint64_t done, std::uint64_t total,
                          std::string_view unit) {
  if (!visible_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && text == last_text_ && done != total && now - last_ < kInterval) return;
  last_ = now;
  last_text_ = text;
  drawn_ = true;
  if (total == 0) {
    fmt::print(stream_, "\r\x1b[K{}", text);
  } else {
    const std::size_t filled = static_cast<std::size_t>(
        static_cast<double>(kBarWidth) * static_cast<double>(done) / static_cast<double>(total));
    fmt::print(stream_, "\r\x1b[K{} [{}{}] {}/{} {}", text, std::string(filled, '#'),
               std::string(kBarWidth - filled, '.'), done, total, unit);
  }
  std::fflush(stream_);
}

void ProgressLine::Clear() {
  if (!drawn_) return;
  fmt::print(stream_, "\r\x1b[K");
  std::fflush(stream_);
  drawn_ = false;
}

}  // namespace infercast
