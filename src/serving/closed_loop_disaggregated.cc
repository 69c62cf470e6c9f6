// The closed loop over two pools: prefill workers serve one shared line of prompts, each prompt's
// KV cache then travels to the decode worker with the fewest requests.
//
// Method: discrete events (a prompt arrives, a prefill step ends, a KV cache arrives, requests of a
// decode worker end), taken in order of time and, at equal times, of their making. A decode worker
// runs at one step's price until that may have changed: until 64 steps are over or enough of its
// requests were exchanged for others: a single one, or, where very many are in flight, one in 64,
// which moves the price little. Requests leave and join at the step they would, whatever the price
// was taken from.
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>

#include "serving/clients.h"
#include "serving/closed_loop.h"
#include "serving/loop_statistics.h"
#include "serving/pool_limits.h"
#include "serving/rank_state.h"
#include "serving/wave_watch.h"

namespace infercast {

namespace {

constexpr std::int64_t kLongestJump = 64;
// Up to this many in flight, or where the number of requests is given, every request that joins or
// ends changes the price; beyond, one in as many of those that run does not yet.
constexpr std::int64_t kAlwaysPriced = 256;
constexpr std::int64_t kShareToReprice = 64;

// When something happens; the order of making decides between equal times.
struct Moment {
  double time = std::numeric_limits<double>::infinity();
  std::uint64_t order = 0;

  bool operator<(const Moment& other) const {
    return time != other.time ? time < other.time : order < other.order;
  }
};

// The next moment of each of a few workers, and the earliest of all: a tournament whose winners are
// kept, so that a change replays one path.
class Agenda {
 public:
  explicit Agenda(std::size_t workers)
      : leaves_(std::bit_ceil(std::max<std::size_t>(workers, 1))),
        moments_(leaves_),
        winners_(2 * leaves_) {
    for (std::size_t i = 0; i < leaves_; ++i) winners_[leaves_ + i] = static_cast<std::uint32_t>(i);
    for (std::size_t i = leaves_ - 1; i > 0; --i) winners_[i] = winners_[2 * i];
  }
  void Set(std::size_t worker, Moment moment) {
    moments_[worker] = moment;
    for (std::size_t i = (leaves_ + worker) / 2; i > 0; i /= 2) {
      const std::uint32_t a = winners_[2 * i], b = winners_[2 * i + 1];
      winners_[i] = moments_[b] < moments_[a] ? b : a;
    }
  }
  void Clear(std::size_t worker) { Set(worker, {}); }
  std::size_t first() const { return winners_[1]; }
  const Moment& moment() const { return moments_[first()]; }

 private:
  std::size_t leaves_;
  std::vector<Moment> moments_;
  std::vector<std::uint32_t> winners_;
};

struct Transfer {
  Moment moment;
  std::uint32_t request = 0;

  bool operator>(const Transfer& other) const { return other.moment < moment; }
};

// First in, first out; its memory is used again.
class RequestLine {
 public:
  bool empty() const { return head_ == items_.size(); }
  std::uint32_t front() const { return items_[head_]; }
  void push_back(std::uint32_t request) { items_.push_back(request); }
  void pop_front() {
    if (++head_ < items_.size()) return;
    items_.clear();
    head_ = 0;
  }

 private:
  std::vector<std::uint32_t> items_;
  std::size_t head_ = 0;
};

struct DecodeRank {
  RunningLengths running;
  RequestLine line;  // KV cache here, not yet in a step
  double reserved = 0;
  std::int64_t admitted = 0;
};

struct DecodeWorker {
  std::vector<DecodeRank> ranks;
  std::vector<RankLoad> loads;
  std::vector<std::int64_t> rank_requests;
  EndHeap ends;
  bool busy = false;
  std::int64_t tick = 0;      // at the start of the jump
  std::int64_t jump_end = 0;  // tick
  double started = 0, step_ms = 0;
  double accounted = 0;      // time up to which running_time_ counts it
  std::int64_t changes = 0;  // joined or ended since it was priced
  std::int64_t changes_to_price = 1;
  std::int64_t next_tick = 0;  // of its moment on the agenda

