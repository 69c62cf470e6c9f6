#include "search/support_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace infercast {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTable =
    "HuggingFaceID,Architecture,System,Backend,Version,Mode,Status,ErrMsg,Command,Source\n"
    "Org/A,Arch,h100_sxm,vllm,1.0,agg,PASS,,tool default --total-gpus 4 --isl 256,silicon\n"
    "Org/A,Arch,h100_sxm,vllm,1.0,disagg,PASS,,tool default --total-gpus 4 --isl 256,silicon\n"
    "Org/B,Arch,h100_sxm,vllm,1.0,agg,FAIL,\"Traceback\\n  File \"\"x\"\"\\nlib.errors.BadError: "
    "mode "
    "'fp8' of 3, 4 known\\n\",tool,\n"
    "Org/B,Arch,h100_sxm,tgi,1.0,agg,PASS,,tool,silicon\n";

SupportAnswer Answer(const PublishedSupport& row, SupportKind aggregated, SupportKind pools) {
  SupportAnswer answer;
  answer.question = row.question;
  answer.aggregated.kind = aggregated;
  answer.disaggregated.kind = pools;
  answer.aggregated.missing = answer.disaggregated.missing =
      Error{ErrorKind::kPerfDatabase, "no table 'gemm' for 7 rows"};
  return answer;
}

TEST(PublishedSupportTest, ReadsQuestionsStatusAndReason) {
  const auto rows = ParsePublishedSupport(kTable, "table");
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 3u);  // an unknown backend is left out
  EXPECT_EQ((*rows)[0].question.model, "Org/A");
  EXPECT_EQ((*rows)[0].question.total_gpus, 4);
  EXPECT_TRUE((*rows)[0].measured());
  EXPECT_EQ((*rows)[1].mode, ServingMode::kDisaggregated);
  EXPECT_EQ((*rows)[2].status, "FAIL");
  EXPECT_EQ((*rows)[2].error, "BadError: mode 'fp8' of 3, 4 known");
  EXPECT_EQ((*rows)[2].question.total_gpus, 128);
}

TEST(PublishedSupportTest, RefusesDamagedTables) {
  EXPECT_EQ(ParsePublishedSupport("a,b\n1,2\n", "x").error().kind, ErrorKind::kCorruptData);
  const std::string cut = std::string(kTable) + "Org/C,Arch\n";
  EXPECT_THAT(ParsePublishedSupport(cut, "x").error().message, HasSubstr("row 6 has 2 fields"));
}

TEST(CompareSupportTest, CountsAgreementAndClassesOfDifference) {
  const auto rows = *ParsePublishedSupport(kTable, "table");
  const std::vector<SupportAnswer> answers = {
      Answer(rows[0], SupportKind::kMeasured, SupportKind::kEstimated),
      Answer(rows[2], SupportKind::kMeasured, SupportKind::kNo)};
  const SupportComparison comparison = CompareSupport(rows, answers);
  EXPECT_EQ(comparison.rows, 3u);
  EXPECT_EQ(comparison.published_pass, 2u);
  EXPECT_EQ(comparison.agreed, 1u);
  EXPECT_EQ(comparison.agreed_pass, 1u);
  ASSERT_EQ(comparison.differences.size(), 2u);
  EXPECT_EQ(comparison.differences[0].kind,
            "published as FAIL (BadError: mode … of N, N known); answered from measurements here");
  EXPECT_EQ(comparison.differences[1].kind,
            "published as PASS; estimated here: no table … for N rows");
  EXPECT_EQ(comparison.differences[1].example, "Org/A h100_sxm vllm 1.0 disagg");
}

TEST(CompareSupportTest, LeavesOutWhatWasNotAsked) {
  const auto rows = *ParsePublishedSupport(kTable, "table");
  const std::vector<SupportAnswer> answers = {
      Answer(rows[0], SupportKind::kMeasured, SupportKind::kNotAsked)};
  const SupportComparison comparison = CompareSupport(rows, answers);
  EXPECT_EQ(comparison.rows, 1u);
  EXPECT_EQ(comparison.not_asked, 2u);
}

TEST(GeneralFormTest, DropsNumbersAndQuotedNames) {
  EXPECT_EQ(GeneralForm("tp 4 of 'x', 'y' and \"z\" at 1.5 GiB"), "tp N of … and … at N GiB");
  EXPECT_EQ(GeneralForm("it's unclosed"), "it's unclosed");
}

}  // namespace
}  // namespace infercast
