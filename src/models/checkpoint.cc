// Look-up of checkpoints on this machine, and the merging of their quantisation files.
#include "models/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/near_names.h"
#include "models/family.h"
#include "models/json_long_values.h"

namespace infercast {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfigSuffix = "_config.json";
constexpr std::string_view kQuantSuffix = "_hf_quant_config.json";

// Fills `text`, with kJsonPadding bytes to spare.
Status ReadFile(const fs::path& path, std::string& text) {
  constexpr std::uintmax_t kMaxBytes = std::uintmax_t{64} << 20;
  std::error_code ec;
  const std::uintmax_t size = fs::file_size(path, ec);
  if (ec)
    return Fail(ErrorKind::kIo, fmt::format("cannot read {}: {}", path.string(), ec.message()));
  if (size > kMaxBytes) {
    return Fail(
        ErrorKind::kModelConfig,
        fmt::format("{} is too large for a model configuration: {} bytes", path.string(), size));
  }
  std::ifstream in(path, std::ios::binary);
  text.clear();
  text.reserve(static_cast<std::size_t>(size) + kJsonPadding);
  text.resize_and_overwrite(static_cast<std::size_t>(size), [&](char* to, std::size_t count) {
    in.read(to, static_cast<std::streamsize>(count));
    return static_cast<std::size_t>(in.gcount());
  });
  if (text.size() != size) {
    return Fail(ErrorKind::kIo, fmt::format("cannot read {}", path.string()));
  }
  return {};
}

// The texts of a checkpoint's files while they are parsed. A thread keeps their memory for the next
// checkpoint, unless they are unusually large: fresh pages cost more than parsing does.
class Texts {
 public:
  std::string config, quant;

  static Texts& OfThread() {
    thread_local Texts texts;
    return texts;
  }
  void Trim() {
    constexpr std::size_t kMost = std::size_t{8} << 20;
    for (std::string* text : {&config, &quant}) {
      if (text->capacity() > kMost) *text = {};
    }
  }
};

// A file as it was when it was read; another stamp means other content.
struct FileStamp {
  std::string path;
  std::uintmax_t size = 0;
  fs::file_time_type changed{};

  auto operator<=>(const FileStamp&) const = default;
};

FileStamp Stamp(const fs::path& file) {
  std::error_code ec;
  FileStamp stamp;
  if (!fs::is_regular_file(file, ec)) return stamp;
  stamp.path = fs::absolute(file, ec).string();
  stamp.size = fs::file_size(file, ec);
  stamp.changed = fs::last_write_time(file, ec);
  return stamp;
}

// Configurations that were parsed in this process: some checkpoints list the number format of
// every one of their 20,000 matrices, and sweeps open the same model many times.
class ParsedCheckpoints {
 public:
  using Key = std::tuple<std::string, FileStamp, FileStamp, UnlistedArchitecture>;

  std::optional<ModelConfig> Find(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto found = models_.find(key);
    if (found == models_.end()) return std::nullopt;
    return found->second;
  }
  void Keep(const Key& key, const ModelConfig& model) {
    constexpr std::size_t kMost = 256;
    const std::lock_guard lock(mutex_);
    if (models_.size() >= kMost) models_.clear();
    models_.insert_or_assign(key, model);
  }

