#include "cli/search_session.h"

#include <algorithm>
#include <memory>

namespace infercast {

SearchSession::SearchSession(const CliContext& context, Workbench& bench)
    : bench_(&bench), progress_(std::make_shared<ProgressLine>(context)) {
  progress_->Update("searching", 0, 0, "");
  bench.Watch(std::make_shared<SearchWatch>(
      &InterruptGuard::requested(),
      [progress = progress_](std::uint64_t tried, std::uint64_t known) {
        // Pools share layouts, and later tasks are not known yet: never more than all.
        progress->Update("searching", std::min(tried, known), known, "layouts");
      }));
}

SearchSession::~SearchSession() { bench_->Watch(nullptr); }

}  // namespace infercast
