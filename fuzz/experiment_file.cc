// Experiment files: no text may crash, hang or take the machine's memory, and a task that is read
// is written as text that reads as the same task.
#include "search/experiment_file.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace infercast;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto same_again = [](const Task& task) {
    const std::string written = FormatTask(task);
    const auto again = ParseTask(written);
    if (!again || FormatTask(*again) != written) std::abort();
  };
  if (const auto file = ParseExperiments(text, "file", {})) {
    for (const Experiment& experiment : file->experiments) same_again(experiment.task);
  } else if (file.error().message.empty()) {
    std::abort();
  }
  if (const auto task = ParseTask(text)) same_again(*task);
  return 0;
}
