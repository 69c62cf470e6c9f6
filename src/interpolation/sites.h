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
    int neighbours = 4;
    double max_distance = 2.0;        // octaves, inclusive
    int tail = 3;                     // curve points whose median utilisation is held
    bool own_curve_fallback = false;  // outside its own curve, ask the neighbours instead
  };
  // Sites in enumeration order (decides ties); each with its coordinates and its points ascending.
  struct Site {
    std::vector<double> coords;
    std::vector<SiteCurvePoint> curve;
  };
  SiteIndex(std::vector<Site> sites, Options options);
  ~SiteIndex();

  // GEMM slice of depth 3 (m, n, k): sites (n, k) in order of first appearance walking m, then n,
  // then k.
  static std::shared_ptr<const SiteIndex> BuildGemm(const GridView& m_n_k);

  // Position of a site, to resolve repeated queries of one operator without searching.
  std::optional<std::uint32_t> FindSite(std::span<const double> site) const;

  // `sol(site coords..., q)` is called with the site coordinates followed by q.
  ResolveResult Resolve(std::span<const double> site, double q, SolFunction sol) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace infercast
