// Where a search gets its workers: one per layout, built on demand.
#pragma once

#include <functional>
#include <memory>

#include "base/error.h"
#include "models/parallel.h"
#include "serving/worker.h"

namespace infercast {

// Thread-safe. An error drops the layout (it is remembered as the reason if nothing else is found).
using WorkerSource =
    std::function<Result<std::shared_ptr<const Worker>>(const ParallelLayout& layout)>;

}  // namespace infercast
