// One slice of a measured grid as an operator uses it: look-up of a point (exact, between, beyond)
// and, for estimates, the utilisation samples of the slice, gathered when first asked for.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

class MeasuredSlice {
 public:
  // A slice that is not there: every look-up answers `error`.
  explicit MeasuredSlice(Error error);
  // `sqrt_axis` as in ResolveGrid. `key` names the slice within its store.
  MeasuredSlice(const Database& db, const GridView& view, int sqrt_axis, std::string key);
  // `slice`: one of the two above.
  static MeasuredSlice Of(const Database& db, const Result<GridView>& slice, int sqrt_axis,
                          std::string key);

  bool present() const { return view_.has_value(); }
  const GridView& view() const { return *view_; }  // only where present
  const std::string& key() const { return key_; }

  // The measured answer, labelled silicon. kPerfDatabase when the slice is missing or has nothing
  // to anchor the query.
  Result<PerfResult> Measured(std::span<const double> coords, SolFunction sol) const;

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

  // sol / utilisation at x, labelled empirical. kEmpiricalNotImplemented without samples.
  Result<PerfResult> Estimate(std::span<const double> x, double sol, const char* what) const;

 private:
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
// callables of no argument that answer Result<PerfResult>; a hybrid query asks `estimated` only
// where `measured` found nothing measured.
template <typename Measured, typename Estimated, typename Roofline>
Result<PerfResult> AnswerByMode(DatabaseMode mode, Measured&& measured, Estimated&& estimated,
                                Roofline&& roofline) {
  switch (mode) {
    case DatabaseMode::kSilicon:
      return measured();
    case DatabaseMode::kHybrid: {
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
