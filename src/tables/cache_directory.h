// Where the project keeps files of its own: $XDG_CACHE_HOME/infercast, or ~/.cache/infercast.
#pragma once

#include <filesystem>

#include "base/error.h"

namespace infercast {

// The user's cache directory for Infercast; not created. $XDG_CACHE_HOME counts only when it is an
// absolute path, as the XDG base directory rules say. kIo when neither it nor $HOME is usable.
Result<std::filesystem::path> CacheDirectory();

}  // namespace infercast
