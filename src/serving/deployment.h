// A model on a system under a backend: the checkpoint parsed, the database opened and the attention
// kernels ordered once, then one worker per parallel layout.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/checkpoint.h"
#include "models/model_plan.h"
#include "serving/worker.h"
#include "tables/database.h"
#include "tables/versions.h"

namespace infercast {

struct DeploymentRequest {
  std::string model;  // bundled name, directory, config.json, or Hub name
  std::string system;
  Backend backend = Backend::kTrtllm;
  std::optional<std::string> version;  // literal or alias; absent: current
  DatabaseMode mode = DatabaseMode::kSilicon;
  TransferPolicy policy;
  Behaviour behaviour = Behaviour::kNative;
  bool allow_unlisted = false;
  // Number formats, draft depth, kernels: everything of a build but backend and layout.
  BuildOptions build;
};

// Immutable; safe to share between threads.
class Deployment {
 public:
  static Result<std::shared_ptr<const Deployment>> Open(const DeploymentRequest& request,
                                                        const SystemsCatalog& systems,
                                                        const CheckpointSearch& checkpoints);
  // With a model that was parsed before.
  static Result<std::shared_ptr<const Deployment>> Open(const DeploymentRequest& request,
                                                        const SystemsCatalog& systems,
                                                        std::shared_ptr<const ModelConfig> model);
  // On a database that is open already.
  static Result<std::shared_ptr<const Deployment>> Open(const DeploymentRequest& request,
                                                        Database database,
                                                        std::shared_ptr<const ModelConfig> model);

  const ModelConfig& model() const { return *model_; }
  const Database& database() const { return *database_; }
  const std::string& version() const { return database_->store().identity().version; }
  Backend backend() const { return request_.backend; }
  const DeploymentRequest& request() const { return request_; }

  // kInvalidArgument for an impossible layout, kUnsupportedModel, ... In native behaviour the KV
  // cache is what the backend keeps: windows, states, draft layers, one pipeline stage.
  Result<ModelPlan> Plan(const ParallelLayout& layout) const;
  Result<std::shared_ptr<const Worker>> MakeWorker(const ParallelLayout& layout) const;
  // With build options of the caller's own; backend and system are those of the deployment.
  Result<std::shared_ptr<const Worker>> MakeWorker(BuildOptions options) const;

 private:
  Deployment() = default;
  Result<ModelPlan> PlanOf(BuildOptions options) const;

  DeploymentRequest request_;
  std::shared_ptr<const ModelConfig> model_;
  std::optional<Database> database_;
  AttentionLaneOrders lanes_;
};

}  // namespace infercast
