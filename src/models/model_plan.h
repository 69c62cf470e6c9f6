// A model built for a deployment: the operators of one prefill step and of one decode step, those
// of the vision encoder, and the facts that memory and serving need.
//
// Operator lists are per GPU and cover all layers; scale factors are layer counts (decode ones
// raised by the draft depth). Pipeline stages are not split here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "models/model_config.h"
#include "models/model_facts.h"
#include "models/parallel.h"
#include "models/quantisation.h"
#include "operators/operator.h"

namespace infercast {

// Which all-to-all library serves the experts in each phase under large expert parallelism.
struct MoeCommBackends {
  std::optional<std::string> context;
  std::optional<std::string> generation;

  bool any() const { return context || generation; }
  bool operator==(const MoeCommBackends&) const = default;
};

enum class ForwardModel : std::uint8_t {
  kOperators,    // a forward pass is the sum of its operators
  kWholeForward  // a forward pass was measured as a whole
};

struct BuildOptions {
  Backend backend = Backend::kTrtllm;
  ParallelLayout layout;
  QuantOverrides quant;
  std::int64_t nextn = 0;            // draft tokens a step
  std::int64_t override_layers = 0;  // > 0 replaces the layer count
  std::string workload_distribution = "power_law";
  bool language_only = false;  // host no vision encoder
  bool encoder_data_parallel = true;
  std::int64_t sms = 20;  // streaming multiprocessors of high-throughput all-to-all kernels
  std::optional<std::string> moe_backend;
  std::optional<std::string> attention_backend;
  ForwardModel forward_model = ForwardModel::kOperators;
  // Large expert parallelism.
  MoeCommBackends moe_comm;
  std::optional<std::int64_t> gpus_per_node;  // needed with moe_comm
  std::optional<std::string> system;          // name; some all-to-all formats depend on it
  bool enable_wideep = false;                 // only part of a whole forward pass's identity
  bool enable_eplb = false;
  std::optional<std::int64_t> expert_slots;  // redundant experts included
};

// The vision tower of a multimodal model.
struct VisionFacts {
  std::int64_t layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t heads = 0;
  std::int64_t inter_size = 0;
  std::int64_t patch_size = 0;
  std::int64_t temporal_patch_size = 0;
  std::int64_t spatial_merge_size = 0;
  std::int64_t out_hidden_size = 0;
  std::int64_t projector_instances = 0;
  bool data_parallel = true;  // images are spread over the tensor-parallel group
};

struct ModelPlan {
  std::string model;  // as asked for
  ModelFacts facts;
  ParallelLayout layout;  // expert width filled in
  QuantModes quant;
  std::int64_t nextn = 0;  // effective draft depth
  Backend backend = Backend::kTrtllm;
  std::optional<std::string> attention_backend;

  std::vector<Operator> context_ops;
  std::vector<Operator> generation_ops;
  std::vector<Operator> encoder_ops;  // empty: no encoder on this worker
  std::optional<VisionFacts> vision;  // image tokens lengthen the context even without encoder ops

  // Width of the activations that memory counts (heads * head size, or the residual width).
  std::int64_t activation_hidden_size = 0;
  std::vector<std::string> notes;
};

// Checks in the order of the field: number formats, expert width, context parallelism, heads per
// GPU, draft depth, then the family's own. kInvalidArgument for impossible layouts and options,
// kUnsupportedModel for what a family does not serve (context parallelism ...) or is not built yet.
Result<ModelPlan> BuildModelPlan(const ModelConfig& model, const BuildOptions& options);

}  // namespace infercast
