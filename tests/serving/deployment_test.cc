// One deployment: every way to a worker builds the same plan, so that searches, estimates and the
// memory command agree on what a sequence keeps.
#include "serving/deployment.h"

#include <gtest/gtest.h>

#include "serving/measured_deployment.h"

namespace infercast {
namespace {

constexpr std::int64_t kTokens = 65536;

Result<std::shared_ptr<const Deployment>> Open(const std::string& model, Behaviour behaviour) {
  DeploymentRequest request;
  request.model = model;
  request.system = "h200_sxm";
  request.backend = Backend::kVllm;
  request.behaviour = behaviour;
  return testing::OpenDeployment(request);
}

// Bytes of one long sequence, from a worker that is asked for by its build options or its layout.
Result<double> KvBytes(const Deployment& deployment, bool by_options) {
  ParallelLayout layout;
  layout.moe_tp = 1;
  BuildOptions options = deployment.request().build;
  options.layout = layout;
  const auto worker = by_options ? deployment.MakeWorker(options) : deployment.MakeWorker(layout);
  if (!worker) return std::unexpected(worker.error());
  return (*worker)->plan().facts.kv.Bytes(kTokens);
}

TEST(Deployment, EveryWayToAWorkerCountsTheSameCache) {
  for (const char* model : {"XiaomiMiMo/MiMo-V2-Flash", "Qwen/Qwen3-8B"}) {
    for (const Behaviour behaviour : {Behaviour::kNative, Behaviour::kReference}) {
      const auto deployment = Open(model, behaviour);
      ASSERT_TRUE(deployment) << deployment.error().message;
      const auto by_options = KvBytes(**deployment, true);
      const auto by_layout = KvBytes(**deployment, false);
      ASSERT_TRUE(by_options) << by_options.error().message;
      ASSERT_TRUE(by_layout) << by_layout.error().message;
      EXPECT_EQ(*by_options, *by_layout) << model;
    }
  }
}

TEST(Deployment, SlidingLayersKeepTheirWindowOnlyInNativeBehaviour) {
  const auto native = Open("XiaomiMiMo/MiMo-V2-Flash", Behaviour::kNative);
  const auto reference = Open("XiaomiMiMo/MiMo-V2-Flash", Behaviour::kReference);
  ASSERT_TRUE(native) << native.error().message;
  ASSERT_TRUE(reference) << reference.error().message;
  const auto windows = KvBytes(**native, true);
  const auto everything = KvBytes(**reference, true);
  ASSERT_TRUE(windows && everything);
  EXPECT_LT(*windows, 0.5 * *everything);
}

}  // namespace
}  // namespace infercast
