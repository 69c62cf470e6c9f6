// Resolves the source list of a table channel by channel.
#include "tables/sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/files.h"
#include "tables/pep440.h"

namespace infercast {
namespace {

constexpr std::string_view kManifestFile = "perf_data_reuse_manifest.yaml";

std::string_view Stem(std::string_view basename) {
  return basename.ends_with(".parquet") ? basename.substr(0, basename.size() - 8) : basename;
}

bool IsServingBackend(std::string_view name) {
  return name == "trtllm" || name == "sglang" || name == "vllm";
}

// Collects one table's sources; a member per channel.
class Resolution {
 public:
  using Manifest = std::function<const Result<std::vector<ManifestGroup>>&()>;
  Resolution(const DataTree& tree, const SourceResolver::Options& options, Manifest manifest,
             std::string_view basename)
      : tree_(tree), options_(options), manifest_(std::move(manifest)), basename_(basename) {}

  Result<SourceReport> Run() {
    const DataTree::Location primary = tree_.Find(options_.backend, options_.version, basename_);
    if (primary.exists && !tree_.Usable(primary.dir)) {
      Warn("primary_veto", tree_.Absolute(primary.dir));
    } else {
      Admit(options_.version, primary, SourceChannel::kPrimary, std::nullopt);
      if (primary.exists && primary.family_first) {
        IC_RETURN_IF_ERROR(CheckCoverage(primary.dir, std::nullopt));
      }
    }
    if (!options_.shared_layer || basename_ == "nccl_perf.parquet" ||
        basename_ == "oneccl_perf.parquet") {
      return std::move(report_);
    }

    const Namespace space = ClassifyNamespace(primary);
    if (space == Namespace::kClosed) return std::move(report_);
    const bool comm = space == Namespace::kComm;
    std::set<std::string> donors;
    if (!comm) IC_RETURN_IF_ERROR(DeclaredReuse(donors));
    IC_RETURN_IF_ERROR(Fallback(comm, donors));
    if (!comm) IC_RETURN_IF_ERROR(CrossBackend());
    return std::move(report_);
  }

 private:
  enum class Namespace { kOpen, kComm, kClosed };

  // Communication was measured for one framework's own kernels: such a table may borrow from its
  // earlier versions only. A table whose family is not certain borrows nothing if it may be one.
  Namespace ClassifyNamespace(const DataTree::Location& primary) const {
    if (primary.family_first) {
      return primary.dir.starts_with("comm/") ? Namespace::kComm : Namespace::kOpen;
    }
    const std::vector<std::string> families = tree_.FamiliesWith(basename_);
    const bool has_comm = std::find(families.begin(), families.end(), "comm") != families.end();
    if (!has_comm) return Namespace::kOpen;
    if (families.size() > 1 || !IsServingBackend(options_.backend)) return Namespace::kClosed;
    return Namespace::kComm;
  }

  Status DeclaredReuse(std::set<std::string>& donors) {
    for (const std::string& dir : tree_.VersionDirs(options_.backend, options_.version)) {
      const Listing& listing = tree_.List(dir);
      if (!listing.HasFile(kReuseFile)) {
        if (listing.HasFile(kSharedReuseMarker)) Warn("legacy_marker", tree_.Absolute(dir));
        continue;
      }
      const std::string path = tree_.Absolute(dir) + "/" + std::string(kReuseFile);
      const auto text = ReadTextFile(path);
      const auto entries = text ? ParseReuseDocument(*text)
                                : Result<std::vector<ReuseEntry>>(std::unexpected(text.error()));
      if (!entries) {
        if (options_.strict) {
          return Fail(ErrorKind::kPerfDatabase,
                      fmt::format("strict provenance: {}: {}", path, entries.error().message));
        }
        Warn("malformed_reuse", path);
        continue;
      }
      for (const ReuseEntry& entry : *entries) {
        if (entry.table != Stem(basename_)) continue;
        if (donors.contains(entry.from_version)) {
          Warn("duplicate_declared", fmt::format("{} from {}", entry.table, entry.from_version));
          continue;
        }
        const DataTree::Location donor =
            tree_.Find(options_.backend, entry.from_version, basename_);
        if (!donor.exists || !tree_.Usable(donor.dir)) continue;
        IC_RETURN_IF_ERROR(CheckDonor(donor));
        donors.insert(entry.from_version);
        Admit(entry.from_version, donor, SourceChannel::kDeclaredReuse, std::nullopt);
      }
    }
    return {};
  }

