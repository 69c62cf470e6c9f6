// Normal equations of at most three unknowns, solved with pivoting and, where the data is
// collinear, a very small ridge on the slopes.
#include "online/fit.h"

#include <Eigen/LU>
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace infercast {

namespace {

constexpr double kSmallestPivot = 1e-12;
constexpr double kRidge = 1e-9;
constexpr double kWeightFloorMs = 25.0;  // shorter iterations do not weigh more than this
constexpr double kSlopeSlack = 1e-6;
constexpr double kScoreTie = 1e-12;
constexpr std::uint64_t kMinBentSamples = 6;

template <int N>
using Matrix = Eigen::Matrix<double, N, N>;
template <int N>
using Vector = Eigen::Matrix<double, N, 1>;

template <int N>
std::optional<Vector<N>> SolveOnce(const Matrix<N>& a, const Vector<N>& b) {
  const Eigen::PartialPivLU<Matrix<N>> lu(a);
  for (int i = 0; i < N; ++i) {
    if (!(std::abs(lu.matrixLU()(i, i)) >= kSmallestPivot)) return std::nullopt;
  }
  return Vector<N>(lu.solve(b));
}

template <int N>
std::optional<Vector<N>> Solve(Matrix<N> a, const Vector<N>& b) {
  if (auto x = SolveOnce<N>(a, b)) return x;
  const double ridge = kRidge * std::max(1.0, a.diagonal().cwiseAbs().sum());
  for (int i = 1; i < N; ++i) a(i, i) += ridge;
  return SolveOnce<N>(a, b);
}

// Least squares with intercept over the chosen axes.
template <int N>
std::optional<Fit> FitSubset(std::span<const Sample> samples, const std::array<int, 2>& chosen) {
  Matrix<N> a = Matrix<N>::Zero();
  Vector<N> b = Vector<N>::Zero();
  for (const Sample& sample : samples) {
    Vector<N> row;
    row(0) = 1.0;
    for (int i = 1; i < N; ++i) row(i) = sample.x[chosen[i - 1]];
    a += row * row.transpose();
    b += row * sample.value;
  }
  const auto solution = Solve<N>(a, b);
  if (!solution || !solution->allFinite()) return std::nullopt;
  Fit fit;
  fit.intercept = (*solution)(0);
  for (int i = 1; i < N; ++i) {
    if ((*solution)(i) < 0.0) return std::nullopt;
    fit.slopes[chosen[i - 1]] = (*solution)(i);
  }
  return fit;
}

std::vector<double> DistinctSizes(std::span<const Sample> samples) {
  std::vector<double> sizes;
  for (const Sample& sample : samples) sizes.push_back(sample.x[0]);
  std::sort(sizes.begin(), sizes.end());
  std::vector<double> distinct;
  for (const double size : sizes) {
    if (distinct.empty() ||
        std::abs(size - distinct.back()) > std::numeric_limits<double>::epsilon()) {
      distinct.push_back(size);
    }
  }
  return distinct;
}

// Where the line may bend: quantiles of the sizes seen, and points spread evenly in log space.
std::vector<double> Knots(const std::vector<double>& sizes) {
  const double low = sizes.front();
  const double high = sizes.back();
  std::vector<double> candidates;
  for (std::size_t j = 1; j <= 4; ++j) candidates.push_back(sizes[j * (sizes.size() - 1) / 5]);
  if (low > 0.0 && high > low) {
    for (int i = 1; i <= 8; ++i) {
      candidates.push_back(std::exp(std::log(low) + i / 9.0 * (std::log(high) - std::log(low))));
    }
  }
  std::erase_if(candidates, [&](double v) { return !(std::isfinite(v) && v > low && v < high); });
  std::sort(candidates.begin(), candidates.end());
  std::vector<double> knots;
  for (const double v : candidates) {
    if (!knots.empty()) {
      const double u = knots.back();
      if (v - u <= 1e-9 * std::max({std::abs(u), std::abs(v), 1.0})) continue;
    }
    knots.push_back(v);
  }
  return knots;
}

struct ScoredFit {
  Fit fit;
  double score;
};

std::optional<ScoredFit> FitAtKnot(std::span<const Sample> samples, double knot) {
  Matrix<3> a = Matrix<3>::Zero();
  Vector<3> b = Vector<3>::Zero();
  const auto weight = [](const Sample& s) { return 1.0 / std::max(s.value, kWeightFloorMs); };
  for (const Sample& sample : samples) {
    const double w = weight(sample);
    const Vector<3> row(1.0, sample.x[0], std::max(sample.x[0] - knot, 0.0));
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) a(i, j) += (row(i) * w) * row(j) * w;
      b(i) += (row(i) * w) * sample.value * w;
    }
  }
  const auto solution = Solve<3>(a, b);
  if (!solution) return std::nullopt;
  const double base = (*solution)(0);
  const double before = (*solution)(1);
  const double after = before + (*solution)(2);
  if (!std::isfinite(base) || !std::isfinite(before) || !std::isfinite(after)) return std::nullopt;
  if (before < -kSlopeSlack || after < -kSlopeSlack) return std::nullopt;
  ScoredFit result;
  result.fit.intercept = base;
  result.fit.slopes[0] = std::max(before, 0.0);
  result.fit.bend = std::max(after, 0.0) - result.fit.slopes[0];
  result.fit.knot = knot;
  double sum = 0.0;
  for (const Sample& sample : samples) {
    const double residual =
        (result.fit.At(std::span(sample.x).first(1)) - sample.value) * weight(sample);
    sum += residual * residual;
  }
  const double count = static_cast<double>(std::max<std::size_t>(samples.size(), 1));
  result.score = std::sqrt(sum / count);
  return result;
}

}  // namespace

