// Which files feed a table, channel by channel.
#include "tables/sources.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "synthetic_root.h"

namespace infercast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Sources : public ::testing::Test {
 protected:
  void Touch(const std::string& path, const std::string& text = "x") {
    std::filesystem::create_directories((root_.data() / path).parent_path());
    testing::WriteText(root_.data() / path, text);
  }
  // "version:channel:exists" of each source, "[kernel ...]" behind filtered ones.
  std::vector<std::string> List(const std::string& basename, const std::string& version,
                                const std::string& backend = "vllm", bool shared = true) {
    const DataTree tree(root_.data());
    const SourceResolver resolver(tree, {root_.root(), backend, version, shared, false, true});
    report_ = {};
    const auto report = resolver.Resolve(basename);
    EXPECT_TRUE(report) << (report ? "" : report.error().message);
    if (!report) return {};
    report_ = *report;
    std::vector<std::string> out;
    for (const TableSource& source : report->sources) {
      out.push_back(
          fmt::format("{}:{}:{}", source.version, ToString(source.channel), source.exists));
      if (source.kernel_filter) {
        for (const std::string& kernel : *source.kernel_filter) out.back() += " [" + kernel + "]";
      }
    }
    return out;
  }
  std::vector<std::string> WarningKinds() const {
    std::vector<std::string> kinds;
    for (const SourceWarning& warning : report_.warnings) kinds.push_back(warning.kind);
    return kinds;
  }
  testing::SyntheticRoot root_;
  SourceReport report_;
};

TEST_F(Sources, EarlierVersionsFillGapsNewestFirst) {
  for (const char* version : {"1.0", "0.9", "0.10", "1.1", "0.9.post1", "odd"}) {
    Touch(fmt::format("gemm/vllm/{}/gemm_perf.parquet", version));
  }
  EXPECT_THAT(List("gemm_perf.parquet", "1.0"),
              ElementsAre("1.0:primary:true", "0.10:fallback:true", "0.9.post1:fallback:true",
                          "0.9:fallback:true"));
  EXPECT_THAT(WarningKinds(), ::testing::Contains("unparseable_sibling"));
  EXPECT_THAT(List("gemm_perf.parquet", "1.0", "vllm", false), ElementsAre("1.0:primary:true"));
  EXPECT_THAT(List("gemm_perf.parquet", "odd"), ElementsAre("odd:primary:true"));
  EXPECT_THAT(List("gemm_perf.parquet", "1.0.1"),
              ElementsAre("1.0.1:primary:false", "1.0:fallback:true", "0.10:fallback:true",
                          "0.9.post1:fallback:true", "0.9:fallback:true"));
}

TEST_F(Sources, EqualVersionsComeInTextOrder) {
  Touch("gemm/vllm/1.0.0/gemm_perf.parquet");
  Touch("gemm/vllm/1.0/gemm_perf.parquet");
  Touch("gemm/vllm/2.0/gemm_perf.parquet");
  EXPECT_THAT(List("gemm_perf.parquet", "2.0"),
              ElementsAre("2.0:primary:true", "1.0:fallback:true", "1.0.0:fallback:true"));
}

TEST_F(Sources, ADeclaredDonorMayBeNewer) {
  Touch("gemm/vllm/1.0/reuse.yaml",
        "reuse:\n"
        "- {table: gemm_perf, from_version: '2.0', reason: r, approved_by: me}\n"
        "- {table: gemm_perf, from_version: '2.0', reason: r, approved_by: me}\n"
        "- {table: moe_perf, from_version: '2.0', reason: r, approved_by: me}\n"
        "- {table: gemm_perf, from_version: '9.9', reason: r, approved_by: me}\n");
  Touch("gemm/vllm/2.0/gemm_perf.parquet");
  Touch("gemm/vllm/0.9/gemm_perf.parquet");
  EXPECT_THAT(List("gemm_perf.parquet", "1.0"),
              ElementsAre("1.0:primary:false", "2.0:declared_reuse:true", "0.9:fallback:true"));
  EXPECT_THAT(WarningKinds(), ::testing::Contains("duplicate_declared"));
}

