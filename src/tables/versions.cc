// Version slots, aliases and the walk over systems roots that opens a database.
#include "tables/versions.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

#include "base/files.h"
#include "base/near_names.h"
#include "tables/data_tree.h"
#include "tables/reuse_documents.h"

namespace infercast {

namespace {

namespace fs = std::filesystem;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Reads a run of digits at `i`; saturates far beyond any real version.
std::int64_t ReadNumber(std::string_view s, std::size_t& i) {
  std::int64_t value = 0;
  while (i < s.size() && IsDigit(s[i])) {
    value = std::min<std::int64_t>(value * 10 + (s[i] - '0'), 1'000'000'000'000);
    ++i;
  }
  return value;
}

struct Numeric {
  std::array<std::int64_t, 3> parts{};
  std::size_t end = 0;
};

// First place where `count` numbers stand separated by dots.
std::optional<Numeric> FindNumeric(std::string_view s, int count) {
  for (std::size_t start = 0; start < s.size(); ++start) {
    if (!IsDigit(s[start]) || (start > 0 && IsDigit(s[start - 1]))) continue;
    Numeric n;
    std::size_t i = start;
    bool ok = true;
    for (int part = 0; part < count && ok; ++part) {
      if (part > 0) {
        ok = i < s.size() && s[i] == '.';
        ++i;
      }
      ok = ok && i < s.size() && IsDigit(s[i]);
      if (ok) n.parts[static_cast<std::size_t>(part)] = ReadNumber(s, i);
    }
    if (ok) {
      n.end = i;
      return n;
    }
  }
  return std::nullopt;
}

bool IsAlias(std::string_view version) {
  return version == "current" || version == "previous" || version == "next";
}

bool UnlistedAllowedByEnvironment() {
  for (const char* name : {"INFERCAST_ALLOW_UNLISTED_VERSIONS", "AIC_ALLOW_UNLISTED_VERSIONS"}) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    std::string text(value);
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (text == "1" || text == "true" || text == "yes") return true;
  }
  return false;
}

struct SlotEntry {
  std::string current;
  std::string previous;
};

struct SlotDocument {
  std::map<std::string, SlotEntry, std::less<>> defaults;              // by backend
  std::map<std::pair<std::string, std::string>, SlotEntry> overrides;  // by system, backend
};

std::string Text(const YAML::Node& node, const char* key) {
  const YAML::Node value = node[key];
  return value && value.IsScalar() ? value.Scalar() : std::string();
}

std::optional<SlotDocument> ReadSlots(const fs::path& path) {
  const Result<std::string> text = ReadTextFile(path);
  if (!text) return std::nullopt;
  try {
    SlotDocument document;
    const YAML::Node root = YAML::Load(*text);
    if (!root.IsMap()) return std::nullopt;
    for (const auto& entry : root["defaults"]) {
      document.defaults[entry.first.Scalar()] = {Text(entry.second, "current"),
                                                 Text(entry.second, "previous")};
    }
    for (const auto& system : root["overrides"]) {
      for (const auto& entry : system.second) {
        document.overrides[{system.first.Scalar(), entry.first.Scalar()}] = {
            Text(entry.second, "current"), Text(entry.second, "previous")};
      }
    }
    return document;
  } catch (const YAML::Exception&) {
    return std::nullopt;  // a malformed document publishes no slots
  }
}

}  // namespace

std::array<std::int64_t, 6> VersionSortKey(std::string_view version) {
  std::string s(version);
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::optional<Numeric> n = FindNumeric(s, 3);
  if (!n) n = FindNumeric(s, 2);
  if (!n) return {};
  std::int64_t stable = 1;
  std::int64_t rc = 0;
  const std::size_t at = s.find("rc");
  if (at != std::string::npos) {
    stable = 0;
    for (std::size_t i = at; i != std::string::npos; i = s.find("rc", i + 1)) {
      std::size_t digits = i + 2;
      if (digits < s.size() && IsDigit(s[digits])) {
        rc = ReadNumber(s, digits);
        break;
      }
    }
  }
  std::int64_t suffix = 0;
  for (std::size_t i = n->end; i < s.size();) {
    if (IsDigit(s[i])) {
      suffix = ReadNumber(s, i);
    } else {
      ++i;
    }
  }
  return {n->parts[0], n->parts[1], n->parts[2], stable, rc, suffix};
}

