// Writes invented tables with Arrow.
#include "support/made_up_system.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <stdexcept>

namespace infercast::testing {

namespace {

std::shared_ptr<arrow::Array> ColumnOf(const std::vector<Row>& rows, std::size_t column) {
  const auto finish = [&](auto builder, auto tag) {
    using T = decltype(tag);
    for (const Row& row : rows) {
      PARQUET_THROW_NOT_OK(builder.Append(std::get<T>(row.at(column).second)));
    }
    return builder.Finish().ValueOrDie();
  };
  const Cell& first = rows.front()[column].second;
  if (std::holds_alternative<std::string>(first)) {
    return finish(arrow::StringBuilder(), std::string());
  }
  if (std::holds_alternative<std::int64_t>(first)) {
    return finish(arrow::Int64Builder(), std::int64_t{});
  }
  if (std::holds_alternative<bool>(first)) return finish(arrow::BooleanBuilder(), bool{});
  return finish(arrow::DoubleBuilder(), double{});
}

}  // namespace

void WriteParquet(const std::filesystem::path& file, const std::vector<Row>& rows) {
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (std::size_t i = 0; i < rows.front().size(); ++i) {
    columns.push_back(ColumnOf(rows, i));
    fields.push_back(arrow::field(rows.front()[i].first, columns.back()->type()));
  }
  std::filesystem::create_directories(file.parent_path());
  const auto out = arrow::io::FileOutputStream::Open(file.string()).ValueOrDie();
  PARQUET_THROW_NOT_OK(parquet::arrow::WriteTable(
      *arrow::Table::Make(arrow::schema(fields), columns), arrow::default_memory_pool(), out));
  PARQUET_THROW_NOT_OK(out->Close());
}

MadeUpSystem::MadeUpSystem(Backend backend, std::string gpu_yaml, std::string node_yaml)
    : backend_(backend) {
  WriteText(root_.path() / "made_up.yaml",
            "data_dir: data/made_up\n"
            "gpu:\n"
            "  mem_bw: 1000000000000\n"
            "  mem_bw_empirical_scaling_factor: 0.8\n"
            "  mem_empirical_constant_latency: 0.000003\n"
            "  mem_capacity: 68719476736\n"
            "  bfloat16_tc_flops: 100000000000000\n"
            "  int8_tc_flops: 200000000000000\n"
            "  fp8_tc_flops: 200000000000000\n" +
                gpu_yaml +
                "node:\n"
                "  num_gpus_per_node: 8\n"
                "  inter_node_bw: 100000000000\n"
                "  intra_node_bw: 400000000000\n"
                "  p2p_latency: 0.00001\n" +
                node_yaml +
                "misc:\n"
                "  nccl_mem: {1: 0, 2: 0, 4: 0, 8: 0}\n"
                "  other_mem: 0\n"
                "  nccl_version: '2.99'\n");
  std::filesystem::create_directories(root_.path() / "data" / "made_up" / ToString(backend) /
                                      "1.0.0");
}

std::filesystem::path MadeUpSystem::Folder(const std::string& version) const {
  return root_.path() / "data" / "made_up" / ToString(backend_) / version;
}

void MadeUpSystem::Put(const std::string& basename, const std::vector<Row>& rows,
                       const std::string& version) {
  WriteParquet(Folder(version) / (basename + ".parquet"), rows);
}

Database MadeUpSystem::Open(DatabaseMode mode, TransferPolicy policy, bool shared_layer,
                            Behaviour behaviour) const {
  DatabaseIdentity identity;
  identity.systems_root = root_.path();
  identity.system = "made_up";
  identity.backend = backend_;
  identity.version = "1.0.0";
  identity.shared_layer = shared_layer;
  auto store = TableStore::Open(identity);
  if (!store) throw std::runtime_error(store.error().message);
  return Database(*std::move(store), mode, policy, behaviour);
}

}  // namespace infercast::testing
