// What keeps each operator of a step from being faster: arithmetic, memory bandwidth, the links
// between GPUs, or the launching of kernels.
//
// Method: the roofline argument. The same shapes are priced a second time at the speed of light,
// where an operator answers the time of its arithmetic and the time of its memory traffic; the
// longer of the two is its bound, and bound over latency tells how near it comes. Communication is
// told by the kind of the operator. A kernel that does next to nothing still has to be started and
// to drain: what takes at most kLaunchMs per kernel and attains less than kNearBound of its
// roofline is bound by launches.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "engine/breakdown.h"
#include "operators/operator.h"
#include "serving/worker.h"

namespace infercast {

// Starting a kernel and waiting for its last block takes 2 to 5 us on current GPUs; measured
// latencies of tiny operators lie between 3 and 10 us.
inline constexpr double kLaunchMs = 0.010;  // per kernel
inline constexpr double kNearBound = 0.25;  // of the roofline

enum class Bound : std::uint8_t {
  kNone,  // costs nothing
  kCompute,
  kBandwidth,
  kLaunch,
  kCommunication,
  kUnknown,  // measured as a whole, or a roofline that is one figure
};
template <>
struct EnumNames<Bound> {
  static constexpr std::string_view kType = "bound";
  static constexpr std::array<std::string_view, 6> kNames = {"none",   "compute",       "bandwidth",
                                                             "launch", "communication", "unknown"};
};

// What an operator moves: tells what would make it faster.
enum class OperatorRole : std::uint8_t {
  kWeights,    // matrix products with weights: read once per step, whatever the batch
  kAttention,  // attention and its cache: grows with requests and their length
  kState,      // recurrent layers: grows with requests, not with their length
  kActivations,
  kCommunication,
  kOther,
};
template <>
struct EnumNames<OperatorRole> {
  static constexpr std::string_view kType = "operator role";
  static constexpr std::array<std::string_view, 6> kNames = {
      "weights", "attention", "state", "activations", "communication", "other"};
};

OperatorRole RoleOf(const Operator& op);
// Kernels that one call of an operator starts, as a rule of thumb: one, or the parts of a block
// that is measured as a whole.
int KernelsOf(const Operator& op);

struct OperatorBound {
  Bound bound = Bound::kUnknown;
  OperatorRole role = OperatorRole::kOther;
  double count = 0;  // calls in one pass of the model, usually its layers; 0: not known
  // At the speed of light, ms: the whole, its arithmetic and its memory traffic. 0: not known.
  double bound_ms = 0, compute_ms = 0, memory_ms = 0;
  std::optional<double> attained;  // bound_ms / latency
};

// The rule of this file's head. `calls` of the operator took `latency_ms`; `kernels` per call.
Bound ClassifyBound(OperatorRole role, double latency_ms, double calls, int kernels,
                    double bound_ms, double compute_ms, double memory_ms);

// Which lists the names of a breakdown come from.
enum class PassKind : std::uint8_t { kContext, kGeneration, kMixed, kEncoder };

// A worker at the speed of light, composites taken apart, beside what its operators are. Immutable.
class RooflineTwin {
 public:
  // `take_apart`: give the members of overlapped groups entries of their own, so that the longer
  // group tells the bound. Errors of building a worker.
  static Result<std::shared_ptr<const RooflineTwin>> Of(const Worker& worker,
                                                        bool take_apart = true);

  // Answers rooflines for any shape that the worker answers.
  const std::shared_ptr<const Worker>& rooflines() const { return rooflines_; }
  // The members of overlapped groups, priced like the worker; null: there are none.
  const std::shared_ptr<const Worker>& members() const { return members_; }

  // Bounds of the entries of `priced`, which add up `passes` passes. `rooflines` and `members` (may
  // be null) are what the two workers above answer for the same shapes.
  std::vector<OperatorBound> Classify(const Breakdown& priced, const Breakdown& rooflines,
                                      const Breakdown* members, PassKind kind, double passes) const;

 private:
  struct Known {
    OperatorRole role = OperatorRole::kOther;
    double count = 0;
    int kernels = 1;
    bool overlap = false;
  };
  using Inventory = std::map<std::string, Known, std::less<>>;

  static void List(const std::vector<Operator>& ops, Inventory& inventory);
  const Known* Find(std::string_view name, PassKind kind) const;

  std::shared_ptr<const Worker> rooflines_, members_;
  Inventory context_, generation_, encoder_;
};

}  // namespace infercast
