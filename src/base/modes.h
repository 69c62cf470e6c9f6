// Closed enumerations of the field: number formats of weights, attention, KV cache and
// communication, serving backends, database modes. Each has one table that gives the spelling on
// the wire and in data files; nothing else in the project compares such strings.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace infercast {

// Which entry of a system's FLOPS figures governs the math roof of a number format.
enum class ComputeDtype : std::uint8_t { kNone, kBfloat16, kInt8, kFp8, kFp4 };

// bytes per element; math multiplier relative to bf16; governing FLOPS entry.
struct QuantProfile {
  double memory;
  double compute;
  ComputeDtype dtype;
};

// Declaration order is the order of the binary wire tags.
enum class GemmQuant : std::uint8_t {
  kBfloat16,
  kInt8Wo,
  kInt4Wo,
  kFp8,
  kFp8Static,
  kSq,
  kFp8Block,
  kFp8Ootb,
  kNvfp4,
  kNvfp4Wo,
  kW4a16Nvfp4,
};
enum class MoeQuant : std::uint8_t {
  kBfloat16,
  kFp8,
  kInt4Wo,
  kFp8Block,
  kW4afp8,
  kNvfp4,
  kNvfp4Wo,
  kW4a16Mxfp4,
  kW4a8Mxfp4Mxfp8,
  kW4a8Mxfp4Mxfp8Trtllm,
  kW4a16Mxfp4Cutlass,
  kW4a16Nvfp4,
};
enum class FmhaQuant : std::uint8_t { kBfloat16, kFp8, kFp8Block };
enum class KvQuant : std::uint8_t { kBfloat16, kInt8, kFp8 };
enum class CommQuant : std::uint8_t { kHalf, kInt8, kFp8 };
enum class Backend : std::uint8_t { kTrtllm, kSglang, kVllm };
enum class DispatchFlavor : std::uint8_t { kCustomAllReduce, kTrtllmAlltoall, kRetiredDeepEp };
enum class Dsv4AttentionKind : std::uint8_t { kCsa, kHca };
enum class FpmPhase : std::uint8_t { kPrefill, kDecode };
enum class DatabaseMode : std::uint8_t { kSilicon, kHybrid, kEmpirical, kSol, kSolFull };
// Data types of an engine's identity (no numbers depend on them).
enum class DataType : std::uint8_t {
  kBfloat16,
  kFloat16,
  kFp8,
  kFp8Static,
  kFp8Block,
  kNvfp4,
  kInt8,
  kInt4,
  kW4afp8,
  kW4a16Mxfp4,
  kW4a8Mxfp4Mxfp8,
  kW4a8Mxfp4Mxfp8Trtllm,
  kW4a16Mxfp4Cutlass,
  kW4a16Nvfp4,
};

// Native: right where the reference is wrong (docs/differences.md). Reference: its numbers.
enum class Behaviour : std::uint8_t { kNative, kReference };

// The spellings of an enumeration, indexed by its value.
template <typename E>
struct EnumNames;

template <>
struct EnumNames<GemmQuant> {
  static constexpr std::string_view kType = "GEMM quantisation";
  static constexpr std::array<std::string_view, 11> kNames = {
      "bfloat16",  "int8_wo",  "int4_wo", "fp8",      "fp8_static", "sq",
      "fp8_block", "fp8_ootb", "nvfp4",   "nvfp4_wo", "w4a16_nvfp4"};
};
template <>
struct EnumNames<MoeQuant> {
  static constexpr std::string_view kType = "MoE quantisation";
  static constexpr std::array<std::string_view, 12> kNames = {"bfloat16",
                                                              "fp8",
                                                              "int4_wo",
                                                              "fp8_block",
                                                              "w4afp8",
                                                              "nvfp4",
                                                              "nvfp4_wo",
                                                              "w4a16_mxfp4",
                                                              "w4a8_mxfp4_mxfp8",
                                                              "w4a8_mxfp4_mxfp8_trtllm",
                                                              "w4a16_mxfp4_cutlass",
                                                              "w4a16_nvfp4"};
};
template <>
struct EnumNames<FmhaQuant> {
  static constexpr std::string_view kType = "attention quantisation";
  static constexpr std::array<std::string_view, 3> kNames = {"bfloat16", "fp8", "fp8_block"};
};
template <>
struct EnumNames<KvQuant> {
  static constexpr std::string_view kType = "KV-cache quantisation";
  static constexpr std::array<std::string_view, 3> kNames = {"bfloat16", "int8", "fp8"};
};
template <>
struct EnumNames<CommQuant> {
  static constexpr std::string_view kType = "communication quantisation";
  static constexpr std::array<std::string_view, 3> kNames = {"half", "int8", "fp8"};
};
template <>
struct EnumNames<Backend> {
  static constexpr std::string_view kType = "backend";
  static constexpr std::array<std::string_view, 3> kNames = {"trtllm", "sglang", "vllm"};
};
template <>
struct EnumNames<DispatchFlavor> {
  static constexpr std::string_view kType = "dispatch flavor";
  static constexpr std::array<std::string_view, 3> kNames = {"CustomAllReduce", "TrtllmAlltoall",
                                                             "RetiredDeepEp"};
};
template <>
struct EnumNames<Dsv4AttentionKind> {
  static constexpr std::string_view kType = "DeepSeek-V4 attention kind";
  static constexpr std::array<std::string_view, 2> kNames = {"Csa", "Hca"};
};
template <>
struct EnumNames<FpmPhase> {
  static constexpr std::string_view kType = "forward-pass phase";
  static constexpr std::array<std::string_view, 2> kNames = {"prefill", "decode"};
};
template <>
struct EnumNames<DatabaseMode> {
  static constexpr std::string_view kType = "database mode";
  static constexpr std::array<std::string_view, 5> kNames = {"SILICON", "HYBRID", "EMPIRICAL",
                                                             "SOL", "SOL_FULL"};
};
template <>
struct EnumNames<DataType> {
  static constexpr std::string_view kType = "data type";
  static constexpr std::array<std::string_view, 14> kNames = {"bfloat16",
                                                              "float16",
                                                              "fp8",
                                                              "fp8_static",
                                                              "fp8_block",
                                                              "nvfp4",
                                                              "int8",
                                                              "int4",
                                                              "w4afp8",
                                                              "w4a16_mxfp4",
                                                              "w4a8_mxfp4_mxfp8",
                                                              "w4a8_mxfp4_mxfp8_trtllm",
                                                              "w4a16_mxfp4_cutlass",
                                                              "w4a16_nvfp4"};
};
template <>
struct EnumNames<Behaviour> {
  static constexpr std::string_view kType = "behaviour";
  static constexpr std::array<std::string_view, 2> kNames = {"native", "reference"};
};