 private:
  std::mutex mutex_;
  std::map<Key, ModelConfig> models_;
};

Result<ModelConfig> ParseTexts(std::string name, std::string_view config_text,
                               std::string_view hf_quant_text, UnlistedArchitecture unlisted,
                               const JsonLimits& limits) {
  JsonLongValues long_values;  // both files may list the format of every matrix
  IC_ASSIGN(JsonDocument config, ParseLenientJson(config_text, "config.json", limits, long_values));
  std::optional<JsonDocument> quant;
  if (!hf_quant_text.empty()) {
    IC_ASSIGN(quant, ParseLenientJson(hf_quant_text, "hf_quant_config.json", limits, long_values));
  }
  MergeQuantisation(config, std::move(quant));
  return ParseModelConfig(std::move(name), std::make_shared<const JsonDocument>(std::move(config)),
                          unlisted);
}

Result<ModelConfig> LoadFiles(std::string name, const fs::path& config, const fs::path& quant,
                              const CheckpointSearch& search) {
  static ParsedCheckpoints parsed;
  const ParsedCheckpoints::Key key{name, Stamp(config), Stamp(quant), search.unlisted};
  if (search.remember) {
    if (std::optional<ModelConfig> known = parsed.Find(key)) return *std::move(known);
  }
  Texts& texts = Texts::OfThread();
  IC_RETURN_IF_ERROR(ReadFile(config, texts.config));
  texts.quant.clear();
  std::error_code ec;
  if (fs::is_regular_file(quant, ec)) IC_RETURN_IF_ERROR(ReadFile(quant, texts.quant));
  Result<ModelConfig> model =
      ParseTexts(std::move(name), texts.config, texts.quant, search.unlisted, {.padded = true});
  texts.Trim();
  if (!model) {
    return Fail(model.error().kind, fmt::format("{}: {}", config.string(), model.error().message));
  }
  if (search.remember) parsed.Keep(key, *model);
  return model;
}

std::string FileStem(std::string_view name) {
  std::string stem;
  for (const char c : name) {
    if (c == '/') {
      stem += "--";
    } else {
      stem += c;
    }
  }
  return stem;
}

std::string LowerCase(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// What stays of a name when spelling does not matter: no organisation, lower case, words joined by
// '-', and without the "Meta-" that some publishers write.
std::string SpellingKey(std::string_view name) {
  std::string key = LowerCase(name.substr(name.rfind('/') + 1));
  std::ranges::replace(key, '_', '-');
  if (key.starts_with("meta-")) key.erase(0, 5);
  if (const std::size_t meta = key.find("-meta-"); meta != std::string::npos) key.erase(meta, 5);
  return key;
}

// Checkpoints of the same shape as a bundled one.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kSameShape = {{
    {"llama-3.1-8b-instruct", "llama-3.1-8b"},
    {"llama-3.1-70b-instruct", "llama-3.1-70b"},
    {"llama-3.1-405b-instruct", "llama-3.1-405b"},
    {"gemma-4-26b-a4b-it", "gemma-4-26b-a4b"},
    {"mimo-7b-rl", "mimo-7b-base"},
    {"mimo-7b-sft", "mimo-7b-base"},
}};

}  // namespace

void MergeQuantisation(JsonDocument& config, std::optional<JsonDocument> hf_quant_config) {
  if (!config.root().is_object()) return;
  if (hf_quant_config) {
    const JsonView separate = config.Adopt(*std::move(hf_quant_config));
    const JsonView quantisation = separate["quantization"];
    const JsonView method = quantisation.FirstTruthy({"quant_algo", "quantization_algo"});
    const JsonView kv = quantisation["kv_cache_quant_algo"];
    if (!config.root()["quantization_config"].exists() && (method.Truthy() || kv.Truthy())) {
      JsonDocument synthesised;
      if (method.Truthy()) synthesised.SetText("quant_method", LowerCase(method.Display()));
      if (kv.Truthy()) synthesised.SetText("kv_cache_quant_method", LowerCase(kv.Display()));
      config.Set("quantization_config", config.Adopt(std::move(synthesised)));
    }
    config.Set("hf_quant_config", separate);
  }
  const JsonView root = config.root();
  if (root["quantization_config"].exists()) return;
  const JsonView architectures = root["architectures"];
  if (!architectures.is_array() || architectures.size() == 0) return;
  const std::string_view name = architectures.Item(0).AsText().value_or("");
  const FamilyEntry* family = FindFamily(name);
  if (family == nullptr) return;
  for (const Architecture& architecture : family->architectures) {
    if (architecture.name != name || !architecture.nested) continue;
    const JsonView nested = root["text_config"]["quantization_config"];
    if (nested.exists()) config.Set("quantization_config", nested);
    return;
  }
}

Result<ModelConfig> ParseCheckpoint(std::string name, std::string_view config_text,
                                    std::string_view hf_quant_text, UnlistedArchitecture unlisted) {
  return ParseTexts(std::move(name), config_text, hf_quant_text, unlisted, {});
}

std::vector<std::string> BundledModels(const CheckpointSearch& search) {
  std::set<std::string> names;
  for (const fs::path& dir : search.config_dirs) {
    std::error_code ec;
    for (fs::directory_iterator it(dir, ec), end; !ec && it != end; it.increment(ec)) {
      const std::string file = it->path().filename().string();
      const std::size_t slash = file.find("--");
      if (slash == std::string::npos || !file.ends_with(kConfigSuffix) ||
          file.ends_with(kQuantSuffix)) {
        continue;
      }
      names.insert(file.substr(0, slash) + "/" +
                   file.substr(slash + 2, file.size() - kConfigSuffix.size() - slash - 2));
    }
  }
  return {names.begin(), names.end()};
}

