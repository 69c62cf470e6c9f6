#include "search/encoder_pool.h"

namespace infercast {

Result<TaskTable> RunEncoderPoolTask(const ResolvedTask&, Workbench&) {
  return Fail(ErrorKind::kUnsupportedModel, "encoder pools are not built yet");
}

Status AddEncoderPool(const ResolvedTask&, const EncoderPoint&, Workbench&, TaskRow&) {
  return Fail(ErrorKind::kUnsupportedModel, "encoder pools are not built yet");
}

}  // namespace infercast
