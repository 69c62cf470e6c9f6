// The options that say what is served, on what and how: shared by every command that forecasts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/cli_context.h"
#include "cli/database_flags.h"
#include "models/surroundings.h"
#include "serving/deployment.h"
#include "serving/workload.h"

namespace CLI {
class App;
}  // namespace CLI

namespace infercast {

// Accepts, without any effect, flags that only steer how the reference runs and logs.
void DeclareIgnored(CLI::App& command);

// --model, the choice of measurements, number formats, speculation, kernels.
struct DeploymentFlags {
  DatabaseFlags database;
  std::string model;
  std::optional<std::string> gemm, moe, kv, fmha, comm;
  std::string nextn = "0";
  std::optional<double> nextn_accepted;
  std::optional<std::string> attention_backend;
  std::optional<std::string> moe_backend;
  std::string forward_model = "op_level";
  bool encoder_tensor_parallel = false;  // else the encoder's batch is split over the ranks

  void Declare(CLI::App& command);
  // The request of one backend. kUnknownName, kInvalidArgument for a bad value.
  Result<DeploymentRequest> Request(const CliContext& context) const;
  // --nextn: a number of draft tokens, or absent for "auto". kInvalidArgument for anything else.
  Result<std::optional<std::int64_t>> DraftTokens() const;
  // The same for a forecast. kInvalidArgument also where an acceptance that is needed is missing.
  Result<std::optional<std::int64_t>> Nextn() const;
  // --forward-model.
  Result<ForwardModel> Forward() const;
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
  // Whether the width of the experts was left open.
  bool experts_open() const { return !moe_tp && !moe_ep; }
  ParallelLayout Layout() const;
};

// Those of the global options; see models/surroundings.h.
Result<Surroundings> OpenSurroundings(const CliContext& context);

}  // namespace infercast
