// Version orders, slots, aliases, and opening a database over several roots.
#include "tables/versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "synthetic_root.h"
#include "tables/pep440.h"

namespace infercast {
namespace {

using testing::SyntheticRoot;
using Key = std::array<std::int64_t, 6>;

TEST(VersionOrder, SortKeys) {
  EXPECT_EQ(VersionSortKey("1.3.0rc10"), (Key{1, 3, 0, 0, 10, 10}));
  EXPECT_EQ(VersionSortKey("1.3.0"), (Key{1, 3, 0, 1, 0, 0}));
  EXPECT_EQ(VersionSortKey("0.5.6.post2"), (Key{0, 5, 6, 1, 0, 2}));
  EXPECT_EQ(VersionSortKey("v0.20_fix0719"), (Key{0, 20, 0, 1, 0, 719}));
  EXPECT_EQ(VersionSortKey("0.1.dev19262"), (Key{0, 1, 0, 1, 0, 19262}));
  EXPECT_EQ(VersionSortKey("abc"), Key{});
  EXPECT_EQ(VersionSortKey("latest7"), Key{});
  EXPECT_EQ(VersionSortKey(""), Key{});
}

TEST(VersionOrder, Pep440) {
  const std::vector<std::string> ascending = {
      "0.1.dev19262", "0.5.6",     "0.5.6.post2", "0.5.14",  "1.0.dev1",       "1.0a1.dev3",
      "1.0a1",        "1.0a2",     "1.0b1",       "1.0rc1",  "1.0rc2.dev1",    "1.0rc2",
      "1.0",          "1.0+local", "1.0+1",       "1.0+1.2", "1.0.post1.dev1", "1.0.post1",
      "1.1",          "1.3.0rc9",  "1.3.0rc20",   "1.3.0",   "2021.15.9",      "1!0.1"};
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    const auto a = Pep440::Parse(ascending[i]);
    ASSERT_TRUE(a) << ascending[i];
    for (std::size_t j = 0; j < ascending.size(); ++j) {
      EXPECT_EQ(*a < *Pep440::Parse(ascending[j]), i < j) << ascending[i] << " " << ascending[j];
    }
  }
  const std::pair<const char*, const char*> equal[] = {
      {"1.0", "1.0.0"},     {"v1.0", "1.0"},           {"1.0-alpha.1", "1.0a1"},
      {"1.0c2", "1.0rc2"},  {"1.0-1", "1.0.post1"},    {"1.0.rev3", "1.0.post3"},
      {"1.0RC1", "1.0rc1"}, {"1.0-preview", "1.0rc0"}, {"1.0.DEV", "1.0.dev0"},
      {" 1.0 ", "1.0"},     {"1.0+a-b", "1.0+a.b"},    {"1.0_beta_2", "1.0b2"}};
  for (const auto& [a, b] : equal) {
    ASSERT_TRUE(Pep440::Parse(a)) << a;
    EXPECT_TRUE(*Pep440::Parse(a) == *Pep440::Parse(b)) << a << " " << b;
  }
  for (const char* bad : {"", "abc", "1.0_fix0719", "1..0", "1.0+", "1.0rc1x", "latest", "1.0.x",
                          "-1", "1!", "1.0 beta"}) {
    EXPECT_FALSE(Pep440::Parse(bad)) << bad;
  }
}

TEST(ShippedVersions, SlotsAndAliases) {
  IC_REQUIRE_DATA(root);
  const SystemsCatalog catalog({root});
  const auto resolve = [&](const char* system, Backend backend, const char* version) {
    return catalog.ResolveVersion(system, backend, version, false);
  };
  EXPECT_EQ(*resolve("h200_sxm", Backend::kVllm, "next"), "0.27.0");
  EXPECT_EQ(*resolve("h200_sxm", Backend::kSglang, "next"), "0.5.16");
  EXPECT_EQ(*resolve("h200_sxm", Backend::kTrtllm, "next"), "1.3.0rc23");
  EXPECT_EQ(*resolve("h200_sxm", Backend::kTrtllm, "current"), "1.3.0rc20");
  EXPECT_EQ(*resolve("b60", Backend::kVllm, "previous"), "0.20.0");
  EXPECT_EQ(resolve("h200_sxm", Backend::kTrtllm, "previous").error().kind,
            ErrorKind::kUnknownName);
  EXPECT_FALSE(resolve("b60", Backend::kVllm, "next"));
  const auto unlisted = resolve("h200_sxm", Backend::kSglang, "0.5.10");
  ASSERT_FALSE(unlisted);
  EXPECT_THAT(unlisted.error().message, ::testing::HasSubstr("0.5.14"));
  EXPECT_EQ(*catalog.ResolveVersion("h200_sxm", Backend::kSglang, "0.5.10", true), "0.5.10");
  {
    const testing::ScopedEnvironment allow("AIC_ALLOW_UNLISTED_VERSIONS", "Yes");
    EXPECT_EQ(*resolve("h200_sxm", Backend::kSglang, "0.5.10"), "0.5.10");
  }
  EXPECT_FALSE(resolve("l4", Backend::kVllm, "current"));
  EXPECT_EQ(*resolve("l4", Backend::kVllm, "x"), "x");
  EXPECT_EQ(catalog.LatestVersion("b60", Backend::kVllm), "0.26.0");
  EXPECT_EQ(catalog.LatestVersion("a100_sxm", Backend::kTrtllm), "1.0.0");
  EXPECT_EQ(catalog.LatestVersion("l4", Backend::kTrtllm), std::nullopt);
  EXPECT_EQ(catalog.SupportedVersions("h200_sxm", Backend::kVllm),
            (std::vector<std::string>{"0.24.0", "0.27.0"}));
  EXPECT_EQ(catalog.Systems().size(), 14U);
}

TEST(ShippedVersions, OpeningNamesWhatThereIs) {
  IC_REQUIRE_DATA(root);
  const SystemsCatalog catalog({root});
  SystemsCatalog::OpenRequest request;
  request.system = "h20_sxm";
  const auto unknown = catalog.Open(request);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::kUnknownName);
  EXPECT_THAT(unknown.error().message, ::testing::HasSubstr("h200_sxm"));

