#include "validation/prepared_point.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "base/near_names.h"

namespace infercast {

namespace {

template <NamedEnum E>
std::optional<E> Named(const std::string& text) {
  return text.empty() ? std::nullopt : ParseEnum<E>(text);
}

// Parsed configurations by name, shared by all deployments.
class ModelShelf {
 public:
  explicit ModelShelf(const CheckpointSearch& checkpoints)
      : checkpoints_(checkpoints), bundled_(BundledModels(checkpoints)) {
    checkpoints_.unlisted = UnlistedArchitecture::kMap;
  }
  const std::vector<std::string>& bundled() const { return bundled_; }
  Result<std::shared_ptr<const ModelConfig>> Get(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    const auto it = models_.find(name);
    if (it != models_.end()) return it->second;
    Result<ModelConfig> loaded = LoadModelConfig(name, checkpoints_);
    Result<std::shared_ptr<const ModelConfig>> entry =
        loaded ? Result<std::shared_ptr<const ModelConfig>>(
                     std::make_shared<const ModelConfig>(*std::move(loaded)))
               : std::unexpected(loaded.error());
    return models_.emplace(name, std::move(entry)).first->second;
  }

 private:
  CheckpointSearch checkpoints_;
  std::vector<std::string> bundled_;
  std::mutex mutex_;
  std::map<std::string, Result<std::shared_ptr<const ModelConfig>>> models_;
};

std::string WorkerKey(const RepairedPool& pool) {
  const ParallelLayout& l = pool.layout;
  return fmt::format("{} x{} pp{}", Describe(l), pool.workers, l.pp);
}

std::string DeploymentKey(const RepairedPoint& r) {
  const MeasuredPoint& p = r.point;
  const std::string head =
      fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", p.backend, p.system, p.version, p.model,
                  p.precision, p.gemm, p.moe, p.kv, p.fmha, p.nextn.value_or(0));
  return r.disaggregated ? head + "|d|" + WorkerKey(r.prefill) + "|" + WorkerKey(r.decode)
                         : head + "|a|" + WorkerKey(r.worker);
}

struct Subject {
  Backend backend;
  SystemSpec system;
  std::shared_ptr<const ModelConfig> model;
  ResolvedCheckpoint checkpoint;
};

Result<Subject> SubjectOf(const MeasuredPoint& p, const SystemsCatalog& systems,
                          ModelShelf& shelf) {
  const std::optional<Backend> backend = ParseEnum<Backend>(p.backend);
  if (!backend) {
    return Fail(ErrorKind::kUnknownName, fmt::format("unknown backend '{}'", p.backend));
  }
  IC_ASSIGN(SystemSpec system, systems.Spec(p.system));
  CheckpointLabel label;
  label.model = p.model;
  label.precision = p.precision;
  label.backend = *backend;
  label.quant.gemm = Named<GemmQuant>(p.gemm);
  label.quant.moe = Named<MoeQuant>(p.moe);
  label.quant.kv = Named<KvQuant>(p.kv);
  label.quant.fmha = Named<FmhaQuant>(p.fmha);
  IC_ASSIGN(ResolvedCheckpoint checkpoint, ResolveCheckpoint(label, system, shelf.bundled()));
  IC_ASSIGN(std::shared_ptr<const ModelConfig> model, shelf.Get(checkpoint.model));
  return Subject{*backend, std::move(system), std::move(model), std::move(checkpoint)};
}

// One campaign's TTFT grows with the output length by one request duration over C, at every C and
// length: one of C requests always waits for a slot. Inferred from those rows, not documented.
bool LacksOneSlot(const RepairedPoint& r) {
  return r.point.source.find("h100_sxm/trtllm/1.0.0rc3/meta-llama_Llama-3.1-8B") !=
         std::string::npos;
}

PreparedPoint PointOf(std::size_t index, const RepairedPoint& r, const Subject& subject,
                      const PrepareOptions& options) {
  PreparedPoint out;
  out.index = index;
  out.backend = subject.backend;
  out.disaggregated = r.disaggregated;
  const std::int64_t isl = *r.point.isl;
  std::string flags;
  const std::int64_t concurrency = std::max<std::int64_t>(r.concurrency, 1);
  out.policy = options.recipes
                   ? BenchmarkRecipe(
                         {subject.backend, &subject.system, r.point.model, r.point.precision,
                          concurrency, isl, *r.point.osl, r.worker.layout.tp, r.worker.layout.dp},
                         &flags)
                   : DefaultBatchPolicy(subject.backend, subject.system, concurrency, isl);
  out.lacks_slot = LacksOneSlot(r) && concurrency > 1;
  if (out.lacks_slot && options.inferred_slots) {
    out.policy.max_requests = concurrency - 1;
    out.notes.push_back(
        fmt::format("inferred of this campaign: the engine serves {} of the {} "
                    "requests at once",
                    concurrency - 1, concurrency));
  }
  if (r.disaggregated) out.policy.token_budget = PrefillPoolBudget(subject.backend);
  if (!flags.empty() && !r.disaggregated) out.notes.push_back("benchmark recipe: " + flags);
  out.load.isl = isl;
  out.load.osl = *r.point.osl;
  out.load.prefix = std::clamp<std::int64_t>(r.point.prefix.value_or(0), 0, isl - 1);
  if (r.point.rate && *r.point.rate > 0 && r.concurrency < 1) {
    out.load.rate = *r.point.rate;
  } else {
    out.load.concurrency = r.concurrency;
  }
  out.load.requests = std::clamp<std::int64_t>(r.point.requests.value_or(0), 0, 1 << 20);
  if (r.point.shortest && *r.point.shortest > 0 && *r.point.shortest <= 1) {
    out.load.shortest = *r.point.shortest;
  }
  const std::int64_t nextn = r.point.nextn.value_or(0);
  if (nextn > 0) {
    out.load.progress =
        1 + std::clamp(r.point.nextn_accepted.value_or(0), 0.0, static_cast<double>(nextn));
  }
  return out;
}

// The KV limit of a point; a deployment that ran has room, whatever the memory model says.
Result<KvSpace> KvOf(const Worker& worker, const BatchPolicy& policy,
                     std::vector<std::string>& notes) {
  Result<KvSpace> kv = KvSpaceOf(worker, policy);
  if (kv && kv->bytes > 0) return kv;
  notes.push_back(kv ? "the memory model leaves no room for the KV cache: its limit is ignored"
                     : "KV limit ignored: " + kv.error().message);
  return KvSpace{0, false};
}

void Prepare(PreparedDeployment& deployment, std::span<const RepairedPoint> points,
             const std::vector<std::size_t>& members, const SystemsCatalog& systems,
             ModelShelf& shelf, const PrepareOptions& options) {
  const RepairedPoint& first = points[members.front()];
  const auto fail = [&](const Error& error) {
    deployment.error = error;
    for (const std::size_t i : members) {
      deployment.points.emplace_back();
      deployment.points.back().index = i;
    }
  };
  const Result<Subject> subject = SubjectOf(first.point, systems, shelf);
  if (!subject) return fail(subject.error());
  for (const std::size_t i : members) {
    deployment.points.push_back(PointOf(i, points[i], *subject, options));
  }
  AttemptRequest request;
  request.system = first.point.system;
  request.backend = subject->backend;
  if (!first.point.version.empty()) request.version = first.point.version;
  request.model = subject->model;
  request.quant = subject->checkpoint.quant;
  request.nextn = first.point.nextn.value_or(0);
  request.behaviour = options.behaviour;
  for (const std::size_t i : members) {
    const RepairedPoint& r = points[i];
    const PreparedPoint& prepared =
        deployment
            .points[static_cast<std::size_t>(std::ranges::find(members, i) - members.begin())];
    request.isl = std::max(request.isl, static_cast<double>(*r.point.isl));
    request.kv = std::max(request.kv, static_cast<double>(*r.point.isl + *r.point.osl));
    request.budget = std::max(request.budget, static_cast<double>(prepared.policy.token_budget));
    request.decodes = std::max(request.decodes, static_cast<double>(r.concurrency));
  }
  const auto open = [&](const RepairedPool& pool, bool context, bool decode) {
    AttemptRequest one = request;
    one.layout = pool.layout;
    one.needs_context = context;
    one.needs_decode = decode;
    one.decodes = std::max(
        1.0, std::ceil(request.decodes / static_cast<double>(pool.layout.dp * pool.workers)));
    return OpenPriced(one, systems);
  };
  Result<PricedWorker> worker =
      first.disaggregated ? open(first.decode, false, true) : open(first.worker, true, true);
  if (!worker) return void(deployment.error = worker.error());
  deployment.worker = *std::move(worker);
  if (first.disaggregated) {
    Result<PricedWorker> prefill = open(first.prefill, true, false);
    if (!prefill) return void(deployment.error = prefill.error());
    deployment.prefill = *std::move(prefill);
    deployment.prefill_workers = first.prefill.workers;
    deployment.decode_workers = first.decode.workers;
  }
  for (PreparedPoint& p : deployment.points) {
    std::vector<std::string> notes = subject->checkpoint.notes;
    for (const std::vector<std::string>* more :
         {&deployment.worker.notes, &deployment.prefill.notes}) {
      for (const std::string& note : *more) {
        if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
      }
    }
    p.notes.insert(p.notes.begin(), notes.begin(), notes.end());
    p.kv = *KvOf(deployment.worker.costs->worker(), p.policy, p.notes);
    const Worker& decoder = deployment.worker.costs->worker();
    const std::int64_t ranks =
        decoder.plan().layout.dp * std::max<std::int64_t>(1, deployment.decode_workers);
    p.kind = KindOf(decoder, p.disaggregated,
                    (std::max<std::int64_t>(p.load.concurrency, 1) + ranks - 1) / ranks, p.load.isl,
                    p.load.osl);
  }
}

}  // namespace

