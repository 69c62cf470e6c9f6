// Choice of the kernel whose rows answer for a sparse-attention block.
#include "operators/sparse_block.h"

#include <fmt/format.h>

namespace infercast::latent {

Result<GridView> SparseBlockOf(const Result<const Table*>& table, std::span<const Table::Key> keys,
                               std::string_view kernel, std::string_view name) {
  if (!table) return std::unexpected(table.error());
  const auto kernels = (*table)->Slice((*table)->Root(), keys);
  if (!kernels || kernels->empty()) {
    return Fail(ErrorKind::kPerfDatabase, fmt::format("no measurements of {}", name));
  }
  for (const std::string_view wanted : {kernel, kFlashMlaKernel, kTrtllmKernel}) {
    if (const auto grid = (*table)->Slice(*kernels, {wanted})) return *grid;
  }
  return kernels->Child(kernels->begin);
}

}  // namespace infercast::latent
