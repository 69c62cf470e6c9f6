// Many shapes in one call: each is answered as if asked alone, failures included, in the order of
// the shapes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"

namespace infercast {

struct StaticRequest {
  RuntimeShape shape;
  StaticMode mode = StaticMode::kBoth;
  std::uint32_t stride = kDecodeStride;
};
struct DecodeShape {
  std::uint32_t decodes = 0;
  std::uint32_t isl = 1;
  std::uint32_t osl = 1;
  double generation_imbalance = 1.0;
};

std::vector<Result<StaticCost>> StaticBatches(const Engine& engine,
                                              std::span<const StaticRequest> requests);
std::vector<Result<MixedCost>> MixedSteps(const Engine& engine, std::span<const MixedShape> shapes);
std::vector<Result<StepCost>> DecodeSteps(const Engine& engine,
                                          std::span<const DecodeShape> shapes);

}  // namespace infercast
