// Unpacks chosen folders of a Python wheel (a zip archive), checking each file against the wheel's
// own RECORD of SHA-256 digests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"

namespace infercast {

struct UnpackedFile {
  std::string path;    // relative to the destination, with '/'
  std::uint64_t size;  // bytes
  std::string sha256;  // hexadecimal
};

struct UnpackOptions {
  std::filesystem::path wheel;
  std::filesystem::path destination;  // an existing directory
  std::string package;                // top-level folder of the wheel that holds `folders`
  std::vector<std::string> folders;   // folders of `package` to unpack, e.g. "systems"
  std::vector<std::string> excluded;  // paths relative to `package` to leave packed
  std::function<void(std::size_t done, std::size_t total)> on_progress;  // files; may be empty
};

// Unpacks <package>/<folder>/... to <destination>/<folder>/..., sorted by path. Fails, naming the
// file, with kCorruptData when an entry does not match RECORD, is not in it, or would land outside
// of the destination, and with kIo when something cannot be read or written. On failure the
// destination holds an unspecified part: unpack into a directory that is thrown away then.
Result<std::vector<UnpackedFile>> UnpackWheel(const UnpackOptions& options);

}  // namespace infercast
