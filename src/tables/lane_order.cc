// Puts the attention lanes of a table in the order in which queries try them.
#include "tables/lane_order.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/files.h"
#include "base/near_names.h"
#include "tables/reuse_documents.h"

namespace infercast {

namespace {

constexpr std::string_view kDefaultLane = "default";
constexpr std::array<std::string_view, 5> kKnownLanes = {"fa3", "fla", "flashinfer", "triton",
                                                         "trtllm_mha"};
using Densities = std::map<std::string, LaneDensity>;
using Lanes = std::vector<std::string>;

bool Contains(const Lanes& lanes, std::string_view lane) {
  return std::find(lanes.begin(), lanes.end(), lane) != lanes.end();
}

// Stored lanes of a kernel the user may ask for.
Result<Lanes> RequestedLanes(Backend backend, const std::string& request) {
  if (request == kDefaultLane) return Lanes{request};
  std::vector<std::string> supported;
  if (backend == Backend::kSglang) {
    supported.assign(kKnownLanes.begin(), kKnownLanes.end());
    if (Contains(supported, request)) return Lanes{request};
  } else if (backend == Backend::kVllm) {
    supported = {"flashinfer", "triton"};
    if (request == "triton") return Lanes{"vllm_triton_attn"};
    if (request == "flashinfer") {
      return Lanes{"vllm_flashinfer_trtllmprefill", "vllm_flashinfer_trtllmdecode",
                   "vllm_flashinfer"};
    }
  }
  supported.emplace_back(kDefaultLane);
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("attention backend '{}' is not supported on {}: use {}", request,
                          ToString(backend), JoinNames(supported)));
}

// Leading integers of a dotted version; of the first mixed segment its leading digits.
std::vector<std::int64_t> VersionNumbers(std::string_view version) {
  std::vector<std::int64_t> numbers;
  std::size_t i = 0;
  while (i < version.size()) {
    const std::size_t start = i;
    std::int64_t value = 0;
    while (i < version.size() && version[i] >= '0' && version[i] <= '9') {
      value = std::min<std::int64_t>(value * 10 + (version[i] - '0'), 1'000'000'000'000);
      ++i;
    }
    if (i > start) numbers.push_back(value);
    if (i == start || i >= version.size() || version[i] != '.') break;
    ++i;
  }
  if (numbers.empty()) numbers.push_back(0);
  return numbers;
}

struct FrameworkChoice {
  bool matched = false;
  std::string lane;
};

FrameworkChoice FromDocument(const YAML::Node& root, Backend backend, std::string_view version,
                             int sm) {
  FrameworkChoice choice;
  const YAML::Node versions = root[std::string(ToString(backend))];
  if (!versions || !versions.IsMap()) return choice;
  const std::vector<std::int64_t> wanted = VersionNumbers(version);
  std::vector<std::int64_t> best;
  YAML::Node best_entry;
  for (const auto& entry : versions) {
    const std::vector<std::int64_t> numbers = VersionNumbers(entry.first.Scalar());
    if (numbers <= wanted && (best.empty() || numbers > best)) {
      best = numbers;
      best_entry.reset(entry.second);
    }
  }
  if (best.empty() || !best_entry.IsMap()) return choice;
  const YAML::Node lane = best_entry[sm];
  if (lane && lane.IsScalar()) choice = {true, lane.Scalar()};
  return choice;
}

// What the framework picks by itself on this GPU. A systems root may state it; else what is known
// of the frameworks.
FrameworkChoice FrameworkDefault(const Database& db) {
  static constexpr const char* kBuiltIn =
      "sglang: {\"0.5.14\": {90: fa3, 100: triton, 103: triton, 120: flashinfer}}\n"
      "vllm: {\"0.24.0\": {90: default, 100: default, 103: default}}\n";
  const DatabaseIdentity& id = db.store().identity();
  const int sm = db.system().sm_version.value_or(-1);
  const Result<std::string> text = ReadTextFile(id.systems_root / "attention_lane_defaults.yaml");
  try {
    return FromDocument(YAML::Load(text ? *text : std::string(kBuiltIn)), id.backend, id.version,
                        sm);
  } catch (const YAML::Exception&) {
    return {};
  }
}

// Densest first, then by name.
void SortByDensity(Lanes& lanes, const Densities& densities) {
  const auto density = [&](const std::string& lane) {
    const auto it = densities.find(lane);
    return it == densities.end() ? LaneDensity{} : it->second;
  };
  std::sort(lanes.begin(), lanes.end(), [&](const std::string& a, const std::string& b) {
    const LaneDensity x = density(a);
    const LaneDensity y = density(b);
    if (x.slices != y.slices) return x.slices > y.slices;
    if (x.points != y.points) return x.points > y.points;
    return a < b;
  });
}

Lanes WalkOrder(const Densities& densities, const Lanes& pinned, const Lanes& donors) {
  Lanes order = pinned;
  if (densities.empty()) {
    order.insert(order.end(), donors.begin(), donors.end());
    return order;
  }
  Lanes others = donors;
  std::erase(others, kDefaultLane);
  SortByDensity(others, densities);
  order.insert(order.end(), others.begin(), others.end());
  order.emplace_back(kDefaultLane);
  Lanes rest;
  for (const auto& [lane, density] : densities) {
    if (!Contains(pinned, lane) && !Contains(donors, lane)) rest.push_back(lane);
  }
  SortByDensity(rest, densities);
  order.insert(order.end(), rest.begin(), rest.end());
  return order;
}

}  // namespace

