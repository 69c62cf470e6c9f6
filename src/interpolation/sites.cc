#include "interpolation/sites.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace infercast {

namespace {

constexpr std::size_t kMaxSiteAxes = 3;
constexpr std::size_t kNoGuess = std::numeric_limits<std::size_t>::max();

double Log2Floor(double v) { return std::log2(std::max(v, 1e-12)); }

bool Usable(double v) { return std::isfinite(v) && v > 0; }

// Median of up to `n` values; the mean of the middle two where their number is even.
double Median(std::span<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Coordinates of a site followed by the curve coordinate, on the stack.
struct Point {
  std::array<double, kMaxSiteAxes + 1> values{};
  std::size_t size = 0;

  Point(std::span<const double> site, double q) : size(site.size() + 1) {
    std::copy(site.begin(), site.end(), values.begin());
    values[site.size()] = q;
  }
  std::span<const double> span() const { return {values.data(), size}; }
};

// Index of the first point of a curve that is not below q. `guess` is tried first: neighbours are
// mostly measured at the same places.
std::size_t PlaceOn(const std::vector<SiteCurvePoint>& curve, double q, std::size_t guess) {
  if (guess <= curve.size() && (guess == 0 || curve[guess - 1].q < q) &&
      (guess == curve.size() || curve[guess].q >= q)) {
    return guess;
  }
  const SiteCurvePoint* first = curve.data();
  std::size_t n = curve.size();
  while (n > 1) {
    const std::size_t half = n / 2;
    first += first[half - 1].q < q ? half : 0;
    n -= half;
  }
  const auto at = static_cast<std::size_t>(first - curve.data());
  return n == 1 && first->q < q ? at + 1 : at;
}

bool Covers(const SiteIndex::Site& site, double q) {
  return !site.curve.empty() && site.curve.front().q <= q && q <= site.curve.back().q;
}

}  // namespace

SiteIndex::SiteIndex(std::vector<Site> sites, Options options)
    : sites_(std::move(sites)), options_(options) {
  logs_.reserve(sites_.size());
  for (const Site& site : sites_) {
    std::vector<double> logs;
    for (const double c : site.coords) logs.push_back(Log2Floor(c));
    logs_.push_back(std::move(logs));
  }
  by_coords_.resize(sites_.size());
  std::iota(by_coords_.begin(), by_coords_.end(), 0U);
  std::sort(by_coords_.begin(), by_coords_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return sites_[a].coords < sites_[b].coords; });
}

std::shared_ptr<const SiteIndex> SiteIndex::BuildGemm(const GridView& m_n_k) {
  const Table& table = *m_n_k.table;
  struct Row {
    double m, n, k;
    std::uint32_t leaf;
  };
  std::vector<Row> rows;
  std::map<std::pair<double, double>, std::uint32_t> index;
  // Enumeration: m by first appearance, under it n, under it k.
  std::vector<Site> sites;
  for (const std::uint32_t m_node : table.NodesByFirstAppearance(m_n_k)) {
    const double m = table.levels[m_n_k.level].keys[m_node];
    const GridView n_view = m_n_k.Child(m_node);
    for (const std::uint32_t n_node : table.NodesByFirstAppearance(n_view)) {
      const double n = table.levels[n_view.level].keys[n_node];
      const GridView k_view = n_view.Child(n_node);
      for (const std::uint32_t k_node : table.NodesByFirstAppearance(k_view)) {
        const double k = table.levels[k_view.level].keys[k_node];
        const auto [it, fresh] =
            index.try_emplace({n, k}, static_cast<std::uint32_t>(sites.size()));
        if (fresh) sites.push_back({{n, k}, {}});
        const Leaf leaf = table.LeafAt(k_node);
        sites[it->second].curve.push_back({m, leaf.latency, leaf.BlendPower(), k_node});
      }
    }
  }
  for (Site& site : sites) {
    std::sort(site.curve.begin(), site.curve.end(),
              [](const SiteCurvePoint& a, const SiteCurvePoint& b) { return a.q < b.q; });
  }
  return std::make_shared<SiteIndex>(std::move(sites), Options{});
}

