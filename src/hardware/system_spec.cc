// Reads a system's yaml file and answers the few questions that follow from its figures alone:
// which bandwidth joins a group of GPUs, which rate governs a number format.
#include "hardware/system_spec.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "base/files.h"

namespace infercast {
namespace {

// A number as yaml spells it: integer or float, with optional sign; .inf and .nan included.
std::optional<double> ParseNumber(std::string text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    negative = text[0] == '-';
    text.erase(0, 1);
  }
  double value = 0;
  if (text == ".inf" || text == ".Inf" || text == ".INF") {
    value = std::numeric_limits<double>::infinity();
  } else if (text == ".nan" || text == ".NaN" || text == ".NAN") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (text.empty() || (text[0] != '.' && (text[0] < '0' || text[0] > '9'))) return std::nullopt;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  }
  return negative ? -value : value;
}

// Picks typed figures out of one yaml mapping; the first problem is kept, later reads are harmless.
class Section {
 public:
  Section(const YAML::Node& node, std::string path, std::string& problem)
      : node_(node), path_(std::move(path)), problem_(problem) {}

  std::optional<double> Number(const char* key) {
    const YAML::Node value = Lookup(key);
    if (!value || value.IsNull()) return std::nullopt;
    if (value.IsScalar() && value.Tag() != "!") {
      if (const auto number = ParseNumber(value.Scalar())) return number;
    }
    Note(key, "a number", value);
    return std::nullopt;
  }
  double RequiredNumber(const char* key) {
    const auto number = Number(key);
    if (!number) NoteMissing(key);
    return number.value_or(0);
  }
  std::optional<std::int64_t> Integer(const char* key) {
    const auto number = Number(key);
    if (!number) return std::nullopt;
    if (*number != std::floor(*number) || std::fabs(*number) > 9.0e15) {
      Note(key, "an integer", Lookup(key));
      return std::nullopt;
    }
    return static_cast<std::int64_t>(*number);
  }
  std::optional<std::uint32_t> Count(const char* key) {
    const auto value = Integer(key);
    if (!value) return std::nullopt;
    if (*value < 1 || *value > std::numeric_limits<std::uint32_t>::max()) {
      Note(key, "a count of at least 1", Lookup(key));
      return std::nullopt;
    }
    return static_cast<std::uint32_t>(*value);
  }
  std::optional<std::string> Text(const char* key) {
    const YAML::Node value = Lookup(key);
    if (!value || value.IsNull()) return std::nullopt;
    if (!value.IsScalar()) {
      Note(key, "a text", value);
      return std::nullopt;
    }
    return value.Scalar();
  }
  YAML::Node Lookup(const char* key) const {
    if (!node_ || !node_.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
    const YAML::Node& constant = node_;
    return constant[key];
  }
  void NoteMissing(const char* key) {
    if (problem_.empty()) problem_ = fmt::format("required key {}{} is missing", path_, key);
  }

 private:
  void Note(const char* key, const char* expected, const YAML::Node& value) {
    if (!problem_.empty()) return;
    problem_ = fmt::format("{}{} must be {}{}", path_, key, expected,
                           value.IsScalar() ? fmt::format(", got '{}'", value.Scalar()) : "");
  }

  const YAML::Node node_;
  const std::string path_;
  std::string& problem_;
};

Result<SystemSpec> FromDocument(std::string_view name, const YAML::Node& root) {
  std::string problem;
  if (!root.IsMap()) {
    return Fail(
        ErrorKind::kYaml,
        fmt::format("system '{}': the document is not a mapping with data_dir, gpu, node", name));
  }
  SystemSpec spec;
  spec.name = name;

  Section top(root, "", problem);
  if (const auto dir = top.Text("data_dir")) {
    spec.data_dir = *dir;
  } else {
    top.NoteMissing("data_dir");
  }
  for (const char* key : {"gpu", "node"}) {
    const YAML::Node section = top.Lookup(key);
    if (!section || !section.IsMap()) top.NoteMissing(key);
  }

  Section gpu(top.Lookup("gpu"), "gpu.", problem);
  spec.mem_bw = gpu.RequiredNumber("mem_bw");
  spec.mem_bw_empirical_scaling_factor =
      gpu.Number("mem_bw_empirical_scaling_factor").value_or(1.0);
  spec.mem_empirical_constant_latency = gpu.Number("mem_empirical_constant_latency").value_or(0.0);
  spec.mem_capacity = gpu.Integer("mem_capacity");
  spec.bfloat16_tc_flops = gpu.Number("bfloat16_tc_flops");
  spec.int8_tc_flops = gpu.Number("int8_tc_flops");
  spec.fp8_tc_flops = gpu.Number("fp8_tc_flops");
  spec.fp4_tc_flops = gpu.Number("fp4_tc_flops");
  spec.power = gpu.Number("power");
  if (const auto sm = gpu.Integer("sm_version")) {
    if (std::abs(*sm) > std::numeric_limits<int>::max()) {
      if (problem.empty()) problem = "gpu.sm_version is out of range";
    } else {
      spec.sm_version = static_cast<int>(*sm);
    }
  }

  Section node(top.Lookup("node"), "node.", problem);
  if (const auto count = node.Count("num_gpus_per_node")) {
    spec.num_gpus_per_node = *count;
  } else {
    node.NoteMissing("num_gpus_per_node");
  }
  spec.inter_node_bw = node.RequiredNumber("inter_node_bw");
  spec.intra_node_bw = node.RequiredNumber("intra_node_bw");
  spec.pcie_bw = node.Number("pcie_bw");
  spec.p2p_latency = node.Number("p2p_latency").value_or(0.0);
  spec.num_gpus_per_rack = node.Count("num_gpus_per_rack");
  spec.inter_rack_bw = node.Number("inter_rack_bw");

  Section misc(top.Lookup("misc"), "misc.", problem);
  const YAML::Node nccl_mem = misc.Lookup("nccl_mem");
  if (nccl_mem && nccl_mem.IsMap()) {
    for (const auto& entry : nccl_mem) {
      constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
      const double ranks =
          entry.first.IsScalar() ? ParseNumber(entry.first.Scalar()).value_or(kNone) : kNone;
      const double bytes =
          entry.second.IsScalar() ? ParseNumber(entry.second.Scalar()).value_or(kNone) : kNone;
      if (!(std::fabs(ranks) < 1e9) || !(std::fabs(bytes) < 9e15)) {
        if (problem.empty()) problem = "misc.nccl_mem must map rank counts to bytes";
        break;
      }
      spec.nccl_mem[static_cast<int>(ranks)] = static_cast<std::int64_t>(bytes);
    }
  } else if (nccl_mem && !nccl_mem.IsNull()) {
    if (problem.empty()) problem = "misc.nccl_mem must map rank counts to bytes";
  }
  spec.other_mem = misc.Integer("other_mem");
  spec.nccl_version = misc.Text("nccl_version");
  spec.oneccl_version = misc.Text("oneccl_version");

  if (!problem.empty()) {
    return Fail(ErrorKind::kYaml, fmt::format("system '{}': {}", name, problem));
  }
  return spec;
}

}  // namespace

