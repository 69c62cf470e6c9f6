#include "memory/plan_memory.h"

#include "operators/bound_operator.h"

namespace infercast {

MemoryModel MemoryModelOf(const ModelPlan& plan) {
  MemoryModel model;
  model.facts = plan.facts;
  model.backend = plan.backend;
  model.activation_width = plan.activation_hidden_size > 0
                               ? static_cast<double>(plan.activation_hidden_size)
                               : static_cast<double>(plan.facts.num_heads * plan.facts.head_size);
  for (const Operator& op : plan.context_ops) model.context_weight_bytes += WeightBytes(op);
  model.tp = plan.layout.tp;
  model.pp = plan.layout.pp;
  model.dp = plan.layout.dp;
  model.moe_ep = plan.layout.moe_ep.value_or(1);
  model.nextn = plan.nextn;
  return model;
}

}  // namespace infercast
