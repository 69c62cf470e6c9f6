#include "serving/closed_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "memory/memory_usage.h"
#include "serving/clients.h"
#include "serving/loop_statistics.h"
#include "serving/rank_state.h"

namespace infercast {

namespace {

constexpr std::int64_t kLongestJump = 64;

struct Rank {
  PromptLine line;
  RunningLengths running;
  EndHeap ends;
  double reserved = 0;              // KV bytes
  std::int64_t admitted = 0;        // requests that hold memory
  std::int64_t requests = 0;        // assigned and not ended
  std::vector<PromptChunk> chunks;  // of the step being formed
};

class Loop {
 public:
  Loop(StepCosts& costs, const BatchPolicy& policy, const ServingCorrections& corrections,
       const KvSpace& kv, const LoadSpec& load)
      : costs_(costs),
        policy_(policy),
        corrections_(corrections),
        kv_(kv),
        load_(load),
        requests_(MakeTraces(load, costs.worker().plan().facts.kv, policy.kv_output_share)),
        clients_(load, corrections.front_end_ms_per_1000, requests_),
        patience_(load, corrections),
        ranks_(
            static_cast<std::size_t>(std::max<std::int64_t>(costs.worker().plan().layout.dp, 1))),
        loads_(ranks_.size()),
        since_poll_(policy.poll_interval) {}

  Result<ServingForecast> Run() {
    clients_.Start();
    while (ended_ < requests_.size()) {
      Receive();
      if (!Step()) {
        if (inbox_ == clients_.sent()) {
          return Fail(ErrorKind::kInternal, "requests were lost in the closed loop");
        }
        // Nothing to do: the scheduler spins until the next request comes.
        now_ = std::max(now_, requests_[inbox_].received);
        since_poll_ = policy_.poll_interval;
      }
      if (!costs_.status()) return std::unexpected(costs_.status().error());
      if (patience_.over()) return Patience::Over();
    }
    LoopStatistics totals;
    totals.duration = now_;
    totals.steps = steps_;
    totals.context_steps = context_steps_;
    totals.running_time = running_time_;
    totals.peak_kv_share = kv_.bytes > 0 ? peak_reserved_ / kv_.bytes : 0;
    return Sum(requests_, load_, corrections_, totals);
  }

 private:
  // Moves what has arrived to the ranks, if the scheduler looks now.
  void Receive() {
    if (since_poll_ < policy_.poll_interval) return;
    since_poll_ = 0;
    while (inbox_ < clients_.sent() && requests_[inbox_].received <= now_) {
      RequestTrace& r = requests_[inbox_];
      r.seen = now_;
      Rank& rank = ranks_[EmptiestRank()];
      rank.line.push_back({static_cast<std::uint32_t>(inbox_), r.isl - load_.prefix, 0});
      ++rank.requests;
      ++inbox_;
    }
  }

  // Ties go round.
  std::size_t EmptiestRank() {
    std::size_t best = turn_ % ranks_.size();
    for (std::size_t i = 1; i < ranks_.size(); ++i) {
      const std::size_t k = (turn_ + i) % ranks_.size();
      if (ranks_[k].requests < ranks_[best].requests) best = k;
    }
    turn_ = best + 1;
    return best;
  }

  bool Admit(Rank& rank, std::uint32_t request) {
    if (policy_.max_requests > 0 && rank.admitted >= policy_.max_requests) return false;
    const double reserve = requests_[request].reserve;
    if (kv_.limited && rank.admitted > 0 && rank.reserved + reserve > kv_.bytes) return false;
    rank.reserved += reserve;
    ++rank.admitted;
    peak_reserved_ = std::max(peak_reserved_, rank.reserved);
    return true;
  }

  std::int64_t HoldLimit() const {
    return ranks_.size() == 1 ? policy_.wait_steps : policy_.hold_steps;
  }

