// Rows of one meaning: our kinds and the names that stand for them. A case passes when our kind is
// in a row that holds the expected name.
#include "golden_check/error_kinds.h"

#include <algorithm>
#include <vector>

namespace infercast::golden {
namespace {

struct Row {
  std::vector<ErrorKind> kinds;
  std::vector<std::string_view> names;
};

const std::vector<Row>& Rows() {
  using enum ErrorKind;
  static const std::vector<Row> kRows = {
      // A measurement or table is missing.
      {{kPerfDatabase},
       {"PerfDatabase", "PerfDataNotAvailableError", "EmpiricalNotImplementedError"}},
      // A file cannot be opened or is not valid.
      {{kIo, kParquet, kYaml, kCorruptData},
       {"Io", "Parquet", "Yaml", "PerfDataNotAvailableError", "EmpiricalNotImplementedError",
        "ValueError"}},
      // No estimate or no roofline for this operator.
      {{kEmpiricalNotImplemented, kSolNotImplemented, kMissingSystemFlops},
       {"EmpiricalNotImplemented", "SolNotImplemented", "MissingSystemFlops",
        "EmpiricalNotImplementedError", "NotImplementedError"}},
      // The configuration is wrong.
      {{kInvalidEngineConfig, kUnsupportedSchemaVersion, kEngineSpec, kInvalidForwardPassMetrics,
        kUnsupportedModel, kModelConfig, kDataRoot, kInvalidArgument, kUnknownName, kBadModelConfig,
        kIncompatibleMemoryFraction, kInsufficientModelMetadata},
       {"InvalidEngineConfig", "ModelConfig", "EngineSpec", "UnsupportedModel",
        "UnsupportedSchemaVersion", "InvalidForwardPassMetrics", "ValueError",
        "NotImplementedError", "AttributeError", "KeyError", "TypeError"}},
      // It does not fit in memory, or nothing is feasible.
      {{kDoesNotFit, kNoFeasibleConfig, kNoKvBudget}, {"RuntimeError", "NoFeasibleConfigError"}},
      // Usage; the reference's program also leaves this way when nothing was measured for a
      // request.
      {{kUsage, kPerfDatabase, kUnknownName}, {"SystemExit"}},
      // Stand-alone KV capacity names its kinds one by one.
      {{kBadModelConfig}, {"BadConfig"}},
      {{kIncompatibleMemoryFraction}, {"IncompatibleMemoryFraction"}},
      {{kUnsupportedModel}, {"Unsupported"}},
      {{kInsufficientModelMetadata}, {"InsufficientModelMetadata"}},
      {{kNoKvBudget}, {"NoKvBudget", "ValueError"}},
  };
  return kRows;
}

}  // namespace

bool ErrorMatches(ErrorKind kind, std::string_view expected) {
  if (expected == "Panic") return kind != ErrorKind::kInternal;
  return std::ranges::any_of(Rows(), [&](const Row& row) {
    return std::ranges::find(row.kinds, kind) != row.kinds.end() &&
           std::ranges::find(row.names, expected) != row.names.end();
  });
}

}  // namespace infercast::golden
