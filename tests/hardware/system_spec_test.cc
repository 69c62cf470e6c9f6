// Reading system yaml files and what follows from their figures.
#include "hardware/system_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace infercast {
namespace {

constexpr const char* kMinimal =
    "data_dir: data/x\n"
    "gpu: {mem_bw: 4.8e12}\n"
    "node: {num_gpus_per_node: 8, inter_node_bw: 50000000000, intra_node_bw: 450000000000.0}\n";

TEST(SystemSpec, MinimalFileHasTheDocumentedDefaults) {
  const auto spec = ParseSystemSpec("x", kMinimal);
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->name, "x");
  EXPECT_EQ(spec->data_dir, "data/x");
  EXPECT_EQ(spec->mem_bw, 4.8e12);
  EXPECT_EQ(spec->mem_bw_empirical_scaling_factor, 1.0);
  EXPECT_EQ(spec->mem_empirical_constant_latency, 0.0);
  EXPECT_EQ(spec->p2p_latency, 0.0);
  EXPECT_FALSE(spec->mem_capacity);
  EXPECT_FALSE(spec->sm_version);
  EXPECT_FALSE(spec->nccl_version);
  EXPECT_TRUE(spec->nccl_mem.empty());
  EXPECT_FALSE(spec->IsBlackwell());
  EXPECT_FALSE(spec->IsHopper());
}

TEST(SystemSpec, ReadsEveryFigure) {
  const auto spec = ParseSystemSpec("x",
                                    "data_dir: d\n"
                                    "gpu:\n  mem_bw: 1\n  mem_capacity: 151397597184\n"
                                    "  bfloat16_tc_flops: 2\n  int8_tc_flops: 3\n"
                                    "  fp8_tc_flops: 4\n  fp4_tc_flops: +5.5\n  power: 700\n"
                                    "  sm_version: 100\n  unknown: [1, {2: 3}]\n"
                                    "node:\n  num_gpus_per_node: 4\n  inter_node_bw: 6\n"
                                    "  intra_node_bw: 7\n  pcie_bw: 8\n  p2p_latency: 0.00001\n"
                                    "  num_gpus_per_rack: 72\n  inter_rack_bw: 9\n"
                                    "misc:\n  nccl_mem: {1: 0, 8: 411041792}\n  other_mem: 10\n"
                                    "  nccl_version: '2.27'\n  oneccl_version: 2021.15\n");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->mem_capacity, 151397597184);
  EXPECT_EQ(*spec->TensorCoreFlops(ComputeDtype::kBfloat16), 2);
  EXPECT_EQ(*spec->TensorCoreFlops(ComputeDtype::kInt8), 3);
  EXPECT_EQ(*spec->TensorCoreFlops(ComputeDtype::kFp8), 4);
  EXPECT_EQ(*spec->TensorCoreFlops(ComputeDtype::kFp4), 5.5);
  EXPECT_EQ(spec->power, 700);
  EXPECT_TRUE(spec->IsBlackwell());
  EXPECT_EQ(spec->pcie_bw, 8);
  EXPECT_EQ(spec->p2p_latency, 1e-5);
  EXPECT_EQ(spec->nccl_mem.at(8), 411041792);
  EXPECT_EQ(spec->other_mem, 10);
  EXPECT_EQ(spec->nccl_version, "2.27");
  EXPECT_EQ(spec->oneccl_version, "2021.15");
}

TEST(SystemSpec, RatesAreNeverGuessed) {
  for (const char* value :
       {"", "  fp8_tc_flops: 0\n", "  fp8_tc_flops: -1\n", "  fp8_tc_flops: .nan\n",
        "  fp8_tc_flops: .inf\n", "  fp8_tc_flops: null\n"}) {
    const auto spec = ParseSystemSpec(
        "x", "data_dir: d\ngpu:\n  mem_bw: 1\n  bfloat16_tc_flops: 2\n" + std::string(value) +
                 "node: {num_gpus_per_node: 8, inter_node_bw: 1, intra_node_bw: 1}\n");
    ASSERT_TRUE(spec) << value;
    EXPECT_EQ(spec->TensorCoreFlops(ComputeDtype::kFp8).error().kind,
              ErrorKind::kMissingSystemFlops)
        << value;
    EXPECT_FALSE(spec->TensorCoreFlops(ComputeDtype::kNone));
  }
}

TEST(SystemSpec, BandwidthFollowsNodesAndRacks) {
  SystemSpec spec;
  spec.num_gpus_per_node = 4;
  spec.intra_node_bw = 900;
  spec.inter_node_bw = 800;
  EXPECT_EQ(spec.P2pBandwidth(4), 900);
  EXPECT_EQ(spec.P2pBandwidth(5), 800);
  EXPECT_EQ(spec.P2pBandwidth(5000), 800);
  spec.num_gpus_per_rack = 72;
  EXPECT_EQ(spec.P2pBandwidth(72), 800);
  EXPECT_EQ(spec.P2pBandwidth(73), 800);
  spec.inter_rack_bw = 100;
  EXPECT_EQ(spec.P2pBandwidth(73), 100);
  EXPECT_FALSE(spec.IsInterNode(4));
  EXPECT_TRUE(spec.IsInterNode(5));
}

