// What measured points really say: defects that recur in public collections, mended where the truth
// can be inferred and marked where it cannot, each with a note. Nothing is changed silently.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/parallel.h"
#include "validation/measured_point.h"

namespace infercast {

struct RepairedPool {
  ParallelLayout layout;
  std::int64_t workers = 1;
};

// A point that a forecast can be asked for, or why it cannot.
struct RepairedPoint {
  MeasuredPoint point;
  std::optional<std::string> unanswerable;  // reason
  bool disaggregated = false;
  RepairedPool worker;           // aggregated
  RepairedPool prefill, decode;  // disaggregated
  std::int64_t concurrency = 0;
  std::vector<std::string> repairs;  // what was read differently from what is written
  std::vector<std::string> marks;    // why the measurement may not be what it says
  bool hidden_speculation = false;   // one of the marks
  bool copy = false;                 // the same measurement as an earlier row
};

// Repairs each point and, looking across them, marks copies and hidden speculation.
// `is_moe(model)`: whether the model has experts; the expert widths of dense models mean nothing.
std::vector<RepairedPoint> RepairPoints(std::vector<MeasuredPoint> points,
                                        const std::function<bool(const std::string&)>& is_moe);

}  // namespace infercast
