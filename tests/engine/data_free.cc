#include "engine/data_free.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace infercast::testing {

DataFreeSystem::DataFreeSystem() {
  WriteText(root_.path() / "plain.yaml",
            "data_dir: data/plain\n"
            "gpu:\n"
            "  mem_bw: 4800000000000\n"
            "  mem_bw_empirical_scaling_factor: 0.8\n"
            "  mem_empirical_constant_latency: 0.000003\n"
            "  mem_capacity: 151397597184\n"
            "  bfloat16_tc_flops: 989000000000000\n"
            "  sm_version: 90\n"
            "node:\n"
            "  num_gpus_per_node: 8\n"
            "  inter_node_bw: 50000000000\n"
            "  intra_node_bw: 450000000000\n"
            "  p2p_latency: 0.00001\n"
            "misc:\n"
            "  nccl_mem: {1: 0}\n"
            "  other_mem: 0\n");
  std::filesystem::create_directories(root_.path() / "data" / "plain" / "trtllm" / "1.0.0");
}

Elementwise Kernel(std::string name, double bytes_per_token, double scale_factor) {
  Elementwise op;
  op.name = std::move(name);
  op.scale_factor = scale_factor;
  op.bytes_per_token = bytes_per_token;
  op.scale_num_tokens = 0;
  return op;
}

EngineSpec DataFreeSystem::Spec(std::optional<std::uint32_t> nextn) const {
  EngineSpec spec;
  spec.engine.model_name = "m";
  spec.engine.system_name = "plain";
  spec.engine.backend = "trtllm";
  spec.engine.backend_version = "1.0.0";
  spec.engine.nextn = nextn;
  Overlap overlap;
  overlap.name = "ov";
  overlap.group_a = {Kernel("p", 4e6, 1)};
  overlap.group_b = {Kernel("q", 1e6, 1), Kernel("r", 2e6, 1)};
  spec.context_ops = {Kernel("a", 1e6, 1), Kernel("context_attention", 2e6, 2), Kernel("a", 5e5, 3),
                      overlap};
  spec.generation_ops = {Kernel("g", 1e6, 1), Kernel("generation_attention", 3e6, 1),
                         Kernel("g", 2e6, 0.5)};
  return spec;
}

std::shared_ptr<const Engine> DataFreeSystem::Open(std::optional<std::uint32_t> nextn) const {
  auto engine = Engine::Open(Spec(nextn), root(), Behaviour::kReference);
  if (!engine) throw std::runtime_error(engine.error().message);
  return *engine;
}

Database DataFreeSystem::OpenDatabase() const { return Open(std::nullopt)->database(); }

}  // namespace infercast::testing
