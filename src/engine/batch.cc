#include "engine/batch.h"

namespace infercast {
namespace {

template <typename Answer, typename Shape, typename Ask>
std::vector<Result<Answer>> ForEach(std::span<const Shape> shapes, Ask ask) {
  std::vector<Result<Answer>> answers;
  answers.reserve(shapes.size());
  for (const Shape& shape : shapes) answers.push_back(ask(shape));
  return answers;
}

}  // namespace

std::vector<Result<StaticCost>> StaticBatches(const Engine& engine,
                                              std::span<const StaticRequest> requests) {
  return ForEach<StaticCost>(requests, [&](const StaticRequest& request) {
    return engine.RunStatic(request.shape, request.mode, request.stride);
  });
}

std::vector<Result<MixedCost>> MixedSteps(const Engine& engine,
                                          std::span<const MixedShape> shapes) {
  return ForEach<MixedCost>(shapes,
                            [&](const MixedShape& shape) { return engine.MixedStep(shape); });
}

std::vector<Result<StepCost>> DecodeSteps(const Engine& engine,
                                          std::span<const DecodeShape> shapes) {
  return ForEach<StepCost>(shapes, [&](const DecodeShape& shape) {
    return engine.DecodeStep(shape.decodes, shape.isl, shape.osl, shape.generation_imbalance);
  });
}

}  // namespace infercast
