// SHA-256 of bytes and files, and the two spellings in which digests are written.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace infercast {

using Sha256Digest = std::array<std::uint8_t, 32>;

Result<Sha256Digest> Sha256(std::span<const std::uint8_t> bytes);

// Digest of a regular file; kIo when it cannot be read.
Result<Sha256Digest> Sha256OfFile(const std::filesystem::path& file);

// Lower-case hexadecimal, 64 characters.
std::string ToHex(const Sha256Digest& digest);

// The digest of a wheel's RECORD entry: URL-safe base64 without padding, 43 characters. Empty when
// `text` is not exactly that.
std::optional<Sha256Digest> FromUrlSafeBase64(std::string_view text);

}  // namespace infercast