  request.system = "h200_sxm";
  request.backend = Backend::kSglang;
  const auto latest = catalog.Open(request);
  ASSERT_TRUE(latest) << latest.error().message;
  EXPECT_EQ(latest->store().identity().version, "0.5.14");
  EXPECT_TRUE(latest->store().identity().shared_layer);
  request.mode = DatabaseMode::kEmpirical;
  const auto empirical = catalog.Open(request);
  ASSERT_TRUE(empirical);
  EXPECT_FALSE(empirical->store().identity().shared_layer);

  // Served from older rows although the system has no folder of that version.
  request.mode = DatabaseMode::kSilicon;
  request.backend = Backend::kVllm;
  request.version = "next";
  const auto next = catalog.Open(request);
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_EQ(next->store().identity().version, "0.27.0");
  EXPECT_TRUE(next->Get(TableId::kGemm));

  request.system = "l4";
  request.version = "estimate";
  const auto none = catalog.Open(request);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::kPerfDatabase);
  request.mode = DatabaseMode::kSol;
  EXPECT_TRUE(catalog.Open(request));
}

TEST(Versions, RootsAreSearchedInOrderAndNotMerged) {
  const SyntheticRoot first, second;
  const auto measure = [](const SyntheticRoot& root, const char* version, double latency) {
    testing::WriteParquet(root.data() / "gemm" / "vllm" / version / "gemm_perf.parquet",
                          {testing::Texts("gemm_dtype", {"bfloat16"}), testing::Integers("m", {1}),
                           testing::Integers("n", {1}), testing::Integers("k", {1}),
                           testing::Reals("latency", {latency})});
  };
  measure(first, "1.0", 1.0);
  measure(second, "1.0", 2.0);
  measure(second, "2.0", 3.0);
  const SystemsCatalog catalog({first.root(), second.root()});
  const auto latency = [&](const char* version) {
    SystemsCatalog::OpenRequest request;
    request.system = "sys";
    request.backend = Backend::kVllm;
    request.version = version;
    const auto db = catalog.Open(request);
    if (!db) return -1.0;
    const auto table = db->Get(TableId::kGemm);
    return table ? (*table)->LeafAt(0).latency : -2.0;
  };
  EXPECT_EQ(latency("1.0"), 1.0);
  EXPECT_EQ(latency("2.0"), 3.0);
  EXPECT_EQ(latency("3.0"), -1.0);
  EXPECT_EQ(catalog.SupportedVersions("sys", Backend::kVllm),
            (std::vector<std::string>{"1.0", "2.0"}));
  EXPECT_EQ(catalog.LatestVersion("sys", Backend::kVllm), "2.0");

  // An incomplete folder does not serve; with a sidecar beside the marker it does.
  testing::WriteText(first.data() / "gemm/vllm/1.0/INCOMPLETE.txt", "");
  const SystemsCatalog again({first.root(), second.root()});
  SystemsCatalog::OpenRequest request;
  request.system = "sys";
  request.backend = Backend::kVllm;
  request.version = "1.0";
  EXPECT_EQ((*again.Open(request)->Get(TableId::kGemm))->LeafAt(0).latency, 2.0);
}

TEST(Versions, TransferPolicies) {
  EXPECT_EQ(*ParseTransferPolicy("aggressive"), (TransferPolicy{true, true, true, true}));
  EXPECT_EQ(*ParseTransferPolicy("off"), (TransferPolicy{false, false, false, false}));
  EXPECT_EQ(*ParseTransferPolicy("balanced"), (TransferPolicy{true, true, false, false}));
  EXPECT_EQ(*ParseTransferPolicy(" Conservative, xop"), (TransferPolicy{true, false, false, true}));
  EXPECT_EQ(ParseTransferPolicy("").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(ParseTransferPolicy("xshape,bold").error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace infercast
