#include "search/explain_afd.h"

#include <memory>
#include <string>
#include <utility>

namespace infercast {

namespace {

constexpr const char* kAttentionSide = "_a_worker";
constexpr const char* kFfnSide = "_f_worker";

OpEntry Entry(std::string name, double latency_ms) {
  OpEntry entry;
  entry.name = std::move(name);
  entry.latency_ms = latency_ms;
  entry.source = Source::kEmpirical;
  return entry;
}

void AddPhase(std::vector<EstimatePhase>& phases, std::string name, Breakdown operators,
              PassKind kind) {
  EstimatePhase& phase = phases.emplace_back();
  phase.name = std::move(name);
  phase.operators = std::move(operators);
  phase.kind = kind;
}

void AddSides(AfdPhaseBreakdown part, const std::string& phase, PassKind kind, double layers,
              Breakdown& transfers, std::vector<EstimatePhase>& phases) {
  part.attention.Add(Entry("afd_a_side_combine", part.transfers.combine * layers));
  part.ffn.Add(Entry("afd_f_node_allgather", part.transfers.all_gather * layers));
  part.ffn.Add(Entry("afd_f_node_reducescatter", part.transfers.reduce_scatter * layers));
  AddPhase(phases, phase + kAttentionSide, std::move(part.attention), kind);
  AddPhase(phases, phase + kFfnSide, std::move(part.ffn), kind);
  transfers.Add(Entry(phase + "_afd_transfer_a2f", part.transfers.to_ffn));
  transfers.Add(Entry(phase + "_afd_transfer_f2a", part.transfers.to_attention));
  transfers.Add(
      Entry(phase + "_afd_transfer", part.transfers.to_ffn + part.transfers.to_attention));
}

}  // namespace

Status ExplainAfd(const AfdDeployment& deployment, const Workload& workload,
                  const AfdSchedule& schedule, AfdPhase phase, const AfdOptions& options,
                  std::vector<EstimatePhase>& phases) {
  IC_ASSIGN(AfdBreakdown parts, deployment.Explain(workload, schedule, phase, options));
  const double layers = static_cast<double>(deployment.attention().plan().facts.num_layers);
  Breakdown transfers;
  if (parts.prefill) {
    AddSides(*std::move(parts.prefill), "prefill", PassKind::kContext, layers, transfers, phases);
  }
  if (parts.decode) {
    AddSides(*std::move(parts.decode), "decode", PassKind::kGeneration, layers, transfers, phases);
  }
  AddPhase(phases, "comm", std::move(transfers), PassKind::kContext);
  return {};
}

Status AddAfdBounds(const AfdDeployment& deployment, const Workload& workload,
                    const AfdSchedule& schedule, AfdPhase phase, const AfdOptions& options,
                    std::vector<EstimatePhase>& phases) {
  // Sides are told by operator names, so overlapped groups stay whole.
  IC_ASSIGN(const std::shared_ptr<const RooflineTwin> attention,
            RooflineTwin::Of(deployment.attention(), false));
  IC_ASSIGN(const std::shared_ptr<const RooflineTwin> ffn,
            RooflineTwin::Of(deployment.ffn(), false));
  std::vector<EstimatePhase> light;
  const auto price = [&]() -> Status {
    IC_ASSIGN(const std::shared_ptr<const AfdDeployment> twin,
              AfdDeployment::Create(attention->rooflines(), ffn->rooflines(), deployment.layout()));
    return ExplainAfd(*twin, workload, schedule, phase, options, light);
  };
  Status status = price();
  if (!status) light.clear();
  for (EstimatePhase& p : phases) {
    AddBounds(p.name.ends_with(kFfnSide) ? *ffn : *attention, PhaseNamed(light, p.name), nullptr,
              p);
  }
  return status;
}

}  // namespace infercast
