// The search for a utilisation to borrow.
#include "operators/moe_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace infercast {

namespace {

// How close kernels of a number format usually come to the speed of light: calibration constants.
double TypicalUtilisation(const QuantProfile& profile) {
  struct Entry {
    double memory, compute, level;
  };
  constexpr std::array<Entry, 9> kLevels = {{{2, 1, 0.53},
                                             {1, 1, 0.45},
                                             {0.5625, 1, 0.07},
                                             {0.5, 1, 0.07},
                                             {1, 2, 0.40},
                                             {0.5, 2, 0.15},
                                             {1, 4, 0.30},
                                             {0.5, 4, 0.23},
                                             {0.5625, 4, 0.23}}};
  for (const Entry& e : kLevels) {
    if (e.memory == profile.memory && e.compute == profile.compute) return e.level;
  }
  return 0.30;
}

bool SameCosts(const QuantProfile& a, const QuantProfile& b) {
  return a.memory == b.memory && a.compute == b.compute;
}

// A measured shape and its curve.
struct Candidate {
  MoeShape shape;
  GridView curve;
  std::string_view quant;
};

// Appends every shape of a number format measured with the given rank counts, in ascending order.
void AppendShapes(const Table& table, std::string_view quant, std::string_view wanted_distribution,
                  const MoeRoofline& roofline, std::vector<Candidate>& out) {
  const auto by_topk =
      table.Slice({quant, MeasuredDistribution(table, quant, wanted_distribution)});
  if (!by_topk) return;
  const auto key = [&](const GridView& view, std::uint32_t node) {
    return static_cast<std::uint64_t>(table.levels[view.level].keys[node]);
  };
  for (std::uint32_t k = by_topk->begin; k < by_topk->end; ++k) {
    const GridView by_experts = by_topk->Child(k);
    for (std::uint32_t e = by_experts.begin; e < by_experts.end; ++e) {
      const GridView by_hidden = by_experts.Child(e);
      for (std::uint32_t h = by_hidden.begin; h < by_hidden.end; ++h) {
        const GridView by_inter = by_hidden.Child(h);
        for (std::uint32_t i = by_inter.begin; i < by_inter.end; ++i) {
          const auto curve = table.Slice(by_inter.Child(i), {roofline.tp, roofline.ep});
          if (!curve) continue;
          out.push_back({{.hidden = key(by_hidden, h),
                          .inter = key(by_inter, i),
                          .topk = key(*by_topk, k),
                          .experts = key(by_experts, e)},
                         *curve,
                         quant});
        }
      }
    }
  }
}

const Candidate* Nearest(const std::vector<Candidate>& candidates, const MoeShape& wanted) {
  const auto features = [](const MoeShape& s) {
    return std::array<double, 4>{static_cast<double>(s.topk), static_cast<double>(s.experts),
                                 static_cast<double>(s.hidden), static_cast<double>(s.inter)};
  };
  std::vector<double> rows;
  rows.reserve(candidates.size() * 4);
  for (const Candidate& c : candidates) {
    for (const double f : features(c.shape)) rows.push_back(f);
  }
  const auto nearest = NearestCandidate(rows, features(wanted));
  return nearest ? &candidates[*nearest] : nullptr;
}

std::shared_ptr<const UtilGrid> Samples(const GridView& curve, MoeRoofline roofline,
                                        const MoeShape& shape) {
  roofline.shape = shape;
  return UtilGrid::Build(curve, [&](std::span<const double> c) { return roofline.TimeAt(c[0]); });
}

std::string DonorName(const Candidate& c) {
  return fmt::format("{} topk={} experts={} hidden={} inter={}", c.quant, c.shape.topk,
                     c.shape.experts, c.shape.hidden, c.shape.inter);
}

}  // namespace

std::string_view MeasuredDistribution(const Table& table, std::string_view quant,
                                      std::string_view wanted) {
  return table.Slice({quant, wanted}) ? wanted : std::string_view("uniform");
}

MoeEstimate::MoeEstimate(const Database& db, TableId table, MoeEstimateSubject subject)
    : db_(db), table_(table), subject_(std::move(subject)) {
  const MoeRoofline& r = subject_.roofline;
  const TransferPolicy& policy = db.policy();
  key_ =
      fmt::format("moe_estimate/{}/{}/{}/{},{},{},{}/{},{}/{}/{}{}{}/{}", static_cast<int>(table),
                  ToString(subject_.quant), subject_.distribution, r.shape.topk, r.shape.experts,
                  r.shape.hidden, r.shape.inter, r.tp, r.ep, r.products, policy.xshape,
                  policy.xquant, policy.xprofile, ToString(db.behaviour()));
}

