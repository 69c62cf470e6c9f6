// What the adapters share: where data and goldens are, the tolerance, and opened table stores.
#pragma once

#include <cstdint>
#include <filesystem>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "tables/database.h"

namespace infercast::golden {

class Environment {
 public:
  // `systems`: the flag; without it $INFERCAST_SYSTEMS_PATH or the data package (asked for when a
  // case first needs it).
  Environment(std::optional<std::filesystem::path> systems, double tolerance)
      : systems_(std::move(systems)), tolerance_(tolerance) {}

  double tolerance() const { return tolerance_; }
  // Goldens run in reference behaviour.
  static constexpr Behaviour kBehaviour = Behaviour::kReference;

  // The file whose cases run now: relative paths in cases start at the root of its goldens.
  void set_file(const std::filesystem::path& file);
  // Folder of the goldens: the nearest parent of the file that holds fixtures/toy, else
  // $INFERCAST_SHARED_GOLDEN, else the file's own folder.
  const std::filesystem::path& golden_root() const { return golden_root_; }

  // The systems root that a case names (relative to the goldens), or the data's.
  Result<std::filesystem::path> SystemsRoot(std::string_view named) const;

  // A store, kept open for the next cases (the last few identities; every query of a store is that
  // of a fresh one, since stores hold no state that depends on what was asked).
  Result<std::shared_ptr<const TableStore>> Store(const DatabaseIdentity& identity);

 private:
  std::optional<std::filesystem::path> systems_;
  double tolerance_;
  std::filesystem::path golden_root_;
  std::list<std::pair<DatabaseIdentity, Result<std::shared_ptr<const TableStore>>>> stores_;
};

// Backend and policy as cases spell them. kInvalidEngineConfig for unknown texts.
Result<Backend> ParseBackend(std::string_view name);
Result<TransferPolicy> ParsePolicy(const std::optional<std::vector<std::string>>& kinds);

}  // namespace infercast::golden
