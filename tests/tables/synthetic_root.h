// A systems root made up on the spot, and a private table cache while it lives.
#pragma once

#include <string>

#include "measured_data.h"
#include "parquet_file.h"
#include "support/data_files.h"

namespace infercast::testing {

class SyntheticRoot {
 public:
  SyntheticRoot() : cache_("INFERCAST_CACHE_DIR", (directory_.path() / "cache").string()) {
    std::filesystem::create_directories(root());
    WriteText(root() / "sys.yaml",
              "data_dir: data/sys\n"
              "gpu:\n  mem_bw: 7700000000000\n  bfloat16_tc_flops: 2250000000000000\n"
              "  fp8_tc_flops: 4500000000000000\n  sm_version: 100\n"
              "node:\n  num_gpus_per_node: 8\n  inter_node_bw: 1\n  intra_node_bw: 2\n"
              "misc:\n  nccl_version: '2.1'\n");
  }
  std::filesystem::path root() const { return directory_.path() / "systems"; }
  std::filesystem::path data() const { return root() / "data" / "sys"; }
  std::filesystem::path cache() const { return directory_.path() / "cache" / "tables"; }
  DatabaseIdentity Identity(std::string version, Backend backend = Backend::kVllm) const {
    return testing::Identity(root(), "sys", backend, std::move(version));
  }
  // A new store each time the previous one was let go.
  std::shared_ptr<TableStore> Open(std::string version, Backend backend = Backend::kVllm) const {
    auto store = TableStore::Open(Identity(std::move(version), backend));
    EXPECT_TRUE(store) << (store ? "" : store.error().message);
    return store ? *store : nullptr;
  }

 private:
  TemporaryDirectory directory_;
  ScopedEnvironment cache_;
};

}  // namespace infercast::testing
