// A view of one system's folder of measured data: which versions exist, which folders are usable,
// where the file of a table lies.
//
// Two layouts live side by side: <root>/<family>/<backend>/<version>/ and the older
// <root>/<backend>/<version>/. Families are found by looking, never listed in code. Each folder is
// read at most once and its entries are sorted, so nothing depends on the file system's order.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace infercast {

// The folder names that are storage backends and therefore no families.
bool IsKnownBackendDir(std::string_view name);

constexpr std::string_view kCollectionMetaFile = "collection_meta.yaml";
constexpr std::string_view kReuseFile = "reuse.yaml";
constexpr std::string_view kIncompleteMarker = "INCOMPLETE.txt";
constexpr std::string_view kSharedReuseMarker = "SHARED_LAYER_REUSE.txt";

// One folder's entries by name, sorted.
struct Listing {
  bool exists = false;
  std::vector<std::string> dirs, files;
  bool HasFile(std::string_view name) const;
  bool HasDir(std::string_view name) const;
};

class DataTree {
 public:
  explicit DataTree(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }

  // Entries of <root>/<relative>; cached. Thread-safe, the reference stays valid.
  const Listing& List(const std::string& relative) const;

  // First-level names of families: visible folders that are no storage backend.
  std::vector<std::string> Families() const;

  // Folders (relative) of exactly this version: family-first ones, then the legacy one.
  std::vector<std::string> VersionDirs(std::string_view backend, std::string_view version) const;
  // All versions of a backend in either layout, ascending as plain text. Names that begin with '.'
  // or '_' are not versions.
  std::set<std::string> Versions(std::string_view backend) const;

  // False when an INCOMPLETE marker stands without a collection_meta.yaml beside it.
  bool Usable(const std::string& relative) const;
  // True when the folder holds a file that is neither hidden nor bookkeeping.
  bool HasPerfFiles(const std::string& relative) const;

  struct Location {
    std::string dir;  // relative
    bool family_first = false;
    bool exists = false;
  };
  // Where the file of (backend, version) lies; the legacy place when no family has it.
  Location Find(std::string_view backend, std::string_view version,
                std::string_view basename) const;

  // Families that hold this basename under any backend and version, ascending.
  std::vector<std::string> FamiliesWith(std::string_view basename) const;

  std::string Absolute(const std::string& relative) const { return (root_ / relative).string(); }

 private:
  const std::filesystem::path root_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Listing> listings_;
  mutable bool index_built_ = false;
  mutable std::map<std::string, std::set<std::string>, std::less<>> families_of_;
};

}  // namespace infercast