struct SystemsCatalog::State {
  std::vector<fs::path> roots;
  std::mutex mutex;
  std::optional<std::optional<SlotDocument>> slots;
  std::map<std::string, std::shared_ptr<DataTree>, std::less<>> trees;  // by root and system
  std::map<std::string, SystemSpec, std::less<>> specs;
  // Slots come from the defaults wherever `next` is derived, so it depends on the backend alone.
  std::map<Backend, std::optional<std::string>> next;

  const std::optional<SlotDocument>& SlotsDocument() {
    const std::scoped_lock lock(mutex);
    if (!slots) {
      slots.emplace();
      for (const fs::path& root : roots) {
        std::error_code ec;
        if (!fs::is_regular_file(root / "query_versions.yaml", ec)) continue;
        *slots = ReadSlots(root / "query_versions.yaml");
        break;
      }
    }
    return *slots;
  }

  bool Has(const fs::path& root, std::string_view system) const {
    std::error_code ec;
    return !system.empty() && system.find('/') == std::string_view::npos &&
           fs::is_regular_file(root / (std::string(system) + ".yaml"), ec);
  }

  Result<SystemSpec> Spec(const fs::path& root, std::string_view system) {
    const std::string key = root.string() + "\n" + std::string(system);
    {
      const std::scoped_lock lock(mutex);
      if (const auto it = specs.find(key); it != specs.end()) return it->second;
    }
    IC_ASSIGN(SystemSpec spec, LoadSystemSpec(root, system));
    const std::scoped_lock lock(mutex);
    return specs.try_emplace(key, std::move(spec)).first->second;
  }

  // The data tree of a system below a root; null when its yaml cannot be used.
  std::shared_ptr<DataTree> Tree(const fs::path& root, std::string_view system) {
    const std::string key = root.string() + "\n" + std::string(system);
    {
      const std::scoped_lock lock(mutex);
      if (const auto it = trees.find(key); it != trees.end()) return it->second;
    }
    const Result<SystemSpec> spec = Spec(root, system);
    std::shared_ptr<DataTree> tree =
        spec ? std::make_shared<DataTree>(root / spec->data_dir) : nullptr;
    const std::scoped_lock lock(mutex);
    return trees.try_emplace(key, std::move(tree)).first->second;
  }
};

SystemsCatalog::SystemsCatalog(std::vector<fs::path> roots) : state_(std::make_unique<State>()) {
  state_->roots = std::move(roots);
}
SystemsCatalog::~SystemsCatalog() = default;
SystemsCatalog::SystemsCatalog(SystemsCatalog&&) noexcept = default;

const std::vector<fs::path>& SystemsCatalog::roots() const { return state_->roots; }

