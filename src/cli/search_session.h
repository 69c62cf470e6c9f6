// What a search on the command line has around it: a progress line, and Ctrl-C that ends it with
// what was found so far.
#pragma once

#include <memory>

#include "base/error.h"
#include "cli/cli_context.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "search/experiments.h"
#include "search/workbench.h"

namespace infercast {

class SearchSession {
 public:
  // Watches every search on `bench`, which must outlive the session.
  SearchSession(const CliContext& context, Workbench& bench);
  ~SearchSession();

  // Wipes the progress line. The error of a search that was interrupted before it found anything is
  // kInterrupted.
  template <typename T>
  Result<T> Finish(Result<T> result) {
    progress_->Clear();
    if (!result && interrupted()) {
      return Fail(ErrorKind::kInterrupted, "interrupted before anything was found");
    }
    return result;
  }
  static bool interrupted() { return InterruptGuard::requested().load(); }

 private:
  Workbench* bench_;
  InterruptGuard guard_;
  // Shared with the watch, which workers may keep for longer than the session.
  std::shared_ptr<ProgressLine> progress_;
};

}  // namespace infercast
