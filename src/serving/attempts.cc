#include "serving/attempts.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/large_ep.h"
#include "serving/deployment.h"

namespace infercast {

namespace {

constexpr std::int64_t kScaleBlock = 128;

// A version that can be opened, and a note when it is not the one asked for.
std::optional<std::string> UsableVersion(const AttemptRequest& r, const SystemsCatalog& systems,
                                         std::vector<std::string>& notes) {
  if (!r.version || r.version->empty()) return std::nullopt;
  const Result<std::string> literal =
      systems.ResolveVersion(r.system, r.backend, *r.version, /*allow_unlisted=*/false);
  if (literal) return *literal;
  const std::optional<std::string> current = systems.LatestVersion(r.system, r.backend);
  notes.push_back(fmt::format("{} {} was not measured: priced with {}", ToString(r.backend),
                              *r.version, current.value_or("the current version")));
  return std::nullopt;
}

Result<std::shared_ptr<StepCosts>> Open(const AttemptRequest& r, const ParallelLayout& layout,
                                        const QuantOverrides& quant, DatabaseMode mode,
                                        const std::optional<std::string>& version, bool large_ep,
                                        const SystemsCatalog& systems) {
  DeploymentRequest request;
  request.model = r.model->name;
  request.system = r.system;
  request.backend = r.backend;
  request.version = version;
  request.mode = mode;
  request.behaviour = r.behaviour;
  request.build.backend = r.backend;
  request.build.quant = quant;
  request.build.nextn = r.nextn;
  request.build.layout = layout;
  IC_ASSIGN(std::shared_ptr<const Deployment> deployment,
            Deployment::Open(request, systems, r.model));
  if (large_ep) {
    IC_ASSIGN(const bool chosen,
              ChooseLargeEp(*r.model, deployment->database(), {r.needs_context, r.needs_decode},
                            nullptr, request.build));
    if (!chosen) return Fail(ErrorKind::kPerfDatabase, "no large expert parallelism here");
    IC_ASSIGN(deployment, Deployment::Open(request, systems, r.model));
  }
  IC_ASSIGN(std::shared_ptr<const Worker> worker, deployment->MakeWorker(layout));
  IC_ASSIGN(std::shared_ptr<StepCosts> costs, StepCosts::Create(std::move(worker)));
  // What the loop will ask for.
  if (r.needs_context) {
    costs->ContextOthers(1);
    costs->ContextOthers(r.isl);
    costs->ContextOthers(r.budget);
    costs->ContextAttention(r.isl, 0);
    costs->BatchingGain(2, r.isl);
    if (r.isl > r.budget) costs->ContextAttention(r.budget, r.isl - r.budget);
  }
  if (r.needs_decode) {
    for (const double g : {1.0, r.decodes}) {
      costs->DecodeOthers(g);
      costs->DecodeAttention(g, r.kv);
    }
  }
  if (!costs->status()) return std::unexpected(costs->status().error());
  return costs;
}

}  // namespace

Result<PricedWorker> OpenPriced(const AttemptRequest& r, const SystemsCatalog& systems) {
  PricedWorker out;
  const std::optional<std::string> version = UsableVersion(r, systems, out.notes);
  // Where the layout is read otherwise, and what to say about it.
  struct Reading {
    ParallelLayout layout;
    std::string note;
  };
  Reading described{r.layout, {}};
  const std::int64_t width = r.layout.moe_tp.value_or(1);
  ParallelLayout whole_experts = r.layout;
  whole_experts.moe_ep = r.layout.moe_ep.value_or(1) * width;
  whole_experts.moe_tp = 1;
  const bool split = r.model->IsMoe() && width > 1;
  const bool cut_blocks = split && r.quant.moe == MoeQuant::kFp8Block &&
                          r.model->moe_inter_size > 0 &&
                          (r.model->moe_inter_size / width) % kScaleBlock != 0;
  if (cut_blocks) {
    described = {whole_experts,
                 fmt::format("experts kept whole on {} ranks: splitting their width by {} would "
                             "cut fp8 scale blocks",
                             *whole_experts.moe_ep, width)};
  }
  // A rank reads the same share of the experts' weights whether they are split or dealt out.
  const Reading dealt_out{whole_experts,
                          fmt::format("experts split {} ways were not measured: priced as dealt "
                                      "out to {} ranks, which reads as many weights per rank",
                                      width, *whole_experts.moe_ep)};
  struct Attempt {
    DatabaseMode mode;
    const Reading* reading;
  };
  std::vector<Attempt> attempts{{DatabaseMode::kSilicon, &described}};
  if (split && !cut_blocks) attempts.push_back({DatabaseMode::kSilicon, &dealt_out});
  attempts.push_back({DatabaseMode::kHybrid, &described});

  std::optional<Error> first;
  const std::vector<QuantOverrides> ladder = AttentionLadder(r.quant);
  for (const Attempt& attempt : attempts) {
    const ParallelLayout& layout = attempt.reading->layout;
    const bool wide = layout.moe_ep.value_or(1) > 1 && r.model->IsMoe();
    for (const bool large_ep : {true, false}) {
      if (large_ep && !wide) continue;
      for (const QuantOverrides& quant : ladder) {
        Result<std::shared_ptr<StepCosts>> costs =
            Open(r, layout, quant, attempt.mode, version, large_ep, systems);
        if (!costs) {
          if (!first && !large_ep) first = costs.error();
          continue;
        }
        out.costs = *std::move(costs);
        out.mode = attempt.mode;
        if (!attempt.reading->note.empty()) out.notes.push_back(attempt.reading->note);
        if (quant.fmha != r.quant.fmha || quant.kv != r.quant.kv) {
          out.notes.push_back(
              fmt::format("attention priced as {} over a {} KV cache: {} over {} was not measured",
                          ToString(*quant.fmha), ToString(*quant.kv), ToString(*r.quant.fmha),
                          ToString(*r.quant.kv)));
        }
        if (attempt.mode == DatabaseMode::kHybrid) {
          out.notes.push_back("some operators were not measured here and are estimated");
        }
        return out;
      }
    }
  }
  return std::unexpected(*first);
}

}  // namespace infercast