std::function<bool(const std::string&)> MoeTest(const CheckpointSearch& checkpoints) {
  auto shelf = std::make_shared<ModelShelf>(checkpoints);
  return [shelf](const std::string& model) {
    const std::string name = BundledNameFor(model, "", shelf->bundled());
    if (name.empty()) return false;
    const Result<std::shared_ptr<const ModelConfig>> loaded = shelf->Get(name);
    return loaded && (*loaded)->IsMoe();
  };
}

std::vector<PreparedDeployment> PreparePoints(std::span<const RepairedPoint> points,
                                              const SystemsCatalog& systems,
                                              const CheckpointSearch& checkpoints,
                                              const PrepareOptions& options) {
  std::vector<std::vector<std::size_t>> groups;
  std::map<std::string, std::size_t> by_key;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].unanswerable) continue;
    const auto [it, fresh] = by_key.emplace(DeploymentKey(points[i]), groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].push_back(i);
  }
  ModelShelf shelf(checkpoints);
  std::vector<PreparedDeployment> deployments(groups.size());
  tbb::parallel_for(std::size_t{0}, groups.size(), [&](std::size_t g) {
    Prepare(deployments[g], points, groups[g], systems, shelf, options);
  });
  return deployments;
}

Result<ServingForecast> ForecastPoint(PreparedDeployment& deployment, const PreparedPoint& point,
                                      const ServingCorrections& corrections) {
  if (deployment.error) return std::unexpected(*deployment.error);
  if (!point.disaggregated) {
    return ForecastClosedLoop(*deployment.worker.costs, point.policy, corrections, point.kv,
                              point.load);
  }
  DisaggregatedPools pools;
  pools.prefill = deployment.prefill.costs.get();
  pools.decode = deployment.worker.costs.get();
  pools.prefill_workers = deployment.prefill_workers;
  pools.decode_workers = deployment.decode_workers;
  pools.prefill_policy = point.policy;
  pools.decode_kv = point.kv;
  pools.decode_kv_output_share = point.policy.kv_output_share;
  return ForecastDisaggregated(pools, corrections, point.load);
}

}  // namespace infercast