std::optional<std::uint32_t> SiteIndex::Find(std::span<const double> site) const {
  const auto at =
      std::lower_bound(by_coords_.begin(), by_coords_.end(), site,
                       [&](std::uint32_t a, std::span<const double> key) {
                         return std::ranges::lexicographical_compare(sites_[a].coords, key);
                       });
  if (at == by_coords_.end() || !std::ranges::equal(sites_[*at].coords, site)) return std::nullopt;
  return *at;
}

// Orders every site but the query's own by (distance, index).
void SiteIndex::RankOthers(Plan& plan) const {
  const std::size_t axes = plan.site.size();
  std::array<double, kMaxSiteAxes> query{};
  for (std::size_t a = 0; a < axes; ++a) query[a] = Log2Floor(plan.site[a]);
  plan.nearest.clear();
  plan.nearest.reserve(sites_.size());
  for (std::uint32_t i = 0; i < sites_.size(); ++i) {
    if (plan.own == i) continue;
    double sum = 0;
    for (std::size_t a = 0; a < axes; ++a) {
      const double d = logs_[i][a] - query[a];
      sum += d * d;
    }
    plan.nearest.push_back({std::sqrt(sum), i});
  }
  std::sort(plan.nearest.begin(), plan.nearest.end(), [](const auto& a, const auto& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.index < b.index;
  });
}

SiteIndex::Plan SiteIndex::Prepare(std::span<const double> site) const {
  Plan plan;
  plan.site.assign(site.begin(), site.end());
  plan.own = Find(site);
  if (!plan.own || options_.own_curve_fallback) RankOthers(plan);
  return plan;
}

ResolveResult SiteIndex::Resolve(std::span<const double> site, double q, SolFunction sol) const {
  if (sites_.empty()) return std::unexpected(Miss::kEmptyTable);
  const auto own = Find(site);
  std::size_t place = kNoGuess;
  if (own && (!options_.own_curve_fallback || Covers(sites_[*own], q))) {
    return OnCurve(sites_[*own], q, sol, place);
  }
  // Kept per thread: after the first queries its room suffices and nothing is allocated.
  thread_local Plan plan;
  plan.site.assign(site.begin(), site.end());
  plan.own = own;
  RankOthers(plan);
  return FromNeighbours(plan, q, sol);
}

ResolveResult SiteIndex::Resolve(const Plan& plan, double q, SolFunction sol) const {
  if (sites_.empty()) return std::unexpected(Miss::kEmptyTable);
  std::size_t place = kNoGuess;
  if (plan.own && (!options_.own_curve_fallback || Covers(sites_[*plan.own], q))) {
    return OnCurve(sites_[*plan.own], q, sol, place);
  }
  return FromNeighbours(plan, q, sol);
}

ResolveResult SiteIndex::OnCurve(const Site& site, double q, SolFunction sol,
                                 std::size_t& place) const {
  const std::vector<SiteCurvePoint>& curve = site.curve;
  const std::size_t at = place = PlaceOn(curve, q, place);
  Resolved r;
  if (at < curve.size() && curve[at].q == q) {
    r.latency = curve[at].latency;
    r.power = curve[at].blend_power;
    r.leaf = curve[at].leaf;
  } else if (curve.size() < 2 || at == 0 || at == curve.size()) {
    if (curve.empty()) return std::unexpected(Miss::kEmptyTable);
    const std::size_t n = std::min(options_.tail, curve.size());
    const std::size_t begin = q < curve.front().q ? 0 : curve.size() - n;
    std::array<double, 8> utils{};
    std::array<double, 8> powers{};
    std::size_t count = 0;
    for (std::size_t i = begin; i < begin + n && count < utils.size(); ++i) {
      if (!(curve[i].latency > 0)) continue;
      const double s = sol(Point(site.coords, curve[i].q).span());
      if (!(s > 0)) continue;
      utils[count] = s / curve[i].latency;
      powers[count] = curve[i].blend_power;
      ++count;
    }
    if (count == 0) return std::unexpected(Miss::kNoBoundaryAnchor);
    const double util = Median(std::span(utils).first(count));
    r.power = Median(std::span(powers).first(count));
    r.latency = sol(Point(site.coords, q).span()) / util;
    const SiteCurvePoint& end = q < curve.front().q ? curve.front() : curve.back();
    r.kind = ResolveKind::kExtrapolated;
    r.octaves =
        static_cast<float>(std::abs(std::log2(std::max(q, 1.0)) - std::log2(std::max(end.q, 1.0))));
    r.leaf = end.leaf;
  } else {
    const SiteCurvePoint& low = curve[at - 1];
    const SiteCurvePoint& high = curve[at];
    const double w = (q - low.q) / (high.q - low.q);
    r.latency = low.latency + (high.latency - low.latency) * w;
    r.power = low.blend_power + (high.blend_power - low.blend_power) * w;
    r.kind = ResolveKind::kInterpolated;
    r.leaf = w < 0.5 ? low.leaf : high.leaf;
  }
  r.energy = r.power * r.latency;
  return r;
}

