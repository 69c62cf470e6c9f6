#include "search/afd_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "models/mode_adjustment.h"
#include "search/estimate_setup.h"
#include "search/explain_afd.h"
#include "search/task_resolution.h"
#include "serving/afd_simulation.h"

namespace infercast {

namespace {

// The two sides of one split, experts as the fused block on the FFN side.
Result<std::shared_ptr<const AfdDeployment>> BuildSides(EstimateSetup setup, AfdPhase phase,
                                                        const AfdLayout& layout,
                                                        std::shared_ptr<const ModelConfig> model,
                                                        std::vector<std::string>& notes) {
  BuildOptions& build = setup.deploy.build;
  const WorkerRole role = phase == AfdPhase::kDecode    ? WorkerRole::kDecode
                          : phase == AfdPhase::kPrefill ? WorkerRole::kPrefill
                                                        : WorkerRole::kAggregated;
  build.layout = layout.AttentionParallel();
  IC_RETURN_IF_ERROR(AdjustForEstimate(*model, setup.database, role, build, notes));
  IC_ASSIGN(const std::shared_ptr<const Deployment> deployment,
            Deployment::Open(setup.deploy, setup.database, std::move(model)));
  IC_ASSIGN(std::shared_ptr<const Worker> attention, deployment->MakeWorker(build));
  build.layout = layout.FfnParallel();
  IC_ASSIGN(std::shared_ptr<const Worker> ffn, deployment->MakeWorker(build));
  return AfdDeployment::Create(std::move(attention), std::move(ffn), layout);
}

// Joins the row of one phase with the undivided worker of the other: the slower of the two sets the
// rate.
void Combine(const StaticRow& partner, bool partner_prefills, Behaviour behaviour, AfdRow& row) {
  const double afd_rate = partner_prefills ? row.seq_s
                          : row.ttft > 0 ? static_cast<double>(row.total_batch) / (row.ttft / 1000)
                                         : 0;
  if (partner_prefills) {
    row.ttft = partner.ttft;
  } else {
    row.tpot = partner.tpot;
    row.concurrency = partner.concurrency;
  }
  double rate = 0;
  for (const double r : {afd_rate, partner.seq_s}) {
    if (r > 0) rate = rate > 0 ? std::min(rate, r) : r;
  }
  row.seq_s = rate;
  // The reference keeps the rate of the divided part alone.
  if (behaviour == Behaviour::kNative) row.request_rate = rate;
  row.request_latency =
      row.ttft + row.tpot * static_cast<double>(std::max<std::int64_t>(row.osl - 1, 0));
  row.num_total_gpus += partner.num_total_gpus;
  row.tokens_s = rate * static_cast<double>(row.osl);
  row.tokens_s_gpu =
      row.num_total_gpus > 0 ? row.tokens_s / static_cast<double>(row.num_total_gpus) : 0;
  row.tokens_s_user = row.tpot > 0 ? 1000 / row.tpot : 0;
  row.memory = std::max(row.memory, partner.memory.total);
  row.partner = AfdStaticPartner{.worker = partner.worker,
                                 .prefills = partner_prefills,
                                 .workers = 1,
                                 .bs = partner.bs,
                                 .gpus_per_worker = partner.num_total_gpus};
  if (behaviour == Behaviour::kReference) RoundAsReported(row);
}

Result<AfdLayout> LayoutOf(const EstimateRequest& request, const SystemSpec& system) {
  const AfdSizes& sizes = request.afd;
  AfdLayout layout;
  layout.attention_nodes = *sizes.n_a_nodes;
  layout.ffn_nodes = *sizes.n_f_nodes;
  layout.gpus_per_node = system.num_gpus_per_node;
  layout.attention_tp = sizes.a_tp;
  layout.expert_parallel = sizes.f_moe_ep;
  layout.comm_overhead = sizes.comm_overhead_factor;
  layout.boundary_on_attention = sizes.boundary_on_attn;
  IC_RETURN_IF_ERROR(CheckAfdLayout(layout));
  return layout;
}

}  // namespace

Result<PointEstimate> EstimateAfdPoint(const EstimateRequest& request, Workbench& bench) {
  const AfdSizes& sizes = request.afd;
  if (!sizes.n_a_nodes || !sizes.n_f_nodes) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("mode afd needs the number of {} nodes (--{})",
                            sizes.n_a_nodes ? "FFN" : "attention",
                            sizes.n_a_nodes ? "n-f-nodes" : "n-a-nodes"));
  }
  if (sizes.combined_with_pd && sizes.phase == AfdPhase::kBoth) {
    return Fail(ErrorKind::kInvalidArgument,
                "AFD over both phases leaves none for an undivided worker: serve one phase, or do "
                "not combine (--no-afd-combined-with-pd)");
  }
  if (request.forward_model == ForwardModel::kWholeForward) {
    return Fail(ErrorKind::kInvalidArgument,
                "a forward pass that was measured as a whole cannot be split into attention and "
                "FFN nodes");
  }
  const AfdSchedule schedule{sizes.a_batch, sizes.microbatches, sizes.pipeline};
  IC_RETURN_IF_ERROR(CheckAfdSchedule(schedule));

  IC_ASSIGN(const std::shared_ptr<const ModelConfig> model, bench.Model(request.model));
  IC_ASSIGN(const Speculation speculation,
            ResolveSpeculation(request.nextn, request.nextn_accepted, *model));
  IC_ASSIGN(EstimateSetup setup, SetUpEstimate(request, request.system, speculation, bench));
  IC_ASSIGN(const AfdLayout layout, LayoutOf(request, setup.database.system()));

  PointEstimate out;
  out.mode = EstimateMode::kAfd;
  out.version = setup.database.store().identity().version;
  IC_ASSIGN(const std::shared_ptr<const AfdDeployment> deployment,
            BuildSides(std::move(setup), sizes.phase, layout, model, out.notes));
  const AfdOptions options{request.memory_fraction, request.max_seq_len};
  IC_ASSIGN(AfdRow row, deployment->Evaluate(request.workload, schedule, sizes.phase, options));
  if (!row.fits()) {
    const bool attention = !row.attention_memory.verdict.fits();
    const AfdSideMemory& side = attention ? row.attention_memory : row.ffn_memory;
    return Fail(ErrorKind::kDoesNotFit,
                fmt::format("the {} side of {} does not fit {} as {}: {:.1f} GiB are needed per "
                            "GPU{}; {}",
                            attention ? "attention" : "FFN", request.model, request.system,
                            layout.Text(), side.usage.total,
                            side.verdict.oom ? "" : ", more KV cache than the engine may use",
                            attention ? "lower --a-batch-size or raise --a-tp-size"
                                      : "raise --n-f-nodes or lower --a-batch-size"));
  }
  const bool reference = request.behaviour == Behaviour::kReference;
  row.combined_with_static = sizes.combined_with_pd;
  ProjectSpeculation(row, speculation.accepted, reference);
  out.workers = {deployment->attention_worker(), deployment->ffn_worker()};

  out.afd_memory = AfdPoolMemory{.attention = row.attention_memory.usage,
                                 .feed_forward = row.ffn_memory.usage,
                                 .kv_oom = row.attention_memory.verdict.kv_oom};
  IC_RETURN_IF_ERROR(
      ExplainAfd(*deployment, request.workload, schedule, sizes.phase, options, out.phases));
  if (request.bounds) {
    const Status bounded =
        AddAfdBounds(*deployment, request.workload, schedule, sizes.phase, options, out.phases);
    if (!bounded) out.notes.push_back(BoundsUnknown(bounded.error()));
  }

  if (sizes.combined_with_pd) {
    const bool prefills = sizes.phase == AfdPhase::kDecode;
    EstimateRequest undivided = request;
    undivided.mode = prefills ? EstimateMode::kStaticContext : EstimateMode::kStaticGen;
    IC_ASSIGN(PointEstimate partner, EstimatePoint(undivided, bench));
    if (partner.out_of_memory) {
      return Fail(
          ErrorKind::kDoesNotFit,
          fmt::format("the undivided {} worker of {} does not fit {} as {}: {:.1f} GiB are "
                      "needed per GPU; lower --batch-size or raise --tp-size",
                      prefills ? "prefill" : "decode", request.model, request.system,
                      partner.static_row->worker->parallel, partner.static_row->memory.total));
    }
    Combine(*partner.static_row, prefills, request.behaviour, row);
    for (EstimatePhase& phase : partner.phases) {
      phase.name = prefills ? "prefill" : "decode";
      phase.share = 0;  // of that worker, not of the deployment
      out.phases.push_back(std::move(phase));
    }
    out.workers.insert(out.workers.end(), partner.workers.begin(), partner.workers.end());
    out.notes.insert(out.notes.end(), partner.notes.begin(), partner.notes.end());
  }
  out.row = TaskRow{row, std::nullopt};
  return out;
}

}  // namespace infercast
