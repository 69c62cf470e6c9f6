// Error kinds and Result<T>: every fallible function of the project returns one of these.
//
// The kinds are a closed set. A missing measurement, a damaged file and a wrong configuration are
// different kinds and stay different up to the exit code of the program.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace infercast {

enum class ErrorKind : std::uint8_t {
  // Data.
  kPerfDatabase,  // a table, slice or measurement is missing
  kIo,            // a file cannot be opened or read
  kParquet,       // a Parquet file cannot be decoded or has the wrong schema
  kYaml,          // a yaml file is malformed or lacks a required key
  kCorruptData,   // a file exists but its content is damaged (native behaviour only)
  // Estimates.
  kMissingSystemFlops,       // the GPU has no rate for the number format
  kEmpiricalNotImplemented,  // nothing to calibrate an estimate from
  kSolNotImplemented,        // no roofline (decomposition) for this operator
  // Configuration.
  kInvalidEngineConfig,
  kUnsupportedSchemaVersion,
  kEngineSpec,
  kInvalidForwardPassMetrics,
  kUnsupportedModel,
  kModelConfig,
  kDataRoot,
  kInvalidArgument,  // a value outside its domain (isl = 0, tp not dividing heads ...)
  kUnknownName,      // unknown model, system, backend, version, quantisation ...
  kBadModelConfig,   // stand-alone KV capacity: a config.json field is missing or wrong
  kIncompatibleMemoryFraction,
  kInsufficientModelMetadata,
  kNoKvBudget,
  // Outcomes.
  kDoesNotFit,        // does not fit in GPU memory
  kNoFeasibleConfig,  // no configuration meets the target
  kUsage,             // the command line is wrong
  kNetwork,
  kInterrupted,
  kInternal,
};

// Stable snake_case name of a kind, for --json and logs.
std::string_view ToString(ErrorKind kind);

struct Error {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;  // for people: names the value, what was expected, what is available

  bool operator==(const Error&) const = default;
};

// True for the kinds that mean "nothing was measured here": these, and only these, let a hybrid
// query fall back to an estimate and a Fallback operator to its chain.
constexpr bool IsMissingData(ErrorKind kind) {
  return kind == ErrorKind::kPerfDatabase || kind == ErrorKind::kIo;
}

template <typename T>
using Result = std::expected<T, Error>;

using Status = Result<void>;

inline std::unexpected<Error> Fail(ErrorKind kind, std::string message) {
  return std::unexpected(Error{kind, std::move(message)});
}

}  // namespace infercast

#define INFERCAST_CONCAT_(a, b) a##b
#define INFERCAST_CONCAT(a, b) INFERCAST_CONCAT_(a, b)

// IC_RETURN_IF_ERROR(expr): leaves the function with the error of a Result or Status.
#define IC_RETURN_IF_ERROR(expr)                                            \
  do {                                                                      \
    auto&& ic_status_ = (expr);                                             \
    if (!ic_status_) return std::unexpected(std::move(ic_status_).error()); \
  } while (false)

// IC_ASSIGN(auto x, expr): x = value of the Result, or leaves the function with its error.
#define IC_ASSIGN(lhs, expr) IC_ASSIGN_(INFERCAST_CONCAT(ic_result_, __COUNTER__), lhs, expr)
#define IC_ASSIGN_(tmp, lhs, expr)                          \
  auto tmp = (expr);                                        \
  if (!tmp) return std::unexpected(std::move(tmp).error()); \
  lhs = *std::move(tmp)
