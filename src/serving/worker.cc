#include "serving/worker.h"

#include <fmt/format.h>

#include <limits>

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

  worker->memory_.facts = plan.facts;
  worker->memory_.backend = plan.backend;
  worker->memory_.activation_width =
      plan.activation_hidden_size > 0
          ? static_cast<double>(plan.activation_hidden_size)
          : static_cast<double>(plan.facts.num_heads * plan.facts.head_size);
  for (const Operator& op : plan.context_ops) {
    worker->memory_.context_weight_bytes += WeightBytes(op);
  }
  worker->memory_.tp = plan.layout.tp;
  worker->memory_.pp = plan.layout.pp;
  worker->memory_.dp = plan.layout.dp;
  worker->memory_.moe_ep = plan.layout.moe_ep.value_or(1);
  worker->memory_.nextn = plan.nextn;

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
