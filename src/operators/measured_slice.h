// One slice of a measured grid as an operator uses it: look-up of a point (exact, between, beyond)
// and, for estimates, the utilisation samples of the slice, gathered when first asked for.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "interpolation/grid.h"
#include "interpolation/utilisation.h"
#include "operators/perf_result.h"
#include "tables/database.h"

namespace infercast {

// A value built at the first use and kept. Copies share it. After the first use, reading costs one
// atomic load.
template <typename T>
class BuiltOnce {
 public:
  BuiltOnce() : state_(std::make_shared<State>()) {}

  template <typename Build>
  const T* Get(Build&& build) const {
    std::call_once(state_->once, [&] { state_->value = build(); });
    return state_->value.get();
  }

 private:
  struct State {
    std::once_flag once;
    std::shared_ptr<const T> value;
  };
  std::shared_ptr<State> state_;
};

// A value read from measured points, labelled: source silicon, origin after how far the look-up
// had to go. `table`: the one that was asked.
PerfResult Labelled(const Table& table, const Resolved& value);

class MeasuredSlice;

// What was sought in a slice: an answer, or why there is none. Unlike a Result it puts no text
// together, so a query that goes on to an estimate does not allocate. Valid as long as its slice.
class Sought {
 public:
  Sought(PerfResult answer) : answer_(std::move(answer)) {}  // NOLINT(google-explicit-constructor)
  explicit Sought(const Error& error) : error_(&error) {}
  Sought(const MeasuredSlice& slice, std::span<const double> coords, Miss miss)
      : slice_(&slice), miss_(miss), axes_(std::min<std::size_t>(coords.size(), kMaxGridAxes)) {
    std::copy_n(coords.begin(), axes_, coords_.begin());
  }

  bool ok() const { return error_ == nullptr && slice_ == nullptr; }
  bool missing() const {
    return slice_ != nullptr || (error_ != nullptr && IsMissingData(error_->kind));
  }
  PerfResult& answer() { return answer_; }  // only where ok
  Result<PerfResult> ToResult() &&;

 private:
  PerfResult answer_;
  const Error* error_ = nullptr;
  const MeasuredSlice* slice_ = nullptr;
  Miss miss_ = Miss::kEmptyTable;
  std::size_t axes_ = 0;
  std::array<double, kMaxGridAxes> coords_{};
};

class MeasuredSlice {
 public:
  MeasuredSlice() : MeasuredSlice(Error{}) {}  // absent, without a reason: to be assigned
  // A slice that is not there: every look-up answers `error`.
  explicit MeasuredSlice(Error error);
  // `sqrt_axis` as in ResolveGrid. `key` names the slice within its store.
  MeasuredSlice(const Database& db, const GridView& view, int sqrt_axis, std::string key);
  // `slice`: one of the two above.
  static MeasuredSlice Of(const Database& db, const Result<GridView>& slice, int sqrt_axis,
                          std::string key);

  bool present() const { return view_.has_value(); }
  // Nothing of this slice was measured, as opposed to a slice that cannot be used.
  bool unmeasured() const { return !view_ && IsMissingData(error_.kind); }
  const GridView& view() const { return *view_; }  // only where present
  const std::string& key() const { return key_; }

  // The measured answer, labelled silicon. kPerfDatabase when the slice is missing or has nothing
  // to anchor the query.
  Result<PerfResult> Measured(std::span<const double> coords, SolFunction sol) const {
    return Seek(coords, sol).ToResult();
  }
  // Look-ups at several places of one line, for callers that put them together. Only where present
  // and without a square-root axis.
  GridLine Line(double first, double second, SolFunction sol) const {
    return GridLine(*view_, first, second, sol, hold_.get());
  }
  // As Measured, without a text. AnswerByMode takes it as it is.
  Sought Seek(std::span<const double> coords, SolFunction sol) const;
  // The error that a miss at `coords` stands for.
  Error Explain(std::span<const double> coords, Miss miss) const;

 private:
  std::optional<GridView> view_;
  Error error_;
  int sqrt_axis_ = -1;
  std::string key_;
  std::shared_ptr<const HoldIndex> hold_;
};

// Utilisation samples under one memo key, and the estimate from them.
class Calibration {
 public:
  using Build = std::function<std::shared_ptr<const UtilGrid>()>;

  Calibration() = default;  // no samples
  // Where there is no slice: nothing measured means no samples, anything else is answered as it is.
  explicit Calibration(Error error);
  // `key` names everything the samples depend on; `build` runs at most once per store and key.
  Calibration(const Database& db, std::string key, Build build);

  // sol / (utilisation at x * scale), labelled empirical. kEmpiricalNotImplemented without samples.
  // Above kEmpirical `tier` tells how the samples were borrowed, and `donor` (may be null; must
  // live as long as the answer) from what.
  Result<PerfResult> Estimate(std::span<const double> x, double sol, const char* what,
                              double scale = 1.0, Tier tier = Tier::kEmpirical,
                              const std::string* donor = nullptr) const;

  // Whether there is at least one sample (gathers them). An error other than missing data counts
  // as samples: asking for the estimate tells it.
  bool usable() const;

 private:
  const UtilGrid* Samples() const;

  std::shared_ptr<const TableStore> store_;
  std::string key_;
  std::optional<Error> error_;
  Build build_;
  BuiltOnce<UtilGrid> grid_;
};

// The slice of `table` under its leading levels `keys`, or the error of a query that needs it.
// `key` names the slice in messages.
Result<GridView> SliceOf(const Result<const Table*>& table, std::initializer_list<Table::Key> keys,
                         std::string_view key);

// Which of the three answers a query of `mode` gets. `measured`, `estimated` and `roofline` are
// callables of no argument that answer Result<PerfResult> (`measured` may answer Sought, which is
// cheaper where it finds nothing); a hybrid query asks `estimated` only where `measured` found
// nothing measured.
template <typename Measured, typename Estimated, typename Roofline>
Result<PerfResult> AnswerByMode(DatabaseMode mode, Measured&& measured, Estimated&& estimated,
                                Roofline&& roofline) {
  switch (mode) {
    case DatabaseMode::kSilicon:
      if constexpr (std::is_same_v<std::invoke_result_t<Measured>, Sought>) {
        return measured().ToResult();
      } else {
        return measured();
      }
    case DatabaseMode::kHybrid:
      if constexpr (std::is_same_v<std::invoke_result_t<Measured>, Sought>) {
        Sought sought = measured();
        if (sought.missing()) return estimated();
        return std::move(sought).ToResult();
      } else {
        Result<PerfResult> result = measured();
        if (!result && IsMissingData(result.error().kind)) return estimated();
        return result;
      }
    case DatabaseMode::kEmpirical:
      return estimated();
    case DatabaseMode::kSol:
    case DatabaseMode::kSolFull:
      return roofline();
  }
  std::unreachable();
}

}  // namespace infercast
