// SHA-256 through OpenSSL.
#include "tables/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

namespace infercast {
namespace {

struct ContextDeleter {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

Result<Sha256Digest> Sha256(std::span<const std::uint8_t> bytes) {
  Sha256Digest digest;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    return Fail(ErrorKind::kInternal, "the cryptography library offers no SHA-256");
  }
  return digest;
}

Result<Sha256Digest> Sha256OfFile(const std::filesystem::path& file) {
  std::unique_ptr<std::FILE, FileCloser> stream(std::fopen(file.c_str(), "rbe"));
  if (stream == nullptr) {
    return Fail(ErrorKind::kIo,
                fmt::format("cannot open {}: {}", file.string(), std::strerror(errno)));
  }
  std::unique_ptr<EVP_MD_CTX, ContextDeleter> context(EVP_MD_CTX_new());
  if (context == nullptr || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1) {
    return Fail(ErrorKind::kInternal, "the cryptography library offers no SHA-256");
  }
  std::vector<std::uint8_t> buffer(std::size_t{1} << 18);
  while (true) {
    errno = 0;
    const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), stream.get());
    if (count > 0 && EVP_DigestUpdate(context.get(), buffer.data(), count) != 1) {
      return Fail(ErrorKind::kInternal, "SHA-256 failed");
    }
    if (count == buffer.size()) continue;
    if (std::ferror(stream.get()) != 0) {
      return Fail(ErrorKind::kIo,
                  fmt::format("cannot read {}: {}", file.string(), std::strerror(errno)));
    }
    break;
  }
  Sha256Digest digest;
  if (EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) != 1) {
    return Fail(ErrorKind::kInternal, "SHA-256 failed");
  }
  return digest;
}

std::string ToHex(const Sha256Digest& digest) {
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::optional<Sha256Digest> FromUrlSafeBase64(std::string_view text) {
  Sha256Digest digest;
  if (text.size() != 43) return std::nullopt;
  std::uint32_t bits = 0;
  int count = 0;
  std::size_t out = 0;
  for (char c : text) {
    std::uint32_t value;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<std::uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<std::uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      value = static_cast<std::uint32_t>(c - '0') + 52;
    } else if (c == '-') {
      value = 62;
    } else if (c == '_') {
      value = 63;
    } else {
      return std::nullopt;
    }
    bits = (bits << 6) | value;
    count += 6;
    if (count >= 8) {
      count -= 8;
      digest[out++] = static_cast<std::uint8_t>(bits >> count);
      bits &= (1U << count) - 1;
    }
  }
  // 43 characters carry 258 bits: the two left over must be zero, or two spellings would be one.
  if (out != digest.size() || bits != 0) return std::nullopt;
  return digest;
}

}  // namespace infercast