ResolveResult SiteIndex::FromNeighbours(const Plan& plan, double q, SolFunction sol) const {
  const auto& nearest = plan.nearest;
  bool any_covers = false;
  for (const Plan::Candidate& c : nearest) {
    if (Covers(sites_[c.index], q)) {
      any_covers = true;
      break;
    }
  }
  const auto is_candidate = [&](const Plan::Candidate& c) {
    return !any_covers || Covers(sites_[c.index], q);
  };

  std::array<const Plan::Candidate*, 8> chosen{};
  std::size_t count = 0;
  const std::size_t limit = std::min(options_.neighbours, chosen.size());
  for (const Plan::Candidate& c : nearest) {
    if (c.distance > options_.max_distance || count == limit) break;
    if (is_candidate(c)) chosen[count++] = &c;
  }
  if (count == 0) {
    // Frontier: a query larger than everything measured on exactly one axis may still use the
    // sites that are close on the other axes.
    const std::size_t axes = plan.site.size();
    std::array<double, kMaxSiteAxes> low;
    std::array<double, kMaxSiteAxes> high;
    low.fill(std::numeric_limits<double>::infinity());
    high.fill(-std::numeric_limits<double>::infinity());
    for (const Plan::Candidate& c : nearest) {
      if (!is_candidate(c)) continue;
      for (std::size_t a = 0; a < axes; ++a) {
        low[a] = std::min(low[a], sites_[c.index].coords[a]);
        high[a] = std::max(high[a], sites_[c.index].coords[a]);
      }
    }
    std::size_t beyond = axes;
    std::size_t num_beyond = 0;
    for (std::size_t a = 0; a < axes; ++a) {
      if (plan.site[a] < low[a]) return std::unexpected(Miss::kNoSiteInReach);
      if (plan.site[a] > high[a]) {
        beyond = a;
        ++num_beyond;
      }
    }
    if (num_beyond != 1) return std::unexpected(Miss::kNoSiteInReach);
    for (const Plan::Candidate& c : nearest) {
      if (count == limit) break;
      if (!is_candidate(c)) continue;
      double sum = 0;
      for (std::size_t a = 0; a < axes; ++a) {
        if (a == beyond) continue;
        const double d = logs_[c.index][a] - Log2Floor(plan.site[a]);
        sum += d * d;
      }
      if (std::sqrt(sum) <= options_.max_distance) chosen[count++] = &c;
    }
    if (count == 0) return std::unexpected(Miss::kNoSiteInReach);
  }

  double util = 0;
  double power = 0;
  double total = 0;
  Resolved r;
  r.kind = ResolveKind::kInterpolated;
  std::size_t place = kNoGuess;
  for (std::size_t i = 0; i < count; ++i) {
    const Site& site = sites_[chosen[i]->index];
    const ResolveResult on_curve = OnCurve(site, q, sol, place);
    if (!on_curve || !Usable(on_curve->latency)) continue;
    const double s = sol(Point(site.coords, q).span());
    if (!Usable(s)) continue;
    const double d = chosen[i]->distance;
    const double w = 1 / (d * d + 1e-12);
    util += w * (s / on_curve->latency);
    power += w * on_curve->power;
    if (total == 0) {
      r.leaf = on_curve->leaf;
      r.kind = ResolveKind::kExtrapolated;
      r.octaves = static_cast<float>(d) + on_curve->octaves;
    }
    total += w;
  }
  if (!(total > 0)) return std::unexpected(Miss::kNoUsableSite);
  const double sol_query = sol(Point(plan.site, q).span());
  if (!Usable(sol_query)) return std::unexpected(Miss::kNonPositiveSol);
  r.latency = sol_query / (util / total);
  r.power = power / total;
  r.energy = r.power * r.latency;
  return r;
}

}  // namespace infercast