std::optional<Fit> FitLine(std::span<const Sample> samples, int axes, std::uint64_t min_samples) {
  if (samples.size() < min_samples) return std::nullopt;
  std::optional<Fit> best;
  double best_error = std::numeric_limits<double>::infinity();
  for (int mask = 0; mask < (1 << axes); ++mask) {
    std::array<int, 2> chosen{};
    int count = 0;
    for (int axis = 0; axis < axes; ++axis) {
      if (mask & (1 << axis)) chosen[count++] = axis;
    }
    const auto fit = count == 0   ? FitSubset<1>(samples, chosen)
                     : count == 1 ? FitSubset<2>(samples, chosen)
                                  : FitSubset<3>(samples, chosen);
    if (!fit) continue;
    double error = 0.0;
    for (const Sample& sample : samples) {
      const double residual = fit->At(std::span(sample.x).first(axes)) - sample.value;
      error += residual * residual;
    }
    if (error < best_error) {  // false for an error that is not a number
      best = fit;
      best_error = error;
    }
  }
  const bool few = samples.size() <= static_cast<std::size_t>(axes);
  if (best && !few && best->slopes[0] <= 0.0 && best->slopes[1] <= 0.0) return std::nullopt;
  return best;
}

std::optional<Fit> FitBentLine(std::span<const Sample> samples) {
  const std::vector<double> sizes = DistinctSizes(samples);
  if (sizes.size() < 3) return std::nullopt;
  std::optional<ScoredFit> best;
  for (const double knot : Knots(sizes)) {
    const auto candidate = FitAtKnot(samples, knot);
    if (!candidate || !std::isfinite(candidate->score)) continue;
    // Equally good up to rounding: the smaller knot stays.
    if (!best || candidate->score < best->score - kScoreTie * best->score) best = candidate;
  }
  if (!best) return std::nullopt;
  return best->fit;
}

std::optional<Fit> FitSamples(std::span<const Sample> samples, int axes,
                              std::uint64_t min_samples) {
  if (axes == 1 && samples.size() >= std::max(min_samples, kMinBentSamples)) {
    if (const auto fit = FitBentLine(samples)) return fit;
  }
  return FitLine(samples, axes, min_samples);
}

}  // namespace infercast
