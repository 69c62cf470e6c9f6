// The closed loop over two pools: prefill workers serve one shared line of prompts, each prompt's
// KV cache then travels to the decode worker with the fewest requests.
//
// Method: discrete events (a prompt arrives, a prefill step ends, a KV cache arrives, a run of
// decode steps ends), taken in order of time and, at equal times, of their making. Decode workers
// jump over equal steps; an arrival cuts the jump at the next step's end.
#include <algorithm>
#include <cmath>
#include <deque>
#include <queue>

#include "serving/clients.h"
#include "serving/closed_loop.h"
#include "serving/loop_statistics.h"
#include "serving/rank_state.h"

namespace infercast {

namespace {

constexpr std::int64_t kLongestJump = 64;

enum class EventKind : std::uint8_t { kArrival, kPrefillEnd, kTransferEnd, kDecodeEnd };

struct Event {
  double time = 0;
  std::uint64_t order = 0;
  EventKind kind = EventKind::kArrival;
  std::uint32_t subject = 0;  // request, prefill worker or decode worker
  std::uint64_t version = 0;  // of a decode worker's jump: an older one was cut short

  bool operator>(const Event& other) const {
    return time != other.time ? time > other.time : order > other.order;
  }
};

struct PrefillWorker {
  bool busy = false;
  std::vector<std::uint32_t> requests;
};

struct DecodeRank {
  RunningSet running;
  std::deque<std::uint32_t> line;  // KV cache here, not yet in a step
  double reserved = 0;
  std::int64_t admitted = 0;
  std::int64_t requests = 0;
};

struct DecodeWorker {
  std::vector<DecodeRank> ranks;
  std::vector<RankLoad> loads;
  std::int64_t requests = 0;
  std::int64_t tick = 0;
  bool busy = false;
  double started = 0, step_ms = 0;
  std::int64_t ticks = 0;
  std::uint64_t version = 0;
};

class Pools {
 public:
  Pools(const DisaggregatedPools& pools, const ServingCorrections& corrections,
        const LoadSpec& load)
      : pools_(pools),
        corrections_(corrections),
        load_(load),
        requests_(
            MakeTraces(load, pools.decode->worker().plan().facts.kv, pools.decode_kv_output_share)),
        clients_(load, corrections.front_end_ms_per_1000, requests_),
        patience_(load, corrections),
        prefill_(static_cast<std::size_t>(pools.prefill_workers)),
        decode_(static_cast<std::size_t>(pools.decode_workers)),
        prefill_loads_(RanksOf(*pools.prefill)) {
    for (DecodeWorker& w : decode_) {
      w.ranks.resize(RanksOf(*pools.decode));
      w.loads.resize(w.ranks.size());
    }
  }

  Result<ServingForecast> Run() {
    clients_.Start();
    for (std::size_t i = 0; i < clients_.sent(); ++i) PushArrival(i);
    while (ended_ < requests_.size()) {
      if (ArrivalIsNext()) {
        now_ = arrivals_.front().time;
        Arrive(arrivals_.front().subject);
      } else if (!events_.empty()) {
        const Event event = events_.top();
        events_.pop();
        now_ = event.time;
        Handle(event);
      } else {
        return Fail(ErrorKind::kInternal, "requests were lost between the pools");
      }
      if (patience_.over()) return Patience::Over();
      for (const StepCosts* costs : {pools_.prefill, pools_.decode}) {
        if (!costs->status()) return std::unexpected(costs->status().error());
      }
    }
    LoopStatistics totals;
    totals.duration = now_;
    totals.steps = steps_;
    totals.context_steps = context_steps_;
    totals.running_time = running_time_;
    totals.peak_kv_share = pools_.decode_kv.bytes > 0 ? peak_reserved_ / pools_.decode_kv.bytes : 0;
    return Sum(requests_, corrections_, totals);
  }

 private:
  static std::size_t RanksOf(const StepCosts& costs) {
    return static_cast<std::size_t>(std::max<std::int64_t>(costs.worker().plan().layout.dp, 1));
  }

  void Push(double time, EventKind kind, std::size_t subject, std::uint64_t version = 0) {
    events_.push({time, order_++, kind, static_cast<std::uint32_t>(subject), version});
  }

