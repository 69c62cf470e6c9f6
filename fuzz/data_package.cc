// A wheel of the data package, and the manifest of an unpacked one.
#include "tables/data_package.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "memory_file.h"
#include "tables/wheel.h"

namespace {

namespace fs = std::filesystem;
using namespace infercast;

// A place of this process, removed at its end.
class Place {
 public:
  Place() {
    std::string name = (fs::temp_directory_path() / "fuzz-data-package-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    root_ = name;
    setenv("XDG_CACHE_HOME", root_.c_str(), 1);
  }
  ~Place() {
    std::error_code code;
    fs::remove_all(root_, code);
  }
  const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Place place;
  static fuzzing::MemoryFile wheel;
  wheel.Write(data, size);
  UnpackOptions options;
  options.wheel = wheel.path();
  options.destination = place.root() / "unpacked";
  options.package = "toy";
  options.folders = {"systems", "model_configs"};
  std::error_code code;
  fs::remove_all(options.destination, code);
  fs::create_directories(options.destination);
  if (const auto files = UnpackWheel(options)) {
    for (const UnpackedFile& file : *files) {
      // Nothing lands outside of the destination.
      if (!fs::is_regular_file(options.destination / file.path)) std::abort();
      if (file.path.find("..") != std::string::npos) std::abort();
    }
  }

  DataPackagePin pin;
  pin.version = "1";
  pin.wheel_sha256 = "00";
  static const fs::path root = [&] {
    const auto location = DataPackageLocation(pin);
    if (!location) std::abort();
    fs::create_directories(*location);
    return *location;
  }();
  std::ofstream(root / "manifest.json", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  (void)ReadDataManifest(pin);
  (void)ListDataPackage(pin);
  (void)VerifyDataPackageFile(root / "systems" / "toy.yaml", pin);
  return 0;
}
