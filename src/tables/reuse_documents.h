// The small yaml documents that govern borrowing of measured rows: reuse.yaml (a version names its
// donors), the reuse manifest (which kernels are the same across frameworks) and
// collection_meta.yaml (what a folder holds, for strict provenance).
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace infercast {

struct ReuseEntry {
  std::string table;  // stem
  std::string from_version;
};
// Entries in file order. kYaml when any part is malformed; nothing of such a file counts.
Result<std::vector<ReuseEntry>> ParseReuseDocument(std::string_view text);

struct ManifestGroup {
  std::string basename;  // such as "gemm_perf.parquet"
  std::string kernel_source;
  std::string tier;
  std::vector<std::string> frameworks;  // lower-cased
};
// The groups that can have an effect: tier shared or shared_fallback, at least two frameworks, a
// kernel name. An absent file or an empty document gives none. kPerfDatabase when the document is
// malformed.
Result<std::vector<ManifestGroup>> LoadManifest(const std::filesystem::path& manifest);

struct CollectionMeta {
  std::string provenance;
  std::set<std::string, std::less<>> tables;  // stems listed
};
// kYaml when the text is no yaml mapping.
Result<CollectionMeta> ParseCollectionMeta(std::string_view text);

}  // namespace infercast