  // Arrivals are in order of time as they are made: they need no heap.
  void PushArrival(std::size_t request) {
    arrivals_.push_back({requests_[request].received, order_++, EventKind::kArrival,
                         static_cast<std::uint32_t>(request), 0});
  }

  bool ArrivalIsNext() const {
    if (arrivals_.empty()) return false;
    return events_.empty() || events_.top() > arrivals_.front();
  }

  void Arrive(std::uint32_t request) {
    arrivals_.pop_front();
    requests_[request].seen = now_;
    line_.push_back(request);
    // The burst of the first moment is taken together.
    if (!ArrivalIsNext() || arrivals_.front().time > now_) StartPrefills();
  }

  void Handle(const Event& event) {
    switch (event.kind) {
      case EventKind::kArrival:
        break;  // those stand in a line of their own
      case EventKind::kPrefillEnd:
        EndPrefill(prefill_[event.subject]);
        StartPrefills();
        break;
      case EventKind::kTransferEnd:
        Assign(event.subject);
        break;
      case EventKind::kDecodeEnd:
        if (event.version == decode_[event.subject].version) EndJump(event.subject);
        break;
    }
  }

  void StartPrefills() {
    for (std::size_t w = 0; w < prefill_.size() && !line_.empty(); ++w) {
      if (!prefill_[w].busy) StartPrefill(w);
    }
  }

  // Prompts from the head of the line to the emptiest rank, while that has room for one more.
  void StartPrefill(std::size_t w) {
    PrefillWorker& worker = prefill_[w];
    for (RankLoad& load : prefill_loads_) load = {};
    while (!line_.empty()) {
      const auto rank = std::ranges::min_element(
          prefill_loads_, {}, [](const RankLoad& l) { return l.context.tokens; });
      RequestTrace& r = requests_[line_.front()];
      const std::int64_t tokens = r.isl - load_.prefix;
      const BatchPolicy& policy = pools_.prefill_policy;
      const bool full = policy.max_requests > 0 && rank->context.chunks >= policy.max_requests;
      const bool spent = rank->context.tokens + tokens > policy.token_budget;
      if (rank->context.chunks > 0 && (full || spent)) break;
      ++rank->context.chunks;
      rank->context.tokens += tokens;
      rank->context.attention_alone += pools_.prefill->ContextAttention(
          static_cast<double>(tokens), static_cast<double>(load_.prefix));
      r.started = now_;
      worker.requests.push_back(line_.front());
      line_.pop_front();
    }
    worker.busy = true;
    ++steps_;
    ++context_steps_;
    Push(now_ + pools_.prefill->StepMs(prefill_loads_, corrections_.step), EventKind::kPrefillEnd,
         w);
  }

  void EndPrefill(PrefillWorker& worker) {
    worker.busy = false;
    for (const std::uint32_t request : worker.requests) {
      RequestTrace& r = requests_[request];
      r.prefilled = now_;
      r.first = now_ + corrections_.transfer_ms_per_1000 * static_cast<double>(r.isl) / 1000;
      patience_.Waited(r.first - r.sent);
      Push(r.first, EventKind::kTransferEnd, request);
    }
    worker.requests.clear();
  }

  void Assign(std::uint32_t request) {
    RequestTrace& r = requests_[request];
    if (r.ticks == 0) {
      r.ended = now_;
      Ended();
      return;
    }
    const auto worker = std::ranges::min_element(decode_, {}, &DecodeWorker::requests);
    const auto rank = std::ranges::min_element(worker->ranks, {}, &DecodeRank::requests);
    rank->line.push_back(request);
    ++rank->requests;
    ++worker->requests;
    const auto index = static_cast<std::size_t>(worker - decode_.begin());
    if (!worker->busy) {
      StartJump(index);
    } else if (worker->step_ms > 0) {
      // It joins at the end of the step that is running.
      const auto cut = std::max<std::int64_t>(
          1, static_cast<std::int64_t>(std::ceil((now_ - worker->started) / worker->step_ms)));
      if (cut < worker->ticks) {
        worker->ticks = cut;
        Push(worker->started + static_cast<double>(cut) * worker->step_ms, EventKind::kDecodeEnd,
             index, ++worker->version);
      }
    }
  }

