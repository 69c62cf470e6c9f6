#include "search/afd_estimate.h"

namespace infercast {

Result<PointEstimate> EstimateAfdPoint(const EstimateRequest&, Workbench&) {
  return Fail(ErrorKind::kUnsupportedModel,
              "estimates of attention/feed-forward disaggregation are not built yet");
}

}  // namespace infercast
