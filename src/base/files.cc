#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <system_error>

namespace infercast {

namespace fs = std::filesystem;

namespace {

std::string SystemMessage(int number) { return std::system_category().message(number); }

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return number_; }
  // What close says counts: a full disk may show only now.
  bool Close() {
    const int number = number_;
    number_ = -1;
    return close(number) == 0;
  }

 private:
  int number_;
};

Status WriteTo(const fs::path& file, std::string_view text) {
  Descriptor out(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  const auto failure = [&] {
    return Fail(ErrorKind::kIo,
                fmt::format("cannot write {}: {}", file.string(), SystemMessage(errno)));
  };
  if (out.get() < 0) return failure();
  while (!text.empty()) {
    const ssize_t wrote = write(out.get(), text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return failure();
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  if (!out.Close()) return failure();
  return {};
}

// What a path with links leads to, which need not exist; the path itself where that cannot be told.
fs::path Target(fs::path file) {
  constexpr int kMostLinks = 40;
  std::error_code code;
  for (int i = 0; i < kMostLinks && fs::is_symlink(file, code); ++i) {
    const fs::path next = fs::read_symlink(file, code);
    if (code) break;
    file = file.parent_path() / next;
  }
  return file;
}

// `descriptor` negative: opening failed, errno tells why.
Result<std::string> ReadAll(int descriptor, std::string_view name, std::size_t largest) {
  const auto failure = [&](std::string_view why) {
    return Fail(ErrorKind::kIo, fmt::format("cannot read {}: {}", name, why));
  };
  struct stat state{};
  if (descriptor < 0 || fstat(descriptor, &state) != 0) return failure(SystemMessage(errno));
  if (S_ISDIR(state.st_mode)) return failure("it is a directory");

  std::string text;
  // A regular file is read at once; the byte more sees its end.
  std::size_t room = S_ISREG(state.st_mode) ? static_cast<std::size_t>(state.st_size) + 1 : 0;
  room = std::clamp(room, std::min(std::size_t{4096}, largest + 1), largest + 1);
  for (;;) {
    const std::size_t held = text.size();
    ssize_t got = 0;
    int why = 0;
    text.resize_and_overwrite(held + room, [&](char* to, std::size_t) {
      got = read(descriptor, to + held, room);
      why = errno;
      return held + static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    });
    if (got < 0 && why == EINTR) continue;
    if (got < 0) return failure(SystemMessage(why));
    if (got == 0) return text;
    if (text.size() > largest) return failure(fmt::format("more than {} bytes", largest));
    room = std::min(std::max(text.size(), std::size_t{4096}), largest + 1 - text.size());
  }
}

}  // namespace

Result<std::string> ReadTextFile(const fs::path& file, std::size_t largest) {
  const Descriptor in(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  return ReadAll(in.get(), file.string(), largest);
}

Result<std::string> ReadStandardInput(std::size_t largest) {
  return ReadAll(STDIN_FILENO, "the standard input", largest);
}

Status ReplaceFile(const fs::path& file, const std::function<Status(const fs::path&)>& write) {
  const auto failure = [&](std::string_view why) {
    return Fail(ErrorKind::kIo, fmt::format("cannot write {}: {}", file.string(), why));
  };
  const auto guarded = [&](const fs::path& to) -> Status {
    try {
      return write(to);
    } catch (const std::exception& e) {
      return failure(e.what());
    }
  };
  std::error_code code;
  const fs::path target = Target(file);
  const fs::file_status before = fs::status(target, code);
  if (fs::is_directory(before)) return failure("it is a directory");
  if (fs::exists(before) && !fs::is_regular_file(before)) return guarded(target);

  static std::atomic<unsigned> counter = 0;
  fs::path temporary = target;
  temporary.replace_filename(
      fmt::format(".{}.{}.{}.part", target.filename().string(), getpid(), counter++));
  const Status written = guarded(temporary);
  if (!written) {
    fs::remove(temporary, code);
    return written;
  }
  // Who may read a file stays as it was; a file system without such modes has none to keep.
  if (fs::exists(before)) fs::permissions(temporary, before.permissions(), code);
  fs::rename(temporary, target, code);
  if (code) {
    const std::string why = code.message();
    fs::remove(temporary, code);
    return failure(why);
  }
  return {};
}

Status WriteTextFile(const fs::path& file, std::string_view text) {
  return ReplaceFile(file, [&](const fs::path& temporary) -> Status {
    const Status written = WriteTo(temporary, text);
    if (written) return {};
    // The reader knows the file by its own name.
    std::string why = written.error().message;
    if (const std::size_t at = why.find(temporary.string()); at != std::string::npos) {
      why.replace(at, temporary.string().size(), file.string());
    }
    return Fail(ErrorKind::kIo, std::move(why));
  });
}

}  // namespace infercast