  void StartJump(std::size_t index) {
    DecodeWorker& w = decode_[index];
    w.ticks = kLongestJump;
    std::int64_t running = 0;
    for (std::size_t i = 0; i < w.ranks.size(); ++i) {
      DecodeRank& rank = w.ranks[i];
      while (!rank.line.empty()) {
        const RequestTrace& r = requests_[rank.line.front()];
        const KvSpace& kv = pools_.decode_kv;
        if (kv.limited && rank.admitted > 0 && rank.reserved + r.reserve > kv.bytes) break;
        rank.reserved += r.reserve;
        ++rank.admitted;
        peak_reserved_ = std::max(peak_reserved_, rank.reserved);
        rank.running.Join(rank.line.front(), w.tick + r.ticks, static_cast<double>(r.isl) + 1);
        rank.line.pop_front();
      }
      w.loads[i] = {};
      w.loads[i].decodes = rank.running.size();
      w.loads[i].mean_kv = rank.running.MeanLength();
      running += rank.running.size();
      if (!rank.running.empty()) w.ticks = std::min(w.ticks, rank.running.NextEnd() - w.tick);
    }
    w.busy = running > 0;
    if (!w.busy) return;
    w.started = now_;
    w.step_ms = pools_.decode->StepMs(w.loads, corrections_.step);
    Push(now_ + static_cast<double>(w.ticks) * w.step_ms, EventKind::kDecodeEnd, index,
         ++w.version);
  }

  void EndJump(std::size_t index) {
    DecodeWorker& w = decode_[index];
    w.tick += w.ticks;
    steps_ += w.ticks;
    const auto length = [&](std::uint32_t request) {
      const RequestTrace& r = requests_[request];
      return static_cast<double>(r.isl) + 1 + static_cast<double>(r.ticks) * load_.progress;
    };
    for (DecodeRank& rank : w.ranks) {
      running_time_ += static_cast<double>(rank.running.size()) * (now_ - w.started);
      rank.running.Advance(w.ticks, load_.progress);
      while (const std::optional<std::uint32_t> request = rank.running.TakeEnded(w.tick, length)) {
        RequestTrace& r = requests_[*request];
        r.ended = now_;
        rank.reserved = --rank.admitted == 0 ? 0 : rank.reserved - r.reserve;
        --rank.requests;
        --w.requests;
        Ended();
      }
    }
    StartJump(index);
  }

  void Ended() {
    ++ended_;
    if (clients_.Next(now_)) PushArrival(clients_.sent() - 1);
  }

  const DisaggregatedPools& pools_;
  const ServingCorrections& corrections_;
  const LoadSpec& load_;
  std::vector<RequestTrace> requests_;
  Clients clients_;
  Patience patience_;
  std::vector<PrefillWorker> prefill_;
  std::vector<DecodeWorker> decode_;
  std::vector<RankLoad> prefill_loads_;
  std::deque<std::uint32_t> line_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::deque<Event> arrivals_;
  std::uint64_t order_ = 0;
  double now_ = 0;
  std::size_t ended_ = 0;
  std::int64_t steps_ = 0, context_steps_ = 0;
  double running_time_ = 0, peak_reserved_ = 0;
};

}  // namespace

Result<ServingForecast> ForecastDisaggregated(const DisaggregatedPools& pools,
                                              const ServingCorrections& corrections,
                                              const LoadSpec& load) {
  IC_RETURN_IF_ERROR(CheckLoad(load));
  IC_RETURN_IF_ERROR(CheckPolicy(pools.prefill_policy));
  if (pools.prefill_workers < 1 || pools.decode_workers < 1) {
    return Fail(ErrorKind::kInvalidArgument,
                "both pools need at least one worker: the counts are part of the question");
  }
  if (pools.decode_kv.limited && !(pools.decode_kv.bytes > 0)) {
    return Fail(ErrorKind::kDoesNotFit,
                "weights and buffers of the decode workers leave no memory for the KV cache");
  }
  return Pools(pools, corrections, load).Run();
}

}  // namespace infercast
