// Base64 of binary descriptions in golden cases.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace infercast::golden {

// None when the text is not base64 (standard alphabet, padded).
std::optional<std::vector<std::uint8_t>> DecodeBase64(std::string_view text);

}  // namespace infercast::golden
