// Which files may contribute rows to a table, in falling priority.
//
// The file of the requested version comes first. Gaps may then be filled from versions it names as
// donors, from earlier versions of the same framework, newest first, and from other frameworks for
// kernels that are declared to be the same. Communication tables never leave their own framework.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "tables/data_tree.h"
#include "tables/reuse_documents.h"
#include "tables/table.h"

namespace infercast {

// Something odd about the folders that changes no number. `kind` is a stable snake_case word.
struct SourceWarning {
  std::string kind;
  std::string detail;
  bool operator==(const SourceWarning&) const = default;
};

struct SourceReport {
  std::vector<TableSource> sources;
  std::vector<SourceWarning> warnings;
};

class SourceResolver {
 public:
  struct Options {
    std::filesystem::path systems_root;
    std::string backend, version;
    bool shared_layer = true;
    bool strict = false;          // violations of provenance are errors
    bool check_coverage = false;  // look for violations even when not strict (costs time)
  };
  SourceResolver(const DataTree& tree, Options options)
      : tree_(tree), options_(std::move(options)) {}

  // Resolved once per basename. Thread-safe. kPerfDatabase when strict provenance is violated or
  // the manifest is malformed.
  Result<SourceReport> Resolve(std::string_view basename) const;

  // The single system-wide file of a collective library: `comm/<library>/<version>` or the older
  // `<library>/<version>`. The path is given whether or not it exists.
  TableSource CollectiveSource(std::string_view library, std::string_view version,
                               std::string_view basename) const;

  // The file in the folder <backend>/<version> of the requested version, whether or not it exists.
  TableSource FlatSource(std::string_view basename) const;

 private:
  // The reuse manifest, read at the first need.
  const Result<std::vector<ManifestGroup>>& Manifest() const;

  const DataTree& tree_;
  const Options options_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Result<SourceReport>, std::less<>> memo_;
  mutable std::once_flag manifest_read_;
  mutable Result<std::vector<ManifestGroup>> manifest_;
};

// Newest first: PEP 440 versions by falling version (equal ones by rising text), then the others by
// falling text.
void SortNewestFirst(std::vector<std::string>& versions);

}  // namespace infercast
