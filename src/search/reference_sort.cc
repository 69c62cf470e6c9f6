#include "search/reference_sort.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace infercast {

namespace {

constexpr std::ptrdiff_t kInsertionSpan = 15;

struct Segment {
  std::ptrdiff_t left, right;
  int depth;
};

// Ascending, in place, over positions into `key`.
class Introsort {
 public:
  Introsort(std::vector<std::uint32_t>& t, std::span<const double> key) : t_(t), key_(key) {}

  void Run() {
    const auto n = static_cast<std::ptrdiff_t>(t_.size());
    if (n < 2) return;
    int depth = 0;
    for (std::ptrdiff_t v = n; v > 1; v /= 2) depth += 2;
    std::vector<Segment> pending;
    Segment now{0, n - 1, depth};
    for (;;) {
      while (now.right - now.left > kInsertionSpan && now.depth >= 0) {
        const std::ptrdiff_t i = Partition(now.left, now.right);
        --now.depth;
        const Segment low{now.left, i - 1, now.depth};
        const Segment high{i + 1, now.right, now.depth};
        if (i - now.left < now.right - i) {
          pending.push_back(high);
          now = low;
        } else {
          pending.push_back(low);
          now = high;
        }
      }
      if (now.depth < 0 && now.right - now.left > kInsertionSpan) {
        HeapSort(now.left, now.right);
      } else {
        InsertionSort(now.left, now.right);
      }
      if (pending.empty()) return;
      now = pending.back();
      pending.pop_back();
    }
  }

 private:
  double K(std::ptrdiff_t i) const { return key_[t_[static_cast<std::size_t>(i)]]; }
  void Swap(std::ptrdiff_t a, std::ptrdiff_t b) {
    std::swap(t_[static_cast<std::size_t>(a)], t_[static_cast<std::size_t>(b)]);
  }

  std::ptrdiff_t Partition(std::ptrdiff_t left, std::ptrdiff_t right) {
    const std::ptrdiff_t mid = left + (right - left) / 2;
    if (K(mid) < K(left)) Swap(mid, left);
    if (K(right) < K(mid)) Swap(right, mid);
    if (K(mid) < K(left)) Swap(mid, left);
    const double pivot = K(mid);
    Swap(mid, right - 1);
    std::ptrdiff_t i = left;
    std::ptrdiff_t j = right - 1;
    for (;;) {
      do {
        ++i;
      } while (K(i) < pivot);
      do {
        --j;
      } while (pivot < K(j));
      if (i >= j) break;
      Swap(i, j);
    }
    Swap(i, right - 1);
    return i;
  }

  void InsertionSort(std::ptrdiff_t left, std::ptrdiff_t right) {
    for (std::ptrdiff_t i = left + 1; i <= right; ++i) {
      for (std::ptrdiff_t j = i; j > left && K(j) < K(j - 1); --j) Swap(j, j - 1);
    }
  }

  void HeapSort(std::ptrdiff_t left, std::ptrdiff_t right) {
    const auto less = [this](std::uint32_t a, std::uint32_t b) { return key_[a] < key_[b]; };
    std::make_heap(t_.begin() + left, t_.begin() + right + 1, less);
    std::sort_heap(t_.begin() + left, t_.begin() + right + 1, less);
  }

  std::vector<std::uint32_t>& t_;
  std::span<const double> key_;
};

}  // namespace

std::vector<std::uint32_t> ReferenceSortDescending(std::span<const double> keys) {
  // Descending = ascending over the reversed sequence, reversed.
  std::vector<std::uint32_t> t(keys.size());
  std::iota(t.rbegin(), t.rend(), 0U);
  Introsort(t, keys).Run();
  std::reverse(t.begin(), t.end());
  return t;
}

}  // namespace infercast
