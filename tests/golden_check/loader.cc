// Whole files through zlib, which reads plain and compressed files alike.
#include "golden_check/loader.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>

namespace infercast::golden {
namespace {

Result<std::string> ReadAll(const std::filesystem::path& file) {
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> in(gzopen(file.c_str(), "rb"), &gzclose);
  if (!in) return Fail(ErrorKind::kIo, fmt::format("cannot open {}", file.string()));
  std::string text;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const int got = gzread(in.get(), buffer.data(), buffer.size());
    if (got < 0) return Fail(ErrorKind::kCorruptData, fmt::format("cannot read {}", file.string()));
    if (got == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  // A file that ends in the middle of its compressed stream is only told by the state of the
  // stream.
  int error = Z_OK;
  gzerror(in.get(), &error);
  if (error != Z_OK && error != Z_STREAM_END) {
    return Fail(ErrorKind::kCorruptData, fmt::format("{} ends too early", file.string()));
  }
  return text;
}

}  // namespace

Result<std::vector<nlohmann::json>> LoadDocuments(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  const bool lines = name.ends_with(".jsonl");
  if (!lines && !name.ends_with(".json")) {
    return Fail(ErrorKind::kCorruptData, fmt::format("{} is not a JSON file", file.string()));
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    return Fail(ErrorKind::kIo, fmt::format("no such file: {}", file.string()));
  }
  IC_ASSIGN(const std::string text, ReadAll(file));
  std::vector<nlohmann::json> documents;
  const auto parse = [&](std::string_view part, std::size_t line) -> Status {
    try {
      documents.push_back(nlohmann::json::parse(part));
    } catch (const nlohmann::json::exception& e) {
      return Fail(ErrorKind::kCorruptData,
                  fmt::format("{} (line {}): {}", file.string(), line, e.what()));
    }
    return {};
  };
  if (!lines) {
    IC_RETURN_IF_ERROR(parse(text, 1));
    return documents;
  }
  std::size_t line = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    ++line;
    if (end > begin) {
      IC_RETURN_IF_ERROR(parse(std::string_view(text).substr(begin, end - begin), line));
    }
    begin = end + 1;
  }
  return documents;
}

}  // namespace infercast::golden
