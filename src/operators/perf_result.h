// The answer of an operator query and its algebra: scale, add, clamp.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/modes.h"

namespace infercast {

// The reference's label of a value.
enum class Source : std::uint8_t { kSilicon, kEmpirical, kSol, kEstimated, kMixed };
template <>
struct EnumNames<Source> {
  static constexpr std::string_view kType = "source";
  static constexpr std::array<std::string_view, 5> kNames = {"silicon", "empirical", "sol",
                                                             "estimated", "mixed"};
};

// How far an estimate borrowed; the weakest one of a call is reported. kSilicon = none borrowed.
enum class Tier : std::uint8_t { kSilicon, kEmpirical, kXshape, kXquant, kXprofile, kXop };
template <>
struct EnumNames<Tier> {
  static constexpr std::string_view kType = "provenance tier";
  static constexpr std::array<std::string_view, 6> kNames = {"silicon", "empirical", "xshape",
                                                             "xquant",  "xprofile",  "xop"};
};

// Our own provenance, weakest last: adding results keeps the weaker one.
enum class OriginKind : std::uint8_t {
  kExact,         // nothing to compute (zero-cost operator)
  kAnalytic,      // a memory or link formula with a measured efficiency
  kPoint,         // a measured point
  kInterpolated,  // between measured points
  kExtrapolated,  // beyond measured points, utilisation held
  kSubstituted,   // measured at another topology
  kEstimated,     // utilisation estimate from this operator's own measurements
  kTransferred,   // utilisation borrowed from another shape, number format or operator
  kSpeedOfLight,  // roofline only
};
template <>
struct EnumNames<OriginKind> {
  static constexpr std::string_view kType = "origin";
  static constexpr std::array<std::string_view, 9> kNames = {
      "exact",       "analytic",  "measured",    "interpolated",  "extrapolated",
      "substituted", "estimated", "transferred", "speed_of_light"};
};

struct TableSource;

struct Origin {
  OriginKind kind = OriginKind::kExact;
  float octaves = 0;                    // how far beyond the measured points (log2 distance)
  const TableSource* source = nullptr;  // version and channel of the nearest measured row used
  const std::string* donor = nullptr;   // kTransferred: what was borrowed from

  static const Origin& Weaker(const Origin& a, const Origin& b) {
    if (a.kind != b.kind) return a.kind > b.kind ? a : b;
    return b.octaves > a.octaves ? b : a;
  }
};

// A substitution of the communication topology, made when the requested one was not measured.
struct CommFallback {
  std::string comm_backend;
  std::uint32_t requested_ep_size = 0;
  std::uint32_t requested_node_num = 0;
  std::uint32_t measurement_ep_size = 0;
  std::uint32_t measurement_node_num = 0;
  bool operator==(const CommFallback&) const = default;
};

// Ordered set of pointers to records that live in bound operators. The first four need no heap.
class CommFallbackSet {
 public:
  void Add(const CommFallback* record) {
    for (std::size_t i = 0; i < size(); ++i) {
      if ((*this)[i] == *record) return;
    }
    if (count_ < inline_.size()) {
      inline_[count_++] = record;
    } else {
      more_.push_back(record);
    }
  }
  void Add(const CommFallbackSet& other) {
    for (std::size_t i = 0; i < other.size(); ++i) Add(&other[i]);
  }
  std::size_t size() const { return count_ + more_.size(); }
  bool empty() const { return count_ == 0; }
  const CommFallback& operator[](std::size_t i) const {
    return i < inline_.size() ? *inline_[i] : *more_[i - inline_.size()];
  }

 private:
  std::array<const CommFallback*, 4> inline_{};
  std::uint32_t count_ = 0;
  std::vector<const CommFallback*> more_;
};

// Units: ms, W*ms. `sol_math`, `sol_mem` (ms) are set where has_sol.
struct PerfResult {
  double latency_ms = 0;
  double energy_wms = 0;
  double sol_math_ms = 0;
  double sol_mem_ms = 0;
  bool has_sol = false;
  Source source = Source::kSilicon;
  Tier tier = Tier::kSilicon;
  Origin origin;
  CommFallbackSet fallbacks;

  static PerfResult Of(double latency, double energy, Source source, OriginKind kind) {
    PerfResult r;
    r.latency_ms = latency;
    r.energy_wms = energy;
    r.source = source;
    r.origin.kind = kind;
    return r;
  }
  // Start value of a sum: source and origin are those of whatever is added first.
  static PerfResult Zero() { return Of(0, 0, Source::kEmpirical, OriginKind::kExact); }
  // Roofline leaf: max of both bounds.
  static PerfResult Sol(double math_ms, double mem_ms) {
    PerfResult r = Of(std::max(math_ms, mem_ms), 0, Source::kSol, OriginKind::kSpeedOfLight);
    r.sol_math_ms = math_ms;
    r.sol_mem_ms = mem_ms;
    r.has_sol = true;
    return r;
  }

  bool IsZero() const { return latency_ms == 0.0 && energy_wms == 0.0; }

  void Scale(double f) {
    latency_ms *= f;
    energy_wms *= f;
    sol_math_ms *= f;
    sol_mem_ms *= f;
  }
  void Clamp() {
    latency_ms = latency_ms > 0.0 ? latency_ms : 0.0;  // NaN becomes 0
    energy_wms = std::max(energy_wms, 0.0);
    sol_math_ms = std::max(sol_math_ms, 0.0);
    sol_mem_ms = std::max(sol_mem_ms, 0.0);
  }
  // this + b. A side that is exactly zero does not take part in source and SOL pair.
  void Add(const PerfResult& b) {
    if (IsZero()) {
      source = b.source;
      has_sol = b.has_sol;
      sol_math_ms = b.sol_math_ms;
      sol_mem_ms = b.sol_mem_ms;
    } else if (!b.IsZero()) {
      if (source != b.source) source = Source::kMixed;
      has_sol = has_sol && b.has_sol;
      sol_math_ms = has_sol ? sol_math_ms + b.sol_math_ms : 0.0;
      sol_mem_ms = has_sol ? sol_mem_ms + b.sol_mem_ms : 0.0;
    }
    latency_ms += b.latency_ms;
    energy_wms += b.energy_wms;
    tier = std::max(tier, b.tier);
    origin = Origin::Weaker(origin, b.origin);
    if (!b.fallbacks.empty()) fallbacks.Add(b.fallbacks);
  }
};

// What varies from step to step. Token counts are per rank.
struct QueryContext {
  std::uint32_t batch_size = 1;
  std::uint32_t beam_width = 1;
  std::uint32_t s = 1;           // prefill: new tokens per request; decode: KV length of the step
  std::uint32_t prefix = 0;      // cached tokens per request
  std::uint32_t num_tokens = 1;  // x: tokens of token-major operators
  double seq_imbalance_correction_scale = 1.0;
  double gen_seq_imbalance_correction_scale = 1.0;
  std::uint32_t num_image_tokens = 0;
};

}  // namespace infercast
