// PerfDatabase: the measurements of one GPU system under one serving backend and version.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "infercast/error.h"

namespace infercast {
INFERCAST_INLINE namespace v1 {
// Names are spelled as on the command line and in the data: systems "h200_sxm", "b200_sxm" ...;
// backends "trtllm", "sglang", "vllm"; modes "SILICON", "HYBRID", "EMPIRICAL", "SOL", "SOL_FULL".
struct DatabaseOptions {
  std::string system;
  std::string backend = "trtllm";
  std::string version;  // literal, or "current", "previous", "next"; empty: current
  // Empty: SILICON, measured and interpolated figures only. Natively Estimate then estimates what
  // was not measured (HYBRID) and says so in its notes, and Recommend takes HYBRID from the start
  // (in either behaviour), which "SILICON" forbids.
  std::string mode;
  std::string transfer_policy;  // which estimates may borrow, e.g. "balanced"; empty: all kinds
  std::string behaviour = "native";  // or "reference": with the reference's known quirks
  bool allow_unlisted_versions = false;
  // Trees of systems and measurements, comma-separated; "default" is the fetched data package.
  // Empty: $INFERCAST_SYSTEMS_PATH, else the data package.
  std::string systems_paths;
};

// A handle; copies are cheap and share the tables, which load on first use and stay in memory
// while a handle or an engine is left. Immutable; safe to share between threads.
class INFERCAST_API PerfDatabase {
 public:
  // kUnknownName for an unknown system, backend, version or mode; kPerfDatabase when nothing was
  // measured for them; kDataRoot when the data package has not been fetched.
  static Result<PerfDatabase> Open(const DatabaseOptions& options);

  // Names of all systems, sorted.
  static Result<std::vector<std::string>> Systems(const std::string& systems_paths = "");
  // Versions of a backend that may be asked for on a system, oldest first; empty: none measured.
  static Result<std::vector<std::string>> Versions(const std::string& system,
                                                   const std::string& backend,
                                                   const std::string& systems_paths = "");
  // "organisation/model" of every bundled model configuration, sorted.
  static Result<std::vector<std::string>> Models(const std::string& systems_paths = "");

  const std::string& system() const;
  std::string backend() const;
  const std::string& version() const;  // literal
  std::string mode() const;
  std::int64_t gpu_memory_bytes() const;  // 0: the system does not say
  std::int64_t gpus_per_node() const;

  struct Impl;
  explicit PerfDatabase(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace v1
}  // namespace infercast
