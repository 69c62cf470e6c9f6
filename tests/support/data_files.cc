#include "support/data_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zip.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>

#include "tables/digest.h"

namespace infercast::testing {
namespace {

namespace fs = std::filesystem;

Sha256Digest DigestOf(const std::string& text) {
  return *Sha256(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

std::string UrlSafeBase64(const Sha256Digest& digest) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string text;
  for (std::size_t bit = 0; bit < digest.size() * 8; bit += 6) {
    unsigned value = 0;
    for (std::size_t i = bit; i < bit + 6; ++i) {
      value <<= 1;
      if (i < digest.size() * 8) value |= (digest[i / 8] >> (7 - i % 8)) & 1U;
    }
    text += kAlphabet[value];
  }
  return text;
}

void AddEntry(zip_t* archive, const std::string& name, const std::string& content) {
  // libzip frees the copies it is given, but not that of an empty file.
  void* copy = content.empty() ? nullptr : std::malloc(content.size());
  ASSERT_TRUE(copy != nullptr || content.empty());
  content.copy(static_cast<char*>(copy), content.size());
  zip_source_t* source = zip_source_buffer(archive, copy, content.size(), /*freep=*/1);
  ASSERT_NE(source, nullptr);
  ASSERT_GE(zip_file_add(archive, name.c_str(), source, ZIP_FL_OVERWRITE), 0);
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (fs::temp_directory_path() / "infercast-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) std::abort();
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

ScopedEnvironment::ScopedEnvironment(std::string name, const std::optional<std::string>& value)
    : name_(std::move(name)) {
  if (const char* before = std::getenv(name_.c_str()); before != nullptr) before_ = before;
  if (value) {
    setenv(name_.c_str(), value->c_str(), 1);
  } else {
    unsetenv(name_.c_str());
  }
}

ScopedEnvironment::~ScopedEnvironment() {
  if (before_) {
    setenv(name_.c_str(), before_->c_str(), 1);
  } else {
    unsetenv(name_.c_str());
  }
}

void WriteWheel(const fs::path& file, const std::vector<WheelFile>& files) {
  int code = 0;
  zip_t* archive = zip_open(file.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  ASSERT_NE(archive, nullptr) << code;
  std::string record;
  for (const WheelFile& entry : files) {
    AddEntry(archive, entry.path, entry.content);
    if (!entry.in_record) continue;
    const std::string& recorded = entry.recorded ? *entry.recorded : entry.content;
    record += fmt::format("{},sha256={},{}\n", entry.path, UrlSafeBase64(DigestOf(recorded)),
                          recorded.size());
  }
  record += "toy-1.0.dist-info/RECORD,,\n";
  AddEntry(archive, "toy-1.0.dist-info/RECORD", record);
  ASSERT_EQ(zip_close(archive), 0);
}

DataPackagePin PinFor(const fs::path& wheel) {
  return {.distribution = "toy",
          .version = "1.0",
          .package = "toy",
          .wheel = wheel.filename().string(),
          .wheel_sha256 = ToHex(*Sha256OfFile(wheel)),
          .wheel_bytes = fs::file_size(wheel),
          .platform = "manylinux_2_28_x86_64",
          .python_version = "3.11"};
}

std::string ReadText(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void WriteText(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

std::vector<WheelFile> ToyFiles() {
  return {
      {"toy/__init__.py", "print()", true, {}},
      {"toy/systems/gpu.yaml", "gpu: {}\n", true, {}},
      {"toy/systems/query_versions.yaml", "defaults: {}\n", true, {}},
      {"toy/systems/silicon_sample.csv", "secret", true, {}},
      {"toy/systems/data/gpu/gemm/vllm/0.10.0/gemm_perf.parquet", "ten", true, {}},
      {"toy/systems/data/gpu/gemm/vllm/0.9.0/gemm_perf.parquet", "nine", true, {}},
      {"toy/systems/data/gpu/gemm/vllm/0.9.0/collection_meta.yaml", "", true, {}},
      {"toy/systems/data/gpu/comm/nccl/2.27/nccl_perf.parquet", "nccl", true, {}},
      {"toy/model_configs/Org--Model-1_config.json", "{}", true, {}},
  };
}

}  // namespace infercast::testing
