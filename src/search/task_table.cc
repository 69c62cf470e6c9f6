#include "search/task_table.h"

namespace infercast {

PickRow PickRowOf(const TaskRow& row) {
  PickRow out;
  const auto common = [&](const auto& r) {
    out.ttft = r.ttft;
    out.tpot = r.tpot;
    out.request_latency = r.request_latency;
    out.tokens_s_gpu = r.tokens_s_gpu;
    out.tokens_s_user = r.tokens_s_user;
    out.seq_s = r.seq_s;
    out.concurrency = r.concurrency;
    out.num_total_gpus = r.num_total_gpus;
  };
  if (const AggregatedRow* r = row.aggregated()) {
    common(*r);
    out.group = r->worker->parallel;
  } else if (const DisaggregatedRow* r = row.disaggregated()) {
    common(*r);
    out.group = r->decode.worker->parallel;
  } else {
    common(*row.afd());
    out.group = row.afd()->layout.Text();
  }
  if (row.score) {
    out.ttft = row.score->ttft;
    out.tpot = row.score->tpot;
    out.request_latency = row.score->request_latency;
    out.tokens_s_gpu = row.score->tokens_s_gpu;
    out.tokens_s_user = row.score->tokens_s_user;
    out.seq_s = row.score->seq_s;
  }
  return out;
}

}  // namespace infercast
