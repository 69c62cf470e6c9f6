// The invented tables of tests/golden/fixtures/latent, opened for tests of latent and sparse
// attention. Tests run from the source root.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tables/database.h"

namespace infercast::testing {

// `system`: latent_sxm, or latent_old: the same data on a GPU without an fp8 figure.
inline Database OpenLatent(DatabaseMode mode, TransferPolicy policy = {},
                           const std::string& system = "latent_sxm") {
  DatabaseIdentity identity;
  identity.systems_root = "tests/golden/fixtures/latent";
  identity.system = system;
  identity.backend = Backend::kSglang;
  identity.version = "9.9.9";
  identity.shared_layer = false;
  auto store = TableStore::Open(identity);
  if (!store) throw std::runtime_error(store.error().message);
  return Database(*std::move(store), mode, policy, Behaviour::kReference);
}

inline QueryContext At(std::uint32_t batch, std::uint32_t s, std::uint32_t prefix = 0) {
  QueryContext ctx;
  ctx.batch_size = batch;
  ctx.s = s;
  ctx.prefix = prefix;
  return ctx;
}

// A measured point with a positive latency: its absolute leaf and its keys below `grid`.
struct Point {
  std::vector<double> keys;
  Leaf leaf;
};
inline std::vector<Point> Points(const GridView& grid) {
  std::vector<Point> points;
  const Table& table = *grid.table;
  const auto walk = [&](auto&& self, const GridView& view, std::vector<double> keys) -> void {
    for (std::uint32_t node = view.begin; node < view.end; ++node) {
      keys.push_back(table.levels[view.level].keys[node]);
      if (view.depth() == 1) {
        if (table.latency[node] > 0) points.push_back({keys, table.LeafAt(node)});
      } else {
        self(self, view.Child(node), keys);
      }
      keys.pop_back();
    }
  };
  walk(walk, grid, {});
  return points;
}

}  // namespace infercast::testing
