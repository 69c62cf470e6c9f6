#include "report/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace infercast {
namespace {

using ::testing::HasSubstr;

TEST(GpuPricesTest, ReadsOnePriceOrOneOfEachSystem) {
  const auto one = ParseGpuPrices("2.5");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->For("h100_sxm"), 2.5);
  const auto several = ParseGpuPrices("h100_sxm=2.5,h200_sxm=3.1");
  ASSERT_TRUE(several);
  EXPECT_EQ(several->For("h200_sxm"), 3.1);
  EXPECT_EQ(several->For("b200_sxm"), std::nullopt);
  const auto mixed = ParseGpuPrices("h100_sxm=2.5,4");
  ASSERT_TRUE(mixed);
  EXPECT_EQ(mixed->For("h100_sxm"), 2.5);
  EXPECT_EQ(mixed->For("b200_sxm"), 4);
}

TEST(GpuPricesTest, RefusesWhatIsNoPrice) {
  for (const char* text :
       {"", "free", "-1", "0", "nan", "inf", "h100_sxm=", "=3", "h100_sxm=2,", "2.5$"}) {
    const auto prices = ParseGpuPrices(text);
    ASSERT_FALSE(prices) << text;
    EXPECT_EQ(prices.error().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(GpuPricesTest, ReadsYaml) {
  const auto prices = ParsePriceYaml("currency: EUR\ndefault: 2\nh100_sxm: 2.5\n", "prices.yaml");
  ASSERT_TRUE(prices) << prices.error().message;
  EXPECT_EQ(prices->For("h100_sxm"), 2.5);
  EXPECT_EQ(prices->For("l40s"), 2);
  EXPECT_EQ(MoneyText(0.42128, *prices), "EUR 0.4213");
  EXPECT_THAT(ParsePriceYaml("[1, 2]", "x").error().message, HasSubstr("mapping"));
  EXPECT_THAT(ParsePriceYaml("h100_sxm: cheap", "x").error().message, HasSubstr("'cheap'"));
  EXPECT_EQ(ParsePriceYaml("a: [", "x").error().kind, ErrorKind::kYaml);
  EXPECT_EQ(ReadPriceFile("/nonexistent/prices.yaml").error().kind, ErrorKind::kIo);
}

TEST(MoneyTextTest, KeepsFourSignificantDigits) {
  const GpuPrices dollars;
  EXPECT_EQ(MoneyText(0.0004212, dollars), "$0.0004212");
  EXPECT_EQ(MoneyText(12.3456, dollars), "$12.35");
  EXPECT_EQ(MoneyText(123456, dollars), "$123456");
  EXPECT_EQ(MoneyText(0, dollars), "$0.0000");
}

struct Sample {
  WorkerIdentity h100{
      .model = "m", .system = "h100_sxm", .version = "", .layout = {}, .quant = {}, .parallel = ""};
  WorkerIdentity h200{
      .model = "m", .system = "h200_sxm", .version = "", .layout = {}, .quant = {}, .parallel = ""};

  TaskRow Aggregated() const {
    AggregatedRow row;
    row.worker = &h100;
    row.isl = 4000;
    row.osl = 1000;
    row.seq_s = 2;
    row.num_total_gpus = 4;
    row.num_mixed_steps = 10;
    row.mixed_step_ms = 50;
    row.num_decode_steps = 90;
    row.decode_step_ms = 10;
    return {row, std::nullopt};
  }
  TaskRow Pools() const {
    DisaggregatedRow row;
    row.prefill.worker = &h100;
    row.decode.worker = &h200;
    row.prefill.num_total_gpus = 1;
    row.decode.num_total_gpus = 4;
    row.prefill_workers = 2;
    row.decode_workers = 1;
    row.num_total_gpus = 6;
    row.isl = 4000;
    row.osl = 1000;
    row.seq_s = 5;
    return {row, std::nullopt};
  }
};

TEST(CostOfTest, DividesSharedGpusByTheTimeThatPrefillAdds) {
  const Sample sample;
  const auto cost = CostOf(sample.Aggregated(), *ParseGpuPrices("3.6"));
  ASSERT_TRUE(cost);
  EXPECT_DOUBLE_EQ(cost->per_hour, 14.4);
  EXPECT_DOUBLE_EQ(cost->per_request, 0.002);
  // 10 steps of 40 ms more, of 1,400 ms: two sevenths.
  EXPECT_NEAR(cost->per_million_input_tokens, 0.002 * 2 / 7 / 4000 * 1e6, 1e-12);
  EXPECT_NEAR(cost->per_million_output_tokens, 0.002 * 5 / 7 / 1000 * 1e6, 1e-12);
}

TEST(CostOfTest, LetsEachPoolPayForItsTokens) {
  const Sample sample;
  const auto cost = CostOf(sample.Pools(), *ParseGpuPrices("h100_sxm=1.8,h200_sxm=3.6"));
  ASSERT_TRUE(cost);
  EXPECT_DOUBLE_EQ(cost->per_hour, 2 * 1.8 + 4 * 3.6);
  EXPECT_NEAR(cost->per_million_input_tokens, 3.6 / 18000 / 4000 * 1e6, 1e-12);
  EXPECT_NEAR(cost->per_million_output_tokens, 14.4 / 18000 / 1000 * 1e6, 1e-12);
  EXPECT_NEAR(cost->per_million_input_tokens * 0.004 + cost->per_million_output_tokens * 0.001,
              cost->per_request, 1e-15);
}

TEST(CostOfTest, IsUnknownWithoutAPriceOrARate) {
  const Sample sample;
  EXPECT_FALSE(CostOf(sample.Pools(), *ParseGpuPrices("h100_sxm=1.8")));
  TaskRow idle = sample.Aggregated();
  std::get<AggregatedRow>(idle.figures).seq_s = 0;
  EXPECT_FALSE(CostOf(idle, *ParseGpuPrices("1")));
}

TEST(EnergyTest, IsKnownWherePowerWasMeasured) {
  const Sample sample;
  TaskRow row = sample.Aggregated();
  auto& figures = std::get<AggregatedRow>(row.figures);
  figures.power_w = 500;
  figures.power_coverage = 0.95;
  EXPECT_DOUBLE_EQ(EnergyPerOutputToken(row).value(), 500.0 * 4 / 2000);
  figures.power_coverage = 0.5;
  EXPECT_FALSE(EnergyPerOutputToken(row));
  figures.power_coverage = 1;
  figures.power_w = 0;  // nothing measured is not no power
  EXPECT_FALSE(EnergyPerOutputToken(row));
}

}  // namespace
}  // namespace infercast