Result<double> SystemSpec::TensorCoreFlops(ComputeDtype dtype) const {
  std::optional<double> flops;
  std::string_view key = "no FLOPS entry";
  switch (dtype) {
    case ComputeDtype::kNone:
      break;
    case ComputeDtype::kBfloat16:
      flops = bfloat16_tc_flops;
      key = "bfloat16_tc_flops";
      break;
    case ComputeDtype::kInt8:
      flops = int8_tc_flops;
      key = "int8_tc_flops";
      break;
    case ComputeDtype::kFp8:
      flops = fp8_tc_flops;
      key = "fp8_tc_flops";
      break;
    case ComputeDtype::kFp4:
      flops = fp4_tc_flops;
      key = "fp4_tc_flops";
      break;
  }
  if (flops && std::isfinite(*flops) && *flops > 0) return *flops;
  return Fail(ErrorKind::kMissingSystemFlops,
              fmt::format("missing system flops: system '{}' gives no usable {}", name, key));
}

double SystemSpec::P2pBandwidth(std::uint32_t gpus) const {
  if (gpus <= num_gpus_per_node) return intra_node_bw;
  if (!num_gpus_per_rack || gpus <= *num_gpus_per_rack) return inter_node_bw;
  return inter_rack_bw.value_or(inter_node_bw);
}

Result<SystemSpec> ParseSystemSpec(std::string_view name, std::string_view yaml_text) {
  try {
    return FromDocument(name, YAML::Load(std::string(yaml_text)));
  } catch (const std::exception& e) {
    return Fail(ErrorKind::kYaml, fmt::format("system '{}': {}", name, e.what()));
  }
}

Result<SystemSpec> LoadSystemSpec(const std::filesystem::path& systems_root,
                                  std::string_view name) {
  const std::filesystem::path path = systems_root / (std::string(name) + ".yaml");
  IC_ASSIGN(const std::string text, ReadTextFile(path));
  auto spec = ParseSystemSpec(name, text);
  if (!spec) {
    return Fail(spec.error().kind,
                fmt::format("YAML error at {}: {}", path.string(), spec.error().message));
  }
  return spec;
}

}  // namespace infercast
