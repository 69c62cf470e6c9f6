// The forecast of one given deployment, with the cost of every operator.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "search/explain_rows.h"
#include "search/task.h"
#include "search/task_table.h"
#include "search/workbench.h"

namespace infercast {

enum class EstimateMode : std::uint8_t { kAgg, kDisagg, kAfd, kStatic, kStaticContext, kStaticGen };
template <>
struct EnumNames<EstimateMode> {
  static constexpr std::string_view kType = "estimate mode";
  static constexpr std::array<std::string_view, 6> kNames = {"agg",    "disagg",     "afd",
                                                             "static", "static_ctx", "static_gen"};
};

// Sizes of one pool; what is absent follows the shared sizes.
struct PoolSizes {
  std::optional<std::int64_t> tp, pp, dp, moe_tp, moe_ep;
  std::optional<std::int64_t> batch;    // required in disaggregated mode
  std::optional<std::int64_t> workers;  // required in disaggregated mode
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> max_seq_len;
};

// A point of attention/feed-forward disaggregation.
struct AfdSizes {
  std::optional<std::int64_t> n_a_nodes, n_f_nodes;  // required in AFD mode
  std::int64_t a_tp = 1;
  std::int64_t a_batch = 128;
  std::int64_t f_moe_ep = 1;
  std::int64_t microbatches = 3;
  AfdPipeline pipeline = AfdPipeline::kOptimistic;
  double comm_overhead_factor = 1.0;
  AfdPhase phase = AfdPhase::kDecode;
  bool combined_with_pd = true;
  bool boundary_on_attn = true;
};

struct EstimateRequest {
  EstimateMode mode = EstimateMode::kAgg;
  std::string model;
  std::string system;
  std::optional<std::string> decode_system;  // disaggregated; absent: the same
  Backend backend = Backend::kTrtllm;
  std::optional<std::string> version;
  DatabaseMode database_mode = DatabaseMode::kSilicon;
  TransferPolicy policy;
  Workload workload{.isl = 1024, .osl = 1024};
  bool encoder_data_parallel = true;
  // The worker. Of MoE models one of moe_tp and moe_ep must be given; the other follows.
  ParallelLayout layout;
  std::int64_t batch = 128;
  std::optional<std::int64_t> ctx_tokens;  // aggregated; absent: the input length
  std::uint32_t stride = kDecodeStride;    // static modes
  PoolSizes prefill, decode;
  AfdSizes afd;
  EncoderPoolChoice epd;  // aggregated and disaggregated
  std::optional<std::int64_t> encoder_tp, encoder_batch, encoder_workers;
  std::int64_t language_workers = 1;  // behind the encoder pool, aggregated
  QuantOverrides quant;
  std::optional<std::int64_t> nextn = 0;  // absent: as the checkpoint has
  std::optional<double> nextn_accepted;
  std::optional<double> memory_fraction;
  std::optional<std::int64_t> max_seq_len;
  std::optional<std::string> attention_backend;
  std::optional<std::string> moe_backend;
  ForwardModel forward_model = ForwardModel::kOperators;
  Behaviour behaviour = Behaviour::kNative;
  bool allow_unlisted_versions = false;
  bool bounds = false;  // tell what bounds each operator, too
};

// Memory of the two pools of attention/feed-forward disaggregation, per GPU.
struct AfdPoolMemory {
  MemoryUsage attention, feed_forward;
  bool kv_oom = false;  // of the attention workers
};

struct PointEstimate {
  EstimateMode mode = EstimateMode::kAgg;
  // The figures: an aggregated, disaggregated or AFD row; a static mode fills `static_row` instead.
  std::optional<TaskRow> row;
  std::optional<StaticRow> static_row;
  std::vector<std::shared_ptr<const Worker>> workers;  // own what the rows point to
  std::vector<EstimatePhase> phases;
  std::optional<AfdPoolMemory> afd_memory;
  std::string version;                    // of pools: both where they differ
  std::optional<double> power_w;          // absent: too few operators have measured power
  double power_coverage = 0;              // share of the latency that has
  std::optional<std::string> kv_warning;  // the KV cache does not hold the batch (aggregated)
  bool out_of_memory = false;             // static modes answer all the same
  std::vector<std::string> notes;
};

// kInvalidArgument for impossible sizes, kDoesNotFit, and the errors of opening and building.
Result<PointEstimate> EstimatePoint(const EstimateRequest& request, Workbench& bench);

}  // namespace infercast
