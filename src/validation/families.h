// From a measured point to the family that calibration keeps it in.
#pragma once

#include "validation/calibration.h"
#include "validation/repairs.h"

namespace infercast {

// The collection that a measurement stems from: the first part of its provenance.
inline CalibrationQuery QueryOf(const RepairedPoint& r) {
  CalibrationQuery query;
  const MeasuredPoint& p = r.point;
  std::string source = p.source.substr(0, p.source.find(';'));
  query.family = {p.backend,
                  p.system,
                  p.model,
                  p.precision,
                  p.version,
                  std::move(source),
                  r.disaggregated ? "disagg" : "agg"};
  query.isl = p.isl.value_or(0);
  query.osl = p.osl.value_or(0);
  query.concurrency = r.concurrency;
  return query;
}

}  // namespace infercast
