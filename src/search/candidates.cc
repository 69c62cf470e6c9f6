#include "search/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/ordinals.h"

namespace infercast {

namespace {

bool Contains(const std::vector<std::int64_t>& list, std::int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void AddRange(std::vector<std::int64_t>& out, std::int64_t from, std::int64_t to,
              std::int64_t step) {
  for (std::int64_t v = from; v <= to; v += step) out.push_back(v);
}

}  // namespace

Result<std::vector<ParallelLayout>> EnumerateLayouts(const CandidateLists& lists,
                                                     const CandidateRules& rules) {
  std::vector<std::int64_t> cp_list = lists.cp.empty() ? std::vector<std::int64_t>{1} : lists.cp;
  if (rules.backend != Backend::kSglang) {
    for (const std::int64_t cp : cp_list) {
      if (cp != 1) {
        return Fail(ErrorKind::kInvalidArgument,
                    fmt::format("context parallelism (cp {}) is only served by sglang, not by {}",
                                cp, ToString(rules.backend)));
      }
    }
    cp_list = {1};
  }
  std::vector<ParallelLayout> layouts;
  const auto add = [&](std::int64_t tp, std::int64_t pp, std::int64_t dp, std::int64_t moe_tp,
                       std::int64_t moe_ep, std::int64_t cp) {
    ParallelLayout layout;
    layout.tp = tp;
    layout.pp = pp;
    layout.dp = dp;
    layout.moe_tp = moe_tp;
    layout.moe_ep = moe_ep;
    layout.cp = cp;
    if (Contains(lists.num_gpu, layout.GpusPerWorker())) layouts.push_back(layout);
  };
  for (const std::int64_t tp : lists.tp) {
    for (const std::int64_t pp : lists.pp) {
      if (!rules.is_moe) {
        for (const std::int64_t cp : cp_list) add(tp, pp, 1, 1, 1, cp);
        continue;
      }
      for (const std::int64_t dp : lists.dp) {
        if (rules.backend == Backend::kTrtllm && dp > 1 && tp > 1) continue;
        for (const std::int64_t moe_tp : lists.moe_tp) {
          if (rules.backend == Backend::kSglang && rules.megamoe && moe_tp > 1) continue;
          for (const std::int64_t moe_ep : lists.moe_ep) {
            if (rules.backend == Backend::kVllm && moe_tp > 1 && moe_ep > 1) continue;
            for (const std::int64_t cp : cp_list) {
              if (dp * tp * cp == moe_tp * moe_ep) add(tp, pp, dp, moe_tp, moe_ep, cp);
            }
          }
        }
      }
    }
  }
  return layouts;
}

std::vector<std::int64_t> AggregatedBatches(std::int64_t max_batch) {
  std::vector<std::int64_t> all;
  AddRange(all, 1, 15, 1);
  AddRange(all, 16, 28, 4);
  AddRange(all, 32, 56, 8);
  AddRange(all, 64, 240, 16);
  AddRange(all, 256, 480, 32);
  for (const std::int64_t v : {512, 768, 1024}) all.push_back(v);
  std::erase_if(all, [&](std::int64_t v) { return v > max_batch; });
  return all;
}

std::vector<std::int64_t> DecodeBatches(std::int64_t max_batch) {
  max_batch = std::max<std::int64_t>(max_batch, 1);
  std::vector<std::int64_t> all;
  AddRange(all, 1, 15, 1);
  AddRange(all, 16, 30, 2);
  AddRange(all, 32, 124, 4);
  AddRange(all, 128, 504, 8);
  all.push_back(512);
  std::erase_if(all, [&](std::int64_t v) { return v > max_batch; });
  if (max_batch > 512) all.push_back(max_batch);
  return all;
}

std::vector<std::int64_t> ContextTokenGrid(std::int64_t isl, std::int64_t stride, bool chunked) {
  const std::int64_t limit = std::max<std::int64_t>(8192, 2 * isl);
  std::int64_t small = std::max<std::int64_t>(stride, 512);
  std::int64_t big = std::max({std::int64_t{1024}, small, limit / 8});
  if (!chunked) {
    small = std::max(isl, small);
    big = static_cast<std::int64_t>(
              CeilDiv(static_cast<std::uint64_t>(big), static_cast<std::uint64_t>(isl))) *
          isl;
  }
  std::vector<std::int64_t> grid;
  for (std::int64_t v = 0;;) {
    v += v < 8192 ? small : big;
    if (v > limit) break;
    grid.push_back(v);
  }
  for (const std::int64_t v : {isl, 2 * isl}) {
    if (!Contains(grid, v)) grid.push_back(v);
  }
  std::sort(grid.begin(), grid.end());
  return grid;
}

std::vector<double> TpotSweep() {
  std::vector<double> targets;
  for (int v = 1; v < 20; ++v) targets.push_back(v);
  for (int v = 20; v < 300; v += 5) targets.push_back(v);
  return targets;
}

std::vector<LatencyTarget> RequestLatencyTargets(double request_latency, double ttft,
                                                 std::int64_t osl) {
  std::vector<LatencyTarget> targets;
  if (osl <= 1) return targets;
  std::vector<double> first = {300,  400,  500,  600,  800,  1000, 1200,
                               1400, 1600, 2000, 3000, 5000, 8000};
  for (const double share : {0.1, 0.2, 0.3, 0.5, 0.7}) {
    const double t = request_latency * share;
    if (t < 300 || t > 8000) first.push_back(t);
  }
  first.push_back(ttft);
  std::sort(first.begin(), first.end());
  first.erase(std::unique(first.begin(), first.end()), first.end());
  for (const double t : first) {
    if (!(t < request_latency)) continue;
    targets.push_back({t, (request_latency - t) / static_cast<double>(osl - 1)});
  }
  return targets;
}

}  // namespace infercast
