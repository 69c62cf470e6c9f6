// Between the public interface (infercast::v1) and the library behind it (infercast): what the
// handles hold, and how names and errors cross.
//
// Inside namespace infercast::v1 an unqualified Engine, Error ... is the public one; the inner one
// is written infercast::Engine.
#pragma once

#include <fmt/format.h>

#include <cctype>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/near_names.h"
#include "engine/breakdown.h"
#include "engine/engine.h"
#include "engine/engine_spec.h"
#include "infercast/infercast.hpp"
#include "models/surroundings.h"
#include "serving/deployment.h"
#include "tables/database.h"
#include "tables/versions.h"

namespace infercast::v1 {

struct PerfDatabase::Impl {
  infercast::Database database;
};
struct EngineSpec::Impl {
  infercast::EngineSpec spec;
};
struct Engine::Impl {
  EngineSpec spec;
  std::shared_ptr<const infercast::Engine> engine;
};

namespace internal {

static_assert(static_cast<int>(ErrorKind::kInternal) ==
              static_cast<int>(infercast::ErrorKind::kInternal));
static_assert(static_cast<int>(ErrorKind::kDataRoot) ==
              static_cast<int>(infercast::ErrorKind::kDataRoot));
static_assert(static_cast<int>(ErrorKind::kDoesNotFit) ==
              static_cast<int>(infercast::ErrorKind::kDoesNotFit));

inline Error Public(infercast::Error error) {
  return {static_cast<ErrorKind>(error.kind), std::move(error.message)};
}
inline std::unexpected<Error> Refuse(ErrorKind kind, std::string message) {
  return std::unexpected(Error{kind, std::move(message)});
}

// What API_RETURN_IF_ERROR and API_ASSIGN take errors of either side by.
inline std::unexpected<Error> Leave(infercast::Error&& error) {
  return std::unexpected(Public(std::move(error)));
}
inline std::unexpected<Error> Leave(Error&& error) { return std::unexpected(std::move(error)); }

// No exception leaves the library: what a dependency throws (out of memory, a file system's
// surprise) becomes kInternal.
template <typename T, typename Body>
Result<T> Guarded(Body&& body) {
  try {
    return body();
  } catch (const std::exception& e) {
    return Refuse(ErrorKind::kInternal, e.what());
  }
}

// kUnknownName that lists what is known and what is near.
template <infercast::NamedEnum E>
Result<E> ParseName(const std::string& text) {
  if (const std::optional<E> value = infercast::ParseEnum<E>(text)) return *value;
  std::vector<std::string> names;
  for (const std::string_view name : infercast::EnumNames<E>::kNames) names.emplace_back(name);
  return Refuse(ErrorKind::kUnknownName,
                fmt::format("unknown {} '{}'{}; known: {}", infercast::EnumNames<E>::kType, text,
                            infercast::DidYouMean(text, names), infercast::JoinNames(names)));
}

// What the program's commands open, too. An empty list stands for the environment's.
using infercast::Surroundings;
Result<Surroundings> OpenSurroundings(
    const std::string& systems_paths,
    infercast::Behaviour behaviour = infercast::Behaviour::kNative);
Result<Surroundings> OpenSurroundings(const DatabaseOptions& options);

Result<infercast::SystemsCatalog::OpenRequest> OpenRequestOf(const DatabaseOptions& options);
Result<infercast::QuantOverrides> FormatsOf(const NumberFormats& formats);
// `is_moe`: the experts' width is filled in when neither size is given.
infercast::ParallelLayout LayoutOf(const Parallelism& parallelism, bool is_moe);
Parallelism ParallelismOf(const infercast::ParallelLayout& layout);
NumberFormats FormatsOf(const infercast::QuantModes& quant);

// The deployment of a model (checkpoint parsed, database opened) and its layout.
struct OpenedModel {
  std::shared_ptr<const infercast::Deployment> deployment;
  infercast::ParallelLayout layout;
};
Result<OpenedModel> OpenModel(const ModelOptions& options);

StepCost CostOf(const infercast::StepCost& cost);
Breakdown BreakdownOf(const infercast::Breakdown& breakdown);

}  // namespace internal
}  // namespace infercast::v1

#define API_RETURN_IF_ERROR(expr)                                              \
  do {                                                                         \
    auto&& api_status_ = (expr);                                               \
    if (!api_status_) {                                                        \
      return ::infercast::v1::internal::Leave(std::move(api_status_).error()); \
    }                                                                          \
  } while (false)
#define API_ASSIGN(lhs, expr) API_ASSIGN_(INFERCAST_CONCAT(api_result_, __COUNTER__), lhs, expr)
#define API_ASSIGN_(tmp, lhs, expr)                                          \
  auto tmp = (expr);                                                         \
  if (!tmp) return ::infercast::v1::internal::Leave(std::move(tmp).error()); \
  lhs = *std::move(tmp)
