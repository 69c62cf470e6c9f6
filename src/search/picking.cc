#include "search/picking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/rounding.h"
#include "search/pareto.h"

namespace infercast {

namespace {

bool UsesRequestLatency(const Constraint& c) { return c.request_latency && *c.request_latency > 0; }

double ConstraintValue(const PickRow& row, const Constraint& c) {
  return UsesRequestLatency(c) ? row.request_latency : row.tpot;
}

double Limit(const Constraint& c) { return UsesRequestLatency(c) ? *c.request_latency : c.tpot; }

std::vector<Pick> Front(std::span<const PickRow> rows, std::span<const Pick> picks,
                        const Constraint& c) {
  std::vector<FrontPoint> points;
  for (const Pick& p : picks) {
    const PickRow& row = rows[p.row];
    points.push_back(
        {UsesRequestLatency(c) ? row.request_latency : row.tokens_s_user, p.tokens_s_gpu_cluster});
  }
  std::vector<Pick> front;
  for (const std::uint32_t i : ParetoFront(points, !UsesRequestLatency(c), true)) {
    front.push_back(picks[i]);
  }
  return front;
}

// The best pick of each group, groups in ascending order of their text. `better(a, b)`: a strictly
// before b; the first of equals stays.
template <typename Better>
std::vector<Pick> BestOfGroups(std::span<const PickRow> rows, std::span<const Pick> picks,
                               Better better) {
  std::map<std::string_view, Pick> best;
  for (const Pick& p : picks) {
    const auto [it, fresh] = best.try_emplace(rows[p.row].group, p);
    if (!fresh && better(p, it->second)) it->second = p;
  }
  std::vector<Pick> out;
  for (const auto& [group, pick] : best) out.push_back(pick);
  return out;
}

// Rows that meet the constraint; all of them, and `exceeded`, where none does.
std::vector<Pick> Meeting(std::span<const PickRow> rows, std::span<const Pick> picks,
                          const Constraint& c, bool& exceeded) {
  std::vector<Pick> out;
  for (const Pick& p : picks) {
    if (ConstraintValue(rows[p.row], c) <= Limit(c)) out.push_back(p);
  }
  exceeded = out.empty();
  if (exceeded) out.assign(picks.begin(), picks.end());
  return out;
}

}  // namespace

double ClusterValue(const PickRow& row, std::int64_t total_gpus) {
  if (total_gpus <= 0) return row.tokens_s_gpu;
  const std::int64_t replicas = row.num_total_gpus > 0 ? total_gpus / row.num_total_gpus : 0;
  return row.tokens_s_gpu * static_cast<double>(replicas) *
         static_cast<double>(row.num_total_gpus) / static_cast<double>(total_gpus);
}

PickResult PickForCluster(std::span<const PickRow> rows, std::int64_t total_gpus,
                          const Constraint& c, std::size_t top_n, Behaviour behaviour) {
  PickResult result;
  const bool native = behaviour == Behaviour::kNative;
  std::vector<Pick> all;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    if (c.strict && !(ConstraintValue(rows[i], c) <= Limit(c))) continue;
    // A replica that is larger than the cluster cannot be deployed on it.
    if (native && total_gpus > 0 && rows[i].num_total_gpus > total_gpus) continue;
    all.push_back({.row = i, .tokens_s_gpu_cluster = ClusterValue(rows[i], total_gpus)});
  }
  result.front = Front(rows, all, c);
  if (top_n < 1) return result;
  std::vector<Pick> candidates = Meeting(rows, all, c, result.exceeded);
  std::erase_if(candidates, [&](const Pick& p) {
    return !std::isfinite(ConstraintValue(rows[p.row], c)) ||
           !std::isfinite(p.tokens_s_gpu_cluster) || (!native && total_gpus == 0);
  });
  result.best = BestOfGroups(rows, candidates, [&](const Pick& a, const Pick& b) {
    // Where nothing meets the target, the row that misses it least is of interest.
    const double x = ConstraintValue(rows[a.row], c);
    const double y = ConstraintValue(rows[b.row], c);
    if (native && result.exceeded && x != y) return x < y;
    if (a.tokens_s_gpu_cluster != b.tokens_s_gpu_cluster) {
      return a.tokens_s_gpu_cluster > b.tokens_s_gpu_cluster;
    }
    return native && rows[a.row].tpot < rows[b.row].tpot;
  });
  std::stable_sort(result.best.begin(), result.best.end(), [&](const Pick& a, const Pick& b) {
    const PickRow& p = rows[a.row];
    const PickRow& q = rows[b.row];
    if (result.exceeded) return ConstraintValue(p, c) < ConstraintValue(q, c);
    if (a.tokens_s_gpu_cluster != b.tokens_s_gpu_cluster) {
      return a.tokens_s_gpu_cluster > b.tokens_s_gpu_cluster;
    }
    return UsesRequestLatency(c) ? p.request_latency < q.request_latency
                                 : p.tokens_s_user > q.tokens_s_user;
  });
  if (result.best.size() > top_n) result.best.resize(top_n);
  if (!result.best.empty()) result.best_value = result.best[0].tokens_s_gpu_cluster;
  return result;
}