  Status Fallback(bool comm, const std::set<std::string>& donors) {
    const auto requested = Pep440::Parse(options_.version);
    if (!requested) return {};
    const std::string comm_dir = "comm/" + options_.backend;
    std::set<std::string> versions;
    if (comm) {
      for (const std::string& name : tree_.List(comm_dir).dirs) {
        if (name[0] != '.' && name[0] != '_') versions.insert(name);
      }
    } else {
      versions = tree_.Versions(options_.backend);
    }
    std::vector<std::string> earlier;
    for (const std::string& version : versions) {
      if (version == options_.version || donors.contains(version)) continue;
      const auto parsed = Pep440::Parse(version);
      if (!parsed) {
        Warn("unparseable_sibling", version);
        continue;
      }
      if (*parsed < *requested) earlier.push_back(version);
    }
    SortNewestFirst(earlier);
    for (const std::string& version : earlier) {
      DataTree::Location donor;
      if (comm) {
        donor.dir = comm_dir + "/" + version;
        donor.family_first = true;
        donor.exists = tree_.List(donor.dir).HasFile(basename_);
      } else {
        donor = tree_.Find(options_.backend, version, basename_);
      }
      if (!donor.exists || !tree_.Usable(donor.dir)) continue;
      IC_RETURN_IF_ERROR(CheckDonor(donor));
      Admit(version, donor, SourceChannel::kFallback, std::nullopt);
    }
    return {};
  }

  Status CrossBackend() {
    const Result<std::vector<ManifestGroup>>& groups = manifest_();
    if (!groups) return std::unexpected(groups.error());
    std::map<std::string, std::set<std::string>> kernels_of;  // framework -> allowed kernels
    std::set<std::string> low_fidelity;
    for (const ManifestGroup& group : *groups) {
      if (group.basename != basename_) continue;
      if (std::find(group.frameworks.begin(), group.frameworks.end(), options_.backend) ==
          group.frameworks.end()) {
        continue;
      }
      for (const std::string& framework : group.frameworks) {
        kernels_of[framework].insert(group.kernel_source);
        if (group.tier == "shared_fallback") low_fidelity.insert(framework);
      }
    }
    for (const auto& [framework, kernels] : kernels_of) {
      if (framework == options_.backend) continue;
      const std::set<std::string> known = tree_.Versions(framework);
      std::vector<std::string> versions(known.begin(), known.end());
      SortNewestFirst(versions);
      for (const std::string& version : versions) {
        const DataTree::Location donor = tree_.Find(framework, version, basename_);
        if (!donor.exists || !tree_.Usable(donor.dir)) continue;
        IC_RETURN_IF_ERROR(CheckDonor(donor));
        Admit(version, donor, SourceChannel::kCrossBackend,
              std::vector<std::string>(kernels.begin(), kernels.end()));
        if (low_fidelity.contains(framework)) {
          Warn("low_fidelity", fmt::format("{}/{}", framework, version));
        }
      }
    }
    return {};
  }

  void Admit(const std::string& version, const DataTree::Location& at, SourceChannel channel,
             std::optional<std::vector<std::string>> filter) {
    if (!at.family_first && at.exists) Warn("legacy_layout", tree_.Absolute(at.dir));
    report_.sources.push_back({version, tree_.Absolute(at.dir) + "/" + std::string(basename_),
                               channel, at.exists, std::move(filter)});
  }

  Status CheckDonor(const DataTree::Location& donor) {
    if (!donor.family_first) return {};
    return CheckCoverage(donor.dir, Stem(basename_));
  }

