// Non-KV parts by the memory model, the rest by the backend's cache manager.
#include "serving/memory_report.h"

#include <fmt/format.h>

#include "memory/plan_memory.h"

namespace infercast {

Result<MemoryReport> ReportMemory(const Deployment& deployment, const ParallelLayout& layout,
                                  const MemoryReportRequest& request) {
  IC_ASSIGN(ModelPlan plan, deployment.Plan(layout));
  IC_ASSIGN(const ModelAnatomy anatomy, DescribeModel(deployment.model()));
  const SystemSpec& system = deployment.database().system();
  MemoryReport out;
  MemoryQuery query;
  query.num_tokens = request.cache.max_num_tokens;
  query.max_seq_len = 1;
  query.mtp_scaling = false;
  IC_ASSIGN(const MemoryUsage usage, EstimateMemory(MemoryModelOf(plan), system, query));
  out.weights = usage.weights * kGiB;
  out.activations = usage.activations * kGiB;
  out.communication = usage.nccl * kGiB;
  out.runtime = usage.others * kGiB;
  if (plan.nextn > 0) out.draft_weights = DraftWeightBytes(anatomy, plan);

  out.fraction =
      request.fraction.value_or(DefaultAggregateFraction(plan.backend, deployment.version()));
  if (!(out.fraction > 0 && out.fraction <= 1)) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("the memory fraction is {}: expected above 0, up to 1", out.fraction));
  }
  out.fraction_of_free = BackendMemoryOf(plan.backend).fraction_of_free;
  out.capacity =
      request.capacity_bytes.value_or(static_cast<double>(system.mem_capacity.value_or(0)));
  if (!(out.capacity > 0)) {
    return Fail(ErrorKind::kModelConfig,
                fmt::format("system '{}' does not say how much memory its GPU has", system.name));
  }
  out.kv_bytes = request.kv_bytes.value_or(
      KvBudget(out.capacity, out.non_kv(), out.fraction, out.fraction_of_free));
  if (!(out.kv_bytes > 0)) {
    return Fail(ErrorKind::kNoKvBudget,
                fmt::format("nothing is left for the KV cache: {:.2f} GiB of weights and buffers "
                            "fill the engine's share of {:.2f} GiB; use more GPUs a worker or "
                            "smaller number formats",
                            out.non_kv() / kGiB, out.capacity / kGiB));
  }
  out.assumptions.push_back(
      fmt::format("activations of a step of {} tokens", request.cache.max_num_tokens));
  for (const std::string& note : anatomy.notes) out.assumptions.push_back(note);
  for (const std::string& note : plan.notes) out.assumptions.push_back(note);
  if (plan.nextn > 0 && !anatomy.draft) {
    out.assumptions.push_back(
        "the checkpoint carries no draft layers: a draft model of its own is not counted");
  }
  IC_ASSIGN(out.cache, LayOutCache(anatomy, plan, out.kv_bytes, request.cache));
  out.plan = std::move(plan);
  return out;
}

}  // namespace infercast
