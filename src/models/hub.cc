// Downloads with libcurl into a folder beside the final one, which a rename puts in place.
#include "models/hub.h"

#include <curl/curl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "base/files.h"
#include "models/json_tree.h"
#include "tables/cache_directory.h"

namespace infercast {

namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool IsOn(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text == "1" || text == "ON" || text == "YES" || text == "TRUE";
}

bool IsHubPart(std::string_view part) {
  if (part.empty() || part.size() > 96 || part.front() == '.' || part.front() == '-') return false;
  if (part.find("..") != part.npos || part.find("--") != part.npos) return false;
  return std::ranges::all_of(part, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

fs::path FolderOf(std::string_view name, const HubOptions& options) {
  const std::size_t slash = name.find('/');
  return options.cache / fmt::format("{}--{}", name.substr(0, slash), name.substr(slash + 1));
}

struct Answer {
  long status = 0;
  std::string body;
};

struct Sink {
  std::string body;
  std::size_t max_bytes = 0;
  bool too_large = false;
};

std::size_t Receive(char* data, std::size_t size, std::size_t count, void* target) {
  auto& sink = *static_cast<Sink*>(target);
  const std::size_t bytes = size * count;
  if (bytes > sink.max_bytes - sink.body.size()) {
    sink.too_large = true;
    return 0;  // ends the transfer
  }
  sink.body.append(data, bytes);
  return bytes;
}

Result<Answer> Get(const std::string& url, const HubOptions& options) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (ready != CURLE_OK || curl == nullptr) {
    return Fail(ErrorKind::kNetwork, "libcurl cannot be started");
  }
  Sink sink;
  sink.max_bytes = options.max_bytes;
  char message[CURL_ERROR_SIZE] = "";
  const auto set = [&](CURLoption option, auto value) {
    curl_easy_setopt(curl.get(), option, value);
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(message));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, options.endpoint.starts_with("https:") ? "https" : "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options.connect_timeout.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(options.timeout.count()));
  set(CURLOPT_USERAGENT, "infercast");
  set(CURLOPT_ACCEPT_ENCODING, "");
  set(CURLOPT_WRITEFUNCTION, &Receive);
  set(CURLOPT_WRITEDATA, &sink);
  if (!options.token.empty()) {
    // libcurl leaves the token out when it is redirected to another host.
    set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    set(CURLOPT_XOAUTH2_BEARER, options.token.c_str());
  }
  const CURLcode code = curl_easy_perform(curl.get());
  if (sink.too_large) {
    return Fail(ErrorKind::kNetwork,
                fmt::format("{} is larger than {} bytes", url, options.max_bytes));
  }
  if (code != CURLE_OK) {
    return Fail(ErrorKind::kNetwork, fmt::format("cannot fetch {}: {}", url,
                                                 message[0] != 0 ? static_cast<const char*>(message)
                                                                 : curl_easy_strerror(code)));
  }
  Answer answer;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &answer.status);
  answer.body = std::move(sink.body);
  return answer;
}

// A file of a repository; nothing when the repository has no such file.
Result<std::optional<std::string>> FetchFile(std::string_view name, std::string_view file,
                                             const HubOptions& options) {
  std::string endpoint = options.endpoint;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const std::string url = fmt::format("{}/{}/resolve/main/{}", endpoint, name, file);
  IC_ASSIGN(Answer answer, Get(url, options));
  if (answer.status == 404) return std::nullopt;
  if (answer.status == 401 || answer.status == 403) {
    return Fail(ErrorKind::kUnknownName,
                fmt::format("{} answers {} for {}: there is no such repository, or it wants "
                            "{}",
                            endpoint, answer.status, name,
                            options.token.empty() ? "a token in HF_TOKEN"
                                                  : "its terms accepted for your HF_TOKEN"));
  }
  if (answer.status != 200) {
    return Fail(ErrorKind::kNetwork, fmt::format("{} answers {}", url, answer.status));
  }
  const Result<JsonDocument> document =
      ParseLenientJson(answer.body, file, {.max_bytes = options.max_bytes});
  if (!document || !document->root().is_object()) {
    return Fail(ErrorKind::kNetwork, fmt::format("{} does not hold a JSON object", url));
  }
  return std::optional(std::move(answer.body));
}

}  // namespace

Result<HubOptions> HubOptionsFromEnvironment() {
  HubOptions options;
  if (std::string endpoint = Environment("HF_ENDPOINT"); !endpoint.empty()) {
    options.endpoint = std::move(endpoint);
  }
  options.token = Environment("HF_TOKEN");
  options.offline = IsOn(Environment("HF_HUB_OFFLINE"));
  IC_ASSIGN(const fs::path cache, CacheDirectory());
  options.cache = cache / "hub";
  return options;
}

bool IsHubName(std::string_view name) {
  const std::size_t slash = name.find('/');
  return slash != name.npos && IsHubPart(name.substr(0, slash)) &&
         IsHubPart(name.substr(slash + 1));
}

std::optional<HubFiles> FindInHubCache(std::string_view name, const HubOptions& options) {
  if (!IsHubName(name)) return std::nullopt;
  const fs::path folder = FolderOf(name, options);
  std::error_code ec;
  if (!fs::is_regular_file(folder / "config.json", ec)) return std::nullopt;
  return HubFiles{folder / "config.json", folder / "hf_quant_config.json"};
}

Result<HubFiles> FetchFromHub(std::string_view name, const HubOptions& options) {
  if (!IsHubName(name)) {
    return Fail(ErrorKind::kUnknownName,
                fmt::format("\"{}\" is not the name of a repository (organisation/name)", name));
  }
  if (std::optional<HubFiles> cached = FindInHubCache(name, options)) return *std::move(cached);
  if (options.offline) {
    return Fail(ErrorKind::kNetwork,
                fmt::format("{} is not cached, and HF_HUB_OFFLINE forbids fetching it", name));
  }
  IC_ASSIGN(const std::optional<std::string> config, FetchFile(name, "config.json", options));
  if (!config) {
    return Fail(ErrorKind::kUnknownName,
                fmt::format("{} has no repository {} with a config.json", options.endpoint, name));
  }
  IC_ASSIGN(const std::optional<std::string> quant,
            FetchFile(name, "hf_quant_config.json", options));

  static std::atomic<unsigned> counter{0};
  const fs::path folder = FolderOf(name, options);
  const fs::path draft =
      options.cache / fmt::format(".{}-{}-{}", folder.filename().string(), ::getpid(), ++counter);
  std::error_code ec;
  fs::create_directories(draft, ec);
  if (ec) {
    return Fail(ErrorKind::kIo, fmt::format("cannot create {}: {}", draft.string(), ec.message()));
  }
  Status written = WriteTextFile(draft / "config.json", *config);
  if (written && quant) written = WriteTextFile(draft / "hf_quant_config.json", *quant);
  if (written) {
    fs::rename(draft, folder, ec);
    // Another process may have been faster: its files are as good.
    if (ec && !FindInHubCache(name, options)) {
      written = Fail(ErrorKind::kIo, fmt::format("cannot move the download to {}: {}",
                                                 folder.string(), ec.message()));
    }
  }
  std::error_code ignored;
  fs::remove_all(draft, ignored);
  if (!written) return std::unexpected(written.error());
  return HubFiles{folder / "config.json", folder / "hf_quant_config.json"};
}

}  // namespace infercast
