// Invented measurements of the dense and collective kinds, in the shape of their tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/made_up_system.h"

namespace infercast::testing {

inline Row GemmRow(std::string dtype, std::int64_t m, std::int64_t n, std::int64_t k,
                   double latency, double power) {
  return {{"gemm_dtype", std::move(dtype)},
          {"m", m},
          {"n", n},
          {"k", k},
          {"latency", latency},
          {"power", power}};
}

// Shapes in bf16 and the fp8 formats, most of them too far from others to help.
inline std::vector<Row> GemmRows() {
  std::vector<Row> rows;
  struct Point {
    std::int64_t m;
    double latency, power;
  };
  const auto add = [&](const char* dtype, std::int64_t n, std::int64_t k,
                       std::vector<Point> points) {
    for (const Point& p : points) rows.push_back(GemmRow(dtype, p.m, n, k, p.latency, p.power));
  };
  add("bfloat16", 4096, 1024,
      {{16, 0.024436, 200}, {32, 0.021791, 220}, {64, 0.018088, 250}, {128, 0.019523, 300}});
  add("bfloat16", 5120, 2048,
      {{16, 0.053002, 210}, {64, 0.048642, 260}, {256, 0.089478, 380}, {1024, 0.306783, 500}});
  add("bfloat16", 1536, 4096, {{16, 0.025526, 300}, {64, 0.026608, 300}});
  add("bfloat16", 1024, 6144, {{16, 0.051249, 150}, {64, 0.054002, 150}});
  add("bfloat16", 256, 256, {{8, 0.001393, 90}});
  add("bfloat16", 8192, 8192, {{16, 0.05, 400}, {64, 0.3, 450}});
  add("fp8", 4096, 4096,
      {{1, 0.055951, 150},
       {16, 0.048309, 180},
       {128, 0.04295, 260},
       {1024, 0.286331, 400},
       {16, 99.0, 1.0}});
  add("fp8_ootb", 1280, 4864, {{16, 0.01054, 600}, {64, 0.011032, 600}});
  return rows;
}

inline std::vector<Row> QuantisationRows(std::vector<std::vector<double>> points) {
  std::vector<Row> rows;
  for (const auto& p : points) {
    rows.push_back({{"quant_dtype", std::string("fp8")},
                    {"m", static_cast<std::int64_t>(p[0])},
                    {"k", static_cast<std::int64_t>(p[1])},
                    {"latency", p[2]},
                    {"power", p[3]}});
  }
  return rows;
}
inline std::vector<Row> ComputeScaleRows() {
  return QuantisationRows({{1, 1024, 0.0, 0.0},
                           {1, 4096, 0.001, 100},
                           {128, 1024, 0.002, 110},
                           {128, 4096, 0.004, 120},
                           {1024, 4096, 0.02, 130}});
}
inline std::vector<Row> ScaleMatrixRows() {
  return QuantisationRows({{1, 1024, 0.001, 100},
                           {1, 4096, 0.0015, 105},
                           {128, 1024, 0.003, 110},
                           {128, 4096, 0.006, 120}});
}

// Decode of 8 heads of size 128 in two lanes, batch 4.
inline Row DecodeRow(std::string lane, std::int64_t isl, std::int64_t batch, double latency,
                     double power, std::int64_t head_dim = 128) {
  return {{"kernel_source", std::move(lane)},
          {"attn_dtype", std::string("bfloat16")},
          {"kv_cache_dtype", std::string("bfloat16")},
          {"num_heads", std::int64_t{8}},
          {"num_key_value_heads", std::int64_t{8}},
          {"head_dim", head_dim},
          {"batch_size", batch},
          {"isl", isl},
          {"step", std::int64_t{1}},
          {"latency", latency},
          {"power", power}};
}

// Prefill of 8 heads, no lane.
inline Row PrefillRow(std::int64_t isl, std::int64_t batch, double latency, double power,
                      std::int64_t head_dim = 128, std::int64_t window = 0) {
  return {{"attn_dtype", std::string("bfloat16")},
          {"kv_cache_dtype", std::string("bfloat16")},
          {"num_heads", std::int64_t{8}},
          {"num_key_value_heads", std::int64_t{8}},
          {"head_dim", head_dim},
          {"window_size", window},
          {"batch_size", batch},
          {"isl", isl},
          {"latency", latency},
          {"power", power}};
}

inline Row EncoderRow(std::int64_t heads, std::int64_t isl, std::int64_t batch, double latency,
                      double power) {
  return {{"attn_dtype", std::string("bfloat16")},
          {"head_dim", std::int64_t{64}},
          {"num_heads", heads},
          {"isl", isl},
          {"batch_size", batch},
          {"latency", latency},
          {"power", power}};
}

inline Row AllReduceRow(std::int64_t gpus, std::int64_t size, double latency, double power) {
  return {{"allreduce_dtype", std::string("half")},
          {"num_gpus", gpus},
          {"message_size", size},
          {"latency", latency},
          {"power", power}};
}

// Where the made-up system keeps its library collectives, seen from a version folder.
inline constexpr const char* kNcclFolder = "../comm/nccl/2.99";

inline Row NcclRow(std::string operation, std::int64_t gpus, std::int64_t size, double latency,
                   double power) {
  return {{"op_name", std::move(operation)},
          {"nccl_dtype", std::string("half")},
          {"num_gpus", gpus},
          {"message_size", size},
          {"latency", latency},
          {"power", power}};
}
inline std::vector<Row> NcclRows() {
  return {NcclRow("all_reduce", 2, 1024, 0.01, 80), NcclRow("all_reduce", 2, 1048576, 0.02, 120),
          NcclRow("all_reduce", 2, 16777216, 0.2, 200), NcclRow("all_reduce", 4, 1024, 0.012, 80),
          NcclRow("all_reduce", 4, 16777216, 0.25, 200)};
}

}  // namespace infercast::testing
