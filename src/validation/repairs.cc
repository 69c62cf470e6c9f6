#include "validation/repairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace infercast {

namespace {

// Beyond a node of 8 a plain tensor-parallel group is no deployment of the collections; widths
// above it are either the product of two widths or the GPU count of several workers.
constexpr std::int64_t kNode = 8;
// Two measurements of one configuration in one version do not differ by more than this unless one
// of them speculates.
constexpr double kSpeculationGap = 1.3;

std::int64_t Root(std::int64_t n) {
  const auto r = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(n))));
  return r * r == n ? r : 0;
}

std::int64_t Positive(const std::optional<std::int64_t>& v, const char* what,
                      std::vector<std::string>& repairs) {
  if (!v) return 1;
  if (*v >= 1) return *v;
  repairs.push_back(fmt::format("{} {} read as 1", what, *v));
  return 1;
}

// The layout that a worker's widths stand for.
ParallelLayout RepairLayout(const MeasuredWorker& w, bool moe, std::vector<std::string>& repairs) {
  ParallelLayout layout;
  std::int64_t tp = Positive(w.tp, "tp", repairs);
  std::int64_t dp = Positive(w.dp, "attention dp", repairs);
  std::int64_t etp = Positive(w.moe_tp, "moe tp", repairs);
  std::int64_t ep = Positive(w.moe_ep, "moe ep", repairs);
  layout.pp = Positive(w.pp, "pp", repairs);
  const auto say = [&](const char* why) {
    repairs.push_back(fmt::format("read as tp {} dp {} moe tp {} ep {}: {}", tp, dp, etp, ep, why));
  };
  if (!moe) {
    // Expert widths of a dense model are filler.
    layout.tp = tp;
    layout.dp = dp;
    return layout;
  }
  const bool squared = etp == ep && ep > 1 && ep * ep > kNode;
  if (squared && tp == ep * ep && dp == 1) {
    tp = ep;
    etp = 1;
    say("the width was multiplied by itself");
  } else if (squared && dp == ep * ep && tp == 1) {
    dp = ep;
    etp = 1;
    say("the width was multiplied by itself");
  } else if (tp == dp && tp > 1 && etp == 1 && Root(ep) == tp) {
    dp = tp;
    ep = tp;
    tp = 1;
    say("tensor and data parallelism repeat one width");
  } else if (etp * ep != tp * dp) {
    const std::int64_t experts = etp * ep;
    if (dp == 1 && (experts == 2 || experts == 4 || experts == 8)) {
      tp = experts;
      say("the attention width contradicts the experts' width");
    } else {
      ep = ep > 1 && (tp * dp) % ep == 0 ? ep : 1;
      etp = tp * dp / ep;
      say("the experts' width contradicts the attention width");
    }
  }
  layout.tp = tp;
  layout.dp = dp;
  layout.moe_tp = etp;
  layout.moe_ep = ep;
  return layout;
}

template <typename T>
void Need(const std::optional<T>& value, const char* what, std::vector<std::string>& missing) {
  if (!value || *value < 1) missing.emplace_back(what);
}
void Need(const std::string& value, const char* what, std::vector<std::string>& missing) {
  if (value.empty()) missing.emplace_back(what);
}

std::string Joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out;
}

RepairedPoint RepairOne(MeasuredPoint point,
                        const std::function<bool(const std::string&)>& is_moe) {
  RepairedPoint r;
  MeasuredPoint& p = point;
  r.disaggregated = p.mode == "disagg" || p.mode == "disaggregated";
  std::vector<std::string> missing;
  Need(p.model, "model", missing);
  Need(p.system, "system", missing);
  Need(p.backend, "backend", missing);
  Need(p.isl, "isl", missing);
  Need(p.osl, "osl", missing);
  if (!p.concurrency) {
    const std::string text = ProvenanceField(p.source, "silicon_concurrency");
    if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos &&
        text.size() < 9) {
      p.concurrency = std::stoll(text);
    }
  }
  const bool moe = !p.model.empty() && is_moe(p.model);
  if (!r.disaggregated) {
    if (!p.worker.tp && !p.worker.dp) missing.emplace_back("tp");
    r.worker.layout = RepairLayout(p.worker, moe, r.repairs);
    if (!p.concurrency && !p.rate && p.worker.batch) {
      p.concurrency = std::max<std::int64_t>(*p.worker.batch, 1) * r.worker.layout.dp;
      r.repairs.push_back("concurrency taken as batch size times data parallelism");
    }
    if (r.worker.layout.tp > kNode && r.worker.layout.dp == 1 &&
        r.worker.layout.moe_ep.value_or(1) == 1 && r.worker.layout.pp == 1) {
      r.unanswerable = fmt::format(
          "tp {} is the GPU count of a deployment of several workers that the row does not "
          "describe",
          r.worker.layout.tp);
    }
  } else {
    if (!p.prefill.workers || !p.decode.workers) {
      missing.emplace_back("worker counts of the prefill and decode pools");
    }
    if (!p.prefill.tp && !p.prefill.dp) missing.emplace_back("prefill tp");
    if (!p.decode.tp && !p.decode.dp) missing.emplace_back("decode tp");
    r.prefill.layout = RepairLayout(p.prefill, moe, r.repairs);
    r.decode.layout = RepairLayout(p.decode, moe, r.repairs);
    r.prefill.workers = Positive(p.prefill.workers, "prefill workers", r.repairs);
    r.decode.workers = Positive(p.decode.workers, "decode workers", r.repairs);
    if (!p.concurrency && !p.rate && p.decode.batch) {
      p.concurrency =
          std::max<std::int64_t>(*p.decode.batch, 1) * r.decode.layout.dp * r.decode.workers;
      r.repairs.push_back("concurrency taken as the decode pool's batch size");
    }
  }
  if (!p.rate && (!p.concurrency || *p.concurrency < 1)) missing.emplace_back("concurrency");
  r.concurrency = p.concurrency.value_or(0);
  if (!missing.empty()) r.unanswerable = "the row lacks " + Joined(missing);
  r.point = std::move(point);
  return r;
}

