// A whole file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "base/error.h"

namespace infercast {

class MappedFile {
 public:
  // kIo when the path is no readable regular file. Pages are fetched at once.
  static Result<std::shared_ptr<const MappedFile>> Open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  std::size_t size_;
};

}  // namespace infercast
