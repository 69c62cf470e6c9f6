// Parses the yaml documents that govern borrowing.
//
// The manifest is read for every start of the program and a general yaml parser takes ten
// milliseconds for it, so its usual flat form (one "key: value" a line) is scanned directly; any
// other form goes to the general parser.
#include "tables/reuse_documents.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>

#include "base/files.h"

namespace infercast {
namespace {

std::string_view Trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

struct RawGroup {
  std::string op_file, kernel_source, tier;
  std::vector<std::string> frameworks;
};

// A scalar without any character that means something to yaml, or one in single quotes.
std::optional<std::string> PlainScalar(std::string_view text) {
  if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'') {
    text = text.substr(1, text.size() - 2);
    if (text.find('\'') != std::string_view::npos) return std::nullopt;
    return std::string(text);
  }
  if (text.empty()) return std::nullopt;
  for (const char c : text) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') {
      return std::nullopt;
    }
  }
  return std::string(text);
}

std::optional<std::vector<RawGroup>> ScanFlatManifest(std::string_view text) {
  std::vector<RawGroup> groups;
  bool in_groups = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    std::string_view body = Trim(line);
    if (body.empty() || body[0] == '#') continue;
    if (line == "groups:") {
      if (in_groups) return std::nullopt;
      in_groups = true;
      continue;
    }
    if (!in_groups) return std::nullopt;
    if (line.starts_with("  - ")) {
      groups.emplace_back();
      body = Trim(line.substr(4));
    } else if (!line.starts_with("    ") || line[4] == ' ' || groups.empty()) {
      return std::nullopt;
    }
    const std::size_t colon = body.find(": ");
    if (colon == std::string_view::npos) return std::nullopt;
    const std::string_view key = body.substr(0, colon);
    const std::string_view value = Trim(body.substr(colon + 2));
    RawGroup& group = groups.back();
    if (key == "frameworks" || key == "systems") {
      if (value.size() < 2 || value.front() != '[' || value.back() != ']') return std::nullopt;
      std::string_view items = value.substr(1, value.size() - 2);
      while (!Trim(items).empty()) {
        const std::size_t comma = items.find(',');
        const auto item = PlainScalar(Trim(items.substr(0, comma)));
        if (!item) return std::nullopt;
        if (key == "frameworks") group.frameworks.push_back(Lower(*item));
        items.remove_prefix(comma == std::string_view::npos ? items.size() : comma + 1);
      }
      continue;
    }
    const auto scalar = PlainScalar(value);
    if (!scalar) return std::nullopt;
    if (key == "op_file") group.op_file = *scalar;
    if (key == "kernel_source") group.kernel_source = *scalar;
    if (key == "tier") group.tier = *scalar;
  }
  return groups;
}

std::string ScalarOr(const YAML::Node& map, const char* key) {
  const YAML::Node value = map[key];
  return value && value.IsScalar() ? value.Scalar() : std::string();
}

Result<std::vector<RawGroup>> ParseManifest(const std::string& text) {
  const auto malformed = [](const char* what) {
    return Fail(ErrorKind::kPerfDatabase, fmt::format("reuse manifest: {}", what));
  };
  const YAML::Node root = YAML::Load(text);
  std::vector<RawGroup> groups;
  if (!root || root.IsNull()) return groups;
  if (!root.IsMap()) return malformed("the document is not a mapping");
  const YAML::Node list = root["groups"];
  if (!list || list.IsNull()) return groups;
  if (!list.IsSequence()) return malformed("'groups' is not a list");
  for (const YAML::Node& entry : list) {
    if (!entry.IsMap()) return malformed("a group is not a mapping");
    RawGroup group{
        ScalarOr(entry, "op_file"), ScalarOr(entry, "kernel_source"), ScalarOr(entry, "tier"), {}};
    const YAML::Node frameworks = entry["frameworks"];
    if (frameworks && !frameworks.IsNull()) {
      if (!frameworks.IsSequence()) return malformed("'frameworks' is not a list of texts");
      for (const YAML::Node& name : frameworks) {
        if (!name.IsScalar()) return malformed("'frameworks' is not a list of texts");
        group.frameworks.push_back(Lower(name.Scalar()));
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

Result<std::vector<ReuseEntry>> ParseReuseDocument(std::string_view text) {
  const auto malformed = [](std::string_view what) {
    return Fail(ErrorKind::kYaml, fmt::format("reuse declaration: {}", what));
  };
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap() || !root["reuse"]) return malformed("no 'reuse' list");
    const YAML::Node list = root["reuse"];
    if (!list.IsSequence()) return malformed("'reuse' is not a list");
    std::vector<ReuseEntry> entries;
    for (const YAML::Node& entry : list) {
      if (!entry.IsMap()) return malformed("an entry is not a mapping");
      for (const char* key : {"table", "from_version", "reason", "approved_by"}) {
        const YAML::Node value = entry[key];
        if (!value || !value.IsScalar() || Trim(value.Scalar()).empty()) {
          return malformed(fmt::format("an entry lacks the text '{}'", key));
        }
      }
      entries.push_back({std::string(Trim(entry["table"].Scalar())),
                         std::string(Trim(entry["from_version"].Scalar()))});
    }
    return entries;
  } catch (const std::exception& e) {
    return malformed(e.what());
  }
}

Result<std::vector<ManifestGroup>> LoadManifest(const std::filesystem::path& manifest) {
  std::error_code code;
  if (!std::filesystem::exists(manifest, code)) return std::vector<ManifestGroup>{};
  IC_ASSIGN(const std::string text, ReadTextFile(manifest));
  auto raw = ScanFlatManifest(text);
  if (!raw) {
    try {
      IC_ASSIGN(raw, ParseManifest(text));
    } catch (const std::exception& e) {
      return Fail(ErrorKind::kPerfDatabase, fmt::format("reuse manifest: {}", e.what()));
    }
  }
  std::vector<ManifestGroup> groups;
  for (RawGroup& group : *raw) {
    if (group.op_file.ends_with(".txt")) {
      group.op_file.replace(group.op_file.size() - 4, 4, ".parquet");
    }
    if (group.kernel_source.empty() || group.frameworks.size() < 2 ||
        (group.tier != "shared" && group.tier != "shared_fallback")) {
      continue;
    }
    groups.push_back({std::move(group.op_file), std::move(group.kernel_source),
                      std::move(group.tier), std::move(group.frameworks)});
  }
  return groups;
}

Result<CollectionMeta> ParseCollectionMeta(std::string_view text) {
  try {
    const YAML::Node root = YAML::Load(std::string(text));
    if (!root.IsMap()) return Fail(ErrorKind::kYaml, "collection metadata is not a mapping");
    CollectionMeta meta;
    meta.provenance = ScalarOr(root, "provenance");
    const YAML::Node tables = root["tables"];
    if (tables && tables.IsMap()) {
      for (const auto& entry : tables) {
        if (entry.first.IsScalar()) meta.tables.insert(entry.first.Scalar());
      }
    }
    return meta;
  } catch (const std::exception& e) {
    return Fail(ErrorKind::kYaml, fmt::format("collection metadata: {}", e.what()));
  }
}

}  // namespace infercast
