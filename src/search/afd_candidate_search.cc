#include "search/afd_candidate_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/rounding.h"
#include "search/misses.h"

namespace infercast {

namespace {

constexpr std::int64_t kBatchStep = 8;

}  // namespace

void AfdRejections::Add(const AfdRejections& other) {
  oom += other.oom;
  fixed_batch += other.fixed_batch;
  tpot += other.tpot;
  ttft += other.ttft;
  request_latency += other.request_latency;
  prefill_combine += other.prefill_combine;
  gpu_budget += other.gpu_budget;
  low_batch_oom += other.low_batch_oom;
}

AfdCandidateSearch::AfdCandidateSearch(std::shared_ptr<const AfdDeployment> deployment,
                                       const AfdCandidate& candidate, const AfdSearchSetup& setup)
    : deployment_(std::move(deployment)),
      candidate_(candidate),
      setup_(&setup),
      capacity_(CapacityOf(*deployment_, setup.workload, candidate.micro_batches,
                           setup.choice.max_a_batch, setup.options)) {}

void AfdCandidateSearch::Correct(AfdRow& row) const {
  const double correction = setup_->choice.decode_latency_correction;
  if (correction == 1) return;
  const bool reference = setup_->behaviour == Behaviour::kReference;
  row.tpot *= correction;
  if (row.decode) row.decode->step *= correction;
  if (reference) {
    row.tpot = RoundDecimal(row.tpot, 3);
    if (row.decode) row.decode->step = RoundDecimal(row.decode->step, 3);
  }
  row.request_latency =
      row.ttft + row.tpot * static_cast<double>(std::max<std::int64_t>(row.osl - 1, 0));
  FillAfdRates(row);
  if (reference) RoundAsReported(row);
}

Result<const AfdRow*> AfdCandidateSearch::At(std::int64_t batch) {
  if (const auto found = rows_.find(batch); found != rows_.end()) return &found->second;
  const AfdSchedule schedule{batch, candidate_.micro_batches, candidate_.pipeline};
  IC_ASSIGN(AfdRow row,
            deployment_->Evaluate(setup_->workload, schedule, AfdPhase::kDecode, setup_->options));
  Correct(row);
  // The reference's search takes a step for a token, also where drafts are accepted.
  if (setup_->behaviour == Behaviour::kNative) {
    ProjectSpeculation(row, setup_->speculation.accepted, false);
  }
  return &rows_.emplace(batch, row).first->second;
}

void AfdCandidateSearch::Missed(const AfdRow& decode, const LatencyTarget& target) {
  // Prefill workers in front bring it no nearer than this.
  if (nearest_miss_ && nearest_miss_->distance <= decode.tpot / target.tpot - 1) return;
  Misses misses;
  if (setup_->prefill.empty()) {
    if (setup_->request_latency) {
      misses.Check("request latency", decode.request_latency, *setup_->request_latency);
    }
    misses.Check("GPUs", static_cast<double>(decode.num_total_gpus),
                 static_cast<double>(setup_->gpu_budget), "");
  } else {
    misses = MissesWithPrefill(decode, setup_->prefill,
                               {.gpu_budget = setup_->gpu_budget,
                                .ttft = target.ttft,
                                .request_latency = setup_->request_latency},
                               setup_->choice);
  }
  misses.Check("tpot", decode.tpot, target.tpot);
  if (!misses.any() || (nearest_miss_ && nearest_miss_->distance <= misses.distance())) return;
  nearest_miss_ = AfdMiss{misses.distance(),
                          fmt::format("batch {} in {} micro-batches: {}", decode.schedule.batch,
                                      candidate_.micro_batches, misses.Text())};
}

std::optional<AfdRow> AfdCandidateSearch::Accept(const AfdRow& decode,
                                                 const LatencyTarget& target) {
  AfdRow row = decode;
  if (!setup_->prefill.empty()) {
    std::optional<AfdRow> combined =
        CombineWithPrefill(decode, setup_->prefill,
                           {.gpu_budget = setup_->gpu_budget,
                            .ttft = target.ttft,
                            .request_latency = setup_->request_latency},
                           setup_->choice, setup_->behaviour == Behaviour::kReference);
    if (!combined) {
      ++rejections_.prefill_combine;
      Missed(decode, target);
      return std::nullopt;
    }
    row = *std::move(combined);
  }
  if (row.tpot > target.tpot) {
    ++rejections_.tpot;
  } else if (row.combined_with_static && target.ttft > 0 && row.ttft > target.ttft) {
    ++rejections_.ttft;
  } else if (setup_->request_latency && row.request_latency > *setup_->request_latency) {
    ++rejections_.request_latency;
  } else if (row.num_total_gpus > setup_->gpu_budget) {
    ++rejections_.gpu_budget;
  } else {
    return row;
  }
  Missed(decode, target);
  return std::nullopt;
}

Status AfdCandidateSearch::FixedBatch(const LatencyTarget& target, std::vector<AfdRow>& out) {
  const std::int64_t total = *setup_->choice.total_batch;
  const std::int64_t workers = deployment_->layout().AttentionWorkers();
  if (total < workers || total % workers != 0) {
    ++rejections_.fixed_batch;
    return {};
  }
  const std::int64_t batch = total / workers;
  if (batch > capacity_.attention_batch || batch > capacity_.ffn_batch) {
    ++rejections_.oom;
    return {};
  }
  IC_ASSIGN(const AfdRow* row, At(batch));
  if (!row->fits()) {
    ++rejections_.oom;
    return {};
  }
  if (auto accepted = Accept(*row, target)) out.push_back(*std::move(accepted));
  return {};
}

Status AfdCandidateSearch::AutomaticBatch(const LatencyTarget& target, std::vector<AfdRow>& out) {
  const std::int64_t raw = capacity_.ffn_batch > 0
                               ? std::min(capacity_.attention_limit, capacity_.ffn_batch)
                               : capacity_.attention_limit;
  if (raw < 1) {
    ++rejections_.oom;
    exhausted_ = true;
    return {};
  }
  // The largest batch that meets the target: latency and memory grow with it.
  const AfdRow* best = nullptr;
  std::uint64_t oom = 0;
  std::uint64_t slow = 0;
  std::int64_t low = kBatchStep;
  std::int64_t high = raw / kBatchStep * kBatchStep;
  while (low <= high) {
    const std::int64_t middle = std::max((low + high) / 2 / kBatchStep * kBatchStep, kBatchStep);
    IC_ASSIGN(const AfdRow* row, At(middle));
    if (!row->fits() || row->tpot > target.tpot) {
      ++(row->fits() ? slow : oom);
      if (row->fits()) Missed(*row, target);
      high = middle - kBatchStep;
    } else {
      best = row;
      low = middle + kBatchStep;
    }
  }
  if (best != nullptr) {
    if (auto accepted = Accept(*best, target)) out.push_back(*std::move(accepted));
  } else if (oom > 0) {
    ++rejections_.oom;
  } else if (slow > 0) {
    ++rejections_.tpot;
  }
  for (const std::int64_t batch : {1, 2, 4}) {
    if (batch > raw) break;
    IC_ASSIGN(const AfdRow* row, At(batch));
    if (!row->fits()) {
      ++rejections_.low_batch_oom;
    } else if (row->tpot > target.tpot) {
      ++rejections_.tpot;
      Missed(*row, target);
    } else if (auto accepted = Accept(*row, target)) {
      out.push_back(*std::move(accepted));
    }
  }
  return {};
}

Result<std::vector<AfdRow>> AfdCandidateSearch::RowsFor(const LatencyTarget& target) {
  std::vector<AfdRow> out;
  IC_RETURN_IF_ERROR(setup_->choice.total_batch ? FixedBatch(target, out)
                                                : AutomaticBatch(target, out));
  return out;
}

}  // namespace infercast
