// Scattered sites that each own a curve: GEMM shapes (n, k) with a curve over m, and whole-model
// forward passes. An unknown site borrows the utilisation of its nearest neighbours.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "interpolation/resolved.h"
#include "tables/table.h"

namespace infercast {

struct SiteCurvePoint {
  double q;
  double latency;
  double blend_power;
  std::uint32_t leaf;
};

class SiteIndex {
 public:
  struct Options {
    std::size_t neighbours = 4;
    double max_distance = 2.0;        // octaves, inclusive
    std::size_t tail = 3;             // curve points whose median utilisation is held
    bool own_curve_fallback = false;  // outside its own curve, ask the neighbours instead
  };
  // Sites in enumeration order (decides ties); each with its coordinates and its points ascending.
  struct Site {
    std::vector<double> coords;
    std::vector<SiteCurvePoint> curve;
  };

  // What can be settled about a query's site before its curve coordinate is known.
  struct Plan {
    std::vector<double> site;
    std::optional<std::uint32_t> own;
    struct Candidate {
      double distance;
      std::uint32_t index;
    };
    std::vector<Candidate>
        nearest;  // every other site by (distance, index); empty where not needed
  };

  SiteIndex(std::vector<Site> sites, Options options);

  // GEMM slice of depth 3 (m, n, k): sites (n, k) in order of first appearance walking m, then n,
  // then k.
  static std::shared_ptr<const SiteIndex> BuildGemm(const GridView& m_n_k);

  std::size_t size() const { return sites_.size(); }
  Plan Prepare(std::span<const double> site) const;

  // `sol(site coords..., q)` is called with the site coordinates followed by q.
  ResolveResult Resolve(const Plan& plan, double q, SolFunction sol) const;
  // The same without a plan, for sites that change from query to query. `sol` must not ask an index
  // for such a site itself.
  ResolveResult Resolve(std::span<const double> site, double q, SolFunction sol) const;

 private:
  std::optional<std::uint32_t> Find(std::span<const double> site) const;
  void RankOthers(Plan& plan) const;
  // `place`: where on the curve to look first; set to where q was found.
  ResolveResult OnCurve(const Site& site, double q, SolFunction sol, std::size_t& place) const;
  ResolveResult FromNeighbours(const Plan& plan, double q, SolFunction sol) const;

  std::vector<Site> sites_;
  std::vector<std::vector<double>> logs_;  // per site
  std::vector<std::uint32_t> by_coords_;   // site indices in lexicographic order of coordinates
  Options options_;
};

}  // namespace infercast