std::vector<std::string> SystemsCatalog::Systems() const {
  std::set<std::string> names;
  for (const fs::path& root : state_->roots) {
    std::error_code ec;
    for (fs::directory_iterator it(root, ec), end; !ec && it != end; it.increment(ec)) {
      if (it->path().extension() != ".yaml") continue;
      // A yaml without data_dir is a policy document, not a system.
      if (state_->Spec(root, it->path().stem().string())) names.insert(it->path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

bool SystemsCatalog::HasSystem(std::string_view system) const {
  return std::any_of(state_->roots.begin(), state_->roots.end(),
                     [&](const fs::path& root) { return state_->Has(root, system); });
}

Result<fs::path> SystemsCatalog::RootOf(std::string_view system) const {
  for (const fs::path& root : state_->roots) {
    if (state_->Has(root, system)) return root;
  }
  const std::vector<std::string> names = Systems();
  return Fail(ErrorKind::kUnknownName, fmt::format("unknown system '{}'{}; known: {}", system,
                                                   DidYouMean(system, names), JoinNames(names)));
}

Result<SystemSpec> SystemsCatalog::Spec(std::string_view system) const {
  IC_ASSIGN(const fs::path root, RootOf(system));
  return state_->Spec(root, system);
}

// The published slots of a system's backend, and whether `next` is to be derived. That takes a walk
// over every system, so it is done only when somebody asks for it.
struct SystemsCatalog::PublishedSlots {
  QuerySlots slots;
  bool derives_next = false;
};

std::optional<SystemsCatalog::PublishedSlots> SystemsCatalog::Published(std::string_view system,
                                                                        Backend backend) const {
  const std::optional<SlotDocument>& document = state_->SlotsDocument();
  if (!document) return std::nullopt;
  const std::string name(ToString(backend));
  const auto over = document->overrides.find({std::string(system), name});
  const bool overridden = over != document->overrides.end();
  const auto base = document->defaults.find(name);
  if (!overridden && base == document->defaults.end()) return std::nullopt;
  const SlotEntry& entry = overridden ? over->second : base->second;
  if (entry.current.empty()) return std::nullopt;
  bool measured = false;
  for (const fs::path& root : state_->roots) {
    if (!state_->Has(root, system)) continue;
    const std::shared_ptr<DataTree> tree = state_->Tree(root, system);
    measured = measured || (tree && !tree->Versions(name).empty());
  }
  if (!measured) return std::nullopt;
  PublishedSlots published;
  published.slots.current = entry.current;
  if (!entry.previous.empty()) published.slots.previous = entry.previous;
  published.derives_next = !overridden;
  return published;
}

// The newest version beyond `current` with data on any system that follows the defaults.
std::optional<std::string> SystemsCatalog::NextVersion(Backend backend,
                                                       const std::string& current) const {
  {
    const std::scoped_lock lock(state_->mutex);
    if (const auto it = state_->next.find(backend); it != state_->next.end()) return it->second;
  }
  const std::optional<SlotDocument>& document = state_->SlotsDocument();
  const std::string name(ToString(backend));
  std::optional<std::string> newest;
  for (const fs::path& root : state_->roots) {
    std::error_code ec;
    for (fs::directory_iterator it(root, ec), end; !ec && it != end; it.increment(ec)) {
      if (it->path().extension() != ".yaml") continue;
      const std::string other = it->path().stem().string();
      if (document && document->overrides.contains({other, name})) continue;
      const std::shared_ptr<DataTree> tree = state_->Tree(root, other);
      if (!tree) continue;
      for (const std::string& version : tree->Versions(name)) {
        if (!(VersionSortKey(version) > VersionSortKey(newest ? *newest : current))) continue;
        const std::vector<std::string> dirs = tree->VersionDirs(name, version);
        if (std::any_of(dirs.begin(), dirs.end(),
                        [&](const std::string& dir) { return tree->HasPerfFiles(dir); })) {
          newest = version;
        }
      }
    }
  }
  const std::scoped_lock lock(state_->mutex);
  return state_->next.try_emplace(backend, std::move(newest)).first->second;
}

std::optional<QuerySlots> SystemsCatalog::Slots(std::string_view system, Backend backend) const {
  std::optional<PublishedSlots> published = Published(system, backend);
  if (!published) return std::nullopt;
  if (published->derives_next) {
    published->slots.next = NextVersion(backend, published->slots.current);
  }
  return std::move(published->slots);
}

std::vector<std::string> SystemsCatalog::SupportedVersions(std::string_view system,
                                                           Backend backend) const {
  if (const std::optional<QuerySlots> slots = Slots(system, backend)) {
    std::set<std::string> values = {slots->current};
    if (slots->previous) values.insert(*slots->previous);
    if (slots->next) values.insert(*slots->next);
    std::vector<std::string> sorted(values.begin(), values.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
      return VersionSortKey(a) < VersionSortKey(b);
    });
    return sorted;
  }
  std::set<std::string> declared;
  const std::string name(ToString(backend));
  for (const fs::path& root : state_->roots) {
    if (!state_->Has(root, system)) continue;
    const std::shared_ptr<DataTree> tree = state_->Tree(root, system);
    if (!tree) continue;
    for (const std::string& version : tree->Versions(name)) {
      for (const std::string& dir : tree->VersionDirs(name, version)) {
        if (!tree->Usable(dir)) continue;
        bool declares = tree->HasPerfFiles(dir);
        if (!declares) {
          const Result<std::string> text = ReadTextFile(fs::path(tree->Absolute(dir)) / kReuseFile);
          if (text) {
            const auto entries = ParseReuseDocument(*text);
            declares = entries && !entries->empty();
          } else {
            declares = tree->List(dir).HasFile(kSharedReuseMarker);
          }
        }
        if (declares) declared.insert(version);
      }
    }
  }
  return {declared.begin(), declared.end()};
}

std::optional<std::string> SystemsCatalog::LatestVersion(std::string_view system,
                                                         Backend backend) const {
  if (const auto published = Published(system, backend)) return published->slots.current;
  const std::vector<std::string> supported = SupportedVersions(system, backend);
  // The newest one that holds measurements of its own.
  const std::string name(ToString(backend));
  const auto key = [](const std::string& version) {
    std::array<std::int64_t, 6> k = VersionSortKey(version);
    if (k == std::array<std::int64_t, 6>{} && !FindNumeric(version, 2)) {
      std::size_t part = 0;
      bool any = false;
      for (std::size_t i = 0; i < version.size() && part < 3;) {
        if (IsDigit(version[i])) {
          k[part++] = ReadNumber(version, i);
          any = true;
        } else {
          ++i;
        }
      }
      if (!any) k[3] = -1;
    }
    return k;
  };
  std::optional<std::string> latest;
  for (const std::string& version : supported) {
    bool measured = false;
    for (const fs::path& root : state_->roots) {
      if (!state_->Has(root, system)) continue;
      const std::shared_ptr<DataTree> tree = state_->Tree(root, system);
      if (!tree) continue;
      for (const std::string& dir : tree->VersionDirs(name, version)) {
        measured = measured || tree->HasPerfFiles(dir);
      }
    }
    if (measured && (!latest || key(version) > key(*latest))) latest = version;
  }
  return latest;
}

Result<std::string> SystemsCatalog::ResolveVersion(std::string_view system, Backend backend,
                                                   std::string_view version,
                                                   bool allow_unlisted) const {
  const auto published = Published(system, backend);
  if (!published) {
    if (IsAlias(version)) {
      return Fail(ErrorKind::kUnknownName,
                  fmt::format("'{}' names no version: no queryable versions are defined for {} on "
                              "{}",
                              version, ToString(backend), system));
    }
    return std::string(version);
  }
  const QuerySlots& slots = published->slots;
  if (version == "current") return slots.current;
  if (IsAlias(version)) {
    std::optional<std::string> slot = slots.previous;
    if (version == "next") {
      slot = published->derives_next ? NextVersion(backend, slots.current) : std::nullopt;
    }
    if (slot) return *slot;
    return Fail(ErrorKind::kUnknownName,
                fmt::format("{} on {} has no '{}' version; current is {}", ToString(backend),
                            system, version, slots.current));
  }
  if (version == slots.current || version == slots.previous || allow_unlisted ||
      UnlistedAllowedByEnvironment()) {
    return std::string(version);
  }
  const std::vector<std::string> supported = SupportedVersions(system, backend);
  if (std::find(supported.begin(), supported.end(), version) != supported.end()) {
    return std::string(version);
  }
  return Fail(ErrorKind::kUnknownName,
              fmt::format("version '{}' of {} is not offered on {}: use {} or an alias (current, "
                          "previous, next), or set INFERCAST_ALLOW_UNLISTED_VERSIONS=1",
                          version, ToString(backend), system, JoinNames(supported)));
}

Result<Database> SystemsCatalog::Open(const OpenRequest& request) const {
  IC_ASSIGN(const fs::path first_root, RootOf(request.system));
  // Only data-less modes and estimates go without measurements.
  const bool missing_allowed =
      request.mode == DatabaseMode::kSol ||
      (request.behaviour == Behaviour::kNative && request.mode != DatabaseMode::kSilicon);
  std::string version;
  if (request.version && !request.version->empty()) {
    IC_ASSIGN(version, ResolveVersion(request.system, request.backend, *request.version,
                                      request.allow_unlisted));
  } else {
    const std::optional<std::string> latest = LatestVersion(request.system, request.backend);
    if (!latest && !missing_allowed) {
      std::vector<std::string> other;
      for (const Backend b : {Backend::kTrtllm, Backend::kSglang, Backend::kVllm}) {
        if (LatestVersion(request.system, b)) other.emplace_back(ToString(b));
      }
      return Fail(ErrorKind::kPerfDatabase,
                  fmt::format("nothing was measured for {} on {}; {}", ToString(request.backend),
                              request.system,
                              other.empty() ? "use --database-mode SOL for a speed-of-light answer"
                                            : "measured there: " + JoinNames(other)));
    }
    version = latest.value_or("estimate");
  }
  DatabaseIdentity identity;
  identity.system = request.system;
  identity.backend = request.backend;
  identity.version = version;
  identity.shared_layer = request.shared_layer.value_or(request.mode == DatabaseMode::kSilicon ||
                                                        request.mode == DatabaseMode::kHybrid);
  const std::string name(ToString(request.backend));
  std::optional<fs::path> without_dir;
  std::optional<Error> failure;
  for (const fs::path& root : state_->roots) {
    if (!state_->Has(root, request.system)) continue;
    const std::shared_ptr<DataTree> tree = state_->Tree(root, request.system);
    if (!tree) continue;
    const std::vector<std::string> dirs = tree->VersionDirs(name, version);
    const bool usable = std::any_of(dirs.begin(), dirs.end(),
                                    [&](const std::string& dir) { return tree->Usable(dir); });
    if (usable) {
      identity.systems_root = root;
      Result<std::shared_ptr<TableStore>> store = TableStore::Open(identity);
      if (store) {
        return Database(*std::move(store), request.mode, request.policy, request.behaviour);
      }
      failure = store.error();
      continue;
    }
    if (without_dir) continue;
    const std::optional<QuerySlots> slots = Slots(request.system, request.backend);
    if (missing_allowed || (slots && slots->next == version)) without_dir = root;
  }
  if (without_dir) {
    identity.systems_root = *without_dir;
    identity.tolerate_missing_dir = true;
    IC_ASSIGN(std::shared_ptr<TableStore> store, TableStore::Open(identity));
    return Database(std::move(store), request.mode, request.policy, request.behaviour);
  }
  if (failure) return std::unexpected(*failure);
  IC_ASSIGN(const SystemSpec spec, state_->Spec(first_root, request.system));
  return Fail(
      ErrorKind::kPerfDatabase,
      fmt::format("no data of {} {} for {}; versions there: {}", name, version, request.system,
                  JoinNames(SupportedVersions(request.system, request.backend))));
}

Result<TransferPolicy> ParseTransferPolicy(std::string_view text) {
  TransferPolicy policy{false, false, false, false};
  const auto invalid = [&](std::string_view token) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("unknown transfer policy '{}': use off, conservative, balanced, "
                            "aggressive, or a list of xshape, xquant, xprofile, xop",
                            token));
  };
  std::size_t begin = 0;
  for (;;) {
    const std::size_t comma = text.find(',', begin);
    std::string token(text.substr(begin, comma == std::string_view::npos ? comma : comma - begin));
    std::erase_if(token, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
    for (char& c : token) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (token == "aggressive") {
      policy = {true, true, true, true};
    } else if (token == "balanced") {
      policy.xshape = policy.xquant = true;
    } else if (token == "conservative" || token == "xshape") {
      policy.xshape = true;
    } else if (token == "xquant") {
      policy.xquant = true;
    } else if (token == "xprofile") {
      policy.xprofile = true;
    } else if (token == "xop") {
      policy.xop = true;
    } else if (token != "off") {
      return invalid(token);
    }
    if (comma == std::string_view::npos) return policy;
    begin = comma + 1;
  }
}

}  // namespace infercast
