// The options that say what is served, on what and how: shared by every command that forecasts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/cli_context.h"
#include "cli/database_flags.h"
#include "models/checkpoint.h"
#include "serving/deployment.h"
#include "serving/workload.h"
#include "tables/versions.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

// --model, the choice of measurements, number formats, speculation, kernels.
struct DeploymentFlags {
  DatabaseFlags database;
  std::string model;
  std::optional<std::string> gemm, moe, kv, fmha, comm;
  std::string nextn = "0";
  std::optional<double> nextn_accepted;
  std::optional<std::string> attention_backend;
  std::optional<std::string> moe_backend;

  void Declare(CLI::App& command);
  // The request of one backend. kUnknownName, kInvalidArgument for a bad value.
  Result<DeploymentRequest> Request(const CliContext& context) const;
  // Draft depth and acceptance; `model` resolves "auto".
  Result<Speculation> SpeculationOf(const ModelConfig& model) const;
};

// --isl, --osl, --prefix and images.
struct WorkloadFlags {
  Workload workload;

  // The defaults of the command.
  explicit WorkloadFlags(std::int64_t isl, std::int64_t osl) {
    workload.isl = isl;
    workload.osl = osl;
  }
  void Declare(CLI::App& command);
};

// --tp-size, --pp-size, --attention-dp-size, --moe-tp-size, --moe-ep-size, --cp-size.
struct LayoutFlags {
  std::optional<std::int64_t> tp, pp, dp, moe_tp, moe_ep, cp;

  void Declare(CLI::App& command);
  bool given() const { return tp || pp || dp || moe_tp || moe_ep || cp; }
  ParallelLayout Layout() const;
};

// The systems and checkpoints that a run sees.
struct Surroundings {
  SystemsCatalog systems;
  CheckpointSearch checkpoints;
};
// kDataRoot when the data package is needed and has not been fetched.
Result<Surroundings> OpenSurroundings(const CliContext& context);

}  // namespace infercast
