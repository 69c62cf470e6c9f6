#include "operators/attention_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

namespace infercast {

namespace {

constexpr double kCommonHeadSize = 128;

double LogFloor(double v) { return std::log(std::max(v, 1e-9)); }

std::optional<std::uint32_t> LaneNode(const Table& table, std::string_view lane) {
  const auto code = table.CodeOf(0, lane);
  if (!code) return std::nullopt;
  return table.Root().Find(*code);
}

// The preferred lanes that the table has, in order.
std::vector<std::uint32_t> Preferred(const Table& table, const std::vector<std::string>& order) {
  std::vector<std::uint32_t> nodes;
  for (const std::string& lane : order) {
    const auto node = LaneNode(table, lane);
    if (node && std::find(nodes.begin(), nodes.end(), *node) == nodes.end()) {
      nodes.push_back(*node);
    }
  }
  return nodes;
}

void AppendMissing(std::vector<std::uint32_t>& nodes, std::span<const std::uint32_t> more) {
  for (const std::uint32_t node : more) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
}

}  // namespace

std::string AttentionKey::ToString() const {
  std::string text;
  for (const Table::Key& format : formats) text += fmt::format("{} ", format.text);
  return text + fmt::format("kv_heads={} head_size={} window={}", kv_heads, head_size, window);
}

Result<LaneSlice> FindLaneSlice(const Database& db, const Table& table,
                                const std::vector<std::string>& lane_order,
                                const AttentionKey& key) {
  std::vector<Table::Key> keys = key.formats;
  keys.insert(keys.end(), {key.kv_heads, key.head_size, key.window});
  const auto in_lane = [&](std::uint32_t node) {
    return table.Slice(table.Root().Child(node), keys);
  };
  const std::vector<std::uint32_t> preferred = Preferred(table, lane_order);
  for (const std::uint32_t node : preferred) {
    if (const auto view = in_lane(node)) return LaneSlice{table.TextAt(0, node), *view};
  }
  const auto by_appearance =
      db.store().Memo<std::vector<std::uint32_t>>(fmt::format("lanes/{}", table.name), [&] {
        return std::make_shared<std::vector<std::uint32_t>>(
            table.NodesByFirstAppearance(table.Root()));
      });
  for (const std::uint32_t node : *by_appearance) {
    if (const auto view = in_lane(node)) return LaneSlice{table.TextAt(0, node), *view};
  }
  return Fail(ErrorKind::kPerfDatabase,
              fmt::format("{}: no lane has measurements of {} (asked for {}; the table has {})",
                          table.name, key.ToString(), fmt::join(lane_order, ", "),
                          fmt::join(table.levels[0].names, ", ")));
}

std::optional<HeadSizeDonor> FindHeadSizeDonor(const Table& table,
                                               const std::vector<std::string>& lane_order,
                                               const AttentionKey& key) {
  std::vector<Table::Key> keys = key.formats;
  keys.emplace_back(key.kv_heads);
  std::vector<std::uint32_t> lanes = Preferred(table, lane_order);
  std::vector<std::uint32_t> by_name(table.Root().size());
  for (std::uint32_t i = 0; i < by_name.size(); ++i) by_name[i] = i;
  AppendMissing(lanes, by_name);
  for (const std::uint32_t lane : lanes) {
    const auto sizes = table.Slice(table.Root().Child(lane), keys);
    if (!sizes) continue;
    std::optional<double> reference;
    double best = std::numeric_limits<double>::infinity();
    for (const double size : sizes->keys()) {
      if (size == 0) continue;
      if (size == kCommonHeadSize) {
        reference = size;
        break;
      }
      const double distance = std::abs(LogFloor(size) - LogFloor(key.head_size));
      if (distance < best) {
        best = distance;
        reference = size;
      }
    }
    if (!reference) continue;
    const auto view = table.Slice(*sizes, {*reference, key.window});
    if (view) return HeadSizeDonor{{table.TextAt(0, lane), *view}, *reference};
  }
  return std::nullopt;
}

std::vector<AttentionSamples> FindAttentionSamples(const Database& db, const Table& table,
                                                   const std::vector<std::string>& lane_order,
                                                   const AttentionKey& key) {
  std::vector<AttentionSamples> found;
  std::vector<double> windows = {key.window};
  if (key.window != 0) windows.push_back(0);
  for (const double window : windows) {
    AttentionKey wanted = key;
    wanted.window = window;
    if (const auto own = FindLaneSlice(db, table, lane_order, wanted)) {
      found.push_back({wanted, *own, false});
    }
    if (!db.policy().xshape) continue;
    if (const auto donor = FindHeadSizeDonor(table, lane_order, wanted)) {
      wanted.head_size = donor->head_size;
      found.push_back({wanted, donor->slice, true});
    }
  }
  return found;
}

}  // namespace infercast
