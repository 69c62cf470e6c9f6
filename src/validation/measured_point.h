// One measured serving benchmark: what was deployed, what load it got, what was seen.
//
// Read from CSV with a header. Two spellings of the columns are understood and may be mixed: those
// of the public collection of measured points (silicon_ttft_ms, model_path, prefill_tp_size ...)
// and plain ones (ttft_ms, model, concurrency ...). Columns may be missing or empty; what that
// means for a forecast is said later (repairs.h), not here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace infercast {

// Widths as written; absent where the cell is empty.
struct MeasuredWorker {
  std::optional<std::int64_t> batch, workers, tp, pp, dp, moe_tp, moe_ep;
};

struct MeasuredPoint {
  std::size_t line = 0;  // in its file, 1 is the header
  std::string id;
  std::string source;  // provenance, free text
  std::string backend, version, model, system, precision;
  std::string mode;                 // agg or disagg; empty: agg
  std::string gemm, moe, kv, fmha;  // number formats as labelled
  std::optional<std::int64_t> isl, osl, prefix, concurrency;
  std::optional<double> rate;            // requests per second
  std::optional<std::int64_t> requests;  // sent in all
  std::optional<double> shortest;        // lengths from this share of isl and osl on
  MeasuredWorker worker, prefill, decode;
  std::optional<std::int64_t> nextn;
  std::optional<double> nextn_accepted;
  std::optional<double> ttft_ms, tpot_ms;
};

// kBadModelConfig-class errors do not exist here: a cell that is no number counts as empty, with a
// warning. kInvalidArgument when no known column is there at all.
struct MeasuredFile {
  std::vector<MeasuredPoint> points;
  std::vector<std::string> warnings;
};
Result<MeasuredFile> ParseMeasuredCsv(std::string_view text);

// The value of `key` in "a=1; key=value; c=3"; empty when it is not there.
std::string ProvenanceField(std::string_view source, std::string_view key);

}  // namespace infercast
