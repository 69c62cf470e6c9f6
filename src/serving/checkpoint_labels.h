// From the labels of a deployment ("Llama-3.1-70B, fp8") to what its checkpoint stores and its
// engine runs.
//
// Labels are short; checkpoints are not. An "fp8" Llama is a static per-tensor checkpoint, an "fp4"
// gpt-oss keeps its dense parts in 16 bits, block-scaled kernels serve what plain fp8 would name on
// Hopper. The table was found by comparing measured deployments with each reading; every departure
// from the label is told in a note.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "hardware/system_spec.h"
#include "models/checkpoint.h"
#include "models/quantisation.h"

namespace infercast {

struct CheckpointLabel {
  std::string model;      // as published
  std::string precision;  // bf16, fp8, fp4; may be empty
  QuantOverrides quant;   // as labelled; absent parts follow from the precision
  Backend backend = Backend::kTrtllm;
};

struct ResolvedCheckpoint {
  std::string model;     // bundled name
  QuantOverrides quant;  // all set, or none beyond the label's: the checkpoint decides
  std::vector<std::string> notes;
};

// The bundled configuration that serves for a published name: spelling, renamed organisations,
// number-format suffixes, instruction-tuned variants of the same shape. Empty when there is none.
std::string BundledNameFor(std::string_view model, std::string_view precision,
                           const std::vector<std::string>& bundled);

// kUnknownName when no configuration serves.
Result<ResolvedCheckpoint> ResolveCheckpoint(const CheckpointLabel& label, const SystemSpec& system,
                                             const std::vector<std::string>& bundled);

// Number formats of attention to try in turn, when the first was not measured: as resolved, 16-bit
// attention over the same KV cache, 16 bits for both.
std::vector<QuantOverrides> AttentionLadder(const QuantOverrides& quant);

}  // namespace infercast
