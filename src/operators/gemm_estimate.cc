#include "operators/gemm_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "operators/gemm_roofline.h"

namespace infercast {

namespace {

// A format that has rows.
struct MeasuredFormat {
  GemmQuant quant;
  GridView rows;
};

// The formats of the table in the order of first appearance; names that are no known format are
// left out.
std::shared_ptr<const std::vector<MeasuredFormat>> MeasuredFormats(const Database& db,
                                                                   const Table& gemm) {
  return db.store().Memo<std::vector<MeasuredFormat>>("gemm formats", [&] {
    auto formats = std::make_shared<std::vector<MeasuredFormat>>();
    const GridView root = gemm.Root();
    for (const std::uint32_t node : gemm.NodesByFirstAppearance(root)) {
      const auto quant = ParseEnum<GemmQuant>(gemm.TextAt(0, node));
      if (quant) formats->push_back({*quant, root.Child(node)});
    }
    return formats;
  });
}

bool SameCosts(GemmQuant a, GemmQuant b) {
  return Profile(a).memory == Profile(b).memory && Profile(a).compute == Profile(b).compute;
}

// How much of its roofline a format usually reaches.
double UsualUtilisation(GemmQuant quant) {
  struct Level {
    double memory, compute, utilisation;
  };
  constexpr std::array<Level, 9> kLevels = {{{2, 1, 0.70},
                                             {1, 1, 0.55},
                                             {0.5625, 1, 0.45},
                                             {0.5, 1, 0.45},
                                             {1, 2, 0.45},
                                             {0.5, 2, 0.35},
                                             {1, 4, 0.30},
                                             {0.5, 4, 0.30},
                                             {0.5625, 4, 0.30}}};
  const QuantProfile profile = Profile(quant);
  for (const Level& level : kLevels) {
    if (level.memory == profile.memory && level.compute == profile.compute) {
      return level.utilisation;
    }
  }
  return 0.45;
}

// Samples of `format`'s rows against the roofline of `roof`.
Calibration SamplesOf(const Database& db, const MeasuredFormat& format, GemmQuant roof) {
  const auto flops = db.system().TensorCoreFlops(Profile(roof).dtype);
  if (!flops) return Calibration(flops.error());
  const GemmRoofline roofline = GemmRoofline::Of(roof, *flops, db.system().mem_bw);
  return Calibration(db, fmt::format("util/gemm {} as {}", ToString(format.quant), ToString(roof)),
                     [rows = format.rows, roofline] {
                       return UtilGrid::Build(rows, [&](std::span<const double> at) {
                         return roofline.Time(at[0], at[1], at[2]);
                       });
                     });
}

}  // namespace

EstimateLadder GemmLadder(const Database& db, GemmQuant lookup) {
  std::vector<EstimateLadder::Rung> rungs;
  const auto table = db.Get(TableId::kGemm);
  if (!table) {
    rungs.push_back({.samples = Calibration(table.error())});
    return EstimateLadder(std::move(rungs));
  }
  const auto formats = MeasuredFormats(db, **table);

  for (const MeasuredFormat& format : *formats) {
    if (format.quant == lookup) {
      rungs.push_back({SamplesOf(db, format, lookup), Tier::kEmpirical, 1.0, {}});
    }
  }
  if (db.policy().xquant) {
    // Only the first of its kind is tried.
    for (const MeasuredFormat& format : *formats) {
      if (format.quant == lookup || !SameCosts(format.quant, lookup)) continue;
      rungs.push_back(
          {SamplesOf(db, format, lookup), Tier::kXquant, 1.0, std::string(ToString(format.quant))});
      break;
    }
  }
  if (db.policy().xprofile) {
    std::vector<MeasuredFormat> others;
    for (const MeasuredFormat& format : *formats) {
      if (format.quant != lookup && !SameCosts(format.quant, lookup)) others.push_back(format);
    }
    const auto difference = [&](const MeasuredFormat& format) {
      const QuantProfile a = Profile(format.quant);
      const QuantProfile b = Profile(lookup);
      return std::pair(std::abs(a.compute - b.compute), std::abs(a.memory - b.memory));
    };
    std::stable_sort(others.begin(), others.end(),
                     [&](const auto& a, const auto& b) { return difference(a) < difference(b); });
    for (const MeasuredFormat& format : others) {
      rungs.push_back({SamplesOf(db, format, format.quant), Tier::kXprofile,
                       UsualUtilisation(lookup) / UsualUtilisation(format.quant),
                       std::string(ToString(format.quant))});
    }
  }
  return EstimateLadder(std::move(rungs));
}

}  // namespace infercast
