#include "engine/breakdown.h"

namespace infercast {

OpEntry* Breakdown::Find(std::string_view name) {
  for (OpEntry& e : entries) {
    if (e.name == name) return &e;
  }
  return nullptr;
}

void Breakdown::Add(std::string_view name, const PerfResult& r) {
  OpEntry entry;
  entry.name = name;
  entry.latency_ms = r.latency_ms;
  entry.energy_wms = r.energy_wms;
  entry.source = r.source;
  entry.tier = r.tier;
  entry.origin = r.origin;
  entry.fallbacks = r.fallbacks;
  if (r.has_sol) {
    entry.sol_ms = r.latency_ms;
    entry.sol_math_ms = r.sol_math_ms;
    entry.sol_mem_ms = r.sol_mem_ms;
  }
  Add(entry);
}

void Breakdown::Add(const OpEntry& entry) {
  OpEntry* known = Find(entry.name);
  if (known == nullptr) {
    entries.push_back(entry);
    return;
  }
  known->latency_ms += entry.latency_ms;
  known->energy_wms += entry.energy_wms;
  known->sol_ms += entry.sol_ms;
  known->sol_math_ms += entry.sol_math_ms;
  known->sol_mem_ms += entry.sol_mem_ms;
  if (known->source != entry.source) known->source = Source::kMixed;
  known->tier = std::max(known->tier, entry.tier);
  known->origin = Origin::Weaker(known->origin, entry.origin);
  known->fallbacks.Add(entry.fallbacks);
}

void Breakdown::Scale(double f) {
  for (OpEntry& e : entries) {
    e.latency_ms *= f;
    e.energy_wms *= f;
    e.sol_ms *= f;
    e.sol_math_ms *= f;
    e.sol_mem_ms *= f;
  }
}

void Breakdown::Divide(double d) {
  for (OpEntry& e : entries) {
    e.latency_ms /= d;
    e.energy_wms /= d;
    e.sol_ms /= d;
    e.sol_math_ms /= d;
    e.sol_mem_ms /= d;
  }
}

double Breakdown::TotalLatency() const {
  double sum = 0;
  for (const OpEntry& e : entries) sum += e.latency_ms;
  return sum;
}

double Breakdown::TotalEnergy() const {
  double sum = 0;
  for (const OpEntry& e : entries) sum += e.energy_wms;
  return sum;
}

Tier Breakdown::WorstTier() const {
  Tier tier = Tier::kSilicon;
  for (const OpEntry& e : entries) tier = std::max(tier, e.tier);
  return tier;
}

}  // namespace infercast
