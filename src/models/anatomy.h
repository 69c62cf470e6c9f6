// What a decoder is made of, layer by layer: how tokens are mixed, what is cached of them, the
// feed-forward, and how many parameters that is. Read from the configuration alone, before any
// deployment; operator lists price some of this differently, since they follow the kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/model_config.h"
#include "models/model_plan.h"

namespace infercast {

enum class Mixer : std::uint8_t {
  kFull,          // attention to every position
  kSliding,       // attention to a window, or to a chunk
  kLatent,        // multi-head latent attention
  kSparseLatent,  // the same behind an indexer
  kCompressed,    // a window, and compressed older positions (DeepSeek-V4)
  kMamba2,        // state space
  kLinear,        // gated delta net, Kimi delta attention
  kNone,
};
std::string_view MixerName(Mixer mixer);

enum class FeedForward : std::uint8_t { kNone, kDense, kExperts };

// Layers that are alike. Sizes are of the whole model.
struct LayerGroup {
  std::int64_t layers = 0;

  Mixer mixer = Mixer::kFull;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, v_dim = 0;
  std::int64_t window = 0;       // of kSliding
  std::int64_t kv_elements = 0;  // cached elements a token in the cache's format; of all KV heads
  std::int64_t kv_fixed_bytes = 0;  // further bytes a token, whatever the format
  bool kv_by_heads = true;  // spread over a tensor-parallel group by KV heads; else replicated
  double state_bytes = 0;   // per sequence, independent of length; spread by heads

  FeedForward feed_forward = FeedForward::kDense;
  std::int64_t inter = 0;  // of the dense feed-forward, or of one expert
  std::int64_t experts = 0, topk = 0;
  std::int64_t shared_inter = 0;  // experts that every token visits

  // Parameters of one layer (matrices; biases and norms are left out).
  double mixer_params = 0;
  double dense_params = 0;   // feed-forward without routed experts: dense, shared, router
  double expert_params = 0;  // all routed experts

  // Of all its layers.
  double Params() const;

  // Alike but for the number of layers.
  bool SameKind(const LayerGroup& o) const;
};

struct ModelAnatomy {
  std::vector<LayerGroup> groups;  // in order of first appearance
  double embedding_params = 0;
  double head_params = 0;  // 0 when the output shares the embedding's matrix
  bool tied = false;

  // Drafting layers of multi-token prediction that the checkpoint carries.
  std::optional<LayerGroup> draft;
  double draft_projection_params = 0;

  std::vector<std::string> notes;  // what was assumed

  std::int64_t Layers() const;
  double TotalParams() const;   // without draft layers
  double ActiveParams() const;  // those that one token visits: one row of the embedding is none
  double DraftParams() const;
};

// kModelConfig for malformed keys.
Result<ModelAnatomy> DescribeModel(const ModelConfig& model);

// KV bytes of one token in one layer of the group, on one GPU of a tensor-parallel group.
double KvBytesPerToken(const LayerGroup& group, std::int64_t tp, double element_bytes);
// Recurrent state of one sequence in one layer, on one GPU.
double StateBytes(const LayerGroup& group, std::int64_t tp);

// Weights of the draft layers on one GPU.
double DraftWeightBytes(const ModelAnatomy& anatomy, const ModelPlan& plan);

}  // namespace infercast