template <typename E>
concept NamedEnum = requires { EnumNames<E>::kNames; };

template <NamedEnum E>
constexpr std::string_view ToString(E value) {
  return EnumNames<E>::kNames[static_cast<std::size_t>(value)];
}

// The value spelled `name` (exact, case-sensitive), or none.
template <NamedEnum E>
constexpr std::optional<E> ParseEnum(std::string_view name) {
  for (std::size_t i = 0; i < EnumNames<E>::kNames.size(); ++i) {
    if (EnumNames<E>::kNames[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

constexpr QuantProfile Profile(GemmQuant q) {
  constexpr std::array<QuantProfile, 11> kTable = {{{2, 1, ComputeDtype::kBfloat16},
                                                    {1, 1, ComputeDtype::kBfloat16},
                                                    {0.5, 1, ComputeDtype::kBfloat16},
                                                    {1, 2, ComputeDtype::kFp8},
                                                    {1, 2, ComputeDtype::kFp8},
                                                    {1, 2, ComputeDtype::kInt8},
                                                    {1, 2, ComputeDtype::kFp8},
                                                    {1, 2, ComputeDtype::kFp8},
                                                    {0.5625, 4, ComputeDtype::kFp4},
                                                    {0.5625, 1, ComputeDtype::kBfloat16},
                                                    {0.5625, 1, ComputeDtype::kBfloat16}}};
  return kTable[static_cast<std::size_t>(q)];
}
constexpr QuantProfile Profile(MoeQuant q) {
  constexpr std::array<QuantProfile, 12> kTable = {{{2, 1, ComputeDtype::kBfloat16},
                                                    {1, 2, ComputeDtype::kFp8},
                                                    {0.5, 1, ComputeDtype::kBfloat16},
                                                    {1, 2, ComputeDtype::kFp8},
                                                    {0.5, 2, ComputeDtype::kFp8},
                                                    {0.5625, 4, ComputeDtype::kFp4},
                                                    {0.5625, 1, ComputeDtype::kBfloat16},
                                                    {0.5, 1, ComputeDtype::kBfloat16},
                                                    {0.5, 2, ComputeDtype::kFp8},
                                                    {0.5, 2, ComputeDtype::kFp8},
                                                    {0.5, 1, ComputeDtype::kBfloat16},
                                                    {0.5625, 1, ComputeDtype::kBfloat16}}};
  return kTable[static_cast<std::size_t>(q)];
}
constexpr QuantProfile Profile(FmhaQuant q) {
  constexpr std::array<QuantProfile, 3> kTable = {
      {{2, 1, ComputeDtype::kBfloat16}, {1, 2, ComputeDtype::kFp8}, {1, 2, ComputeDtype::kFp8}}};
  return kTable[static_cast<std::size_t>(q)];
}
constexpr QuantProfile Profile(KvQuant q) {
  return {q == KvQuant::kBfloat16 ? 2.0 : 1.0, 0, ComputeDtype::kNone};
}
constexpr QuantProfile Profile(CommQuant q) {
  return {q == CommQuant::kHalf ? 2.0 : 1.0, 0, ComputeDtype::kNone};
}

}  // namespace infercast