  // Prompts wait for every rank to have one, or for enough of them, but not for ever.
  bool HeldBack(bool any_running) const {
    if (!any_running || held_ >= HoldLimit()) return false;
    if (ranks_.size() > 1) {
      return !std::ranges::all_of(ranks_, [](const Rank& r) { return !r.line.empty(); });
    }
    // What has begun goes on: only prompts of which nothing is done wait for company.
    if (ranks_[0].line.front().done > 0) return false;
    const double enough = policy_.wait_budget_share * static_cast<double>(policy_.token_budget);
    double tokens = static_cast<double>(ranks_[0].running.size());
    for (const WaitingPrompt& prompt : ranks_[0].line) {
      tokens += static_cast<double>(prompt.tokens - prompt.done);
      if (tokens >= enough) return false;
    }
    return true;
  }

  // One step, or a jump over equal ones. False: there is nothing to run.
  bool Step() {
    bool running = false, waiting = false;
    for (const Rank& rank : ranks_) {
      running = running || !rank.running.empty();
      waiting = waiting || !rank.line.empty();
    }
    const bool held = waiting && HeldBack(running);
    bool context = false;
    for (Rank& rank : ranks_) {
      rank.chunks.clear();
      if (!waiting || held) continue;
      TakeChunks(
          policy_, rank.running.size(), rank.line,
          [&](std::uint32_t request) { return Admit(rank, request); }, rank.chunks);
      context = context || !rank.chunks.empty();
    }
    if (!context && !running) return false;
    const bool decodes = running && !(context && policy_.rule == BatchingRule::kPromptsFirst);
    FillLoads(decodes);
    const double ms = costs_.StepMs(loads_, corrections_.step);
    const std::int64_t ticks = context ? 1 : JumpLength(ms, held);
    Account(static_cast<double>(ticks) * ms, ticks, context, running);
    if (context) MarkStarts();
    now_ += static_cast<double>(ticks) * ms;
    if (decodes) tick_ += ticks;
    // Those that ended leave before the new ones join.
    if (decodes) EndRequests();
    if (context) {
      FinishPrompts();
      since_poll_ = policy_.poll_interval;
      held_ = 0;
    } else {
      since_poll_ += ticks;
      held_ = held ? held_ + ticks : held_;
    }
    return true;
  }

  void FillLoads(bool decodes) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      RankLoad& load = loads_[i];
      load = {};
      for (const PromptChunk& chunk : ranks_[i].chunks) {
        ++load.context.chunks;
        load.context.tokens += chunk.tokens;
        load.context.attention_alone +=
            costs_.ContextAttention(static_cast<double>(chunk.tokens),
                                    static_cast<double>(chunk.done_before + load_.prefix));
      }
      if (decodes) {
        load.decodes = ranks_[i].running.size();
        load.mean_kv = ranks_[i].running.MeanAt(tick_, load_.progress);
      }
    }
  }

  std::int64_t JumpLength(double ms, bool held) const {
    std::int64_t ticks = kLongestJump;
    for (const Rank& rank : ranks_) {
      if (!rank.running.empty()) ticks = std::min(ticks, rank.ends.NextTick() - tick_);
    }
    if (policy_.poll_interval > 1) {
      ticks = std::min(ticks, policy_.poll_interval - since_poll_);
    } else if (inbox_ < clients_.sent() && ms > 0) {
      const double until = std::ceil((requests_[inbox_].received - now_) / ms);
      if (until < static_cast<double>(ticks)) ticks = static_cast<std::int64_t>(until);
    }
    if (held) ticks = std::min(ticks, HoldLimit() - held_);
    return std::max<std::int64_t>(ticks, 1);
  }

  void Account(double ms, std::int64_t steps, bool context, bool running) {
    steps_ += steps;
    if (context) context_steps_ += steps;
    if (!running) return;
    for (const Rank& rank : ranks_) {
      running_time_ += ms * static_cast<double>(rank.running.size());
    }
  }

