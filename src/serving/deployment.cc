#include "serving/deployment.h"

#include <utility>

#include "memory/cache_layout.h"
#include "tables/lane_order.h"

namespace infercast {

Result<std::shared_ptr<const Deployment>> Deployment::Open(const DeploymentRequest& request,
                                                           const SystemsCatalog& systems,
                                                           const CheckpointSearch& checkpoints) {
  IC_ASSIGN(ModelConfig model, LoadModelConfig(request.model, checkpoints));
  return Open(request, systems, std::make_shared<const ModelConfig>(std::move(model)));
}

Result<std::shared_ptr<const Deployment>> Deployment::Open(
    const DeploymentRequest& request, const SystemsCatalog& systems,
    std::shared_ptr<const ModelConfig> model) {
  SystemsCatalog::OpenRequest open;
  open.system = request.system;
  open.backend = request.backend;
  open.version = request.version;
  open.mode = request.mode;
  open.policy = request.policy;
  open.behaviour = request.behaviour;
  open.allow_unlisted = request.allow_unlisted;
  IC_ASSIGN(Database database, systems.Open(open));
  return Open(request, std::move(database), std::move(model));
}

Result<std::shared_ptr<const Deployment>> Deployment::Open(
    const DeploymentRequest& request, Database database, std::shared_ptr<const ModelConfig> model) {
  std::shared_ptr<Deployment> deployment(new Deployment());
  deployment->request_ = request;
  deployment->model_ = std::move(model);
  deployment->database_.emplace(std::move(database));
  const std::optional<std::string>& kernel = request.build.attention_backend;
  IC_ASSIGN(deployment->lanes_.context,
            ResolveLaneOrder(*deployment->database_, TableId::kContextAttention, kernel));
  IC_ASSIGN(deployment->lanes_.generation,
            ResolveLaneOrder(*deployment->database_, TableId::kGenerationAttention, kernel));
  return deployment;
}

Result<ModelPlan> Deployment::PlanOf(BuildOptions options) const {
  options.backend = request_.backend;
  options.system = request_.system;
  if (!options.gpus_per_node) options.gpus_per_node = database_->system().num_gpus_per_node;
  IC_ASSIGN(ModelPlan plan, BuildModelPlan(*model_, options));
  if (request_.behaviour == Behaviour::kNative && options.override_layers == 0) {
    IC_ASSIGN(const ModelAnatomy anatomy, DescribeModel(*model_));
    plan.facts.kv = NativeKvLayout(anatomy, plan);
  }
  return plan;
}

Result<ModelPlan> Deployment::Plan(const ParallelLayout& layout) const {
  BuildOptions options = request_.build;
  options.layout = layout;
  return PlanOf(std::move(options));
}

Result<std::shared_ptr<const Worker>> Deployment::MakeWorker(BuildOptions options) const {
  IC_ASSIGN(ModelPlan plan, PlanOf(std::move(options)));
  return Worker::Create(std::move(plan), *database_, lanes_);
}

Result<std::shared_ptr<const Worker>> Deployment::MakeWorker(const ParallelLayout& layout) const {
  IC_ASSIGN(ModelPlan plan, Plan(layout));
  return Worker::Create(std::move(plan), *database_, lanes_);
}

}  // namespace infercast