std::string ResolveSpelling(std::string_view name, const std::vector<std::string>& bundled) {
  if (std::ranges::find(bundled, name) != bundled.end()) return std::string(name);
  const auto unique_match = [&](const std::string& key) -> std::string {
    std::string match;
    for (const std::string& candidate : bundled) {
      if (SpellingKey(candidate) != key) continue;
      if (!match.empty()) return {};  // two checkpoints: the caller must say which
      match = candidate;
    }
    return match;
  };
  const std::string key = SpellingKey(name);
  std::string match = unique_match(key);
  if (match.empty()) {
    for (const auto& [variant, base] : kSameShape) {
      if (key == variant) match = unique_match(std::string(base));
    }
  }
  return match;
}

std::vector<std::string> NearModelNames(std::string_view name,
                                        const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> keys;
  for (const std::string& candidate : names) keys.push_back(SpellingKey(candidate));
  std::vector<std::string> near;
  for (const std::string& key : NearestNames(SpellingKey(name), keys, kMost)) {
    for (std::size_t i = 0; i < keys.size() && near.size() < kMost; ++i) {
      if (keys[i] != key) continue;
      if (std::ranges::find(near, names[i]) == near.end()) near.push_back(names[i]);
    }
  }
  return near;
}

namespace {

// Where a checkpoint's files are, and under which name it is known.
struct CheckpointFiles {
  std::string name;
  fs::path config;
  fs::path quant;
};

Result<CheckpointFiles> Locate(std::string_view name, const CheckpointSearch& search) {
  std::error_code ec;
  const fs::path path(name);
  if (name.empty()) return Fail(ErrorKind::kUnknownName, "no model given");
  if (fs::is_directory(path, ec)) {
    if (!fs::is_regular_file(path / "config.json", ec)) {
      return Fail(ErrorKind::kModelConfig, fmt::format("no config.json in {}", path.string()));
    }
    return CheckpointFiles{std::string(name), path / "config.json", path / "hf_quant_config.json"};
  }
  if (fs::is_regular_file(path, ec)) {
    return CheckpointFiles{std::string(name), path, path.parent_path() / "hf_quant_config.json"};
  }
  const std::vector<std::string> bundled = BundledModels(search);
  const std::string known = ResolveSpelling(name, bundled);
  for (const fs::path& dir : search.config_dirs) {
    if (known.empty()) break;
    const fs::path config = dir / (FileStem(known) + std::string(kConfigSuffix));
    if (!fs::is_regular_file(config, ec)) continue;
    return CheckpointFiles{known, config, dir / (FileStem(known) + std::string(kQuantSuffix))};
  }
  std::optional<Error> refused;
  if (search.hub && IsHubName(name)) {
    Result<HubFiles> fetched = FetchFromHub(name, *search.hub);
    if (fetched) {
      return CheckpointFiles{std::string(name), std::move(fetched->config),
                             std::move(fetched->quant)};
    }
    if (fetched.error().kind == ErrorKind::kIo) return std::unexpected(fetched.error());
    refused = std::move(fetched).error();
  }
  const std::vector<std::string> near = NearModelNames(name, bundled);
  std::string hint;
  if (!near.empty()) {
    hint = fmt::format("; near names: {}", fmt::join(near, ", "));
  } else if (bundled.empty()) {
    hint = "; no bundled configurations were found (fetch the data package first)";
  } else {
    hint = "; `infercast models` lists the bundled ones";
  }
  const std::string nowhere =
      fmt::format("no model \"{}\": neither a directory, a config.json nor a bundled name", name);
  if (refused) {
    return Fail(refused->kind, fmt::format("{}, and {}{}", nowhere, refused->message, hint));
  }
  return Fail(ErrorKind::kUnknownName, nowhere + hint);
}

}  // namespace

Result<ModelConfig> LoadModelConfig(std::string_view name, const CheckpointSearch& search) {
  IC_ASSIGN(CheckpointFiles files, Locate(name, search));
  return LoadFiles(std::move(files.name), files.config, files.quant, search);
}

Result<JsonDocument> LoadCheckpointDocument(std::string_view name, const CheckpointSearch& search) {
  IC_ASSIGN(const CheckpointFiles files, Locate(name, search));
  std::string text;
  IC_RETURN_IF_ERROR(ReadFile(files.config, text));
  return ParseLenientJson(text, files.config.string(), {.padded = true});
}

}  // namespace infercast
