// EngineSpec: a compiled model as data - its identity and its two lists of operators.
//
// Travels as JSON and in a binary form (docs/engine-spec.md); descriptions that the reference
// package writes are read as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "infercast/error.h"
#include "infercast/model_options.h"

namespace infercast {
INFERCAST_INLINE namespace v1 {
// A handle; immutable, cheap to copy, safe to share between threads.
class INFERCAST_API EngineSpec {
 public:
  // kEngineSpec for what cannot be decoded, kUnsupportedSchemaVersion for another version.
  static Result<EngineSpec> FromBytes(std::span<const std::uint8_t> bytes);
  static Result<EngineSpec> FromJson(std::string_view text);
  // Builds the model and writes down its operators. Opens the database (its version and its order
  // of attention kernels become part of the description). kUnknownName, kUnsupportedModel,
  // kInvalidArgument for an impossible layout, errors of PerfDatabase::Open.
  static Result<EngineSpec> Compile(const ModelOptions& options);

  std::vector<std::uint8_t> ToBytes() const;
  std::string ToJson() const;

  const std::string& model() const;
  const std::string& system() const;
  const std::string& backend() const;
  std::string version() const;  // empty: not fixed
  std::size_t num_context_operators() const;
  std::size_t num_generation_operators() const;

  bool operator==(const EngineSpec& other) const;

  struct Impl;
  explicit EngineSpec(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace v1
}  // namespace infercast
