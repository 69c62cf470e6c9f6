// Which bytes are characters: the table of well-formed UTF-8 sequences of the Unicode standard.
#include "base/xml_text.h"

#include <algorithm>
#include <cstddef>

namespace infercast {
namespace {

// Length of the well-formed UTF-8 sequence at `at`; 0 where there is none.
std::size_t Utf8Length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(at);
  const auto tail = [&](std::size_t n) {
    for (std::size_t i = 1; i <= n; ++i) {
      if ((byte(at + i) & 0xC0) != 0x80) return false;
    }
    return true;
  };
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned second = byte(at + 1);
    if (!tail(2) || (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F)) return 0;
    // U+FFFE and U+FFFF are no characters of XML.
    if (first == 0xEF && second == 0xBF && byte(at + 2) >= 0xBE) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned second = byte(at + 1);
    if (!tail(3) || (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

std::string XmlEscaped(std::string_view text) {
  std::string escaped;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = Utf8Length(text, i);
    const char c = text[i];
    if (length == 0) {
      escaped += "\xEF\xBF\xBD";
    } else if (length > 1) {
      escaped += text.substr(i, length);
    } else if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else if (c == '\'') {
      escaped += "&#39;";
    } else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
      escaped += "\xEF\xBF\xBD";
    } else {
      escaped += c;
    }
    i += std::max<std::size_t>(length, 1);
  }
  return escaped;
}

}  // namespace infercast
