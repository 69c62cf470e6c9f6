// Names of the error kinds.
#include "base/error.h"

namespace infercast {

std::string_view ToString(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kPerfDatabase:
      return "perf_database";
    case ErrorKind::kIo:
      return "io";
    case ErrorKind::kParquet:
      return "parquet";
    case ErrorKind::kYaml:
      return "yaml";
    case ErrorKind::kCorruptData:
      return "corrupt_data";
    case ErrorKind::kMissingSystemFlops:
      return "missing_system_flops";
    case ErrorKind::kEmpiricalNotImplemented:
      return "empirical_not_implemented";
    case ErrorKind::kSolNotImplemented:
      return "sol_not_implemented";
    case ErrorKind::kInvalidEngineConfig:
      return "invalid_engine_config";
    case ErrorKind::kUnsupportedSchemaVersion:
      return "unsupported_schema_version";
    case ErrorKind::kEngineSpec:
      return "engine_spec";
    case ErrorKind::kInvalidForwardPassMetrics:
      return "invalid_forward_pass_metrics";
    case ErrorKind::kUnsupportedModel:
      return "unsupported_model";
    case ErrorKind::kModelConfig:
      return "model_config";
    case ErrorKind::kDataRoot:
      return "data_root";
    case ErrorKind::kInvalidArgument:
      return "invalid_argument";
    case ErrorKind::kUnknownName:
      return "unknown_name";
    case ErrorKind::kBadModelConfig:
      return "bad_model_config";
    case ErrorKind::kIncompatibleMemoryFraction:
      return "incompatible_memory_fraction";
    case ErrorKind::kInsufficientModelMetadata:
      return "insufficient_model_metadata";
    case ErrorKind::kNoKvBudget:
      return "no_kv_budget";
    case ErrorKind::kDoesNotFit:
      return "does_not_fit";
    case ErrorKind::kNoFeasibleConfig:
      return "no_feasible_config";
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kNetwork:
      return "network";
    case ErrorKind::kInterrupted:
      return "interrupted";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "internal";
}

}  // namespace infercast
