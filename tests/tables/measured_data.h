// Finds the measured data that tests read.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "tables/database.h"

namespace infercast::testing {

// The systems root of the data package, or none on a machine without it.
inline std::optional<std::filesystem::path> SystemsRoot() {
  const char* value = std::getenv("INFERCAST_SYSTEMS_PATH");
  if (value != nullptr && std::filesystem::is_directory(value)) return value;
  return std::nullopt;
}

// Tests run from the source root.
inline std::filesystem::path ToyRoot() { return "tests/golden/fixtures/toy"; }

inline DatabaseIdentity Identity(const std::filesystem::path& root, std::string system,
                                 Backend backend, std::string version) {
  DatabaseIdentity identity;
  identity.systems_root = root;
  identity.system = std::move(system);
  identity.backend = backend;
  identity.version = std::move(version);
  return identity;
}

}  // namespace infercast::testing

// Leaves the test when the data package is not installed.
#define IC_REQUIRE_DATA(root)                                    \
  const auto root##_found = infercast::testing::SystemsRoot();   \
  if (!root##_found) GTEST_SKIP() << "no measured data package"; \
  const std::filesystem::path root = *root##_found
