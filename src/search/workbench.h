// What the experiments of one run share: parsed checkpoints, opened databases, and the workers that
// were built already, so that nothing is parsed, resolved or bound twice.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "models/checkpoint.h"
#include "models/large_ep.h"
#include "models/model_config.h"
#include "search/worker_source.h"
#include "serving/deployment.h"
#include "tables/database.h"
#include "tables/versions.h"

namespace infercast {

// How the layouts of a search choose between the fused expert block and large expert parallelism.
struct ExpertChoice {
  PhaseNeeds needs;  // phases whose exchange must have been measured
  std::shared_ptr<const LargeEpCoverage> coverage;
  // Modes that the user chose stay also where large expert parallelism has formats of its own.
  bool fmha_explicit = false;
  bool kv_explicit = false;
};

// How far searches are, and whether they shall end: shared by all pools of a workbench.
class SearchWatch {
 public:
  // `stop` may be null; set, layouts that are not tried yet end with kInterrupted, so that a search
  // soon answers with what it has. `progress` gets the layouts tried and the layouts of all tasks
  // so far; from any thread, one call at a time.
  using Progress = std::function<void(std::uint64_t tried, std::uint64_t known)>;
  SearchWatch(const std::atomic<bool>* stop, Progress progress)
      : stop_(stop), progress_(std::move(progress)) {}

  bool stopped() const { return stop_ != nullptr && stop_->load(std::memory_order_relaxed); }
  void Expect(std::uint64_t layouts) { known_ += layouts; }
  void Tried();

 private:
  const std::atomic<bool>* stop_;
  Progress progress_;
  std::mutex mutex_;
  std::uint64_t tried_ = 0;
  std::atomic<std::uint64_t> known_{0};
};

// The workers of one deployment, each built on first use. Thread-safe.
class WorkerPool {
 public:
  // `watch` may be null.
  WorkerPool(std::shared_ptr<const Deployment> deployment, ExpertChoice experts,
             std::shared_ptr<SearchWatch> watch = nullptr);
  ~WorkerPool();

  const Deployment& deployment() const { return *deployment_; }
  // An error of a layout is remembered like its worker.
  Result<std::shared_ptr<const Worker>> Get(const ParallelLayout& layout);
  WorkerSource Source() {
    return [this](const ParallelLayout& layout) { return Get(layout); };
  }

 private:
  struct Entry;
  Result<std::shared_ptr<const Worker>> Build(const ParallelLayout& layout) const;

  std::shared_ptr<const Deployment> deployment_;
  ExpertChoice experts_;
  std::shared_ptr<SearchWatch> watch_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Entry>> entries_;
};

class Workbench {
 public:
  // Both must outlive the workbench.
  Workbench(const SystemsCatalog& systems, const CheckpointSearch& checkpoints)
      : systems_(&systems), checkpoints_(&checkpoints) {}

  const SystemsCatalog& systems() const { return *systems_; }
  const CheckpointSearch& checkpoints() const { return *checkpoints_; }

  // Of searches that start from now on. Null: none.
  void Watch(std::shared_ptr<SearchWatch> watch) { watch_ = std::move(watch); }
  SearchWatch* watch() const { return watch_.get(); }

  // Errors of LoadModelConfig.
  Result<std::shared_ptr<const ModelConfig>> Model(const std::string& name);
  // Errors of SystemsCatalog::Open.
  Result<Database> Open(const SystemsCatalog::OpenRequest& request);
  // The pool of workers of a request whose number formats are settled. `layout` and `moe_comm` of
  // the request's build options are ignored.
  Result<std::shared_ptr<WorkerPool>> Workers(const DeploymentRequest& request,
                                              std::shared_ptr<const ModelConfig> model,
                                              const Database& database,
                                              const ExpertChoice& experts);

 private:
  const SystemsCatalog* systems_;
  const CheckpointSearch* checkpoints_;
  std::shared_ptr<SearchWatch> watch_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const ModelConfig>> models_;
  std::map<std::string, Database> databases_;
  std::map<std::string, std::shared_ptr<WorkerPool>> pools_;
};

}  // namespace infercast
