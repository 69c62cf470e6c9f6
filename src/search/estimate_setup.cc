#include "search/estimate_setup.h"

#include <utility>

namespace infercast {

Result<EstimateSetup> SetUpEstimate(const EstimateRequest& request, const std::string& system,
                                    const Speculation& speculation, Workbench& bench) {
  SystemsCatalog::OpenRequest open;
  open.system = system;
  open.backend = request.backend;
  open.version = request.version;
  open.mode = request.database_mode;
  open.policy = request.policy;
  open.behaviour = request.behaviour;
  open.allow_unlisted = request.allow_unlisted_versions;
  IC_ASSIGN(Database database, bench.Open(open));
  DeploymentRequest deploy;
  deploy.model = request.model;
  deploy.system = system;
  deploy.backend = request.backend;
  deploy.version = database.store().identity().version;
  deploy.mode = request.database_mode;
  deploy.policy = request.policy;
  deploy.behaviour = request.behaviour;
  BuildOptions& build = deploy.build;
  build.backend = request.backend;
  build.quant = request.quant;
  build.nextn = speculation.nextn;
  build.attention_backend = request.attention_backend;
  if (request.moe_backend && *request.moe_backend != "deepep_moe") {
    build.moe_backend = request.moe_backend;
  }
  return EstimateSetup{std::move(database), std::move(deploy)};
}

}  // namespace infercast