// Both measured values to four digits: a copy of a row may have passed through a spreadsheet.
std::string MeasurementKey(const MeasuredPoint& p) {
  return fmt::format("{} {} {} {:.4e} {:.4e}", p.mode, p.backend, p.system, p.ttft_ms.value_or(0),
                     p.tpot_ms.value_or(0));
}

bool IsDeepSeek(const MeasuredPoint& p) {
  return p.model.find("DeepSeek-R1") != std::string::npos ||
         p.model.find("DeepSeek-V3") != std::string::npos;
}

void MarkHiddenSpeculation(std::vector<RepairedPoint>& points) {
  const auto mark = [](RepairedPoint& r, const std::string& why) {
    r.hidden_speculation = true;
    r.marks.push_back("probably speculates without saying so: " + why);
  };
  for (RepairedPoint& r : points) {
    const MeasuredPoint& p = r.point;
    if (p.backend != "trtllm" || !IsDeepSeek(p) || p.source.starts_with("db-dump")) continue;
    if (p.version == "1.2.0rc6.post3") {
      mark(r, "image 1.2.0rc6.post3 is the benchmark's image with multi-token prediction");
    } else if (ProvenanceField(p.source, "measured").starts_with("2026-01-14")) {
      mark(r, "measured on 2026-01-14 in the un-curated collection");
    }
  }
  // Equal cells of one version that disagree.
  using Cell = std::tuple<std::string, std::string, std::string, std::string, std::string, bool,
                          std::int64_t, std::int64_t, std::int64_t, std::string>;
  std::map<Cell, double> slowest;
  const auto cell_of = [](const RepairedPoint& r) {
    const MeasuredPoint& p = r.point;
    const ParallelLayout& a = r.disaggregated ? r.decode.layout : r.worker.layout;
    return Cell{p.backend,       p.version,         p.system,          p.model,       p.precision,
                r.disaggregated, p.isl.value_or(0), p.osl.value_or(0), r.concurrency, Describe(a)};
  };
  const auto eligible = [](const RepairedPoint& r) {
    return !r.disaggregated && !r.hidden_speculation && r.point.tpot_ms && *r.point.tpot_ms > 0 &&
           IsDeepSeek(r.point) && !r.point.version.empty();
  };
  for (const RepairedPoint& r : points) {
    if (eligible(r)) {
      double& most = slowest[cell_of(r)];
      most = std::max(most, *r.point.tpot_ms);
    }
  }
  for (RepairedPoint& r : points) {
    if (!eligible(r)) continue;
    const double most = slowest[cell_of(r)];
    if (most > kSpeculationGap * *r.point.tpot_ms) {
      mark(r, fmt::format("the same configuration and version was also measured with a TPOT of "
                          "{:.2f} ms",
                          most));
    }
  }
}

}  // namespace

std::vector<RepairedPoint> RepairPoints(std::vector<MeasuredPoint> points,
                                        const std::function<bool(const std::string&)>& is_moe) {
  std::vector<RepairedPoint> out;
  out.reserve(points.size());
  for (MeasuredPoint& p : points) out.push_back(RepairOne(std::move(p), is_moe));
  MarkHiddenSpeculation(out);
  // Of equal measurements the first that can be answered counts as the original.
  std::map<std::string, std::size_t> originals;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!out[i].point.ttft_ms && !out[i].point.tpot_ms) continue;
    const std::string key = MeasurementKey(out[i].point);
    const auto [it, fresh] = originals.emplace(key, i);
    if (fresh) continue;
    RepairedPoint& first = out[it->second];
    // A mark by provenance holds for every copy of a measurement.
    if (first.hidden_speculation != out[i].hidden_speculation) {
      RepairedPoint& unmarked = first.hidden_speculation ? out[i] : first;
      const RepairedPoint& marked = first.hidden_speculation ? first : out[i];
      unmarked.hidden_speculation = true;
      unmarked.marks.push_back(marked.marks.back());
    }
    if (first.unanswerable && !out[i].unanswerable) {
      first.copy = true;
      it->second = i;
    } else {
      out[i].copy = true;
    }
  }
  for (RepairedPoint& r : out) {
    if (r.copy) r.marks.push_back("copy of another row's measurement");
  }
  return out;
}

}  // namespace infercast
