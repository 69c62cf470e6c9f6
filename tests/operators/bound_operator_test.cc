// What a bound operator owns.
#include "operators/bound_operator.h"

#include <gtest/gtest.h>

#include "support/made_up_system.h"

namespace infercast {
namespace {

TEST(BoundOperator, HoldsItsTablesAlive) {
  const testing::MadeUpSystem system{Backend::kVllm};
  Mamba2 scan;
  scan.name = "scan";
  Elementwise norm;
  norm.name = "norm";
  for (const Operator& op : {Operator(scan), Operator(norm)}) {
    std::weak_ptr<const TableStore> store;
    const BoundOperator bound = [&] {
      const Database db = system.Open(DatabaseMode::kSilicon);
      store = db.shared_store();
      return BoundOperator::Bind(op, db);
    }();
    EXPECT_FALSE(store.expired()) << op.name();
  }
}

}  // namespace
}  // namespace infercast