TEST_F(Sources, AMalformedDeclarationDeclaresNothing) {
  Touch("gemm/vllm/2.0/gemm_perf.parquet");
  for (const char* text :
       {"reuse: 5", "other: []", "reuse: [5]", "reuse: [{table: gemm_perf}]", "[", "",
        "reuse: [{table: gemm_perf, from_version: ' ', reason: r, approved_by: me}]"}) {
    Touch("gemm/vllm/1.0/reuse.yaml", text);
    EXPECT_THAT(List("gemm_perf.parquet", "1.0"), ElementsAre("1.0:primary:false")) << text;
    EXPECT_THAT(WarningKinds(), ::testing::Contains("malformed_reuse")) << text;
    const DataTree tree(root_.data());
    const SourceResolver strict(tree, {root_.root(), "vllm", "1.0", true, true, false});
    EXPECT_EQ(strict.Resolve("gemm_perf.parquet").error().kind, ErrorKind::kPerfDatabase) << text;
  }
  Touch("gemm/vllm/1.0/reuse.yaml", "reuse: []");
  List("gemm_perf.parquet", "1.0");
  EXPECT_THAT(WarningKinds(), ::testing::Not(::testing::Contains("malformed_reuse")));
}

TEST_F(Sources, OtherFrameworksServeDeclaredKernels) {
  testing::WriteText(root_.root() / "perf_data_reuse_manifest.yaml",
                     "# comment\n"
                     "groups:\n"
                     "  - op_file: gdn_perf.txt\n"
                     "    kernel_source: 'conv'\n"
                     "    tier: shared\n"
                     "    systems: [elsewhere]\n"
                     "    frameworks: [SGLang, vllm, trtllm]\n"
                     "  - op_file: gdn_perf.parquet\n"
                     "    kernel_source: recurrent\n"
                     "    tier: shared_fallback\n"
                     "    frameworks: [sglang, vllm]\n"
                     "  - op_file: gdn_perf.parquet\n"
                     "    kernel_source: absent\n"
                     "    tier: absence_load_bearing\n"
                     "    frameworks: [sglang, vllm]\n");
  for (const char* path : {"sglang/0.5", "sglang/0.6", "sglang/odd", "trtllm/1.0"}) {
    Touch(fmt::format("linear_attention/{}/gdn_perf.parquet", path));
  }
  const std::vector<std::string> expected = {
      "0.1:primary:false", "0.6:cross_backend:true [conv] [recurrent]",
      "0.5:cross_backend:true [conv] [recurrent]", "odd:cross_backend:true [conv] [recurrent]",
      "1.0:cross_backend:true [conv]"};
  EXPECT_EQ(List("gdn_perf.parquet", "0.1"), expected);
  EXPECT_THAT(WarningKinds(), ::testing::Contains("low_fidelity"));

  // The same document in another yaml spelling.
  testing::WriteText(
      root_.root() / "perf_data_reuse_manifest.yaml",
      "{groups: [{op_file: gdn_perf.txt, kernel_source: \"conv\", tier: shared, frameworks: "
      "[sglang, vllm, trtllm]}, {op_file: gdn_perf.parquet, kernel_source: recurrent, tier: "
      "shared_fallback, frameworks: [sglang, vllm]}]}");
  EXPECT_EQ(List("gdn_perf.parquet", "0.1"), expected);

  for (const char* text : {"groups: 3", "groups: [3]", "[1]", "groups: [{frameworks: 3}]", "{"}) {
    testing::WriteText(root_.root() / "perf_data_reuse_manifest.yaml", text);
    const DataTree tree(root_.data());
    const SourceResolver resolver(tree, {root_.root(), "vllm", "0.1", true, false, false});
    EXPECT_EQ(resolver.Resolve("gdn_perf.parquet").error().kind, ErrorKind::kPerfDatabase) << text;
  }
}

TEST_F(Sources, CommunicationStaysWithItsFramework) {
  testing::WriteText(root_.root() / "perf_data_reuse_manifest.yaml",
                     "groups:\n  - op_file: custom_allreduce_perf.parquet\n    kernel_source: k\n"
                     "    tier: shared\n    frameworks: [sglang, vllm]\n");
  Touch("comm/vllm/1.0/custom_allreduce_perf.parquet");
  Touch("comm/vllm/0.9/custom_allreduce_perf.parquet");
  Touch("comm/sglang/0.5/custom_allreduce_perf.parquet");
  Touch("comm/vllm/1.0/reuse.yaml",
        "reuse: [{table: custom_allreduce_perf, from_version: '0.8', reason: r, approved_by: m}]");
  Touch("comm/vllm/0.8/custom_allreduce_perf.parquet");
  EXPECT_THAT(List("custom_allreduce_perf.parquet", "1.0"),
              ElementsAre("1.0:primary:true", "0.9:fallback:true", "0.8:fallback:true"));
  EXPECT_THAT(List("custom_allreduce_perf.parquet", "2.0"),
              ElementsAre("2.0:primary:false", "1.0:fallback:true", "0.9:fallback:true",
                          "0.8:fallback:true"));
  // Once the table exists in another family too, nobody can tell where a missing one belongs.
  Touch("misc/vllm/0.7/custom_allreduce_perf.parquet");
  EXPECT_THAT(List("custom_allreduce_perf.parquet", "2.0"), ElementsAre("2.0:primary:false"));
}

