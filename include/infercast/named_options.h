// Settings by name and text, as configuration files, the C interface and Python give them. Names
// are those of the command line's long options with underscores: "model", "system", "tp_size",
// "isl", "ttft" ... The documented defaults of each options struct hold for what is not set.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "infercast/error.h"
#include "infercast/forecast.h"
#include "infercast/memory.h"
#include "infercast/model_options.h"
#include "infercast/online.h"

namespace infercast {
INFERCAST_INLINE namespace v1 {
class INFERCAST_API NamedOptions {
 public:
  struct Impl;
  NamedOptions();
  NamedOptions(const NamedOptions&);
  NamedOptions& operator=(const NamedOptions&);
  ~NamedOptions();

  // Lists are separated by commas; truth is "true", "1", "false" or "0"; "none" takes an optional
  // setting back to its default. kUnknownName for a name that is no setting (near ones are
  // named), kInvalidArgument for text that is not a value of it.
  Result<void> Set(std::string_view name, std::string_view value);
  // All names, sorted.
  static std::vector<std::string> Names();

  const ModelOptions& model() const;
  const MemoryOptions& memory() const;
  const EstimateOptions& estimate() const;
  const SweepOptions& sweep() const;
  const RecommendOptions& recommend() const;  // with the options of its search
  const OnlineOptions& online() const;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace v1
}  // namespace infercast
