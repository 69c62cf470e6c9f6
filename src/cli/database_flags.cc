#include "cli/database_flags.h"

#include <CLI/CLI.hpp>
#include <cctype>

#include "cli/named_option.h"

namespace infercast {

void DatabaseFlags::Declare(CLI::App& command) {
  command.add_option("--system", system, "GPU system, such as h200_sxm")->required();
  command.add_option("--backend", backend, "Serving backend: trtllm, sglang or vllm")
      ->capture_default_str();
  command.add_option("--backend-version,--perf-db-version", version,
                     "Version measured, or current, previous, next (default: current)");
  command.add_option(
      "--database-mode", mode,
      "SILICON (measured; the default), HYBRID (estimate what is missing), EMPIRICAL, "
      "SOL");
  command.add_option(
      "--transfer-policy", policy,
      "What estimates may borrow: off, conservative, balanced, aggressive, or kinds");
  command.add_flag("--allow-unlisted-versions", allow_unlisted,
                   "Accept versions that are measured but not offered");
}

Result<SystemsCatalog::OpenRequest> DatabaseFlags::Request(const CliContext& context) const {
  SystemsCatalog::OpenRequest request;
  request.system = system;
  IC_ASSIGN(request.backend, ParseNamed<Backend>(backend));
  request.version = version;
  std::string upper = mode.value_or("SILICON");
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  IC_ASSIGN(request.mode, ParseNamed<DatabaseMode>(upper));
  if (request.mode == DatabaseMode::kSolFull) {
    return Fail(ErrorKind::kInvalidArgument,
                "SOL_FULL is a listing of rooflines, not a mode of a forecast: use SOL");
  }
  if (policy) {
    IC_ASSIGN(request.policy, ParseTransferPolicy(*policy));
  }
  request.behaviour = context.behaviour;
  request.allow_unlisted = allow_unlisted;
  return request;
}

}  // namespace infercast