TEST_F(Sources, UnusableFoldersAreInvisible) {
  Touch("gemm/vllm/1.0/gemm_perf.parquet");
  Touch("gemm/vllm/1.0/INCOMPLETE.txt");
  Touch("gemm/vllm/0.9/gemm_perf.parquet");
  EXPECT_THAT(List("gemm_perf.parquet", "1.0"),
              ElementsAre("1.0:primary:false", "0.9:fallback:true"));
  Touch("gemm/vllm/1.0/collection_meta.yaml", "tables: {}");
  EXPECT_THAT(List("gemm_perf.parquet", "1.0"),
              ElementsAre("1.0:primary:true", "0.9:fallback:true"));
  // In the older layout the file is seen and refused.
  Touch("vllm/2.0/gemm_perf.parquet");
  Touch("vllm/2.0/INCOMPLETE.txt");
  EXPECT_THAT(List("gemm_perf.parquet", "2.0"),
              ElementsAre("1.0:fallback:true", "0.9:fallback:true"));
  EXPECT_THAT(WarningKinds(), ::testing::Contains("primary_veto"));
}

TEST_F(Sources, StrictProvenanceWantsEveryTableAccountedFor) {
  Touch("gemm/vllm/1.0/gemm_perf.parquet");
  const auto strict = [&] {
    const DataTree tree(root_.data());
    const SourceResolver resolver(tree, {root_.root(), "vllm", "1.0", true, true, false});
    const auto report = resolver.Resolve("gemm_perf.parquet");
    return report ? std::string() : report.error().message;
  };
  EXPECT_THAT(strict(), HasSubstr("missing-sidecar"));
  Touch("gemm/vllm/1.0/collection_meta.yaml", "[1]");
  EXPECT_THAT(strict(), HasSubstr("malformed-sidecar"));
  Touch("gemm/vllm/1.0/collection_meta.yaml", "tables: {other: {}}");
  EXPECT_THAT(strict(), HasSubstr("uncovered-table"));
  Touch("gemm/vllm/1.0/collection_meta.yaml", "provenance: legacy\ntables: {other: {}}");
  EXPECT_THAT(strict(), IsEmpty());
  Touch("gemm/vllm/1.0/collection_meta.yaml", "tables: {gemm_perf: {}}");
  EXPECT_THAT(strict(), IsEmpty());
}

TEST(ShippedSources, HopperSglang) {
  IC_REQUIRE_DATA(root);
  const auto store =
      TableStore::Open(testing::Identity(root, "h200_sxm", Backend::kSglang, "0.5.14"));
  ASSERT_TRUE(store) << store.error().message;
  const auto list = [&](const char* basename) {
    std::vector<std::string> out;
    const auto sources = (*store)->Sources(basename);
    if (!sources) return out;
    for (const TableSource& source : *sources) {
      out.push_back(
          fmt::format("{}:{}:{}", source.version, ToString(source.channel), source.exists));
      if (source.kernel_filter) {
        for (const std::string& kernel : *source.kernel_filter) out.back() += " [" + kernel + "]";
      }
    }
    return out;
  };
  EXPECT_THAT(list("gemm_perf.parquet"), ElementsAre("0.5.14:primary:true"));
  EXPECT_THAT(list("mla_bmm_perf.parquet"),
              ElementsAre("0.5.14:primary:true", "1.3.0rc20:cross_backend:true [default]"));
  EXPECT_THAT(list("moe_perf.parquet"), ElementsAre("0.5.14:primary:true", "0.5.10:fallback:true"));
  EXPECT_THAT(list("custom_allreduce_perf.parquet"),
              ElementsAre("0.5.14:primary:true", "0.5.10:fallback:true", "0.5.9:fallback:true",
                          "0.5.6.post2:fallback:true"));
  EXPECT_THAT(
      list("wideep_deepep_normal_perf.parquet"),
      ElementsAre("0.5.14:primary:false", "0.5.12:fallback:true", "0.5.6.post2:fallback:true"));
  EXPECT_THAT(list("kda_perf.parquet"),
              ElementsAre("0.5.14:primary:false",
                          "0.1.dev19262:cross_backend:true [causal_conv1d_fn_qkv3]"));
  EXPECT_THAT(list("mla_context_module_perf.parquet"), ElementsAre("0.5.14:primary:false"));
}

}  // namespace
}  // namespace infercast
