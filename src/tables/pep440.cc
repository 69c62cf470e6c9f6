// The grammar and order of PEP 440, written as a small hand-made scanner.
#include "tables/pep440.h"

#include <array>
#include <cctype>

namespace infercast {
namespace {

// Walks lower-cased text.
class Scanner {
 public:
  explicit Scanner(std::string text) : text_(std::move(text)) {}
  bool done() const { return at_ == text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  bool Take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool Take(std::string_view word) {
    if (std::string_view(text_).substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  bool TakeSeparator() { return Take('.') || Take('-') || Take('_'); }
  std::optional<std::uint64_t> Number() {
    if (!std::isdigit(static_cast<unsigned char>(peek()))) return std::nullopt;
    std::uint64_t value = 0;
    while (std::isdigit(static_cast<unsigned char>(peek()))) {
      const std::uint64_t digit = static_cast<std::uint64_t>(peek() - '0');
      value = value > (UINT64_MAX - digit) / 10 ? UINT64_MAX : value * 10 + digit;
      ++at_;
    }
    return value;
  }
  std::size_t mark() const { return at_; }
  void Rewind(std::size_t mark) { at_ = mark; }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

struct PreWord {
  std::string_view word;
  int kind;
};
// Longer spellings first, so that "alpha" is not read as "a".
constexpr std::array<PreWord, 8> kPreWords = {{{"alpha", 0},
                                               {"a", 0},
                                               {"beta", 1},
                                               {"b", 1},
                                               {"preview", 2},
                                               {"pre", 2},
                                               {"rc", 2},
                                               {"c", 2}}};

}  // namespace

std::optional<Pep440> Pep440::Parse(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  Scanner scan(std::move(lower));
  Pep440 version;

  scan.Take('v');
  auto number = scan.Number();
  if (!number) return std::nullopt;
  if (scan.Take('!')) {
    version.epoch_ = *number;
    number = scan.Number();
    if (!number) return std::nullopt;
  }
  version.release_.push_back(*number);
  while (true) {
    const std::size_t mark = scan.mark();
    if (!scan.Take('.')) break;
    number = scan.Number();
    if (!number) {
      scan.Rewind(mark);
      break;
    }
    version.release_.push_back(*number);
  }
  while (version.release_.size() > 1 && version.release_.back() == 0) version.release_.pop_back();

  {  // pre-release
    const std::size_t mark = scan.mark();
    scan.TakeSeparator();
    for (const PreWord& pre : kPreWords) {
      if (!scan.Take(pre.word)) continue;
      version.pre_kind_ = pre.kind;
      const std::size_t before = scan.mark();
      scan.TakeSeparator();
      if (const auto n = scan.Number()) {
        version.pre_ = *n;
      } else {
        scan.Rewind(before);
      }
      break;
    }
    if (version.pre_kind_ < 0) scan.Rewind(mark);
  }
  {  // post-release: -N, or [.-_]post|rev|r[.-_][N]
    const std::size_t mark = scan.mark();
    bool found = false;
    if (scan.Take('-')) {
      if (const auto n = scan.Number()) {
        version.post_ = n;
        found = true;
      } else {
        scan.Rewind(mark);
      }
    }
    if (!found) {
      scan.TakeSeparator();
      if (scan.Take("post") || scan.Take("rev") || scan.Take("r")) {
        const std::size_t before = scan.mark();
        scan.TakeSeparator();
        version.post_ = 0;
        if (const auto n = scan.Number()) {
          version.post_ = n;
        } else {
          scan.Rewind(before);
        }
      } else {
        scan.Rewind(mark);
      }
    }
  }
  {  // development release
    const std::size_t mark = scan.mark();
    scan.TakeSeparator();
    if (scan.Take("dev")) {
      const std::size_t before = scan.mark();
      scan.TakeSeparator();
      version.dev_ = 0;
      if (const auto n = scan.Number()) {
        version.dev_ = n;
      } else {
        scan.Rewind(before);
      }
    } else {
      scan.Rewind(mark);
    }
  }
  if (scan.Take('+')) {  // local label
    do {
      std::string part;
      while (std::isalnum(static_cast<unsigned char>(scan.peek()))) {
        part += scan.peek();
        scan.Take(scan.peek());
      }
      if (part.empty()) return std::nullopt;
      Scanner digits(part);
      const auto n = digits.Number();
      if (n && digits.done()) {
        version.local_.emplace_back(*n);
      } else {
        version.local_.emplace_back(std::move(part));
      }
    } while (scan.TakeSeparator());
  }
  if (!scan.done()) return std::nullopt;
  return version;
}

std::strong_ordering Pep440::operator<=>(const Pep440& other) const {
  if (const auto c = epoch_ <=> other.epoch_; c != 0) return c;
  if (const auto c = release_ <=> other.release_; c != 0) return c;
  // A development release of a final version comes before its pre-releases; a final one after.
  const auto pre_rank = [](const Pep440& v) {
    if (v.pre_kind_ >= 0) return v.pre_kind_;
    return !v.post_ && v.dev_ ? -1 : 3;
  };
  if (const auto c = pre_rank(*this) <=> pre_rank(other); c != 0) return c;
  if (const auto c = pre_ <=> other.pre_; c != 0) return c;
  if (const auto c = post_ <=> other.post_; c != 0) return c;  // none sorts first
  if (dev_.has_value() != other.dev_.has_value()) {
    return dev_ ? std::strong_ordering::less : std::strong_ordering::greater;
  }
  if (dev_) {
    if (const auto c = *dev_ <=> *other.dev_; c != 0) return c;
  }
  return local_ <=> other.local_;
}

}  // namespace infercast
