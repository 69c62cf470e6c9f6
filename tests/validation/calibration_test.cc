// Calibration factors: shrinkage, confidence, scope, and profiles as files.
#include "validation/calibration.h"

#include <gtest/gtest.h>

#include <cmath>

namespace infercast {
namespace {

CalibrationSample Sample(double ttft_ratio, double tpot_ratio, std::int64_t concurrency,
                         const std::string& version = "1.0") {
  CalibrationSample s;
  s.family = {"vllm", "h200_sxm", "m", "fp8", version, "lab", "agg"};
  s.isl = 1024;
  s.osl = 512;
  s.concurrency = concurrency;
  s.predicted_ttft = 100;
  s.measured_ttft = 100 * ttft_ratio;
  s.predicted_tpot = 10;
  s.measured_tpot = 10 * tpot_ratio;
  return s;
}

TEST(Calibration, FactorsAreShrunkMediansOfLogRatios) {
  const auto profile = Calibrate({Sample(2, 1.2, 4), Sample(2, 1.2, 8), Sample(8, 1.2, 16)});
  ASSERT_EQ(profile.factors.size(), 1U);
  const CalibrationFactor& f = profile.factors[0];
  EXPECT_NEAR(f.ttft, std::exp(std::log(2.0) * 3 / 4), 1e-12);
  EXPECT_NEAR(f.tpot, std::exp(std::log(1.2) * 3 / 4), 1e-12);
  EXPECT_EQ(f.points, 3);
  EXPECT_EQ(f.min_concurrency, 4);
  EXPECT_EQ(f.max_concurrency, 16);
  // Each point from the two others: their median, shrunk by 2/3.
  ASSERT_TRUE(f.left_one_out);
  const double tpot = 100 * std::abs(std::exp(std::log(1.2) * 2 / 3) / 1.2 - 1);
  EXPECT_NEAR(f.left_one_out->tpot_median_ape, tpot, 1e-9);
}

TEST(Calibration, OnePointIsHalfBelievedAndHasNoConfidence) {
  const auto profile = Calibrate({Sample(4, 1, 4)});
  EXPECT_NEAR(profile.factors[0].ttft, 2, 1e-12);
  EXPECT_FALSE(profile.factors[0].left_one_out);
  EXPECT_EQ(LeaveOneOutFactors({Sample(4, 1, 4)})[0].ttft, 1);
}

TEST(Calibration, UnknownFamiliesAndFarLoadsAreRefused) {
  const auto profile = Calibrate({Sample(2, 1.2, 4), Sample(2, 1.2, 8), Sample(3, 1, 8, "2.0")});
  CalibrationQuery query;
  query.family = Sample(1, 1, 1).family;
  query.isl = 1024;
  query.osl = 512;
  query.concurrency = 8;
  std::string why;
  ASSERT_NE(FindFactor(profile, query, &why), nullptr);
  query.concurrency = 17;
  EXPECT_EQ(FindFactor(profile, query, &why), nullptr);
  EXPECT_NE(why.find("concurrency 17"), std::string::npos);
  query.concurrency = 16;
  EXPECT_NE(FindFactor(profile, query, &why), nullptr);
  query.isl = 8192;
  EXPECT_EQ(FindFactor(profile, query, &why), nullptr);
  query.isl = 1024;
  query.family.version.clear();
  EXPECT_EQ(FindFactor(profile, query, &why), nullptr);
  EXPECT_NE(why.find("several"), std::string::npos);
  query.family.system = "b200_sxm";
  EXPECT_EQ(FindFactor(profile, query, &why), nullptr);
  EXPECT_NE(why.find("not calibrated"), std::string::npos);
}

TEST(Calibration, ProfilesSurviveTheFile) {
  CalibrationProfile profile = Calibrate({Sample(2, 1.2, 4), Sample(2.5, 1.1, 8)});
  profile.created_from = "points.csv";
  const auto again = ProfileFromJson(ProfileToJson(profile));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->created_from, "points.csv");
  ASSERT_EQ(again->factors.size(), 1U);
  EXPECT_EQ(again->factors[0].family, profile.factors[0].family);
  EXPECT_EQ(again->factors[0].ttft, profile.factors[0].ttft);
  EXPECT_EQ(again->factors[0].max_isl, 1024);
  EXPECT_EQ(again->factors[0].left_one_out->ttft_mape, profile.factors[0].left_one_out->ttft_mape);
  EXPECT_EQ(ProfileToJson(*again), ProfileToJson(profile));
}

TEST(Calibration, ForeignOrDamagedProfilesAreRefused) {
  const std::string good = ProfileToJson(Calibrate({Sample(2, 1.2, 4)}));
  const auto broken = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return ProfileFromJson(text);
  };
  EXPECT_TRUE(ProfileFromJson(good));
  EXPECT_FALSE(ProfileFromJson("{}"));
  EXPECT_FALSE(ProfileFromJson("[1"));
  EXPECT_FALSE(broken("\"schema_version\": 1", "\"schema_version\": 2"));
  EXPECT_FALSE(broken("\"ttft_factor\": ", "\"ttft_factor\": -"));
  EXPECT_FALSE(broken("\"isl\"", "\"lsi\""));
  EXPECT_FALSE(broken("\"isl\": [", "\"isl\": [1e300, 1e301], \"x\": ["));
}

}  // namespace
}  // namespace infercast
