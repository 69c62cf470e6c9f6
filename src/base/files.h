// Reading and writing whole files: bounded when read, never half written.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace infercast {

// More than any text that the program reads; a device or a pipe without an end is refused at this
// size.
inline constexpr std::size_t kLargestTextBytes = std::size_t{64} << 20;

// The content of a file, a pipe or a device. kIo: it cannot be read, is a directory, or holds more
// than `largest` bytes.
Result<std::string> ReadTextFile(const std::filesystem::path& file,
                                 std::size_t largest = kLargestTextBytes);

// All of the standard input, within the same bound. kIo.
Result<std::string> ReadStandardInput(std::size_t largest = kLargestTextBytes);

// Lets `write` fill a temporary file beside `file`, which then takes its place: readers see the old
// content or the new, whole. Its mode and a link's target stay; a pipe or a device is written in
// place. `write` may throw. kIo; the temporary file is gone then.
Status ReplaceFile(const std::filesystem::path& file,
                   const std::function<Status(const std::filesystem::path& temporary)>& write);

// Puts `text` into `file`, as ReplaceFile does.
Status WriteTextFile(const std::filesystem::path& file, std::string_view text);

}  // namespace infercast
