// The options that choose measurements: --system, --backend, --backend-version, --database-mode,
// --transfer-policy.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "cli/cli_context.h"
#include "tables/versions.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

struct DatabaseFlags {
  std::string system;
  std::string backend = "trtllm";
  std::optional<std::string> version;
  std::optional<std::string> mode;  // absent: SILICON
  std::optional<std::string> policy;
  bool allow_unlisted = false;

  void Declare(CLI::App& command);
  // kUnknownName or kInvalidArgument for a bad value.
  Result<SystemsCatalog::OpenRequest> Request(const CliContext& context) const;
};

}  // namespace infercast
