// A systems root of a few invented rows, for tests of rules that measured data does not show.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/data_files.h"
#include "tables/database.h"

namespace infercast::testing {

// Column name and value; all rows of a file have the columns of its first row.
using Cell = std::variant<std::string, std::int64_t, double, bool>;
using Row = std::vector<std::pair<std::string, Cell>>;

void WriteParquet(const std::filesystem::path& file, const std::vector<Row>& rows);

// One GPU system: 1e12 bytes/s of memory, 1e14 bf16 and 2e14 fp8 and int8 operations/s, no fp4
// figure, 8 GPUs a node over 4e11 bytes/s, 1e11 bytes/s between nodes. Version 1.0.0 of one
// backend.
class MadeUpSystem {
 public:
  // `gpu_yaml`, `node_yaml`: more lines for those sections, two spaces indented.
  explicit MadeUpSystem(Backend backend, std::string gpu_yaml = "", std::string node_yaml = "");

  // Adds `<basename>.parquet` to a version.
  void Put(const std::string& basename, const std::vector<Row>& rows,
           const std::string& version = "1.0.0");

  // Folder of a version's files.
  std::filesystem::path Folder(const std::string& version = "1.0.0") const;

  // Opens the data as it stands now.
  Database Open(DatabaseMode mode, TransferPolicy policy = {}, bool shared_layer = false,
                Behaviour behaviour = Behaviour::kReference) const;

 private:
  TemporaryDirectory root_;
  Backend backend_;
};

}  // namespace infercast::testing
