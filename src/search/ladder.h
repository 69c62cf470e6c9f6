// The deployments of one layout by falling load, of which the one of most throughput that meets
// every target is looked for by few runs.
#pragma once

#include <algorithm>
#include <cstddef>

namespace infercast {

// Layouts of which the deployment is looked for by runs, of those that the formula ranks first:
// what is shown, and some more, since runs may order them differently. Where few are shown it is as
// many as if five were, so that the best does not depend on how many are.
constexpr std::size_t kLeastLayouts = 5;
constexpr std::size_t kSpareLayouts = 2;

// Deployments that the formula finds this much too slow may yet meet the target.
constexpr double kSlack = 1.15;
// Runs at most.
constexpr int kMostTries = 6;
// Halvings of the step between a rung that fails and one that does not, where runs are long.
constexpr int kLongHalvings = 1;

struct Climbed {
  bool found = false;    // some rung meets its targets
  std::size_t last = 0;  // rung that was tried last
};

// Tries rungs (`met(place)`) from `start` on: up while they hold; else down, in steps that double,
// of long runs (not `cheap(place)`) to half the `load(place)`, then between the last that failed
// and the first that did not. `size`: at least 1.
template <typename Met, typename Cheap, typename Load>
Climbed ClimbLadder(std::size_t size, std::size_t start, const Met& met, const Cheap& cheap,
                    const Load& load) {
  int tries = 0;
  Climbed out;
  const auto holds = [&](std::size_t place) {
    ++tries;
    out.last = place;
    return met(place);
  };
  if (holds(start)) {
    out.found = true;
    for (std::size_t up = start; up > 0 && tries < kMostTries && cheap(up - 1); --up) {
      if (!holds(up - 1)) break;
    }
    return out;
  }
  std::size_t failed = start;
  std::size_t good = size;
  for (std::size_t step = 1; tries < kMostTries && failed + 1 < size; step *= 2) {
    std::size_t next = std::min(failed + step, size - 1);
    if (!cheap(failed)) {
      const double half = 0.5 * load(failed);
      while (next + 1 < size && load(next) > half) ++next;
    }
    if (holds(next)) {
      good = next;
      break;
    }
    failed = next;
  }
  if (good == size) return out;
  out.found = true;
  int halvings = 0;
  while (good - failed > 1 && tries < kMostTries) {
    const std::size_t middle = failed + (good - failed) / 2;
    if (!cheap(middle) && ++halvings > kLongHalvings) break;
    (holds(middle) ? good : failed) = middle;
  }
  return out;
}

}  // namespace infercast
