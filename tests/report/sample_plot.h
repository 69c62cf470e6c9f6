// Made-up points for tests of plots.
#pragma once

#include <cmath>
#include <string>

#include "report/plot_data.h"

namespace infercast::testing {

// `count` points on two curves, series after series in turn; every fiftieth is picked. Speeds per
// user ascend from 5.
inline PlotData SamplePlot(int count) {
  PlotData data;
  data.title = "Llama-3.1-70B: throughput against speed";
  data.subtitle = "isl 4000, osl 1000, TTFT 2000 ms, TPOT 30 ms";
  data.tpot_target_ms = 30;
  for (int i = 0; i < count; ++i) {
    PlotPoint p;
    const bool first = i % 2 == 0;
    p.series = first ? "agg trtllm h100_sxm" : "disagg vllm h200_sxm";
    p.system = first ? "h100_sxm" : "h200_sxm";
    p.backend = first ? "trtllm" : "vllm";
    p.mode = first ? "agg" : "disagg";
    const std::string width = std::to_string(1 << (i / 2 % 4));
    p.parallel = "tp" + width + "pp1dp1etp1ep1";
    p.tokens_s_user = 5 + 150.0 * i / count;
    p.tokens_s_gpu =
        (first ? 1500 : 1800) * std::exp(-p.tokens_s_user / 60) * (0.8 + 0.2 * std::cos(i * 0.7));
    p.ttft_ms = 150.125 + i % 97;
    p.tpot_ms = 1000 / p.tokens_s_user;
    p.concurrency = 4 + i % 64;
    p.gpus = 1 << (i / 2 % 4);
    p.picked = i % 50 == 0;
    p.facts = {{"memory GiB", std::to_string(40 + i % 30)},
               {"$ per million output tokens", std::to_string(0.1 * (1 + i % 40)).substr(0, 5)}};
    p.command = "infercast estimate --model meta-llama/Meta-Llama-3.1-70B --system " + p.system +
                " --backend " + p.backend + " --isl 4000 --osl 1000 --tp-size " + width +
                " --batch-size " + std::to_string(4 + i % 64);
    for (const char* phase : {"step with prefill", "decode step"}) {
      PlotPhase made{phase, {}};
      for (const char* op :
           {"embedding", "attention norm", "qkv gemm", "attention", "proj gemm", "ffn norm",
            "gate up gemm", "activation", "down gemm", "all reduce", "logits gemm", "sampling"}) {
        const int k = static_cast<int>(made.operators.size());
        made.operators.push_back({op, 0.01 * (1 + (i + k * 7) % 23),
                                  k % 4 == 3
                                      ? "launch"
                                      : std::to_string(10 + (i * 13 + k * 31) % 90) +
                                            (k % 2 == 0 ? " % of bandwidth" : " % of compute")});
      }
      p.phases.push_back(made);
    }
    data.points.push_back(p);
  }
  return data;
}

}  // namespace infercast::testing
