// Walks a system's data folder lazily and remembers what it saw.
#include "tables/data_tree.h"

#include <algorithm>
#include <array>

namespace infercast {
namespace {

std::string Join(std::string_view a, std::string_view b) {
  std::string out(a);
  if (!out.empty()) out += '/';
  return out.append(b);
}

bool IsVersionName(std::string_view name) {
  return !name.empty() && name[0] != '.' && name[0] != '_';
}

bool Contains(const std::vector<std::string>& sorted, std::string_view name) {
  const auto it = std::lower_bound(sorted.begin(), sorted.end(), name);
  return it != sorted.end() && *it == name;
}

}  // namespace

bool IsKnownBackendDir(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"trtllm", "sglang", "vllm", "nccl", "oneccl"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool Listing::HasFile(std::string_view name) const { return Contains(files, name); }
bool Listing::HasDir(std::string_view name) const { return Contains(dirs, name); }

const Listing& DataTree::List(const std::string& relative) const {
  const std::lock_guard lock(mutex_);
  const auto [it, fresh] = listings_.try_emplace(relative);
  Listing& listing = it->second;
  if (!fresh) return listing;
  std::error_code code;
  std::filesystem::directory_iterator entries(root_ / relative, code);
  if (code) return listing;
  listing.exists = true;
  for (; entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    if (code) break;
    std::error_code kind_code;
    std::string name = entries->path().filename().string();
    if (entries->is_directory(kind_code)) {
      listing.dirs.push_back(std::move(name));
    } else if (entries->is_regular_file(kind_code)) {
      listing.files.push_back(std::move(name));
    }
  }
  std::sort(listing.dirs.begin(), listing.dirs.end());
  std::sort(listing.files.begin(), listing.files.end());
  return listing;
}

std::vector<std::string> DataTree::Families() const {
  std::vector<std::string> families;
  for (const std::string& name : List("").dirs) {
    if (name[0] != '.' && !IsKnownBackendDir(name)) families.push_back(name);
  }
  return families;
}

std::vector<std::string> DataTree::VersionDirs(std::string_view backend,
                                               std::string_view version) const {
  std::vector<std::string> dirs;
  for (const std::string& name : List("").dirs) {
    if (name[0] == '.') continue;
    std::string parent;
    if (name == backend) {
      parent = name;
    } else if (!IsKnownBackendDir(name)) {
      if (!List(name).HasDir(backend)) continue;
      parent = Join(name, backend);
    } else {
      continue;
    }
    if (List(parent).HasDir(version)) dirs.push_back(Join(parent, version));
  }
  return dirs;
}

std::set<std::string> DataTree::Versions(std::string_view backend) const {
  std::set<std::string> versions;
  for (const std::string& name : List("").dirs) {
    if (name[0] == '.') continue;
    std::string parent;
    if (name == backend) {
      parent = name;
    } else if (!IsKnownBackendDir(name) && List(name).HasDir(backend)) {
      parent = Join(name, backend);
    } else {
      continue;
    }
    for (const std::string& version : List(parent).dirs) {
      if (IsVersionName(version)) versions.insert(version);
    }
  }
  return versions;
}

bool DataTree::Usable(const std::string& relative) const {
  const Listing& listing = List(relative);
  return !listing.HasFile(kIncompleteMarker) || listing.HasFile(kCollectionMetaFile);
}

bool DataTree::HasPerfFiles(const std::string& relative) const {
  for (const std::string& name : List(relative).files) {
    if (name[0] != '.' && name != kCollectionMetaFile && name != kReuseFile &&
        name != kIncompleteMarker && name != kSharedReuseMarker) {
      return true;
    }
  }
  return false;
}

DataTree::Location DataTree::Find(std::string_view backend, std::string_view version,
                                  std::string_view basename) const {
  for (const std::string& family : Families()) {
    if (!List(family).HasDir(backend)) continue;
    const std::string parent = Join(family, backend);
    if (!List(parent).HasDir(version)) continue;
    const std::string dir = Join(parent, version);
    if (Usable(dir) && List(dir).HasFile(basename)) return {dir, true, true};
  }
  std::string dir = Join(backend, version);
  const bool exists = List("").HasDir(backend) && List(std::string(backend)).HasDir(version) &&
                      List(dir).HasFile(basename);
  return {std::move(dir), false, exists};
}

std::vector<std::string> DataTree::FamiliesWith(std::string_view basename) const {
  bool built;
  {
    const std::lock_guard lock(mutex_);
    built = index_built_;
  }
  if (!built) {
    std::map<std::string, std::set<std::string>, std::less<>> index;
    for (const std::string& family : Families()) {
      for (const std::string& backend : List(family).dirs) {
        const std::string parent = Join(family, backend);
        for (const std::string& version : List(parent).dirs) {
          const std::string dir = Join(parent, version);
          if (!IsVersionName(version) || !Usable(dir)) continue;
          for (const std::string& file : List(dir).files) index[file].insert(family);
        }
      }
    }
    const std::lock_guard lock(mutex_);
    families_of_ = std::move(index);
    index_built_ = true;
  }
  const std::lock_guard lock(mutex_);
  const auto it = families_of_.find(basename);
  if (it == families_of_.end()) return {};
  return {it->second.begin(), it->second.end()};
}

}  // namespace infercast
