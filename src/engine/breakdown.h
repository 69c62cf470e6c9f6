// Costs of steps: one figure, or one entry per operator name.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "operators/perf_result.h"

namespace infercast {

// Units: ms, W*ms. `powered_ms`: the part of the latency whose operators have measured power.
struct StepCost {
  double latency_ms = 0;
  double energy_wms = 0;
  double powered_ms = 0;
  Tier tier = Tier::kSilicon;

  void Add(const PerfResult& r) {
    latency_ms += r.latency_ms;
    energy_wms += r.energy_wms;
    if (r.energy_wms > 0) powered_ms += r.latency_ms;
    tier = std::max(tier, r.tier);
  }
  void Add(const StepCost& c, double times = 1) {
    latency_ms += times * c.latency_ms;
    energy_wms += times * c.energy_wms;
    powered_ms += times * c.powered_ms;
    tier = std::max(tier, c.tier);
  }
  void Divide(double d) {
    latency_ms /= d;
    energy_wms /= d;
    powered_ms /= d;
  }
};

struct OpEntry {
  std::string name;
  double latency_ms = 0;
  double energy_wms = 0;
  Source source = Source::kSilicon;
  Tier tier = Tier::kSilicon;
  Origin origin;
  CommFallbackSet fallbacks;  // records live in the engine that answered
  double sol_ms = 0;          // set in roofline listings only
  double sol_math_ms = 0;
  double sol_mem_ms = 0;
};

// Entries in order of first appearance; operators of one name are added up. A name whose operators
// have different sources becomes mixed, also where one of them costs nothing.
class Breakdown {
 public:
  std::vector<OpEntry> entries;

  void Add(std::string_view name, const PerfResult& r);
  void Add(const OpEntry& entry);
  void Scale(double f);
  void Divide(double d);
  double TotalLatency() const;
  double TotalEnergy() const;
  Tier WorstTier() const;

 private:
  OpEntry* Find(std::string_view name);
};

}  // namespace infercast
