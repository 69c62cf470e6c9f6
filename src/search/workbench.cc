// Sharing by key: every setting that changes an object is part of its key.
#include "search/workbench.h"

#include <fmt/format.h>

#include <utility>

namespace infercast {

struct WorkerPool::Entry {
  std::once_flag once;
  Result<std::shared_ptr<const Worker>> worker = std::shared_ptr<const Worker>();
};

namespace {

std::string PolicyText(const TransferPolicy& policy) {
  return fmt::format("{:d}{:d}{:d}{:d}", policy.xshape, policy.xquant, policy.xprofile, policy.xop);
}

template <NamedEnum E>
std::string_view Name(const std::optional<E>& value) {
  return value ? ToString(*value) : "-";
}

std::string LayoutKey(const ParallelLayout& l) {
  return fmt::format("{}/{}/{}/{}/{}/{}", l.tp, l.pp, l.dp, l.cp, l.moe_tp.value_or(0),
                     l.moe_ep.value_or(0));
}

// Large expert parallelism only tells deployments apart where something was measured for it.
std::string ExpertKey(const ExpertChoice& experts) {
  if (!experts.coverage || experts.coverage->empty()) return experts.coverage ? "none" : "fused";
  std::string key = fmt::format("{:d}{:d}{:d}{:d}", experts.needs.context, experts.needs.generation,
                                experts.fmha_explicit, experts.kv_explicit);
  for (const auto* phase : {&experts.coverage->context, &experts.coverage->generation}) {
    key += '|';
    for (const LargeEpCoverage::Entry& entry : *phase) {
      key += entry.library;
      for (const std::uint32_t ep : entry.ep_sizes) key += fmt::format(",{}", ep);
      key += ';';
    }
  }
  return key;
}

}  // namespace

void SearchWatch::Tried() {
  const std::scoped_lock lock(mutex_);
  ++tried_;
  if (progress_) progress_(tried_, known_);
}

WorkerPool::WorkerPool(std::shared_ptr<const Deployment> deployment, ExpertChoice experts,
                       std::shared_ptr<SearchWatch> watch)
    : deployment_(std::move(deployment)), experts_(std::move(experts)), watch_(std::move(watch)) {}

WorkerPool::~WorkerPool() = default;

Result<std::shared_ptr<const Worker>> WorkerPool::Build(const ParallelLayout& layout) const {
  BuildOptions options = deployment_->request().build;
  options.layout = layout;
  options.backend = deployment_->backend();
  options.moe_comm = {};
  const ModelConfig& model = deployment_->model();
  if (model.IsMoe()) {
    IC_ASSIGN(const bool large, ChooseLargeEp(model, deployment_->database(), experts_.needs,
                                              experts_.coverage.get(), options));
    if (large && options.backend == Backend::kSglang &&
        model.architecture == "DeepseekV3ForCausalLM") {
      // Its kernels have formats of their own.
      if (!experts_.fmha_explicit) options.quant.fmha = FmhaQuant::kFp8Block;
      if (!experts_.kv_explicit) options.quant.kv = KvQuant::kFp8;
    }
  }
  return deployment_->MakeWorker(std::move(options));
}

Result<std::shared_ptr<const Worker>> WorkerPool::Get(const ParallelLayout& layout) {
  if (watch_ != nullptr) {
    if (watch_->stopped()) return Fail(ErrorKind::kInterrupted, "interrupted");
    watch_->Tried();
  }
  Entry* entry = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    std::unique_ptr<Entry>& slot = entries_[LayoutKey(layout)];
    if (!slot) slot = std::make_unique<Entry>();
    entry = slot.get();
  }
  std::call_once(entry->once, [&] { entry->worker = Build(layout); });
  return entry->worker;
}

Result<std::shared_ptr<const ModelConfig>> Workbench::Model(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = models_.find(name); found != models_.end()) return found->second;
  IC_ASSIGN(ModelConfig config, LoadModelConfig(name, *checkpoints_));
  return models_.emplace(name, std::make_shared<const ModelConfig>(std::move(config)))
      .first->second;
}

Result<Database> Workbench::Open(const SystemsCatalog::OpenRequest& request) {
  const std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}|{:d}|{}", request.system, ToString(request.backend),
                  request.version.value_or("-"), ToString(request.mode), PolicyText(request.policy),
                  ToString(request.behaviour), request.allow_unlisted,
                  request.shared_layer ? (*request.shared_layer ? "shared" : "own") : "-");
  const std::scoped_lock lock(mutex_);
  if (const auto found = databases_.find(key); found != databases_.end()) return found->second;
  IC_ASSIGN(Database database, systems_->Open(request));
  return databases_.emplace(key, std::move(database)).first->second;
}

Result<std::shared_ptr<WorkerPool>> Workbench::Workers(const DeploymentRequest& request,
                                                       std::shared_ptr<const ModelConfig> model,
                                                       const Database& database,
                                                       const ExpertChoice& experts) {
  const BuildOptions& b = request.build;
  const QuantOverrides& q = b.quant;
  const std::string key = fmt::format(
      "{}|{}|{}|{}|{}|{}|{}|{},{},{},{},{},{}|{}|{:d}{:d}{:d}{:d}|{}|{}|{}|{}|{}|{}|{}|{}",
      request.model, request.system, ToString(request.backend), database.store().identity().version,
      ToString(database.mode()), PolicyText(database.policy()), ToString(database.behaviour()),
      Name(q.gemm), Name(q.moe), Name(q.kv), Name(q.fmha), Name(q.comm),
      q.gemm_explicit ? (*q.gemm_explicit ? "yes" : "no") : "-", b.nextn, b.language_only,
      b.encoder_data_parallel, b.enable_wideep, b.enable_eplb, b.moe_backend.value_or("-"),
      b.attention_backend.value_or("-"), static_cast<int>(b.forward_model), b.sms,
      b.expert_slots.value_or(-1), b.override_layers, b.workload_distribution,
      model->IsMoe() ? ExpertKey(experts) : std::string());
  const std::scoped_lock lock(mutex_);
  if (const auto found = pools_.find(key); found != pools_.end()) return found->second;
  IC_ASSIGN(std::shared_ptr<const Deployment> deployment,
            Deployment::Open(request, database, std::move(model)));
  return pools_.emplace(key, std::make_shared<WorkerPool>(std::move(deployment), experts, watch_))
      .first->second;
}

}  // namespace infercast
