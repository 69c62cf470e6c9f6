// PerfDatabase.
#include "api/internal.h"

namespace infercast::v1 {

using internal::Guarded;

Result<PerfDatabase> PerfDatabase::Open(const DatabaseOptions& options) {
  return Guarded<PerfDatabase>([&]() -> Result<PerfDatabase> {
    API_ASSIGN(const internal::Surroundings around, internal::OpenSurroundings(options));
    API_ASSIGN(const auto request, internal::OpenRequestOf(options));
    API_ASSIGN(infercast::Database database, around.systems.Open(request));
    return PerfDatabase(std::make_shared<const Impl>(Impl{std::move(database)}));
  });
}

Result<std::vector<std::string>> PerfDatabase::Systems(const std::string& systems_paths) {
  using Names = std::vector<std::string>;
  return Guarded<Names>([&]() -> Result<Names> {
    API_ASSIGN(const internal::Surroundings around, internal::OpenSurroundings(systems_paths));
    return around.systems.Systems();
  });
}

Result<std::vector<std::string>> PerfDatabase::Versions(const std::string& system,
                                                        const std::string& backend,
                                                        const std::string& systems_paths) {
  using Names = std::vector<std::string>;
  return Guarded<Names>([&]() -> Result<Names> {
    API_ASSIGN(const internal::Surroundings around, internal::OpenSurroundings(systems_paths));
    API_ASSIGN(const infercast::Backend parsed, internal::ParseName<infercast::Backend>(backend));
    API_RETURN_IF_ERROR(around.systems.RootOf(system));
    return around.systems.SupportedVersions(system, parsed);
  });
}

Result<std::vector<std::string>> PerfDatabase::Models(const std::string& systems_paths) {
  using Names = std::vector<std::string>;
  return Guarded<Names>([&]() -> Result<Names> {
    API_ASSIGN(const internal::Surroundings around, internal::OpenSurroundings(systems_paths));
    return infercast::BundledModels(around.checkpoints);
  });
}

const std::string& PerfDatabase::system() const {
  return impl_->database.store().identity().system;
}
std::string PerfDatabase::backend() const {
  return std::string(infercast::ToString(impl_->database.backend()));
}
const std::string& PerfDatabase::version() const {
  return impl_->database.store().identity().version;
}
std::string PerfDatabase::mode() const {
  return std::string(infercast::ToString(impl_->database.mode()));
}
std::int64_t PerfDatabase::gpu_memory_bytes() const {
  return static_cast<std::int64_t>(impl_->database.system().mem_capacity.value_or(0));
}
std::int64_t PerfDatabase::gpus_per_node() const {
  return impl_->database.system().num_gpus_per_node;
}

}  // namespace infercast::v1
