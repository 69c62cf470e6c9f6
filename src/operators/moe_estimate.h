// Estimates of expert computation that was not measured: the utilisation of this very shape where
// it was measured, else that of the nearest measured shape, else of a number format with the same
// costs, else of another format corrected by how well the two formats usually do.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "interpolation/utilisation.h"
#include "operators/measured_slice.h"
#include "operators/moe_roofline.h"
#include "operators/perf_result.h"
#include "tables/database.h"

namespace infercast {

// What an estimate is asked for. The roofline's flops and weight_bytes are those of `quant`.
struct MoeEstimateSubject {
  MoeQuant quant{};
  std::string distribution;
  MoeRoofline roofline;
};

// The name under which a number format's rows are looked up: the wanted distribution if the format
// was measured with it at any shape, else the even one.
std::string_view MeasuredDistribution(const Table& table, std::string_view quant,
                                      std::string_view wanted);

class MoeEstimate {
 public:
  // Nothing is read before the first query. `table`: which of the two expert tables is asked.
  MoeEstimate(const Database& db, TableId table, MoeEstimateSubject subject);

  // Estimate at `tokens` whose speed of light is `sol` ms. kEmpiricalNotImplemented when nothing
  // suitable was measured; the load error when the table cannot be read but would be searched.
  Result<PerfResult> At(double tokens, double sol) const;

 private:
  // Samples and what stands between them and an estimate.
  struct Rung {
    std::shared_ptr<const UtilGrid> grid;
    Tier tier = Tier::kEmpirical;
    double scale = 1.0;
    std::string donor;  // empty: this very shape
    Error error;        // of kind other than kInternal: the answer of every query
  };
  static Rung Find(const Database& db, TableId table, const MoeEstimateSubject& subject);

  Database db_;
  TableId table_;
  MoeEstimateSubject subject_;
  std::string key_;
  BuiltOnce<Rung> rung_;
};

}  // namespace infercast
