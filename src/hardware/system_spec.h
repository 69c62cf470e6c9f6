// What one GPU system is: rates, memory, topology, read from `<system>.yaml`.
//
// Units: bytes, bytes/s (per GPU, one direction), operations/s, seconds. Absent optional figures
// stay absent; nothing is guessed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/modes.h"

namespace infercast {

struct SystemSpec {
  std::string name;
  std::filesystem::path data_dir;  // relative to the systems root

  // gpu
  double mem_bw = 0;
  double mem_bw_empirical_scaling_factor = 1.0;
  double mem_empirical_constant_latency = 0.0;  // seconds
  std::optional<std::int64_t> mem_capacity;
  std::optional<double> bfloat16_tc_flops, int8_tc_flops, fp8_tc_flops, fp4_tc_flops;
  std::optional<double> power;  // W; informational
  std::optional<int> sm_version;

  // node
  std::uint32_t num_gpus_per_node = 1;
  double inter_node_bw = 0;
  double intra_node_bw = 0;
  std::optional<double> pcie_bw;
  double p2p_latency = 0.0;  // seconds
  std::optional<std::uint32_t> num_gpus_per_rack;
  std::optional<double> inter_rack_bw;

  // misc
  std::map<int, std::int64_t> nccl_mem;  // rank count -> bytes
  std::optional<std::int64_t> other_mem;
  std::optional<std::string> nccl_version, oneccl_version;

  // Operations/s that govern a number format, or MissingSystemFlops when the figure is absent, not
  // finite or not positive. Never derived from another format's figure.
  Result<double> TensorCoreFlops(ComputeDtype dtype) const;

  // Bandwidth between two GPUs of a group of `gpus` that spans nodes or racks as needed.
  double P2pBandwidth(std::uint32_t gpus) const;
  bool IsInterNode(std::uint32_t gpus) const { return gpus > num_gpus_per_node; }

  bool IsBlackwell() const { return sm_version && *sm_version >= 100; }
  bool IsHopper() const { return sm_version && *sm_version == 90; }
};

// Parses `<root>/<name>.yaml`. kIo when the file cannot be read, kYaml when it is malformed or a
// required key is missing or of the wrong type.
Result<SystemSpec> LoadSystemSpec(const std::filesystem::path& systems_root, std::string_view name);
Result<SystemSpec> ParseSystemSpec(std::string_view name, std::string_view yaml_text);

}  // namespace infercast
