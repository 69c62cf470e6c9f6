// Result<T>: what every fallible function of the library returns. No exception leaves the library.
//
//   infercast::Result<double> ms = engine.Decode(32, 4096);
//   if (!ms) std::cerr << infercast::ToString(ms.error().kind) << ": " << ms.error().message;
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "infercast/config.h"

namespace infercast {
INFERCAST_INLINE namespace v1 {
enum class ErrorKind : std::uint8_t {
  // Data.
  kPerfDatabase,  // a table, slice or measurement is missing
  kIo,            // a file cannot be opened or read
  kParquet,       // a Parquet file cannot be decoded or has the wrong schema
  kYaml,          // a yaml file is malformed or lacks a required key
  kCorruptData,   // a file exists but its content is damaged
  // Estimates.
  kMissingSystemFlops,       // the GPU has no rate for the number format
  kEmpiricalNotImplemented,  // nothing to calibrate an estimate from
  kSolNotImplemented,        // no speed-of-light figure for this operator
  // Configuration.
  kInvalidEngineConfig,
  kUnsupportedSchemaVersion,
  kEngineSpec,  // an engine description cannot be decoded
  kInvalidForwardPassMetrics,
  kUnsupportedModel,
  kModelConfig,      // a checkpoint's configuration is missing something or malformed
  kDataRoot,         // the measured data is not there: `infercast data fetch`
  kInvalidArgument,  // a value outside its domain
  kUnknownName,      // unknown model, system, backend, version, number format ...
  kBadModelConfig,
  kIncompatibleMemoryFraction,
  kInsufficientModelMetadata,
  kNoKvBudget,  // weights and activations leave no room for a KV cache
  // Outcomes.
  kDoesNotFit,        // does not fit in GPU memory
  kNoFeasibleConfig,  // no configuration meets the target
  kUsage,
  kNetwork,
  kInterrupted,
  kInternal,
};

// Stable snake_case name of a kind, e.g. "perf_database".
INFERCAST_API std::string_view ToString(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;  // for people: names the value, what was expected, what is available

  bool operator==(const Error&) const = default;
};

template <typename T>
using Result = std::expected<T, Error>;

}  // namespace v1
}  // namespace infercast
