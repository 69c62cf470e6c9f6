// Attention measurements come in lanes, one per kernel that a backend may choose. A query is served
// by one lane as a whole: the first that has its slice, in the operator's order of preference, then
// in the order in which the table holds them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "operators/estimate_ladder.h"
#include "operators/measured_slice.h"
#include "tables/database.h"
#include "tables/table.h"

namespace infercast {

struct LaneSlice {
  std::string lane;
  GridView view;
};

// How an attention table is addressed below the lane: `formats` (text keys), then the KV-head
// count, the head size and the window.
struct AttentionKey {
  std::vector<Table::Key> formats;
  double kv_heads = 0;  // 0: as many as query heads
  double head_size = 0;
  double window = 0;

  std::string ToString() const;
};

// kPerfDatabase when no lane has the slice.
Result<LaneSlice> FindLaneSlice(const Database& db, const Table& table,
                                const std::vector<std::string>& lane_order,
                                const AttentionKey& key);

// A slice of another head size to borrow from: the lane walk goes through the preferred lanes and
// then the others by name; a lane offers the head size 128 or the nearest one, if it holds it with
// the window of `key`.
struct HeadSizeDonor {
  LaneSlice slice;
  double head_size;
};
std::optional<HeadSizeDonor> FindHeadSizeDonor(const Table& table,
                                               const std::vector<std::string>& lane_order,
                                               const AttentionKey& key);

// The slices an estimate may draw on, in falling preference: those of the operator's own window,
// then, where it has one, those without a window; of each the own head size, then, where shapes may
// be borrowed, the donor's.
struct AttentionSamples {
  AttentionKey key;  // of the slice
  LaneSlice slice;
  bool borrowed = false;
};
std::vector<AttentionSamples> FindAttentionSamples(const Database& db, const Table& table,
                                                   const std::vector<std::string>& lane_order,
                                                   const AttentionKey& key);

}  // namespace infercast
