// The memory model of a built plan: what Worker and the stand-alone capacity estimate share.
#pragma once

#include "memory/memory_usage.h"
#include "models/model_plan.h"

namespace infercast {

MemoryModel MemoryModelOf(const ModelPlan& plan);

}  // namespace infercast
