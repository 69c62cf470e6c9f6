// What fills the memory of one GPU before any request arrives, and what the rest holds as KV cache:
// the figures of an engine's start-up log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "memory/cache_layout.h"
#include "memory/memory_usage.h"
#include "serving/deployment.h"

namespace infercast {

struct MemoryReportRequest {
  CacheOptions cache;
  std::optional<double> fraction;        // of GPU memory for the engine; default: the backend's
  std::optional<double> kv_bytes;        // the cache's memory given outright
  std::optional<double> capacity_bytes;  // of the GPU; default: the system's
};

struct MemoryReport {
  ModelPlan plan;
  // Bytes on one GPU, the fullest pipeline stage.
  double weights = 0;        // without the draft's
  double draft_weights = 0;  // layers of multi-token prediction, when they are used
  double activations = 0;
  double communication = 0;
  double runtime = 0;
  double capacity = 0;
  double fraction = 0;
  bool fraction_of_free = false;
  double kv_bytes = 0;  // what the cache gets
  std::vector<std::string> assumptions;
  CacheLayout cache;

  double non_kv() const { return weights + draft_weights + activations + communication + runtime; }
};

// kNoKvBudget when weights and buffers leave nothing, kInvalidArgument for a fraction outside (0,
// 1]; errors of the build, of EstimateMemory and LayOutCache.
Result<MemoryReport> ReportMemory(const Deployment& deployment, const ParallelLayout& layout,
                                  const MemoryReportRequest& request);

}  // namespace infercast
