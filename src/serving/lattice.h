// Functions of one or two sizes, evaluated exactly at a fixed set of sizes and joined by straight
// lines between them. Values are fetched on first use, so a caller pays only for where it goes, and
// what it gets never depends on where it went before.
//
// Nodes: every whole number up to 16, then 2^e * (1 + i / 2^Bits): all powers of two are nodes.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace infercast {

// The line between two values. Each value type of a lattice has one.
inline double Blend(double a, double b, double weight) { return a + (b - a) * weight; }

template <int Bits>
class LatticeAxis {
 public:
  static constexpr std::uint32_t kExact = 16;
  static constexpr double kLargest = 4194304.0;  // 2^22

  struct Place {
    std::size_t left;
    double weight;  // of the node to the right
  };
  // x below 0 counts as 0, beyond 2^22 as 2^22.
  static Place Find(double x) {
    x = std::clamp(x, 0.0, kLargest);
    if (x < kExact) {
      const auto i = static_cast<std::size_t>(x);
      return {i, x - static_cast<double>(i)};
    }
    const auto bits = std::bit_cast<std::uint64_t>(x);
    // Nodes are the numbers with a short mantissa: the rest of it is the place between two of them.
    const std::size_t left =
        kExact + static_cast<std::size_t>((bits >> (52 - Bits)) - (std::uint64_t{1027} << Bits));
    const std::uint64_t rest = bits & ((std::uint64_t{1} << (52 - Bits)) - 1);
    return {left, static_cast<double>(static_cast<std::int64_t>(rest)) * kRestUnit};
  }
  static double Node(std::size_t i) {
    if (i < kExact) return static_cast<double>(i);
    return std::bit_cast<double>(
        (static_cast<std::uint64_t>(i - kExact) + (std::uint64_t{1027} << Bits)) << (52 - Bits));
  }
  static constexpr std::size_t kNodes = kExact + (static_cast<std::size_t>(22 - 4) << Bits) + 2;

 private:
  static constexpr double kRestUnit =
      1.0 / static_cast<double>(std::uint64_t{1} << (52 - Bits));  // of the way to the next node
};

// Not safe to share between threads: each configuration's costs belong to one.
template <int Bits, typename Value>
class Lattice1 {
 public:
  using Axis = LatticeAxis<Bits>;

  // `evaluate(x)`: the value at a node.
  template <typename F>
  Value At(double x, F&& evaluate) {
    const auto place = Axis::Find(x);
    const Value& left = Node(place.left, evaluate);
    if (place.weight == 0) return left;
    const Value a = left;  // fetching the right one may move the storage
    return Blend(a, Node(place.left + 1, evaluate), place.weight);
  }

 private:
  template <typename F>
  const Value& Node(std::size_t i, F& evaluate) {
    if (i >= cells_.size()) cells_.resize(i + 1);
    Cell& cell = cells_[i];
    if (!cell.known) cell = {evaluate(Axis::Node(i)), true};
    return cell.value;
  }
  struct Cell {
    Value value{};
    bool known = false;
  };
  std::vector<Cell> cells_;
};

template <int BitsX, int BitsY>
class Lattice2 {
 public:
  // `evaluate(x, y)`: the value at a node.
  template <typename F>
  double At(double x, double y, F&& evaluate) {
    const auto px = LatticeAxis<BitsX>::Find(x);
    const double a = Row(px.left, y, evaluate);
    if (px.weight == 0) return a;
    return Blend(a, Row(px.left + 1, y, evaluate), px.weight);
  }

 private:
  template <typename F>
  double Row(std::size_t i, double y, F& evaluate) {
    if (i >= rows_.size()) rows_.resize(i + 1);
    const double x = LatticeAxis<BitsX>::Node(i);
    return rows_[i].At(y, [&](double node) { return evaluate(x, node); });
  }
  std::vector<Lattice1<BitsY, double>> rows_;
};

}  // namespace infercast
