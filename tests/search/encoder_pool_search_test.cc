// Searches behind encode workers: sizes of replicas, and a recorded run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "search/encoder_cells.h"
#include "search/run_task.h"
#include "tables/measured_data.h"

namespace infercast {
namespace {

EncodeWorker Encoder(std::int64_t gpus, double seq_s) {
  EncodeWorker worker;
  worker.tp = gpus;
  worker.bs = 1;
  worker.seq_s = seq_s;
  return worker;
}

ReplicaRules Sizes(std::vector<std::int64_t> gpus) {
  ReplicaRules rules;
  rules.allowed_gpus = std::move(gpus);
  return rules;
}

TEST(EncoderCells, GrowAndAreNotCopies) {
  // One language worker of one GPU makes 4 per second, one encode worker up to 10.
  const auto cells = EncoderCells(4, 1, Encoder(1, 10), 1, 32, Sizes({1, 2, 3, 4, 6}));
  std::vector<std::pair<std::int64_t, std::int64_t>> counts;
  for (const EncoderCell& c : cells) counts.emplace_back(c.language_workers, c.encode_workers);
  // 2 GPUs: 1+1 (4/s). 3: 2+1 (8/s). 4: 3+1 (10/s). 6: 4+2 (16/s) is two copies of 2+1: left out.
  EXPECT_THAT(counts, ::testing::ElementsAre(std::pair(1, 1), std::pair(2, 1), std::pair(3, 1)));
}

TEST(EncoderCells, RespectLimits) {
  EXPECT_TRUE(EncoderCells(4, 2, Encoder(2, 10), 1, 32, Sizes({1, 2, 3})).empty());
  // At most one encode worker: more GPUs only pay for more language workers.
  for (const EncoderCell& c : EncoderCells(4, 1, Encoder(1, 1), 1, 1, Sizes({2, 3, 4}))) {
    EXPECT_EQ(c.encode_workers, 1);
  }
  ReplicaRules any;
  any.max_gpus = 4;
  for (const EncoderCell& c : EncoderCells(4, 1, Encoder(1, 1), 1, 32, any)) {
    EXPECT_LE(c.language_workers + c.encode_workers, 4);
  }
  any.max_gpus.reset();
  // Without sizes an encoder is added only while it raises the rate: 4/s need four of 1/s.
  for (const EncoderCell& c : EncoderCells(4, 1, Encoder(1, 1), 1, 32, any)) {
    EXPECT_LE(c.encode_workers, 4 * c.language_workers);
  }
}

TEST(PoolMatches, AreTheBestOfAll) {
  const PoolFactors factors;
  const auto row = [](double seq_s, std::int64_t gpus) {
    StaticRow r;
    r.seq_s = seq_s;
    r.num_total_gpus = gpus;
    return r;
  };
  ReplicaRules sizes = Sizes({1, 2, 4, 8, 16, 24});
  sizes.max_prefill_workers = 8;
  sizes.max_decode_workers = 8;
  ReplicaRules any = sizes;
  any.allowed_gpus.clear();
  any.max_gpus = 20;
  for (const ReplicaRules& rules : {sizes, any}) {
    for (const double p : {0.7, 3.0}) {
      for (const double d : {1.1, 4.0, 9.0}) {
        for (const double e : {0.9, 5.0, 40.0}) {
          const StaticRow prefill = row(p, 1);
          const StaticRow decode = row(d, 2);
          const EncodeWorker encoder = Encoder(1, e);
          // Every count, one by one.
          double best = 0;
          for (std::int64_t y = 1; y <= 8; ++y) {
            for (std::int64_t x = 1; x <= 8; ++x) {
              for (std::int64_t w = 1; w <= 16; ++w) {
                const std::int64_t gpus = x + 2 * y + w;
                const bool allowed = rules.allowed_gpus.empty()
                                         ? gpus <= 20
                                         : gpus == 4 || gpus == 8 || gpus == 16 || gpus == 24;
                if (!allowed) continue;
                const double rate =
                    std::min({p * static_cast<double>(x) * 0.9, d * static_cast<double>(y) * 0.92,
                              e * 0.9 * static_cast<double>(w)});
                best = std::max(best, rate / static_cast<double>(gpus));
              }
            }
          }
          const PoolCounts found = MatchPools(prefill, decode, encoder, 0.9, 16, factors, rules);
          ASSERT_GT(found.encode, 0);
          const double rate = std::min({p * static_cast<double>(found.prefill) * 0.9,
                                        d * static_cast<double>(found.decode) * 0.92,
                                        e * 0.9 * static_cast<double>(found.encode)});
          EXPECT_DOUBLE_EQ(
              rate / static_cast<double>(found.prefill + 2 * found.decode + found.encode), best);
        }
      }
    }
  }
  EXPECT_EQ(MatchPools(row(1, 1), row(1, 1), Encoder(1, 1), 0.9, 32, factors, Sizes({1, 2})).encode,
            0);
}

class EncoderPoolSearches : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto root = testing::SystemsRoot();
    ASSERT_TRUE(root) << "no measured data: run infercast data fetch";
    systems_ = std::make_unique<SystemsCatalog>(SystemsCatalog({*root}));
    checkpoints_.config_dirs.push_back(root->parent_path() / "model_configs");
    bench_ = std::make_unique<Workbench>(*systems_, checkpoints_);
    task_.behaviour = Behaviour::kReference;
    task_.workload.isl = 1500;
    task_.workload.osl = 200;
    task_.workload.num_images = 2;
    task_.workload.image_height = 1000;
    task_.workload.image_width = 750;
    task_.ttft = 2000;
    task_.tpot = 30;
    task_.total_gpus = 8;
    task_.epd.enabled = true;
    for (RoleChoice* role : {&task_.worker, &task_.prefill, &task_.decode}) {
      role->model = "Qwen/Qwen3-VL-8B-Instruct";
      role->system = "h200_sxm";
      role->backend = Backend::kVllm;
      role->version = "0.24.0";
    }
  }
  Result<TaskTable> Run(ServingMode mode) {
    Task task = task_;
    task.mode = mode;
    if (mode == ServingMode::kDisaggregated) task.worker = {};
    return RunTask(task, *bench_);
  }

