// Text for XML and HTML.
#pragma once

#include <string>
#include <string_view>

namespace infercast {

// Markup escaped; control characters and malformed UTF-8 replaced by U+FFFD.
std::string XmlEscaped(std::string_view text);

}  // namespace infercast
