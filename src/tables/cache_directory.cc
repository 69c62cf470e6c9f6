// The user's cache directory, by the XDG base directory rules.
#include "tables/cache_directory.h"

#include <cstdlib>

namespace infercast {

Result<std::filesystem::path> CacheDirectory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return std::filesystem::path(cache) / "infercast";
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') {
    return std::filesystem::path(home) / ".cache" / "infercast";
  }
  return Fail(ErrorKind::kIo, "no cache directory: set HOME or XDG_CACHE_HOME to an absolute path");
}

}  // namespace infercast
