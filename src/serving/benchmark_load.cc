#include "serving/benchmark_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace infercast {

namespace {

// SplitMix64: a counter scrambled by two multiplications (Steele, Lea and Flood, 2014).
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}
  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  // Uniform in [low, high].
  std::int64_t Between(std::int64_t low, std::int64_t high) {
    const std::uint64_t span = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<std::int64_t>(((Next() >> 32) * span) >> 32);
  }
  // Uniform in (0, 1].
  double Unit() { return static_cast<double>((Next() >> 11) + 1) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

constexpr std::int64_t kOpenRequests = 512;
constexpr std::int64_t kMostRequests = 1 << 21;
// Below, the run lasts so long that its clock no longer resolves a step.
constexpr double kLeastRate = 1e-9;  // requests per second

Status InRange(std::int64_t value, std::int64_t low, std::int64_t high, const char* what) {
  if (value >= low && value <= high) return {};
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("{} is {}: expected {} to {}", what, value, low, high));
}

}  // namespace

Status CheckLoad(const LoadSpec& load) {
  IC_RETURN_IF_ERROR(InRange(load.isl, 1, 4194303, "input length"));
  IC_RETURN_IF_ERROR(InRange(load.osl, 1, 4194303, "output length"));
  IC_RETURN_IF_ERROR(InRange(load.prefix, 0, load.isl - 1, "cached prefix"));
  IC_RETURN_IF_ERROR(InRange(load.requests, 0, kMostRequests, "number of requests"));
  if (!(load.shortest > 0 && load.shortest <= 1)) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("the shortest request is {} of the nominal length: expected a share "
                            "above 0, at most 1",
                            load.shortest));
  }
  if (!(load.progress >= 1 && load.progress <= 1024)) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("tokens per decode step is {}: expected 1 or more", load.progress));
  }
  const bool closed = load.concurrency != 0;
  const bool open = load.rate != 0;
  if (closed == open) {
    return Fail(ErrorKind::kInvalidArgument,
                "give either a concurrency or a request rate, not both");
  }
  if (open && !(std::isfinite(load.rate) && load.rate > 0)) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("request rate is {}: expected requests per second above 0", load.rate));
  }
  if (open && load.rate < kLeastRate) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("request rate is {} per second: expected {} or more, since the times "
                            "between requests would swallow those of steps (a concurrency of 1 "
                            "tells what a request takes alone)",
                            load.rate, kLeastRate));
  }
  if (closed)
    IC_RETURN_IF_ERROR(InRange(load.concurrency, 1, kMostRequests / kLoadWaves, "concurrency"));
  return {};
}

std::int64_t RequestsOf(const LoadSpec& load) {
  if (load.requests > 0) return load.requests;
  return load.concurrency > 0 ? kLoadWaves * load.concurrency : kOpenRequests;
}

std::vector<RequestShape> DrawShapes(const LoadSpec& load) {
  const auto shortest = [&](std::int64_t nominal, std::int64_t least) {
    const double length = std::floor(load.shortest * static_cast<double>(nominal));
    return std::clamp(static_cast<std::int64_t>(length), least, nominal);
  };
  const std::int64_t isl = shortest(load.isl, load.prefix + 1), osl = shortest(load.osl, 1);
  Generator generator(load.seed);
  std::vector<RequestShape> shapes(static_cast<std::size_t>(RequestsOf(load)));
  for (RequestShape& shape : shapes) {
    shape.isl = generator.Between(isl, load.isl);
    shape.osl = generator.Between(osl, load.osl);
  }
  return shapes;
}

std::vector<double> DrawArrivals(const LoadSpec& load) {
  Generator generator(~load.seed);
  std::vector<double> times(static_cast<std::size_t>(RequestsOf(load)));
  double now = 0;
  for (double& time : times) {
    time = now;
    now += -std::log(generator.Unit()) / load.rate * 1000;
  }
  return times;
}

double SortedQuantile(const std::vector<double>& sorted, double q) {
  if (sorted.empty()) return 0;
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto left = static_cast<std::size_t>(place);
  if (left + 1 >= sorted.size()) return sorted.back();
  return sorted[left] + (sorted[left + 1] - sorted[left]) * (place - static_cast<double>(left));
}

Distribution Summarise(std::vector<double>& values) {
  if (values.empty()) return {};
  double sum = 0;
  for (const double v : values) sum += v;
  // Only the values around the three places need to be in order. Places ascend, so each search
  // begins where the last one ended.
  auto from = values.begin();
  const auto quantile = [&](double q) {
    const double place = q * static_cast<double>(values.size() - 1);
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(place);
    std::nth_element(from, at, values.end());
    from = at;
    if (at + 1 == values.end()) return *at;
    return *at + (*std::min_element(at + 1, values.end()) - *at) * (place - std::floor(place));
  };
  const double median = quantile(0.5), p90 = quantile(0.9), p99 = quantile(0.99);
  return {sum / static_cast<double>(values.size()), median, p90, p99};
}

Distribution Summarise(const std::vector<double>& values, std::size_t first, std::size_t last,
                       double more) {
  struct Weighted {
    double value, weight;
  };
  std::vector<Weighted> set(values.size());
  double sum = 0, all = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double weight = i >= first && i < last ? 1 + more : 1;
    set[i] = {values[i], weight};
    sum += weight * values[i];
    all += weight;
  }
  if (set.empty()) return {};
  // Halves the part that holds the place, which begins `before` it; places ascend.
  std::size_t from = 0;
  double before = 0;
  const auto quantile = [&](double q) {
    const double place = q * (all - 1);
    std::size_t to = set.size();
    while (to - from > 1) {
      const std::size_t middle = from + (to - from) / 2;
      const auto at = [&](std::size_t i) { return set.begin() + static_cast<std::ptrdiff_t>(i); };
      std::nth_element(at(from), at(middle), at(to),
                       [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
      double left = 0;
      for (std::size_t i = from; i < middle; ++i) left += set[i].weight;
      if (before + left > place) {
        to = middle;
      } else {
        before += left;
        from = middle;
      }
    }
    return set[from].value;
  };
  const double median = quantile(0.5), p90 = quantile(0.9), p99 = quantile(0.99);
  return {sum / all, median, p90, p99};
}

}  // namespace infercast
