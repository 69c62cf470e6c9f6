// Collectives between the GPUs of a group and the hand-over between pipeline stages.
//
// Sizes are element counts and are compared with the tables' message sizes as they are. A group
// larger than any measured one borrows the largest, scaled by the volume that each link carries and
// by the bandwidth of the links.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "operators/measured_slice.h"
#include "operators/operator.h"
#include "operators/perf_result.h"
#include "operators/unbuilt.h"
#include "tables/database.h"

namespace infercast {

// One library collective (all_reduce, all_gather, reduce_scatter, alltoall) over `num_gpus` GPUs,
// in the mode of the database. Not clamped, not scaled.
class LibraryCollective {
 public:
  LibraryCollective(const Database& db, CommQuant dtype, std::string_view operation,
                    std::uint32_t num_gpus);
  Result<PerfResult> Query(double elements) const;

 private:
  double Sol(double elements, double gpus, double bandwidth) const;

  std::shared_ptr<const TableStore> store_;
  DatabaseMode mode_;
  double gpus_;
  double factor_ = 0;  // passes over the ring; 0: not a known collective
  double element_bytes_;
  double bandwidth_;
  double measured_gpus_ = 0;  // of the measured curve; below gpus_ where it is borrowed
  double beyond_measured_ = 1;
  MeasuredSlice curve_;
  double calibrated_gpus_ = 0;
  Calibration calibration_;
};

// A backend's own all-reduce over `tp_size` GPUs; on 72-GPU nodes the library's for groups above
// four. Not clamped, not scaled.
class BackendAllReduce {
 public:
  BackendAllReduce(const Database& db, CommQuant quant, std::uint32_t tp_size);
  Result<PerfResult> Query(double elements) const;

 private:
  std::shared_ptr<const TableStore> store_;
  DatabaseMode mode_;
  double gpus_;
  double bandwidth_;
  std::optional<LibraryCollective> library_;  // answers instead
  double measured_gpus_ = 0;
  double beyond_measured_ = 1;
  MeasuredSlice curve_;
  Calibration calibration_;
};

class BoundCustomAllReduce {
 public:
  BoundCustomAllReduce(const CustomAllReduce& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  std::optional<BackendAllReduce> collective_;  // none for a group of one
  double hidden_;
  double scale_;
  std::uint32_t seq_split_;
};

class BoundNccl {
 public:
  BoundNccl(const Nccl& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  std::optional<LibraryCollective> collective_;  // none for a group of one
  bool sol_;
  double hidden_;
  double scale_;
  std::uint32_t seq_split_;
};

class BoundP2P {
 public:
  BoundP2P(const P2P& op, const Database& db);
  Result<PerfResult> Query(const QueryContext& ctx) const;

 private:
  bool active_;
  bool sol_;
  double hidden_;
  double bandwidth_;  // bytes/s, always that between nodes
  double latency_;    // seconds
  double scale_;
  std::uint32_t seq_split_;
};

template <>
struct BoundOf<CustomAllReduce> {
  using type = BoundCustomAllReduce;
};
template <>
struct BoundOf<Nccl> {
  using type = BoundNccl;
};
template <>
struct BoundOf<P2P> {
  using type = BoundP2P;
};

}  // namespace infercast