PickResult PickByObjective(std::span<const PickRow> rows, std::int64_t total_gpus,
                           Objective objective, std::size_t top_n, Behaviour behaviour) {
  PickResult result;
  std::vector<Pick> all;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const bool too_large = total_gpus > 0 && rows[i].num_total_gpus > total_gpus;
    if (behaviour == Behaviour::kNative && too_large) continue;
    all.push_back({.row = i, .tokens_s_gpu_cluster = ClusterValue(rows[i], total_gpus)});
  }
  const bool latency = objective == Objective::kLatency;
  std::vector<FrontPoint> points;
  for (const Pick& p : all) {
    points.push_back(
        {latency ? rows[p.row].tpot : rows[p.row].tokens_s_user, p.tokens_s_gpu_cluster});
  }
  for (const std::uint32_t i : ParetoFront(points, !latency, true)) result.front.push_back(all[i]);
  const auto better = [&](const Pick& a, const Pick& b) {
    const double x = rows[a.row].tpot;
    const double y = rows[b.row].tpot;
    if (latency && x != y) return x < y;
    if (a.tokens_s_gpu_cluster != b.tokens_s_gpu_cluster) {
      return a.tokens_s_gpu_cluster > b.tokens_s_gpu_cluster;
    }
    return x < y;
  };
  result.best = BestOfGroups(rows, all, better);
  // Equal groups keep the order of their rows.
  std::sort(result.best.begin(), result.best.end(), [&](const Pick& a, const Pick& b) {
    if (better(a, b)) return true;
    return !better(b, a) && a.row < b.row;
  });
  if (result.best.size() > top_n) result.best.resize(top_n);
  if (!result.best.empty()) result.best_value = result.best[0].tokens_s_gpu_cluster;
  return result;
}

Result<PickResult> PickForLoad(std::span<const PickRow> rows, const LoadTarget& load,
                               const Constraint& c, std::size_t top_n, Behaviour behaviour) {
  if (load.request_rate.has_value() == load.concurrency.has_value()) {
    return Fail(ErrorKind::kInvalidArgument,
                "give exactly one load: a request rate or a concurrency");
  }
  const double wanted = load.request_rate ? *load.request_rate : *load.concurrency;
  if (!std::isfinite(wanted) || wanted <= 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("the load is {}: expected a positive number", wanted));
  }
  const bool native = behaviour == Behaviour::kNative;
  PickResult result;
  std::vector<Pick> all;
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    if (native && c.strict && !(ConstraintValue(rows[i], c) <= Limit(c))) continue;
    all.push_back({.row = i, .tokens_s_gpu_cluster = rows[i].tokens_s_gpu});
  }
  result.front = Front(rows, all, c);
  std::vector<Pick> candidates = Meeting(rows, all, c, result.exceeded);
  std::erase_if(candidates, [&](Pick& p) {
    const PickRow& row = rows[p.row];
    const double unit = load.request_rate ? row.seq_s : row.concurrency;
    const double replicas = std::ceil(wanted / unit);
    if (!std::isfinite(replicas) || replicas > 1e15) return true;  // serves nothing
    p.replicas_needed = std::max<std::int64_t>(static_cast<std::int64_t>(replicas), 1);
    p.total_gpus_needed = p.replicas_needed * row.num_total_gpus;
    return false;
  });

  bool capped = false;
  if (load.max_gpus && !result.exceeded) {
    std::vector<Pick> within;
    for (const Pick& p : candidates) {
      if (p.total_gpus_needed <= *load.max_gpus) within.push_back(p);
    }
    if (within.empty()) {
      capped = true;
      // One replica alone is more than the limit.
      if (native) {
        std::erase_if(candidates,
                      [&](const Pick& p) { return rows[p.row].num_total_gpus > *load.max_gpus; });
      }
      for (Pick& p : candidates) {
        const std::int64_t gpus = rows[p.row].num_total_gpus;
        const std::int64_t replicas = std::max<std::int64_t>(*load.max_gpus / gpus, 1);
        p.load_served_percent = RoundDecimal(
            static_cast<double>(replicas) / static_cast<double>(p.replicas_needed) * 100, 1);
        p.replicas_needed = replicas;
        p.total_gpus_needed = replicas * gpus;
        p.tokens_s_gpu_cluster = rows[p.row].tokens_s_gpu * static_cast<double>(replicas) *
                                 static_cast<double>(gpus) / static_cast<double>(*load.max_gpus);
      }
    } else {
      candidates = std::move(within);
    }
  }

  const auto tie = [&](const Pick& a, const Pick& b) {
    return native && rows[a.row].tokens_s_gpu > rows[b.row].tokens_s_gpu;
  };
  result.best = BestOfGroups(rows, candidates, [&](const Pick& a, const Pick& b) {
    if (result.exceeded) {
      const double x = ConstraintValue(rows[a.row], c);
      const double y = ConstraintValue(rows[b.row], c);
      return x != y ? x < y : tie(a, b);
    }
    if (capped) return a.tokens_s_gpu_cluster > b.tokens_s_gpu_cluster;
    if (a.total_gpus_needed != b.total_gpus_needed) {
      return a.total_gpus_needed < b.total_gpus_needed;
    }
    return tie(a, b);
  });
  std::stable_sort(result.best.begin(), result.best.end(), [&](const Pick& a, const Pick& b) {
    const PickRow& p = rows[a.row];
    const PickRow& q = rows[b.row];
    if (result.exceeded) return ConstraintValue(p, c) < ConstraintValue(q, c);
    if (capped) return a.tokens_s_gpu_cluster > b.tokens_s_gpu_cluster;
    if (a.total_gpus_needed != b.total_gpus_needed) {
      return a.total_gpus_needed < b.total_gpus_needed;
    }
    return p.tokens_s_gpu > q.tokens_s_gpu;
  });
  if (result.best.size() > top_n) result.best.resize(top_n);
  if (!result.best.empty()) {
    const Pick& first = result.best[0];
    result.best_value = load.max_gpus && first.total_gpus_needed >= *load.max_gpus
                            ? first.tokens_s_gpu_cluster
                            : 1.0 / static_cast<double>(first.total_gpus_needed);
  }
  return result;
}

}  // namespace infercast