  double TimeOf(std::int64_t at) const {
    return started + static_cast<double>(at - tick) * step_ms;
  }
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
        watch_(load),
        loose_(load.concurrency > kAlwaysPriced && load.requests == 0),
        prefill_(static_cast<std::size_t>(pools.prefill_workers)),
        idle_prefills_(prefill_.size()),
        decode_(static_cast<std::size_t>(pools.decode_workers)),
        decode_requests_(decode_.size()),
        prefill_loads_(RanksOf(*pools.prefill)),
        agenda_(prefill_.size() + decode_.size()) {
    arrival_order_.reserve(requests_.size());
    for (DecodeWorker& w : decode_) {
      w.ranks.resize(RanksOf(*pools.decode));
      w.loads.resize(w.ranks.size());
      w.rank_requests.resize(w.ranks.size());
    }
  }

  Result<ServingForecast> Run() {
    clients_.Start();
    while (arrival_order_.size() < clients_.sent()) arrival_order_.push_back(order_++);
    while (ended_ < requests_.size()) {
      if (!Happen()) return Fail(ErrorKind::kInternal, "requests were lost between the pools");
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
    return Sum(requests_, load_, corrections_, totals);
  }

 private:
  static std::size_t RanksOf(const StepCosts& costs) {
    return static_cast<std::size_t>(std::max<std::int64_t>(costs.worker().plan().layout.dp, 1));
  }

  // Requests arrive in the order in which they are sent.
  Moment NextArrival() const {
    if (arrived_ == arrival_order_.size()) return {};
    return {requests_[arrived_].received, arrival_order_[arrived_]};
  }

  // The earliest event. False: there is none.
  bool Happen() {
    const Moment arrival = NextArrival();
    const Moment& worker = agenda_.moment();
    const Moment transfer = transfers_.empty() ? Moment{} : transfers_.top().moment;
    if (arrival < worker && arrival < transfer) {
      now_ = arrival.time;
      requests_[arrived_++].seen = now_;
      // The burst of the first moment is taken together.
      if (!(NextArrival().time <= now_) || Earlier(NextArrival())) StartPrefills();
      return true;
    }
    if (transfer < worker) {
      now_ = transfer.time;
      const std::uint32_t request = transfers_.top().request;
      transfers_.pop();
      Assign(request);
      return true;
    }
    if (!(worker.time < std::numeric_limits<double>::infinity())) return false;
    now_ = worker.time;
    const std::size_t index = agenda_.first();
    if (index < prefill_.size()) {
      EndPrefill(index);
      StartPrefills();
    } else {
      EndRequests(index - prefill_.size());
    }
    return true;
  }

  // Whether something else comes before that arrival.
  bool Earlier(const Moment& arrival) const {
    return agenda_.moment() < arrival || (!transfers_.empty() && transfers_.top().moment < arrival);
  }

  void StartPrefills() {
    for (std::size_t w = 0; idle_prefills_ > 0 && started_ < arrived_; ++w) {
      if (!prefill_[w].busy) StartPrefill(w);
    }
  }

  // Prompts from the head of the line to the emptiest rank, while that has room for one more.
  void StartPrefill(std::size_t w) {
    PrefillWorker& worker = prefill_[w];
    worker.first = started_;
    for (RankLoad& load : prefill_loads_) load = {};
    const BatchPolicy& policy = pools_.prefill_policy;
    while (started_ < arrived_) {
      const auto rank = std::ranges::min_element(
          prefill_loads_, {}, [](const RankLoad& l) { return l.context.tokens; });
      RequestTrace& r = requests_[started_];
      const std::int64_t tokens = r.isl - load_.prefix;
      const bool full = policy.max_requests > 0 && rank->context.chunks >= policy.max_requests;
      const bool spent = rank->context.tokens + tokens > policy.token_budget;
      if (rank->context.chunks > 0 && (full || spent)) break;
      ++rank->context.chunks;
      rank->context.tokens += tokens;
      rank->context.attention_alone += pools_.prefill->ContextAttention(
          static_cast<double>(tokens), static_cast<double>(load_.prefix));
      r.started = now_;
      ++started_;
    }
    worker.last = started_;
    worker.busy = true;
    --idle_prefills_;
    ++steps_;
    ++context_steps_;
    agenda_.Set(w, {now_ + pools_.prefill->StepMs(prefill_loads_, corrections_.step), order_++});
  }

  void EndPrefill(std::size_t w) {
    PrefillWorker& worker = prefill_[w];
    worker.busy = false;
    ++idle_prefills_;
    agenda_.Clear(w);
    for (std::size_t i = worker.first; i < worker.last; ++i) {
      RequestTrace& r = requests_[i];
      r.prefilled = now_;
      r.first = now_ + corrections_.transfer_ms_per_1000 * static_cast<double>(r.isl) / 1000;
      patience_.Waited(r.first - r.sent);
      watch_.First(i, r.first - r.sent);
      transfers_.push({{r.first, order_++}, static_cast<std::uint32_t>(i)});
    }
  }

  void Assign(std::uint32_t request) {
    RequestTrace& r = requests_[request];
    if (r.ticks == 0) {
      Ended(request);
      return;
    }
    const auto index = static_cast<std::size_t>(std::ranges::min_element(decode_requests_) -
                                                decode_requests_.begin());
    DecodeWorker& w = decode_[index];
    const auto k = static_cast<std::size_t>(std::ranges::min_element(w.rank_requests) -
                                            w.rank_requests.begin());
    ++w.rank_requests[k];
    ++decode_requests_[index];
    r.rank = static_cast<std::uint32_t>(k);
    DecodeRank& rank = w.ranks[k];
    if (!w.busy) {
      rank.line.push_back(request);
      StartJump(index);
      return;
    }
    // It joins at the end of the step that is running.
    std::int64_t at = w.jump_end;
    if (w.step_ms > 0) {
      const auto steps = std::max<std::int64_t>(
          1, static_cast<std::int64_t>(std::ceil((now_ - w.started) / w.step_ms)));
      at = std::min(at, w.tick + steps);
    }
    if (++w.changes < w.changes_to_price && rank.line.empty() && Admit(rank, r)) {
      Count(w, now_);
      Join(w, rank, request, at);
      Schedule(index);
      return;
    }
    rank.line.push_back(request);
    if (w.changes >= w.changes_to_price && at < w.jump_end) {
      w.jump_end = at;
      Schedule(index);
    }
  }

  bool Admit(DecodeRank& rank, const RequestTrace& r) {
    const KvSpace& kv = pools_.decode_kv;
    if (kv.limited && rank.admitted > 0 && rank.reserved + r.reserve > kv.bytes) return false;
    rank.reserved += r.reserve;
    ++rank.admitted;
    peak_reserved_ = std::max(peak_reserved_, rank.reserved);
    return true;
  }

  void Join(DecodeWorker& w, DecodeRank& rank, std::uint32_t request, std::int64_t tick) {
    RequestTrace& r = requests_[request];
    r.joined = now_;  // from here on Count() has it among those that run
    rank.running.Join(tick, static_cast<double>(r.isl) + 1, load_.progress);
    w.ends.Push(tick + r.ticks, request);
  }

  void AdmitLine(DecodeWorker& w, DecodeRank& rank, std::int64_t tick) {
    while (!rank.line.empty() && Admit(rank, requests_[rank.line.front()])) {
      Join(w, rank, rank.line.front(), tick);
      rank.line.pop_front();
    }
  }

  // Time of running requests up to `until`.
  void Count(DecodeWorker& w, double until) {
    running_time_ += static_cast<double>(w.ends.size()) * (until - w.accounted);
    w.accounted = until;
  }

  // The next time at which requests of the worker end or its price does.
  void Schedule(std::size_t index) {
    DecodeWorker& w = decode_[index];
    const std::int64_t next = std::min(w.jump_end, w.ends.NextTick());
    if (next == w.next_tick) return;
    w.next_tick = next;
    agenda_.Set(prefill_.size() + index, {w.TimeOf(next), order_++});
  }

  // Prices the worker's steps from now on.
  void StartJump(std::size_t index) {
    DecodeWorker& w = decode_[index];
    for (std::size_t i = 0; i < w.ranks.size(); ++i) {
      DecodeRank& rank = w.ranks[i];
      AdmitLine(w, rank, w.tick);
      w.loads[i] = {};
      w.loads[i].decodes = rank.running.size();
      w.loads[i].mean_kv = rank.running.MeanAt(w.tick, load_.progress);
    }
    const std::int64_t running = w.ends.size();
    w.busy = running > 0;
    w.next_tick = -1;
    if (!w.busy) {
      agenda_.Clear(prefill_.size() + index);
      return;
    }
    w.changes = 0;
    w.changes_to_price = 1 + (loose_ ? running / kShareToReprice : 0);
    w.started = w.accounted = now_;
    w.step_ms = pools_.decode->StepMs(w.loads, corrections_.step);
    w.jump_end = w.tick + kLongestJump;
    Schedule(index);
  }

  // The worker has come to the tick of its moment.
  void EndRequests(std::size_t index) {
    DecodeWorker& w = decode_[index];
    const std::int64_t tick = w.next_tick;
    Count(w, now_);
    while (w.ends.NextTick() <= tick) {
      const std::uint32_t request = w.ends.Pop();
      // Thousands of others were touched since the next one was.
      if (w.ends.size() > 0) __builtin_prefetch(&requests_[w.ends.NextRequest()], 1);
      RequestTrace& r = requests_[request];
      const std::uint32_t k = r.rank;
      DecodeRank& rank = w.ranks[k];
      rank.running.Leave(tick - r.ticks, static_cast<double>(r.isl) + 1, load_.progress);
      rank.reserved = --rank.admitted == 0 ? 0 : rank.reserved - r.reserve;
      --w.rank_requests[k];
      --decode_requests_[index];
      ++w.changes;
      if (w.changes < w.changes_to_price) AdmitLine(w, rank, tick);
      Ended(request);
    }
    if (tick < w.jump_end && w.changes < w.changes_to_price) {
      Schedule(index);
      return;
    }
    steps_ += tick - w.tick;
    w.tick = tick;
    StartJump(index);
  }

  void Ended(std::uint32_t request) {
    RequestTrace& r = requests_[request];
    r.ended = now_;
    ++ended_;
    if (clients_.Next(now_)) arrival_order_.push_back(order_++);
    if (watch_.Ended(request, now_ - r.sent, clients_.sent())) requests_.resize(clients_.sent());
  }

  struct PrefillWorker {
    bool busy = false;
    std::size_t first = 0, last = 0;  // requests of its step
  };

  const DisaggregatedPools& pools_;
  const ServingCorrections& corrections_;
  const LoadSpec& load_;
  std::vector<RequestTrace> requests_;  // in order of sending; fewer once they are enough
  Clients clients_;
  Patience patience_;
  WaveWatch watch_;
  bool loose_;  // a few changes leave a price as it is
  std::vector<PrefillWorker> prefill_;
  std::size_t idle_prefills_;
  std::vector<DecodeWorker> decode_;
  std::vector<std::int64_t> decode_requests_;  // by worker
  std::vector<RankLoad> prefill_loads_;
  Agenda agenda_;  // prefill workers, then decode workers
  std::priority_queue<Transfer, std::vector<Transfer>, std::greater<>> transfers_;
  std::vector<std::uint64_t> arrival_order_;  // by request, of those sent
  std::size_t arrived_ = 0, started_ = 0;     // requests; those between stand in the line
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
  IC_RETURN_IF_ERROR(CheckWorkers("prefill workers", pools.prefill_workers));
  IC_RETURN_IF_ERROR(CheckWorkers("decode workers", pools.decode_workers));
  if (pools.decode_kv.limited && !(pools.decode_kv.bytes > 0)) {
    return Fail(ErrorKind::kDoesNotFit,
                "weights and buffers of the decode workers leave no memory for the KV cache");
  }
  return Pools(pools, corrections, load).Run();
}

}  // namespace infercast
