// Buckets, bounds and eviction.
#include "online/sample_store.h"

#include <gtest/gtest.h>

#include <limits>

namespace infercast {
namespace {

std::vector<double> Values(const SampleStore& store) {
  std::vector<double> values;
  for (const Sample& sample : store.samples()) values.push_back(sample.value);
  return values;
}

TEST(SampleStore, FixedRangeRefusesWhatLiesOutside) {
  SampleStore store(2, 16, 8, std::array<double, 2>{512, 1000});
  EXPECT_TRUE(store.Add(std::array{512.0, 1000.0}, 1));
  EXPECT_FALSE(store.Add(std::array{513.0, 10.0}, 1));
  EXPECT_FALSE(store.Add(std::array{5.0, std::numeric_limits<double>::quiet_NaN()}, 1));
  EXPECT_EQ(store.size(), 1u);
  // The upper end belongs to the last bucket; beyond it there is none.
  EXPECT_EQ(store.BucketOf(std::array{512.0, 1000.0}), 15u);
  EXPECT_EQ(store.BucketOf(std::array{127.0, 251.0}), 1u);
  EXPECT_FALSE(store.BucketOf(std::array{512.5, 0.0}));
}

TEST(SampleStore, GrowingRangeDealsTheBucketsAnew) {
  SampleStore store(1, 4, 8, std::nullopt);
  EXPECT_FALSE(store.BucketOf(std::array{1.0}));
  store.Add(std::array{0.0, 0.0}, 1);
  store.Add(std::array{8.0, 0.0}, 2);
  store.Add(std::array{6.0, 0.0}, 3);
  EXPECT_EQ(store.Populated(), (std::vector<std::uint64_t>{0, 3}));
  store.Add(std::array{80.0, 0.0}, 4);
  EXPECT_EQ(store.BucketOf(std::array{8.0}), 0u);
  EXPECT_EQ(store.samples()[1].bucket, 0u);
}

TEST(SampleStore, TheFullestBucketGivesUpItsOldest) {
  SampleStore store(1, 4, 3, std::array<double, 2>{4, 0});
  store.Add(std::array{3.5, 0.0}, 1);  // alone in its bucket
  store.Add(std::array{0.5, 0.0}, 2);
  store.Add(std::array{0.6, 0.0}, 3);
  store.Add(std::array{0.7, 0.0}, 4);
  EXPECT_EQ(Values(store), (std::vector<double>{1, 3, 4}));
}

TEST(SampleStore, OfEquallyFullBucketsTheOldestSampleGoes) {
  SampleStore store(1, 4, 3, std::array<double, 2>{4, 0});
  store.Add(std::array{3.5, 0.0}, 1);
  store.Add(std::array{0.5, 0.0}, 2);
  store.Add(std::array{0.6, 0.0}, 3);
  store.Add(std::array{3.6, 0.0}, 4);
  EXPECT_EQ(Values(store), (std::vector<double>{2, 3, 4}));
}

}  // namespace
}  // namespace infercast
