#include "search/afd_search.h"

namespace infercast {

Result<TaskTable> RunAfdTask(const ResolvedTask&, Workbench&) {
  return Fail(ErrorKind::kUnsupportedModel,
              "searches of attention/feed-forward disaggregation are not built yet");
}

}  // namespace infercast
