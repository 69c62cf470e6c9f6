// Which versions of a serving backend were measured on a system, which of them may be asked for,
// and how a request (a literal version, an alias, or nothing) becomes one literal version.
//
// A systems root may publish query slots (query_versions.yaml): current, previous, and, derived
// from the data, next. Where slots exist only slot values are accepted, unless unlisted ones are
// allowed.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/modes.h"
#include "tables/database.h"

namespace infercast {

// Sort key of a version text: (major, minor, patch, stable, rc, suffix); any text has one.
std::array<std::int64_t, 6> VersionSortKey(std::string_view version);

struct QuerySlots {
  std::string current;
  std::optional<std::string> previous;
  std::optional<std::string> next;
};

class SystemsCatalog {
 public:
  explicit SystemsCatalog(std::vector<std::filesystem::path> roots);
  ~SystemsCatalog();
  SystemsCatalog(SystemsCatalog&&) noexcept;

  const std::vector<std::filesystem::path>& roots() const;

  // Names of all systems, sorted.
  std::vector<std::string> Systems() const;
  bool HasSystem(std::string_view system) const;
  // First root that has the system. kUnknownName with near names otherwise.
  Result<std::filesystem::path> RootOf(std::string_view system) const;
  // The figures of a system.
  Result<SystemSpec> Spec(std::string_view system) const;

  // Slots of a system's backend, none where they are not published or nothing was measured there.
  std::optional<QuerySlots> Slots(std::string_view system, Backend backend) const;
  // Versions that may be asked for, oldest first.
  std::vector<std::string> SupportedVersions(std::string_view system, Backend backend) const;
  // The version used when none is asked for; none when nothing was measured.
  std::optional<std::string> LatestVersion(std::string_view system, Backend backend) const;
  // Literal version of a request: an alias or a version. kUnknownName tells what there is.
  Result<std::string> ResolveVersion(std::string_view system, Backend backend,
                                     std::string_view version, bool allow_unlisted) const;

  struct OpenRequest {
    std::string system;
    Backend backend = Backend::kTrtllm;
    std::optional<std::string> version;  // absent: latest
    DatabaseMode mode = DatabaseMode::kSilicon;
    TransferPolicy policy;
    Behaviour behaviour = Behaviour::kNative;
    bool allow_unlisted = false;
    std::optional<bool> shared_layer;  // absent: on for SILICON and HYBRID
  };
  // Opens the database of the first root that can serve the request. kUnknownName for an unknown
  // system or version, kPerfDatabase when nothing was measured for (system, backend).
  Result<Database> Open(const OpenRequest& request) const;

 private:
  struct State;
  struct PublishedSlots;
  std::optional<PublishedSlots> Published(std::string_view system, Backend backend) const;
  std::optional<std::string> NextVersion(Backend backend, const std::string& current) const;

  std::unique_ptr<State> state_;
};

// A policy from text: one or more of the kinds xshape, xquant, xprofile, xop and the presets off,
// conservative, balanced, aggressive, separated by commas. kInvalidArgument for anything else.
Result<TransferPolicy> ParseTransferPolicy(std::string_view text);

}  // namespace infercast
