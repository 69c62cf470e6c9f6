#include "search/afd_topologies.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace infercast {

namespace {

constexpr std::int64_t kDefaultBatch = 128;

// The user's sizes that divide `whole`, or the default ones; sorted, each once.
std::vector<std::int64_t> AttentionWidths(const AfdSpace& space, const AfdChoice& choice) {
  const std::int64_t g = space.gpus_per_node;
  std::set<std::int64_t> widths(choice.tp_a_candidates.begin(), choice.tp_a_candidates.end());
  if (widths.empty()) widths = {1, 2, 4, g};
  std::erase_if(widths, [&](std::int64_t tp) { return tp < 1 || g % tp != 0; });
  return {widths.begin(), widths.end()};
}

Result<std::vector<std::int64_t>> ExpertWidths(const AfdSpace& space, const AfdChoice& choice,
                                               std::int64_t ffn_nodes) {
  if (!space.is_moe) return std::vector<std::int64_t>{1};
  const std::int64_t gpus = ffn_nodes * space.gpus_per_node;
  std::set<std::int64_t> sizes;
  for (const std::string& word : choice.f_moe_ep_candidates) {
    std::int64_t size = 0;
    const char* end = word.data() + word.size();
    if (word == "n_f_nodes") {
      size = ffn_nodes;
    } else if (word == "tp_f") {
      size = gpus;
    } else if (const auto [at, error] = std::from_chars(word.data(), end, size);
               error != std::errc() || at != end) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("'{}' is no expert-parallel size of the FFN side: expected a number, "
                              "n_f_nodes or tp_f",
                              word));
    }
    sizes.insert(size);
  }
  if (sizes.empty()) sizes = {1, 2, ffn_nodes, gpus};
  std::erase_if(sizes, [&](std::int64_t ep) {
    if (ep < 1 || ep > gpus || gpus % ep != 0) return true;
    return space.num_experts > 0 && (ep > space.num_experts || space.num_experts % ep != 0);
  });
  return std::vector<std::int64_t>(sizes.begin(), sizes.end());
}

AfdLayout LayoutOf(const AfdSpace& space, const AfdChoice& choice, std::int64_t attention_nodes,
                   std::int64_t ffn_nodes, std::int64_t tp) {
  AfdLayout layout;
  layout.attention_nodes = attention_nodes;
  layout.ffn_nodes = ffn_nodes;
  layout.gpus_per_node = space.gpus_per_node;
  layout.attention_tp = tp;
  layout.comm_overhead = choice.comm_overhead_factor;
  layout.boundary_on_attention = choice.boundary_on_attn;
  return layout;
}

}  // namespace

