// The roofline of a whole forward pass: the sum of simple per-operator bounds at real-valued
// coordinates. It only has to be proportional to the truth: the whole-model table uses ratios of it
// to carry a measured time from one iteration shape to another.
#pragma once

#include <functional>
#include <vector>

#include "base/error.h"
#include "hardware/system_spec.h"
#include "operators/operator.h"

namespace infercast {

// One iteration of one rank: `requests` requests of `length` tokens each (new tokens in prefill, KV
// length in decode), `prefix` cached tokens per request, `tokens` through token-major operators.
struct ForwardPoint {
  double tokens = 0;
  double requests = 0;
  double length = 0;
  double prefix = 0;
};

class ForwardRoofline {
 public:
  // kSolNotImplemented for an operator kind without a bound here, kInvalidEngineConfig for a
  // retired dispatch flavour.
  static Result<ForwardRoofline> Compile(const std::vector<Operator>& ops,
                                         const SystemSpec& system);

  // Milliseconds. Infinite or NaN where a figure of the system is missing.
  double Evaluate(const ForwardPoint& point) const;

 private:
  using Term = std::function<double(const ForwardPoint&)>;

  static Result<ForwardRoofline> CompileGroup(const std::vector<Operator>& ops,
                                              const SystemSpec& system, bool top_level);
  static Result<Term> CompileTerm(const Operator& op, const SystemSpec& system, bool top_level);

  std::vector<Term> terms_;
};

}  // namespace infercast
