// Result files of load generators as measured points: `vllm bench serve`, SGLang's bench_serving,
// GuideLLM and AIPerf, each recognised by its own keys.
//
// Their results say what load was sent and what was seen, rarely what was deployed; the rest comes
// from the caller.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "validation/measured_point.h"

namespace infercast {

// What a result file may leave open. Texts may be empty.
struct BenchmarkDeployment {
  std::string model, system, backend, version, precision;
  MeasuredWorker worker;
  std::optional<std::int64_t> isl, osl, concurrency;
};

// JSON or JSON lines. kInvalidArgument when no known tool's keys are there.
Result<MeasuredFile> ParseBenchmarkResults(std::string_view text,
                                           const BenchmarkDeployment& deployment);

// CSV or results, told apart by the first character. Fills what a CSV leaves empty, too.
Result<MeasuredFile> ParseMeasured(std::string_view text, const BenchmarkDeployment& deployment);

}  // namespace infercast
