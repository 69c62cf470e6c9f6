// Places and open stores.
#include "golden_check/environment.h"

#include <fmt/format.h>

#include <cstdlib>

#include "tables/systems_paths.h"

namespace infercast::golden {

namespace {
constexpr std::size_t kOpenStores = 4;
}

void Environment::set_file(const std::filesystem::path& file) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  for (std::filesystem::path at = folder;; at = at.parent_path()) {
    if (std::filesystem::is_directory(at / "fixtures" / "toy", ignored)) {
      golden_root_ = at;
      return;
    }
    if (at == at.parent_path()) break;
  }
  const char* shared = std::getenv("INFERCAST_SHARED_GOLDEN");
  golden_root_ = shared != nullptr && *shared != '\0' ? std::filesystem::path(shared) : folder;
}

Result<std::filesystem::path> Environment::SystemsRoot(std::string_view named) const {
  if (!named.empty()) return golden_root_ / named;
  if (systems_) return *systems_;
  IC_ASSIGN(const auto roots, ResolveSystemsPaths());
  return roots.front();
}

Result<std::shared_ptr<const TableStore>> Environment::Store(const DatabaseIdentity& identity) {
  for (auto it = stores_.begin(); it != stores_.end(); ++it) {
    if (it->first == identity) {
      stores_.splice(stores_.begin(), stores_, it);
      return it->second;
    }
  }
  if (stores_.size() >= kOpenStores) stores_.pop_back();
  auto opened = TableStore::Open(identity);
  if (opened) {
    stores_.emplace_front(identity, std::shared_ptr<const TableStore>(*std::move(opened)));
  } else {
    stores_.emplace_front(identity, std::unexpected(std::move(opened).error()));
  }
  return stores_.front().second;
}

Result<Backend> ParseBackend(std::string_view name) {
  if (const auto backend = ParseEnum<Backend>(name)) return *backend;
  return Fail(ErrorKind::kInvalidEngineConfig, fmt::format("unknown backend \"{}\"", name));
}

Result<TransferPolicy> ParsePolicy(const std::optional<std::vector<std::string>>& kinds) {
  if (!kinds) return TransferPolicy{};
  TransferPolicy policy{false, false, false, false};
  for (const std::string& kind : *kinds) {
    if (kind == "xshape") {
      policy.xshape = true;
    } else if (kind == "xquant") {
      policy.xquant = true;
    } else if (kind == "xprofile") {
      policy.xprofile = true;
    } else if (kind == "xop") {
      policy.xop = true;
    } else {
      return Fail(ErrorKind::kInvalidEngineConfig,
                  fmt::format("unknown transfer kind \"{}\"", kind));
    }
  }
  return policy;
}

}  // namespace infercast::golden
