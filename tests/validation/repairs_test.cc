// Defects of public collections: what is mended, what is marked, what cannot be answered.
#include "validation/repairs.h"

#include <gtest/gtest.h>

#include "validation/points.h"

namespace infercast {
namespace {

struct Widths {
  std::string tp, dp, moe_tp, moe_ep;
};

MeasuredPoint Point(const Widths& w, const std::string& system = "b200_sxm") {
  const auto file =
      ParseMeasuredCsv(std::string(testing::kHeader) +
                       "x,source_file=a.csv; silicon_concurrency=32,sglang,0.5.9,"
                       "deepseek-ai/DeepSeek-R1," +
                       system + ",fp8,agg,1024,1024,fp8,fp8_block,32," + w.tp + ",1," + w.dp + "," +
                       w.moe_tp + "," + w.moe_ep + ",,,,,500,20\n");
  return file.value().points.at(0);
}

RepairedPoint Repair(MeasuredPoint point, bool moe = true) {
  return RepairPoints({std::move(point)}, [moe](const std::string&) { return moe; }).at(0);
}

std::string Layout(const RepairedPoint& r) {
  const ParallelLayout& l = r.worker.layout;
  return std::to_string(l.tp) + "/" + std::to_string(l.dp) + "/" +
         std::to_string(l.moe_tp.value_or(0)) + "/" + std::to_string(l.moe_ep.value_or(0));
}

TEST(Repairs, WidthsMultipliedTwiceAreTakenOnce) {
  EXPECT_EQ(Layout(Repair(Point({"64", "1", "8", "8"}))), "8/1/1/8");
  EXPECT_EQ(Layout(Repair(Point({"16", "1", "4", "4"}))), "4/1/1/4");
  EXPECT_EQ(Layout(Repair(Point({"1", "64", "8", "8"}))), "1/8/1/8");
  EXPECT_EQ(Layout(Repair(Point({"4", "4", "1", "16"}))), "1/4/1/4");
  EXPECT_EQ(Layout(Repair(Point({"2", "2", "1", "4"}))), "1/2/1/2");
  EXPECT_EQ(Repair(Point({"64", "1", "8", "8"})).repairs.size(), 1U);
}

TEST(Repairs, SoundWidthsStay) {
  EXPECT_EQ(Layout(Repair(Point({"8", "1", "8", "1"}))), "8/1/8/1");
  EXPECT_EQ(Layout(Repair(Point({"4", "1", "2", "2"}))), "4/1/2/2");
  EXPECT_EQ(Layout(Repair(Point({"1", "8", "1", "8"}))), "1/8/1/8");
  EXPECT_TRUE(Repair(Point({"8", "1", "1", "8"})).repairs.empty());
}

TEST(Repairs, ContradictionsAndZeros) {
  EXPECT_EQ(Layout(Repair(Point({"1", "", "1", "8"}))), "8/1/1/8");
  EXPECT_EQ(Layout(Repair(Point({"8", "1", "1", "1"}))), "8/1/8/1");
  EXPECT_EQ(Layout(Repair(Point({"2", "0", "0", "0"}))), "2/1/2/1");
  EXPECT_EQ(Layout(Repair(Point({"2", "1", "4", "1"}), false)), "2/1/0/0");
}

TEST(Repairs, DeploymentsOfSeveralWorkersCannotBeAnswered) {
  for (const char* tp : {"12", "20", "28", "36", "72"}) {
    const RepairedPoint r = Repair(Point({tp, "1", tp, "1"}, "gb200"));
    EXPECT_TRUE(r.unanswerable) << tp;
  }
  EXPECT_FALSE(Repair(Point({"8", "1", "8", "1"}, "gb200")).unanswerable);
}

TEST(Repairs, WhatNoForecastCanDoWithoutIsNamed) {
  MeasuredPoint p = Point({"8", "1", "8", "1"});
  p.isl = std::nullopt;
  p.model.clear();
  EXPECT_EQ(*Repair(p).unanswerable, "the row lacks model, isl");
  p = Point({"8", "1", "8", "1"});
  p.mode = "disagg";
  EXPECT_NE(Repair(p).unanswerable->find("worker counts"), std::string::npos);
  p = Point({"8", "1", "8", "1"});
  p.source.clear();
  EXPECT_EQ(Repair(p).concurrency, 32);  // from the batch size
  p.worker.batch = std::nullopt;
  EXPECT_TRUE(Repair(p).unanswerable);
}

TEST(Repairs, CopiesCountOnceAndTheAnswerableOneIsTheOriginal) {
  MeasuredPoint broken = Point({"28", "1", "28", "1"}), sound = Point({"8", "1", "8", "1"});
  const auto r = RepairPoints({broken, sound, sound}, [](const std::string&) { return true; });
  EXPECT_TRUE(r[0].copy);
  EXPECT_FALSE(r[1].copy);
  EXPECT_TRUE(r[2].copy);
}

TEST(Repairs, HiddenSpeculationIsMarked) {
  MeasuredPoint p = Point({"8", "1", "1", "8"});
  p.backend = "trtllm";
  p.version = "1.2.0rc6.post3";
  EXPECT_TRUE(Repair(p).hidden_speculation);
  p.source = "db-dump/2026-04-27; silicon_concurrency=32";
  EXPECT_FALSE(Repair(p).hidden_speculation);
  // The faster of two measurements of one cell and version.
  MeasuredPoint slow = Point({"8", "1", "1", "8"}), fast = slow;
  fast.tpot_ms = 14;
  const auto r = RepairPoints({slow, fast}, [](const std::string&) { return true; });
  EXPECT_FALSE(r[0].hidden_speculation);
  EXPECT_TRUE(r[1].hidden_speculation);
}

}  // namespace
}  // namespace infercast
