// The order in which attention lanes are tried, measured on the shipped tables.
#include "tables/lane_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measured_data.h"

namespace infercast {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr TableId kContext = TableId::kContextAttention;
constexpr TableId kGeneration = TableId::kGenerationAttention;

Database Open(const std::filesystem::path& root, const char* system, Backend backend,
              const char* version, bool shared = true) {
  DatabaseIdentity identity = testing::Identity(root, system, backend, version);
  identity.shared_layer = shared;
  auto store = TableStore::Open(identity);
  EXPECT_TRUE(store) << (store ? "" : store.error().message);
  return {store ? *store : nullptr, DatabaseMode::kSilicon, {}, Behaviour::kReference};
}

TEST(LaneOrder, Densities) {
  IC_REQUIRE_DATA(root);
  const Database sglang = Open(root, "h200_sxm", Backend::kSglang, "0.5.14");
  EXPECT_THAT(
      LaneDensities(sglang.store(), kContext),
      ElementsAre(Pair("fa3", LaneDensity{66, 31622}), Pair("triton", LaneDensity{24, 3468})));
  const Database vllm = Open(root, "b200_sxm", Backend::kVllm, "0.24.0");
  EXPECT_THAT(LaneDensities(vllm.store(), kContext),
              ElementsAre(Pair("vllm_flashinfer", LaneDensity{50, 35360}),
                          Pair("vllm_flashinfer_trtllmdecode", LaneDensity{72, 3684}),
                          Pair("vllm_flashinfer_trtllmprefill", LaneDensity{72, 44664}),
                          Pair("vllm_triton_attn", LaneDensity{9, 1632})));
  const Database trtllm = Open(root, "h200_sxm", Backend::kTrtllm, "1.3.0rc20");
  EXPECT_THAT(LaneDensities(trtllm.store(), kContext),
              ElementsAre(Pair("torch_flow", LaneDensity{99, 75837})));
}

TEST(LaneOrder, VllmBlackwell) {
  IC_REQUIRE_DATA(root);
  for (const bool shared : {true, false}) {
    const Database db = Open(root, "b200_sxm", Backend::kVllm, "0.24.0", shared);
    const auto order = [&](TableId table, std::optional<std::string> backend) {
      const auto result = ResolveLaneOrder(db, table, backend);
      EXPECT_TRUE(result) << (result ? "" : result.error().message);
      return result ? *result : std::vector<std::string>{};
    };
    std::vector<std::string> expected = {"vllm_flashinfer_trtllmprefill",
                                         "vllm_flashinfer_trtllmdecode",
                                         "vllm_triton_attn",
                                         "fa3",
                                         "fla",
                                         "flashinfer",
                                         "triton",
                                         "trtllm_mha",
                                         "default"};
    const auto with_donor = [&](std::vector<std::string> lanes) {
      if (shared) lanes.emplace_back("vllm_flashinfer");
      return lanes;
    };
    EXPECT_EQ(order(kContext, std::nullopt), with_donor(expected));
    EXPECT_EQ(order(kContext, "default"), with_donor(expected));
    EXPECT_EQ(order(kGeneration, std::nullopt),
              with_donor({"vllm_flashinfer_trtllmdecode", "vllm_triton_attn", "fa3", "fla",
                          "flashinfer", "triton", "trtllm_mha", "default"}));
    EXPECT_EQ(order(kContext, "triton"),
              with_donor({"vllm_triton_attn", "vllm_flashinfer_trtllmprefill",
                          "vllm_flashinfer_trtllmdecode", "fa3", "fla", "flashinfer", "triton",
                          "trtllm_mha", "default"}));
    EXPECT_THAT(order(kGeneration, "flashinfer"),
                ElementsAre("vllm_flashinfer_trtllmprefill", "vllm_flashinfer_trtllmdecode",
                            "vllm_flashinfer", "vllm_triton_attn", "fa3", "fla", "flashinfer",
                            "triton", "trtllm_mha", "default"));
    EXPECT_EQ(ResolveLaneOrder(db, kContext, "fa3").error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(LaneOrder, Sglang) {
  IC_REQUIRE_DATA(root);
  for (const TableId table : {kContext, kGeneration}) {
    const Database b200 = Open(root, "b200_sxm", Backend::kSglang, "0.5.14");
    for (const auto& backend : {std::optional<std::string>(), std::optional<std::string>("default"),
                                std::optional<std::string>("triton")}) {
      EXPECT_THAT(*ResolveLaneOrder(b200, table, backend),
                  ElementsAre("triton", "trtllm_mha", "flashinfer", "fa3", "fla", "default"));
    }
    EXPECT_THAT(*ResolveLaneOrder(b200, table, "flashinfer"),
                ElementsAre("flashinfer", "triton", "trtllm_mha", "fa3", "fla", "default"));
    EXPECT_FALSE(ResolveLaneOrder(b200, table, "fa3"));
    const Database h200 = Open(root, "h200_sxm", Backend::kSglang, "0.5.14");
    EXPECT_THAT(*ResolveLaneOrder(h200, table, std::nullopt),
                ElementsAre("fa3", "triton", "fla", "flashinfer", "trtllm_mha", "default"));
    const Database trtllm = Open(root, "b200_sxm", Backend::kTrtllm, "1.3.0rc20");
    EXPECT_THAT(*ResolveLaneOrder(trtllm, table, std::nullopt), ElementsAre("default"));
    EXPECT_FALSE(ResolveLaneOrder(trtllm, table, "triton"));
    const Database a100 = Open(root, "a100_sxm", Backend::kSglang, "0.5.10");
    EXPECT_THAT(*ResolveLaneOrder(a100, table, std::nullopt), ElementsAre("default"));
  }
}

}  // namespace
}  // namespace infercast