  void MarkStarts() {
    for (const Rank& rank : ranks_) {
      for (const PromptChunk& chunk : rank.chunks) {
        RequestTrace& r = requests_[chunk.request];
        if (r.started < 0) r.started = now_;
      }
    }
  }

  void FinishPrompts() {
    for (Rank& rank : ranks_) {
      for (const PromptChunk& chunk : rank.chunks) {
        if (!chunk.completes) continue;
        RequestTrace& r = requests_[chunk.request];
        r.prefilled = r.first = now_;
        patience_.Waited(r.first - r.sent);
        if (r.ticks == 0) {
          End(rank, chunk.request);
        } else {
          rank.running.Join(tick_, static_cast<double>(r.isl) + 1, load_.progress);
          rank.ends.Push(tick_ + r.ticks, chunk.request);
        }
      }
    }
  }

  void EndRequests() {
    for (Rank& rank : ranks_) {
      while (rank.ends.NextTick() <= tick_) {
        const std::uint32_t request = rank.ends.Pop();
        const RequestTrace& r = requests_[request];
        rank.running.Leave(tick_ - r.ticks, static_cast<double>(r.isl) + 1, load_.progress);
        End(rank, request);
      }
    }
  }

  void End(Rank& rank, std::uint32_t request) {
    RequestTrace& r = requests_[request];
    r.ended = now_;
    rank.reserved = --rank.admitted == 0 ? 0 : rank.reserved - r.reserve;
    --rank.requests;
    ++ended_;
    clients_.Next(now_);
  }

  StepCosts& costs_;
  const BatchPolicy& policy_;
  const ServingCorrections& corrections_;
  const KvSpace kv_;
  const LoadSpec& load_;
  std::vector<RequestTrace> requests_;  // in order of sending
  Clients clients_;
  Patience patience_;
  std::vector<Rank> ranks_;
  std::vector<RankLoad> loads_;

  double now_ = 0;
  std::int64_t tick_ = 0;  // decode steps so far
  std::size_t inbox_ = 0;  // first request not seen
  std::size_t ended_ = 0;
  std::size_t turn_ = 0;
  std::int64_t since_poll_;
  std::int64_t held_ = 0;
  std::int64_t steps_ = 0, context_steps_ = 0;
  double running_time_ = 0;
  double peak_reserved_ = 0;
};

}  // namespace

Result<KvSpace> KvSpaceOf(const Worker& worker, const BatchPolicy& policy) {
  MemoryQuery query;
  query.batch = 1;
  // Buffers of larger budgets are reused between layers: they do not grow further.
  query.num_tokens = std::min<std::int64_t>(policy.token_budget, 8192);
  query.max_seq_len = 1;
  query.mtp_scaling = false;
  IC_ASSIGN(const MemoryUsage usage, EstimateMemory(worker.memory(), worker.system(), query));
  const double non_kv = (usage.total - usage.kvcache) * kGiB;
  const double budget =
      KvBudget(static_cast<double>(worker.capacity_bytes()), non_kv, policy.memory_fraction,
               BackendMemoryOf(worker.backend()).fraction_of_free);
  // A pipeline's stages hold their own layers' share.
  return KvSpace{std::max(budget, 0.0) * static_cast<double>(worker.plan().layout.pp), true};
}

Result<ServingForecast> ForecastClosedLoop(StepCosts& costs, const BatchPolicy& policy,
                                           const ServingCorrections& corrections, const KvSpace& kv,
                                           const LoadSpec& load) {
  IC_RETURN_IF_ERROR(CheckLoad(load));
  IC_RETURN_IF_ERROR(CheckPolicy(policy));
  if (kv.limited && !(kv.bytes > 0)) {
    return Fail(ErrorKind::kDoesNotFit,
                fmt::format("weights and buffers of {} leave no memory for the KV cache on a {}",
                            costs.worker().identity().parallel, costs.worker().system().name));
  }
  return Loop(costs, policy, corrections, kv, load).Run();
}

}  // namespace infercast
