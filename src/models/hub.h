// Checkpoint configurations from a model hub: of a public repository only config.json and
// hf_quant_config.json are fetched, once, into a cache directory. A fetched repository appears
// there as a whole or not at all, and is never changed afterwards: remove its folder to fetch it
// again.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace infercast {

struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  std::string token;            // sent to the endpoint only; empty: none
  bool offline = false;         // what is cached, nothing else
  std::filesystem::path cache;  // <cache>/<organisation>--<name>/config.json
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds timeout{60'000};  // of one file
  std::size_t max_bytes = std::size_t{64} << 20;
};

// HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE; the cache below the program's cache directory. kIo when
// there is no such directory.
Result<HubOptions> HubOptionsFromEnvironment();

struct HubFiles {
  std::filesystem::path config;
  std::filesystem::path quant;  // may not exist: the repository has none
};

// "organisation/name", of the characters that repositories may have.
bool IsHubName(std::string_view name);

// The cached files, or nothing.
std::optional<HubFiles> FindInHubCache(std::string_view name, const HubOptions& options);

// The cached files, fetched first where they are not. kUnknownName when there is no such
// repository (or none that may be read without a token), kNetwork when the hub cannot be reached,
// refuses, or answers with something else than a configuration; kIo when the cache cannot be
// written.
Result<HubFiles> FetchFromHub(std::string_view name, const HubOptions& options);

}  // namespace infercast