std::map<std::string, LaneDensity> LaneDensities(const TableStore& store, TableId id) {
  Densities densities;
  const TableStore::Slot& slot = store.Get(id);
  if (!slot.table) return densities;
  const Table& table = *slot.table;
  const GridView root = table.Root();
  const std::uint32_t axes = 3;  // heads, sequence, batch
  for (std::uint32_t lane = root.begin; lane < root.end; ++lane) {
    std::uint32_t first = lane;
    std::uint32_t last = lane + 1;
    for (std::uint32_t level = 0; level + axes + 1 < table.levels.size(); ++level) {
      first = table.levels[level].child_begin[first];
      last = table.levels[level].child_begin[last];
    }
    const auto [leaf_first, leaf_last] = GridView{&table, 0, lane, lane + 1}.LeafRange();
    densities[table.TextAt(0, lane)] = {last - first, leaf_last - leaf_first};
  }
  return densities;
}

Result<std::vector<std::string>> ResolveLaneOrder(
    const Database& db, TableId table, const std::optional<std::string>& attention_backend) {
  Lanes pinned;
  Lanes requested;
  if (attention_backend) {
    IC_ASSIGN(requested, RequestedLanes(db.backend(), *attention_backend));
    pinned = requested;
  }
  const FrameworkChoice choice = FrameworkDefault(db);
  if (choice.matched && !Contains(pinned, choice.lane)) pinned.push_back(choice.lane);
  std::erase(pinned, kDefaultLane);
  if (pinned.empty() && !choice.matched) return Lanes{std::string(kDefaultLane)};

  Lanes donors;
  for (const std::string_view lane : kKnownLanes) {
    if (!Contains(pinned, lane)) donors.emplace_back(lane);
  }
  donors.emplace_back(kDefaultLane);

  const Densities shared = LaneDensities(db.store(), table);
  if (attention_backend && *attention_backend != kDefaultLane &&
      std::none_of(requested.begin(), requested.end(),
                   [&](const std::string& lane) { return shared.contains(lane); })) {
    std::vector<std::string> available;
    for (const auto& [lane, density] : shared) available.push_back(lane);
    const DatabaseIdentity& id = db.store().identity();
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("attention backend '{}' was not measured for {} on {} {} {} (expected "
                            "{}; measured: {})",
                            *attention_backend, TableName(table), id.system, ToString(id.backend),
                            id.version, JoinNames(requested), JoinNames(available)));
  }

  // Lanes of the requested version itself come before borrowed ones.
  Densities own = shared;
  if (db.store().identity().shared_layer) {
    DatabaseIdentity alone = db.store().identity();
    alone.shared_layer = false;
    own.clear();
    if (const auto store = TableStore::Open(alone)) own = LaneDensities(**store, table);
  }
  if (own.empty()) return WalkOrder(shared, pinned, donors);
  Lanes order = pinned;
  for (const std::string& lane : WalkOrder(own, pinned, donors)) {
    if (own.contains(lane) && !Contains(pinned, lane)) order.push_back(lane);
  }
  for (const std::string& lane : WalkOrder(shared, pinned, donors)) {
    if (!own.contains(lane) && !Contains(pinned, lane)) order.push_back(lane);
  }
  return order;
}

}  // namespace infercast
