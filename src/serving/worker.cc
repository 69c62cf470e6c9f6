#include "serving/worker.h"

#include <fmt/format.h>

#include <limits>

#include "memory/plan_memory.h"
#include "serving/encoder.h"

namespace infercast {

std::string ParallelText(const ParallelLayout& layout) {
  std::string text = fmt::format("tp{}pp{}dp{}etp{}ep{}", layout.tp, layout.pp, layout.dp,
                                 layout.moe_tp.value_or(1), layout.moe_ep.value_or(1));
  if (layout.cp > 1) text += fmt::format("cp{}", layout.cp);
  return text;
}

Result<std::shared_ptr<const Worker>> Worker::Create(ModelPlan plan, const Database& db,
                                                     const AttentionLaneOrders& lanes) {
  auto worker = std::make_shared<Worker>();
  if (!db.system().mem_capacity) {
    return Fail(ErrorKind::kModelConfig,
                fmt::format("system '{}' has no gpu.mem_capacity, so memory cannot be checked",
                            db.system().name));
  }
  worker->capacity_ = *db.system().mem_capacity;

  IC_ASSIGN(const EngineSpec spec, CompileEngineSpec(plan, TargetOf(db), lanes));
  IC_ASSIGN(worker->engine_, Engine::Bind(spec, db));
  for (const Operator& op : plan.encoder_ops) {
    worker->encoder_.push_back(BoundOperator::Bind(op, db));
  }

  worker->memory_ = MemoryModelOf(plan);
  worker->identity_ = {.model = plan.model,
                       .system = db.system().name,
                       .backend = plan.backend,
                       .version = db.store().identity().version,
                       .layout = plan.layout,
                       .quant = plan.quant,
                       .parallel = ParallelText(plan.layout)};
  worker->plan_ = std::move(plan);
  return worker;
}

std::int64_t Worker::VisualTokensOf(const Workload& workload) const {
  return VisualTokens(plan_.vision, workload);
}

Result<Breakdown> Worker::Encode(const Workload& workload, std::int64_t batch) const {
  if (encoder_.empty() || !plan_.vision) return Breakdown{};
  return EncodeImages(encoder_, *plan_.vision, workload, batch, plan_.layout.tp);
}

}  // namespace infercast
