// The forecast of a deployment that leaves something open: how wide its workers are, how wide its
// experts, and whether operators that nobody measured may be estimated.
//
// Method: readings are tried in order of trust and the first that answers is taken. Measured ones
// come first: of an open parallelism the smallest that holds weights and requests, of open experts
// whole ones on their ranks, else experts split over the ranks. Only where no reading can be priced
// from measurements alone, the same readings are tried with estimates for what is missing. What was
// chosen, and why, stands in the notes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "search/estimate_point.h"
#include "search/workbench.h"

namespace infercast {

struct OpenChoices {
  bool layout = false;     // any tensor parallelism up to two nodes; implies `experts`
  bool experts = false;    // whole or split; of dense models without effect
  bool estimates = false;  // HYBRID where SILICON has no answer
};

// The widest worker that is tried when no parallelism is given.
inline constexpr std::int64_t kWidestGuess = 16;

struct ChosenEstimate {
  EstimateRequest request;  // with what was chosen
  PointEstimate point;
  std::vector<std::string> notes;
};

// Where nothing answers: kDoesNotFit if that is what kept any reading from an answer, else the
// error of the first reading.
Result<ChosenEstimate> EstimateWithChoices(const EstimateRequest& request, const OpenChoices& open,
                                           Workbench& bench);

// A pool whose batch or number of workers is absent: a prefill batch of 1, a decode batch as the
// request's, one worker each; `notes` says so.
void FillPools(EstimateRequest& request, std::vector<std::string>& notes);

}  // namespace infercast