Result<PerfResult> MoeEstimate::At(double tokens, double sol) const {
  const Rung* rung = rung_.Get([this] {
    return db_.store().Memo<Rung>(
        key_, [this] { return std::make_shared<const Rung>(Find(db_, table_, subject_)); });
  });
  if (rung->error.kind != ErrorKind::kInternal) return std::unexpected(rung->error);
  IC_ASSIGN(const double latency, EstimateFromUtilisation(rung->grid.get(), std::span(&tokens, 1),
                                                          sol, rung->scale, "expert computation"));
  PerfResult result =
      PerfResult::Of(latency, 0, Source::kEmpirical,
                     rung->donor.empty() ? OriginKind::kEstimated : OriginKind::kTransferred);
  result.tier = rung->tier;
  if (!rung->donor.empty()) result.origin.donor = &rung->donor;
  return result;
}

MoeEstimate::Rung MoeEstimate::Find(const Database& db, TableId table_id,
                                    const MoeEstimateSubject& subject) {
  const MoeRoofline& roofline = subject.roofline;
  const MoeShape& shape = roofline.shape;
  const std::string_view quant = ToString(subject.quant);
  const QuantProfile profile = Profile(subject.quant);
  const TransferPolicy& policy = db.policy();
  const Result<const Table*> loaded = db.Get(table_id);
  Rung rung;

  if (!loaded) {
    // Only a search among number formats notices that there is no table.
    if (!IsMissingData(loaded.error().kind) || policy.xquant || policy.xprofile) {
      rung.error = loaded.error();
    }
    return rung;
  }
  const Table& table = **loaded;

  if (const auto own =
          table.Slice({quant, MeasuredDistribution(table, quant, subject.distribution), shape.topk,
                       shape.experts, shape.hidden, shape.inter, roofline.tp, roofline.ep})) {
    rung.grid = Samples(*own, roofline, shape);
    if (!rung.grid->empty()) return rung;
  }

  // Number formats of the table that this program knows, in the order they were measured.
  std::vector<MoeQuant> others;
  for (const std::uint32_t node : table.NodesByFirstAppearance(table.Root())) {
    const auto known = ParseEnum<MoeQuant>(table.TextAt(0, node));
    if (known && *known != subject.quant) others.push_back(*known);
  }

  std::vector<Candidate> candidates;
  Tier tier = Tier::kXshape;
  if (policy.xshape) {
    AppendShapes(table, quant, subject.distribution, roofline, candidates);
  }
  if (candidates.empty() && policy.xquant) {
    tier = Tier::kXquant;
    for (const MoeQuant other : others) {
      if (!SameCosts(Profile(other), profile)) continue;
      AppendShapes(table, ToString(other), subject.distribution, roofline, candidates);
    }
  }
  if (const Candidate* donor = Nearest(candidates, shape)) {
    rung.grid = Samples(donor->curve, roofline, donor->shape);
    if (!rung.grid->empty()) {
      rung.tier = tier;
      rung.donor = DonorName(*donor);
      return rung;
    }
  }

  if (policy.xprofile) {
    std::erase_if(others, [&](MoeQuant q) { return SameCosts(Profile(q), profile); });
    const auto distance = [&](MoeQuant q) {
      const QuantProfile p = Profile(q);
      return std::abs(p.memory - profile.memory) + std::abs(p.compute - profile.compute);
    };
    std::stable_sort(others.begin(), others.end(),
                     [&](MoeQuant a, MoeQuant b) { return distance(a) < distance(b); });
    for (const MoeQuant other : others) {
      candidates.clear();
      AppendShapes(table, ToString(other), subject.distribution, roofline, candidates);
      const Candidate* donor = Nearest(candidates, shape);
      if (donor == nullptr) continue;
      const QuantProfile p = Profile(other);
      MoeRoofline theirs = roofline;
      const Result<double> flops = db.system().TensorCoreFlops(p.dtype);
      if (!flops) {
        rung.error = flops.error();
        return rung;
      }
      theirs.flops = *flops;
      theirs.weight_bytes = p.memory;
      rung.grid = Samples(donor->curve, theirs, donor->shape);
      if (rung.grid->empty()) continue;
      rung.tier = Tier::kXprofile;
      rung.scale = TypicalUtilisation(profile) / TypicalUtilisation(p);
      rung.donor = DonorName(*donor);
      return rung;
    }
  }
  rung.grid = nullptr;
  return rung;
}

}  // namespace infercast