  // Does the folder's collection_meta.yaml account for its tables (or for the one named)?
  Status CheckCoverage(const std::string& dir, std::optional<std::string_view> only) {
    if (!options_.strict && !options_.check_coverage) return {};
    const Listing& listing = tree_.List(dir);
    const auto violation = [&](std::string_view what) -> Status {
      const std::string text = fmt::format("{} {}", what, tree_.Absolute(dir));
      if (options_.strict) {
        return Fail(ErrorKind::kPerfDatabase, fmt::format("strict provenance: {}", text));
      }
      Warn("strict_provenance", text);
      return {};
    };
    if (!listing.exists) return violation("unreadable-version-dir");
    if (!listing.HasFile(kCollectionMetaFile)) return violation("missing-sidecar");
    const auto text = ReadTextFile(tree_.Absolute(dir) + "/" + std::string(kCollectionMetaFile));
    const auto meta =
        text ? ParseCollectionMeta(*text) : Result<CollectionMeta>(std::unexpected(text.error()));
    if (!meta) {
      Warn("malformed_sidecar", tree_.Absolute(dir));
      return violation("malformed-sidecar");
    }
    for (const std::string& file : listing.files) {
      if (file[0] == '.' || file == kCollectionMetaFile || file == kReuseFile ||
          file == kIncompleteMarker || file == kSharedReuseMarker) {
        continue;
      }
      const std::string stem = std::filesystem::path(file).stem().string();
      if (only && stem != *only) continue;
      if (meta->tables.contains(stem)) continue;
      if (meta->provenance == "legacy") {
        Warn("strict_provenance", fmt::format("legacy-uncovered {} {}", stem, dir));
        continue;
      }
      IC_RETURN_IF_ERROR(violation(fmt::format("uncovered-table {}", stem)));
    }
    return {};
  }

  void Warn(std::string_view kind, std::string detail) {
    SourceWarning warning{std::string(kind), std::move(detail)};
    auto& all = report_.warnings;
    if (std::find(all.begin(), all.end(), warning) == all.end()) all.push_back(std::move(warning));
  }

  const DataTree& tree_;
  const SourceResolver::Options& options_;
  const Manifest manifest_;
  const std::string_view basename_;
  SourceReport report_;
};

}  // namespace

void SortNewestFirst(std::vector<std::string>& versions) {
  std::stable_sort(versions.begin(), versions.end(), [](const auto& a, const auto& b) {
    const auto x = Pep440::Parse(a);
    const auto y = Pep440::Parse(b);
    if (x.has_value() != y.has_value()) return x.has_value();
    if (!x) return a > b;
    if (const auto order = *x <=> *y; order != 0) return order > 0;
    return a < b;
  });
}

const Result<std::vector<ManifestGroup>>& SourceResolver::Manifest() const {
  std::call_once(manifest_read_,
                 [&] { manifest_ = LoadManifest(options_.systems_root / kManifestFile); });
  return manifest_;
}

Result<SourceReport> SourceResolver::Resolve(std::string_view basename) const {
  {
    const std::lock_guard lock(mutex_);
    const auto it = memo_.find(basename);
    if (it != memo_.end()) return it->second;
  }
  Result<SourceReport> report =
      Resolution(tree_, options_, [this]() -> const auto& { return Manifest(); }, basename).Run();
  const std::lock_guard lock(mutex_);
  return memo_.emplace(std::string(basename), std::move(report)).first->second;
}

TableSource SourceResolver::CollectiveSource(std::string_view library, std::string_view version,
                                             std::string_view basename) const {
  std::string dir = fmt::format("comm/{}/{}", library, version);
  if (!tree_.List(dir).exists || !tree_.Usable(dir)) dir = fmt::format("{}/{}", library, version);
  const bool exists = tree_.List(dir).HasFile(basename);
  return {std::string(version), tree_.Absolute(dir) + "/" + std::string(basename),
          SourceChannel::kPrimary, exists, std::nullopt};
}

TableSource SourceResolver::FlatSource(std::string_view basename) const {
  const std::string dir = options_.backend + "/" + options_.version;
  return {options_.version, tree_.Absolute(dir) + "/" + std::string(basename),
          SourceChannel::kPrimary, tree_.List(dir).HasFile(basename), std::nullopt};
}

}  // namespace infercast