  std::unique_ptr<SystemsCatalog> systems_;
  CheckpointSearch checkpoints_;
  std::unique_ptr<Workbench> bench_;
  Task task_;
};

TEST_F(EncoderPoolSearches, AggregatedRowsAreTheRecordedOnes) {
  const auto table = Run(ServingMode::kAggregated);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->rows.size(), 2993U);
  double best = 0;
  for (const TaskRow& row : table->rows) {
    ASSERT_TRUE(row.encoders);
    const AggregatedRow& r = *row.aggregated();
    EXPECT_EQ(r.num_total_gpus, r.worker->layout.tp * row.encoders->language_workers +
                                    row.encoders->tp * row.encoders->workers);
    EXPECT_LE(r.ttft, 2000);
    if (r.tpot <= 30) {
      const auto gpus = static_cast<double>(r.num_total_gpus);
      best = std::max(best, r.tokens_s_gpu * std::floor(8 / gpus) * gpus / 8);
    }
  }
  EXPECT_NEAR(best, 1579.6324429037968, 1e-9);
}

TEST_F(EncoderPoolSearches, PoolsAreTheRecordedOnes) {
  const auto table = Run(ServingMode::kDisaggregated);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->rows.size(), 57U);
  double best = 0;
  for (const TaskRow& row : table->rows) {
    ASSERT_TRUE(row.encoders);
    const DisaggregatedRow& r = *row.disaggregated();
    EXPECT_LT(r.ttft, 2000);
    if (r.tpot <= 30) {
      const auto gpus = static_cast<double>(r.num_total_gpus);
      best = std::max(best, r.tokens_s_gpu * std::floor(8 / gpus) * gpus / 8);
    }
  }
  EXPECT_NEAR(best, 1554.248, 1e-9);
}

TEST_F(EncoderPoolSearches, NativeAnswersAreNear) {
  task_.behaviour = Behaviour::kNative;
  // Aggregated rows count all generated tokens, not all but one of each request.
  const auto osl = static_cast<double>(task_.workload.osl);
  for (const auto& [mode, value] : {std::pair(ServingMode::kAggregated, 1579.63 * osl / (osl - 1)),
                                    std::pair(ServingMode::kDisaggregated, 1554.248)}) {
    const auto table = Run(mode);
    ASSERT_TRUE(table) << table.error().message;
    double best = 0;
    for (const TaskRow& row : table->rows) {
      const PickRow r = PickRowOf(row);
      if (r.tpot > 30) continue;
      const auto gpus = static_cast<double>(r.num_total_gpus);
      best = std::max(best, r.tokens_s_gpu * std::floor(8 / gpus) * gpus / 8);
    }
    EXPECT_NEAR(best, value, value * 1e-3);
  }
}

TEST_F(EncoderPoolSearches, NeedImagesAndEyes) {
  task_.workload.image_height = 0;
  EXPECT_EQ(Run(ServingMode::kAggregated).error().kind, ErrorKind::kInvalidArgument);
  task_.workload.image_height = 1000;
  task_.worker.model = "Qwen/Qwen3-8B";
  EXPECT_EQ(Run(ServingMode::kAggregated).error().kind, ErrorKind::kInvalidArgument);
}

TEST_F(EncoderPoolSearches, EncodersMayRunElsewhere) {
  task_.epd.system = "h100_sxm";
  task_.epd.tp = {1};
  const auto there = Run(ServingMode::kDisaggregated);
  ASSERT_TRUE(there) << there.error().message;
  task_.epd.system.reset();
  const auto here = Run(ServingMode::kDisaggregated);
  ASSERT_TRUE(here) << here.error().message;
  EXPECT_NE(there->rows[0].disaggregated()->encoder_latency,
            here->rows[0].disaggregated()->encoder_latency);
}

}  // namespace
}  // namespace infercast
