#include "serving/kv_capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/float_division.h"
#include "memory/memory_usage.h"
#include "memory/naive_kv.h"
#include "memory/plan_memory.h"

namespace infercast {

namespace {

std::unexpected<Error> BadField(const char* field, const std::string& why) {
  return Fail(ErrorKind::kBadModelConfig, fmt::format("{}: {}", field, why));
}

bool InUnitInterval(double v) { return std::isfinite(v) && v >= 0 && v <= 1; }

struct Inputs {
  Backend backend;
  std::int64_t nextn;
};

Result<Inputs> Check(const KvCapacityRequest& r) {
  const std::optional<Backend> backend = ParseEnum<Backend>(r.backend);
  if (!backend) return BadField("backend", fmt::format("unknown backend '{}'", r.backend));
  const char* expected = BackendMemoryOf(*backend).fraction_of_free ? "of_free" : "of_total";
  if (r.fraction_kind != expected) {
    return Fail(ErrorKind::kIncompatibleMemoryFraction,
                fmt::format("{} takes its memory fraction {}, not '{}'", r.backend, expected,
                            r.fraction_kind));
  }
  if (!InUnitInterval(r.fraction)) {
    return BadField("memory_fraction_value", fmt::format("{} is not in [0, 1]", r.fraction));
  }
  if (r.tolerance && !(InUnitInterval(*r.tolerance) && *r.tolerance < 1)) {
    return BadField("tolerance_fraction", fmt::format("{} is not in [0, 1)", *r.tolerance));
  }
  if (!InUnitInterval(r.naive_reservation)) {
    return BadField("naive_kv_reservation",
                    fmt::format("{} is not in [0, 1]", r.naive_reservation));
  }
  if (!std::isfinite(r.nextn) || r.nextn != std::floor(r.nextn) || r.nextn < 0 || r.nextn > 1e6) {
    return BadField("nextn", fmt::format("{} is not a draft length", r.nextn));
  }
  return Inputs{*backend, static_cast<std::int64_t>(r.nextn)};
}

struct Built {
  ModelPlan plan;
  SystemSpec system;
};

Result<Built> BuildModel(const KvCapacityRequest& r, const Inputs& inputs,
                         const SystemsCatalog& systems, const CheckpointSearch& checkpoints) {
  if (!r.version) {
    return Fail(ErrorKind::kUnknownName, "no backend version given");
  }
  DeploymentRequest request;
  request.model = r.model;
  request.system = r.system;
  request.backend = inputs.backend;
  request.version = r.version;
  request.behaviour = Behaviour::kReference;
  request.build.quant = r.quant;
  request.build.nextn = inputs.nextn;
  IC_ASSIGN(const std::shared_ptr<const Deployment> deployment,
            Deployment::Open(request, systems, checkpoints));
  ParallelLayout layout = r.layout;
  layout.moe_tp = layout.moe_tp.value_or(1);
  layout.moe_ep = layout.moe_ep.value_or(1);
  IC_ASSIGN(ModelPlan plan, deployment->Plan(layout));
  return Built{std::move(plan), deployment->database().system()};
}

// What remains after the KV budget is known, the same for both estimates.
template <typename Tokens>
void Finish(const KvCapacityRequest& r, double capacity, double budget, double per_token,
            const Tokens& tokens, KvCapacity& out) {
  out.gpu_capacity_bytes = static_cast<std::int64_t>(std::max(capacity, 0.0));
  out.kv_bytes = static_cast<std::int64_t>(std::floor(budget));
  out.bytes_per_token = static_cast<std::int64_t>(std::floor(per_token));
  out.tokens = tokens(budget);
  if (r.tolerance) {
    const double left = std::floor(static_cast<double>(out.kv_bytes) * (1 - *r.tolerance));
    out.adjusted = {*r.tolerance, static_cast<std::int64_t>(left), tokens(left)};
  }
}

std::unexpected<Error> NoBudget(double non_kv, double capacity) {
  return Fail(ErrorKind::kNoKvBudget,
              fmt::format("nothing is left for the KV cache: {:.0f} bytes of weights and buffers "
                          "fill the engine's share of {:.0f} bytes",
                          std::trunc(non_kv), std::trunc(capacity)));
}

}  // namespace

Result<KvCapacity> KvCapacityOfPlan(const ModelPlan& plan, const SystemSpec& system,
                                    const KvCapacityRequest& r) {
  const Backend backend = plan.backend;
  const MemoryModel model = MemoryModelOf(plan);
  MemoryQuery query;
  query.batch = r.max_batch_size;
  query.num_tokens = r.max_num_tokens;
  query.max_seq_len = 1;
  query.mtp_scaling = false;
  Result<MemoryUsage> usage = EstimateMemory(model, system, query);
  if (!usage) return Fail(ErrorKind::kUnsupportedModel, usage.error().message);

  const double weights = usage->weights * kGiB;
  const double activations = usage->activations * kGiB;
  const double runtime = usage->others * kGiB;
  const double communication = usage->nccl * kGiB;
  const double non_kv = weights + activations + runtime + communication;
  const KvLayout& kv = plan.facts.kv;
  const double per_token = kv.Bytes(1);
  if (!std::isfinite(per_token) || !(per_token > 0)) {
    return Fail(ErrorKind::kInsufficientModelMetadata,
                "the checkpoint does not say how large its KV cache is per token");
  }
  const double capacity = r.capacity_override_bytes
                              ? *r.capacity_override_bytes
                              : static_cast<double>(system.mem_capacity.value_or(0));
  if (!std::isfinite(capacity) || !(capacity > 0)) {
    return BadField("gpu_memory_capacity_bytes_override",
                    fmt::format("{} is no GPU capacity", capacity));
  }
  const double budget =
      KvBudget(capacity, non_kv, r.fraction, BackendMemoryOf(backend).fraction_of_free);
  if (!(budget > 0)) return NoBudget(non_kv, capacity);
  KvCapacity out;
  const auto whole = [](double v) { return static_cast<std::int64_t>(v); };
  out.parts = {whole(weights), whole(activations), whole(runtime), whole(communication)};
  Finish(r, capacity, budget, per_token, [&](double b) { return kv.Capacity(b); }, out);
  return out;
}

namespace {

Result<KvCapacity> FromConfigOnly(const KvCapacityRequest& r, const CheckpointSearch& checkpoints) {
  Result<NaiveModel> loaded = LoadNaiveModel(r.model, checkpoints);
  if (!loaded) {
    return Fail(ErrorKind::kInsufficientModelMetadata, loaded.error().message);
  }
  const NaiveModel& model = *loaded;
  if (!r.capacity_override_bytes) {
    return BadField("gpu_memory_capacity_bytes_override",
                    "the estimate from a config.json alone needs the GPU's capacity");
  }
  const double capacity = *r.capacity_override_bytes;
  const std::optional<double> per_token = model.KvBytesPerToken(r.layout.tp);
  if (!per_token || !(*per_token > 0)) {
    return Fail(ErrorKind::kInsufficientModelMetadata,
                "the configuration lacks the KV geometry: layers and KV heads with their size, or "
                "the latent width");
  }
  const std::optional<double> weights = model.WeightBytes(r.layout);
  if (!weights) {
    return Fail(ErrorKind::kInsufficientModelMetadata,
                "the configuration lacks what the weights follow from: hidden size, layers, "
                "vocabulary, feed-forward width");
  }
  const double budget = std::max(capacity - *weights, 0.0) * r.naive_reservation;
  if (!(budget > 0)) return NoBudget(*weights, capacity);
  KvCapacity out;
  out.naive = true;
  Finish(
      r, capacity, budget, *per_token, [&](double b) { return model.Tokens(b, r.layout.tp); }, out);
  return out;
}

}  // namespace

Result<KvCapacity> EstimateKvCapacity(const KvCapacityRequest& request,
                                      const SystemsCatalog& systems,
                                      const CheckpointSearch& checkpoints) {
  IC_ASSIGN(const Inputs inputs, Check(request));
  const Result<Built> built = BuildModel(request, inputs, systems, checkpoints);
  if (built) return KvCapacityOfPlan(built->plan, built->system, request);
  if (request.allow_naive) return FromConfigOnly(request, checkpoints);
  return Fail(ErrorKind::kUnsupportedModel,
              fmt::format("no KV estimate for {} on {} with {}: {}", request.model, request.system,
                          request.backend, built.error().message));
}

Result<std::int64_t> EstimateKvBlocks(const KvCapacityRequest& request, double block_size,
                                      const SystemsCatalog& systems,
                                      const CheckpointSearch& checkpoints) {
  if (!std::isfinite(block_size) || block_size < 1 || block_size != std::floor(block_size) ||
      block_size > 1e15) {
    return BadField("scheduler_block_size",
                    fmt::format("{} is no positive whole number", block_size));
  }
  IC_ASSIGN(const KvCapacity capacity, EstimateKvCapacity(request, systems, checkpoints));
  const std::int64_t tokens = capacity.adjusted ? capacity.adjusted->tokens : capacity.tokens;
  return tokens / static_cast<std::int64_t>(block_size);
}

}  // namespace infercast
