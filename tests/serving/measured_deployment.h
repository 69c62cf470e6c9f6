// Deployments on the measured data, as tests ask for them.
#pragma once

#include <cstdint>
#include <memory>

#include "serving/deployment.h"
#include "tables/measured_data.h"

namespace infercast::testing {

// kDataRoot on a machine without the data package.
inline Result<std::shared_ptr<const Deployment>> OpenDeployment(const DeploymentRequest& request) {
  const auto root = SystemsRoot();
  if (!root) return Fail(ErrorKind::kDataRoot, "no measured data: run infercast data fetch");
  const SystemsCatalog systems({*root});
  CheckpointSearch checkpoints;
  checkpoints.config_dirs.push_back(root->parent_path() / "model_configs");
  return Deployment::Open(request, systems, checkpoints);
}

// `experts`: expert parallelism, each rank with whole experts; 0: a dense model.
inline ParallelLayout LayoutOf(std::int64_t tp, std::int64_t dp, std::int64_t experts) {
  ParallelLayout layout;
  layout.tp = tp;
  layout.dp = dp;
  if (experts > 0) {
    layout.moe_tp = 1;
    layout.moe_ep = experts;
  }
  return layout;
}

// Of DeepSeek on Hopper 8-bit attention was not measured.
inline void UseMeasuredAttention(DeploymentRequest& request) {
  if (request.model.starts_with("deepseek") && request.system == "h200_sxm") {
    request.build.quant.fmha = FmhaQuant::kBfloat16;
  }
}

}  // namespace infercast::testing
