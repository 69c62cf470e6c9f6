// What an estimate is answered by: a benchmark of its deployment run in virtual time, or the closed
// formula; the figures of both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "search/estimate_point.h"
#include "search/score.h"
#include "serving/replica_forecast.h"

namespace infercast {

// The load of the run. What is absent is the deployment's own or the backend's default.
struct BenchmarkLoad {
  std::optional<std::int64_t>
      concurrency;                       // requests in flight; absent: as many as it has room for
  std::optional<double> rate;            // > 0: open arrivals instead, requests per second
  std::optional<std::int64_t> requests;  // of the run
  std::optional<double> shortest;        // lengths from this share of the nominal one on
  std::optional<std::uint64_t> seed;     // of lengths and arrivals; absent: 1
  std::optional<std::int64_t> token_budget, poll_interval, hold_steps, max_requests;
  std::vector<std::string> corrections;  // name=value
  bool bare = false;                     // no corrections but those
  bool recipe = false;                   // launch flags of the public benchmark's recipes

  bool given() const;
};

bool HasBenchmark(EstimateMode mode);  // agg, disagg

// Times ms, rates per second.
struct EstimateFigures {
  double ttft = 0, tpot = 0, request_latency = 0;
  double tokens_s = 0, tokens_s_gpu = 0, tokens_s_user = 0, seq_s = 0;
  double concurrency = 0;
  double encoder_latency = 0;
  std::int64_t gpus = 0;
};
EstimateFigures FormulaFigures(const PointEstimate& point);

struct ScoredEstimate {
  bool closed_loop = false;  // the figures are those of the run
  EstimateFigures figures, formula;
  std::optional<ServingRun> run;
  std::vector<std::string> notes;
};

// A run is made for kClosedLoop, as far as the deployment can be run (a note tells why not), and
// wherever a load is given (`wanted`: as if one were); by the formula it stands beside. A note says
// so where open arrivals outrun the deployment. With a load given: kInvalidArgument in modes and
// for deployments without a run and for a load out of range, and the errors of the run.
Result<ScoredEstimate> ScoreEstimate(const EstimateRequest& request, const PointEstimate& point,
                                     const BenchmarkLoad& load, ScoredBy score,
                                     bool wanted = false);

// The label that collections of measurements give these formats: bf16, fp8, fp4; "" for others.
std::string_view PublishedPrecision(const QuantModes& quant);

}  // namespace infercast
