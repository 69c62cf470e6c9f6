// Default candidate lists by backend, role and what was measured.
#include "search/default_lists.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "models/family.h"

namespace infercast {

namespace {

using List = std::vector<std::int64_t>;

List PowersOfTwo(std::int64_t from, std::int64_t to) {
  List list;
  for (std::int64_t v = from; v <= to; v *= 2) list.push_back(v);
  return list;
}

void Unite(List& list, const List& more) {
  std::set<std::int64_t> all(list.begin(), list.end());
  all.insert(more.begin(), more.end());
  list.assign(all.begin(), all.end());
}

CandidateLists DenseLists(const ListRequest& r) {
  const bool wide_node = r.system->name == "gb200" || r.system->name == "gb300";
  CandidateLists lists;
  lists.num_gpu = lists.tp = PowersOfTwo(1, wide_node ? 16 : 8);
  lists.pp = lists.dp = lists.moe_tp = lists.moe_ep = {1};
  return lists;
}

CandidateLists MegaMoeLists(const ListRequest& r) {
  const bool rack = r.system->num_gpus_per_rack.value_or(0) >= 32;
  CandidateLists lists;
  lists.num_gpu = lists.moe_ep = rack ? PowersOfTwo(4, 32) : List{8};
  lists.tp = PowersOfTwo(1, 8);
  lists.pp = lists.moe_tp = {1};
  lists.dp = rack ? PowersOfTwo(1, 32) : PowersOfTwo(1, 8);
  return lists;
}

CandidateLists FusedMoeLists(const ListRequest& r) {
  CandidateLists lists;
  lists.num_gpu = lists.tp = lists.dp = lists.moe_tp = lists.moe_ep = PowersOfTwo(1, 16);
  lists.pp = {1};
  if (r.backend == Backend::kSglang && r.deepep) lists.moe_tp = {1};
  return lists;
}

// Sizes to try where expert parallelism may span nodes.
CandidateLists LargeEpLists(const ListRequest& r, const CandidateLists& fused) {
  CandidateLists lists;
  lists.pp = lists.moe_tp = {1};
  if (r.backend == Backend::kVllm) {
    const List eps(r.covered_eps.begin(), r.covered_eps.end());
    lists.num_gpu = lists.dp = lists.moe_ep = eps;
    lists.tp = r.role == WorkerRole::kAggregated ? List{1} : fused.tp;
    return lists;
  }
  lists.tp = PowersOfTwo(1, 8);
  const std::int64_t widest = r.role == WorkerRole::kPrefill ? 32 : 64;
  if (r.backend == Backend::kSglang) {
    lists.num_gpu = lists.moe_ep = PowersOfTwo(8, widest);
    lists.dp = PowersOfTwo(1, widest);
  } else {
    const std::int64_t narrowest = r.role == WorkerRole::kAggregated ? 2 : 4;
    lists.num_gpu = lists.dp = lists.moe_ep = PowersOfTwo(narrowest, widest);
  }
  return lists;
}

}  // namespace

PhaseNeeds NeedsOf(WorkerRole role) {
  return {.context = true, .generation = role != WorkerRole::kPrefill};
}

std::set<std::uint32_t> CoveredAcrossNodes(const LargeEpCoverage& coverage, WorkerRole role,
                                           std::uint32_t gpus_per_node) {
  const auto sizes = [&](const std::vector<LargeEpCoverage::Entry>& entries) {
    std::set<std::uint32_t> all;
    for (const LargeEpCoverage::Entry& entry : entries) {
      for (const std::uint32_t ep : entry.ep_sizes) {
        if (ep > gpus_per_node) all.insert(ep);
      }
    }
    return all;
  };
  std::set<std::uint32_t> covered = sizes(coverage.context);
  if (NeedsOf(role).generation) {
    const std::set<std::uint32_t> decode = sizes(coverage.generation);
    std::erase_if(covered, [&](std::uint32_t ep) { return !decode.contains(ep); });
  }
  return covered;
}

void FillLists(const ListRequest& r, CandidateLists& lists) {
  const bool moe = r.model->IsMoe();
  CandidateLists defaults = !moe ? DenseLists(r) : r.megamoe ? MegaMoeLists(r) : FusedMoeLists(r);
  constexpr List CandidateLists::* kAll[] = {&CandidateLists::num_gpu, &CandidateLists::tp,
                                             &CandidateLists::pp,      &CandidateLists::dp,
                                             &CandidateLists::moe_tp,  &CandidateLists::moe_ep};
  const bool ladder =
      moe && !r.covered_eps.empty() && !(r.megamoe && r.role == WorkerRole::kAggregated);
  if (ladder) {
    const CandidateLists wide = LargeEpLists(r, defaults);
    for (const auto list : kAll) Unite(defaults.*list, wide.*list);
  }
  if (r.pipelines) {
    Unite(defaults.num_gpu, {16});
    Unite(defaults.tp, {8});
    Unite(defaults.pp, {2});
    Unite(defaults.dp, {1});
    Unite(defaults.moe_tp, {1, 2, 4, 8});
    Unite(defaults.moe_ep, {1, 2, 4, 8});
  }
  const bool splits_context = r.role != WorkerRole::kDecode && r.backend == Backend::kSglang &&
                              r.model->family->context_parallel;
  defaults.cp = splits_context ? PowersOfTwo(1, 8) : List{1};
  for (const auto list : kAll) {
    if ((lists.*list).empty()) lists.*list = std::move(defaults.*list);
  }
  if (lists.cp.empty()) lists.cp = std::move(defaults.cp);
}

}  // namespace infercast
