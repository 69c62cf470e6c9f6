// MemoryEstimate.
#include "api/internal.h"
#include "memory/kv_growth.h"
#include "memory/memory_usage.h"
#include "serving/kv_capacity.h"
#include "serving/worker.h"

namespace infercast::v1 {

Result<MemoryEstimate> MemoryEstimate::Of(const MemoryOptions& options) {
  return internal::Guarded<MemoryEstimate>([&]() -> Result<MemoryEstimate> {
    for (const auto& [name, value] : {std::pair{"batch_size", options.batch_size},
                                      {"isl", options.isl},
                                      {"osl", options.osl},
                                      {"beam_width", options.beam_width}}) {
      if (value < 1 || value > 1'000'000'000) {
        return internal::Refuse(ErrorKind::kInvalidArgument,
                                fmt::format("{} is {}: expected 1 to 10^9", name, value));
      }
    }
    if (options.prefix < 0 || options.prefix > options.isl || options.max_num_tokens < 0) {
      return internal::Refuse(ErrorKind::kInvalidArgument,
                              "prefix must lie in 0 to isl, and max_num_tokens be 0 or more");
    }
    API_ASSIGN(const internal::OpenedModel opened, internal::OpenModel(options.model));
    API_ASSIGN(const auto worker, opened.deployment->MakeWorker(opened.layout));
    infercast::MemoryQuery query;
    query.batch = options.batch_size;
    query.beam = options.beam_width;
    query.isl = options.isl;
    query.osl = options.osl;
    query.prefix = options.prefix;
    query.num_tokens = options.max_num_tokens;
    query.max_seq_len = options.max_seq_len;
    API_ASSIGN(const infercast::MemoryUsage usage,
               infercast::EstimateMemory(worker->memory(), worker->system(), query));
    const double fraction = options.memory_fraction.value_or(
        infercast::DefaultAggregateFraction(worker->backend(), opened.deployment->version()));
    if (!(fraction > 0 && fraction <= 1)) {
      return internal::Refuse(
          ErrorKind::kInvalidArgument,
          fmt::format("memory_fraction is {}: expected above 0, up to 1", fraction));
    }
    const infercast::BackendMemory& backend = infercast::BackendMemoryOf(worker->backend());
    const infercast::MemoryVerdict verdict =
        infercast::CheckMemory(usage, worker->capacity_bytes(), fraction, backend);

    MemoryEstimate out;
    out.weights_gib = usage.weights;
    out.activations_gib = usage.activations;
    out.kvcache_gib = usage.kvcache;
    out.communication_gib = usage.nccl;
    out.runtime_gib = usage.others;
    out.total_gib = usage.total;
    out.capacity_gib = static_cast<double>(worker->capacity_bytes()) / infercast::kGiB;
    out.fits = verdict.fits();
    out.kv_fits = !verdict.kv_oom && !verdict.oom;
    const infercast::KvLayout& kv = worker->plan().facts.kv;
    const infercast::KvGrowth growth = infercast::GrowthOf(kv);
    out.kv_bytes_per_token = static_cast<std::int64_t>(growth.per_token);
    out.kv_bytes_per_sequence = static_cast<std::int64_t>(growth.per_sequence);
    out.notes = opened.deployment->model().notes;
    out.kv_budget_gib =
        std::max(0.0, infercast::KvBudget(out.capacity_gib, usage.total - usage.kvcache, fraction,
                                          backend.fraction_of_free, backend.reserved_fraction,
                                          backend.tolerance));
    out.kv_tokens = static_cast<std::int64_t>(kv.Capacity(out.kv_budget_gib * infercast::kGiB));
    return out;
  });
}

}  // namespace infercast::v1