Result<std::vector<AfdCandidate>> EnumerateAfdCandidates(const AfdSpace& space,
                                                         const AfdChoice& choice) {
  const std::int64_t g = space.gpus_per_node;
  if (space.gpu_budget < 2 * g) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("attention and FFN nodes need at least two nodes ({} GPUs), and the "
                            "budget is {} GPUs",
                            2 * g, space.gpu_budget));
  }
  const std::vector<std::int64_t> widths = AttentionWidths(space, choice);
  std::vector<std::int64_t> micro_batches = choice.microbatch_candidates;
  if (micro_batches.empty()) micro_batches = {2, 3, 4};
  if (std::any_of(micro_batches.begin(), micro_batches.end(), [](auto mb) { return mb < 1; })) {
    return Fail(ErrorKind::kInvalidArgument, "micro-batch counts must be at least 1");
  }
  std::vector<AfdPipeline> pipelines = choice.pipeline_candidates;
  if (pipelines.empty()) pipelines = {AfdPipeline::kOptimistic, AfdPipeline::kConservative};
  const bool truncate = choice.candidate_overflow == CandidateOverflow::kTruncate;
  const auto limit = static_cast<std::size_t>(std::max<std::int64_t>(choice.max_candidates, 0));

  std::vector<AfdCandidate> candidates;
  const std::int64_t nodes = space.gpu_budget / g;
  for (std::int64_t a = 1; a < nodes; ++a) {
    for (std::int64_t f = 1; f <= nodes - a; ++f) {
      if (static_cast<double>(a) / static_cast<double>(f) > choice.max_af_ratio) continue;
      IC_ASSIGN(const std::vector<std::int64_t> experts, ExpertWidths(space, choice, f));
      for (const std::int64_t tp : widths) {
        AfdLayout layout = LayoutOf(space, choice, a, f, tp);
        for (const std::int64_t ep : experts) {
          layout.expert_parallel = ep;
          for (const std::int64_t mb : micro_batches) {
            for (const AfdPipeline pipeline : pipelines) {
              if (pipeline == AfdPipeline::kOptimistic && mb < 3) continue;
              if (candidates.size() == limit) {
                if (truncate) return candidates;
                return Fail(ErrorKind::kInvalidArgument,
                            fmt::format("more than {} splits into attention and FFN nodes: raise "
                                        "afd_max_candidates, shorten the lists, or set "
                                        "afd_candidate_overflow to truncate",
                                        limit));
              }
              candidates.push_back({layout, mb, pipeline});
            }
          }
        }
      }
    }
  }
  if (candidates.empty()) {
    return Fail(ErrorKind::kNoFeasibleConfig,
                fmt::format("no split of {} nodes into attention and FFN nodes agrees with the "
                            "given lists",
                            nodes));
  }
  return candidates;
}

Result<bool> IsPinned(const AfdChoice& choice) {
  const int given = static_cast<int>(choice.n_a_nodes.has_value()) +
                    static_cast<int>(choice.n_f_nodes.has_value()) +
                    static_cast<int>(choice.tp_a.has_value());
  if (given == 0) return false;
  if (given == 3) return true;
  return Fail(ErrorKind::kInvalidArgument,
              "a fixed AFD split needs all of afd_n_a_nodes, afd_n_f_nodes and afd_tp_a");
}

Result<PinnedAfd> PinnedTopology(const AfdSpace& space, const AfdChoice& choice) {
  PinnedAfd pinned;
  pinned.layout = LayoutOf(space, choice, *choice.n_a_nodes, *choice.n_f_nodes, *choice.tp_a);
  AfdLayout& layout = pinned.layout;
  IC_RETURN_IF_ERROR(CheckAfdLayout(layout));
  if ((layout.attention_nodes + layout.ffn_nodes) * space.gpus_per_node > space.gpu_budget) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("{} attention and {} FFN nodes of {} GPUs exceed the budget of {} GPUs",
                            layout.attention_nodes, layout.ffn_nodes, space.gpus_per_node,
                            space.gpu_budget));
  }
  if (space.is_moe) {
    layout.expert_parallel = layout.FfnGpus();
    if (space.num_experts > 0 && space.num_experts % layout.FfnGpus() != 0) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("{} FFN GPUs do not divide the {} experts", layout.FfnGpus(),
                              space.num_experts));
    }
  }
  AfdSchedule& schedule = pinned.schedule;
  schedule.batch = choice.a_batch.value_or(kDefaultBatch);
  if (choice.total_batch) {
    const std::int64_t workers = layout.AttentionWorkers();
    if (*choice.total_batch < 1 || *choice.total_batch % workers != 0) {
      return Fail(
          ErrorKind::kInvalidArgument,
          fmt::format("a total batch of {} does not spread evenly over {} attention workers",
                      *choice.total_batch, workers));
    }
    const std::int64_t each = *choice.total_batch / workers;
    if (choice.a_batch && *choice.a_batch != each) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("afd_a_batch_size {} contradicts afd_total_batch_size {} over {} "
                              "attention workers",
                              *choice.a_batch, *choice.total_batch, workers));
    }
    schedule.batch = each;
  }
  IC_RETURN_IF_ERROR(CheckAfdSchedule(schedule));
  return pinned;
}

}  // namespace infercast