TEST(SystemSpec, ProblemsNameTheKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"[1, 2]", "mapping"},
      {"", "mapping"},
      {"gpu: {mem_bw: 1}\nnode: {num_gpus_per_node: 8, inter_node_bw: 1, intra_node_bw: 1}\n",
       "data_dir"},
      {"data_dir: d\nnode: {num_gpus_per_node: 8, inter_node_bw: 1, intra_node_bw: 1}\n", "gpu"},
      {"data_dir: d\ngpu: {}\nnode: {num_gpus_per_node: 8, inter_node_bw: 1, intra_node_bw: 1}\n",
       "gpu.mem_bw"},
      {"data_dir: d\ngpu: {mem_bw: fast}\n"
       "node: {num_gpus_per_node: 8, inter_node_bw: 1, intra_node_bw: 1}\n",
       "gpu.mem_bw"},
      {"data_dir: d\ngpu: {mem_bw: '1'}\n"
       "node: {num_gpus_per_node: 8, inter_node_bw: 1, intra_node_bw: 1}\n",
       "gpu.mem_bw"},
      {"data_dir: d\ngpu: {mem_bw: 1, sm_version: 9.5}\n"
       "node: {num_gpus_per_node: 8, inter_node_bw: 1, intra_node_bw: 1}\n",
       "gpu.sm_version"},
      {"data_dir: d\ngpu: {mem_bw: 1}\n"
       "node: {num_gpus_per_node: 0, inter_node_bw: 1, intra_node_bw: 1}\n",
       "num_gpus_per_node"},
      {"data_dir: d\ngpu: {mem_bw: 1}\nnode: {num_gpus_per_node: 8, inter_node_bw: 1}\n",
       "node.intra_node_bw"},
      {"data_dir: d\ngpu: {mem_bw: 1}\nmisc: {nccl_mem: [1]}\n"
       "node: {num_gpus_per_node: 8, inter_node_bw: 1, intra_node_bw: 1}\n",
       "misc.nccl_mem"},
      {"data_dir: [", "system 'x'"},
  };
  for (const auto& [yaml, mentioned] : cases) {
    const auto spec = ParseSystemSpec("x", yaml);
    ASSERT_FALSE(spec) << yaml;
    EXPECT_EQ(spec.error().kind, ErrorKind::kYaml) << yaml;
    EXPECT_THAT(spec.error().message, ::testing::HasSubstr(mentioned)) << yaml;
  }
  EXPECT_EQ(LoadSystemSpec("/no/such/root", "x").error().kind, ErrorKind::kIo);
}

TEST(SystemSpec, DamagedTextNeverCrashes) {
  std::mt19937 random(11);
  const std::string good = kMinimal;
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    for (unsigned i = 0; i <= random() % 4; ++i) {
      bad[random() % bad.size()] = static_cast<char>(random() % 256);
    }
    if (round % 5 == 0) bad.resize(random() % bad.size());
    const auto spec = ParseSystemSpec("x", bad);
    if (spec) {
      EXPECT_GE(spec->num_gpus_per_node, 1U);
    }
  }
}

TEST(SystemSpec, ShippedSystemsHaveTheirFigures) {
  const char* root = std::getenv("INFERCAST_SYSTEMS_PATH");
  if (root == nullptr) GTEST_SKIP() << "no measured data package";
  const auto h200 = LoadSystemSpec(root, "h200_sxm");
  ASSERT_TRUE(h200) << h200.error().message;
  EXPECT_EQ(h200->P2pBandwidth(8), 450e9);
  EXPECT_EQ(h200->P2pBandwidth(9), 50e9);
  EXPECT_TRUE(h200->IsHopper());
  EXPECT_EQ(h200->mem_capacity, 151397597184);
  EXPECT_EQ(h200->nccl_version, "2.26.2");
  const auto gb200 = LoadSystemSpec(root, "gb200");
  ASSERT_TRUE(gb200);
  for (const std::uint32_t g : {4U, 5U, 72U}) EXPECT_EQ(gb200->P2pBandwidth(g), 900e9);
  EXPECT_EQ(gb200->P2pBandwidth(73), 100e9);
  const auto rtx = LoadSystemSpec(root, "rtx_pro_6000_server");
  ASSERT_TRUE(rtx);
  EXPECT_EQ(*rtx->TensorCoreFlops(ComputeDtype::kFp4), 1871.202139854795e12);
  const auto b60 = LoadSystemSpec(root, "b60");
  ASSERT_TRUE(b60);
  EXPECT_FALSE(b60->sm_version);
  EXPECT_EQ(b60->oneccl_version, "2021.15.9");
}

}  // namespace
}  // namespace infercast
