#include "search/pareto.h"

#include <algorithm>
#include <cmath>

namespace infercast {

std::vector<std::uint32_t> ParetoFront(std::span<const FrontPoint> points, bool maximise_x,
                                       bool maximise_y) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < points.size(); ++i) {
    if (std::isfinite(points[i].x) && std::isfinite(points[i].y)) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return points[a].x < points[b].x; });
  // Walk from the better end of x to the worse; a point stays when its y beats every better-x one.
  const auto y = [&](std::uint32_t i) { return maximise_y ? points[i].y : -points[i].y; };
  std::vector<bool> keep(order.size(), false);
  bool any = false;
  double best = 0;
  const std::size_t n = order.size();
  for (std::size_t step = 0; step < n;) {
    // All points of one x together: the best y of them, first in order.
    const auto at = [&](std::size_t k) { return maximise_x ? n - 1 - k : k; };
    const double x = points[order[at(step)]].x;
    std::size_t end = step;
    while (end < n && points[order[at(end)]].x == x) ++end;
    std::size_t top = at(step);
    for (std::size_t k = step; k < end; ++k) {
      const std::size_t p = at(k);
      const double a = y(order[p]);
      const double b = y(order[top]);
      if (a > b || (a == b && p < top)) top = p;
    }
    if (!any || y(order[top]) > best) {
      keep[top] = true;
      best = y(order[top]);
      any = true;
    }
    step = end;
  }
  std::vector<std::uint32_t> front;
  for (std::size_t p = 0; p < n; ++p) {
    if (keep[p]) front.push_back(order[p]);
  }
  return front;
}

}  // namespace infercast
