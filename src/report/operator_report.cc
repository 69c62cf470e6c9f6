#include "report/operator_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/near_names.h"
#include "report/text_table.h"
#include "tables/database.h"

namespace infercast {

namespace {

constexpr std::size_t kLargest = 3;
// An operator of this share that attains less than this of its bound is pointed out.
constexpr double kWorthNaming = 0.05;
constexpr double kFarBelow = 0.4;
constexpr double kWorthAdvice = 0.2;  // share of a phase
constexpr double kSmallShare = 0.01;

constexpr std::array<char, 4> kSymbols = {'=', '~', '?', '^'};

std::size_t IndexOf(auto value) { return static_cast<std::size_t>(value); }

double TotalOf(const EstimatePhase& phase) {
  double total = 0;
  for (const OpEntry& e : phase.operators.entries) {
    if (!IsSumOfOthers(e)) total += e.latency_ms;
  }
  return total;
}

// Lines of at most about 100 columns, all indented.
std::string Wrapped(std::string_view text, std::size_t indent) {
  constexpr std::size_t kColumns = 100;
  std::string out;
  std::size_t column = kColumns;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column + 1 + end > kColumns) {
      out += (out.empty() ? "" : "\n") + std::string(indent, ' ');
      column = indent;
    } else {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + "\n";
}

std::string FromText(const OpEntry& e) {
  const Mark mark = MarkOf(e.origin);
  std::string text(1, kSymbols[IndexOf(mark)]);
  switch (e.origin.kind) {
    case OriginKind::kExtrapolated:
      text += e.origin.octaves >= 0.05F
                  ? fmt::format(" 2^{:.1f} beyond measurements", e.origin.octaves)
                  : " just beyond measurements";
      break;
    case OriginKind::kSubstituted:
      text += " measured on other topology";
      break;
    case OriginKind::kAnalytic:
    case OriginKind::kExact:
      text += " formula";
      break;
    case OriginKind::kTransferred:
      text += " utilisation borrowed";
      if (e.origin.donor != nullptr) text += " from " + *e.origin.donor;
      break;
    case OriginKind::kEstimated:
      text += " from its utilisation";
      break;
    default:
      break;
  }
  if (e.origin.source != nullptr && e.origin.source->channel != SourceChannel::kPrimary) {
    text += fmt::format(" (version {})", e.origin.source->version);
  }
  return text;
}

std::vector<std::size_t> LargestFirst(const EstimatePhase& phase) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < phase.operators.entries.size(); ++i) {
    const OpEntry& e = phase.operators.entries[i];
    if (e.latency_ms > 0 && !IsSumOfOthers(e)) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return phase.operators.entries[a].latency_ms > phase.operators.entries[b].latency_ms;
  });
  return order;
}

std::string TableOfPhase(const EstimatePhase& phase, bool energy) {
  const double total = TotalOf(phase);
  const bool bounds = phase.bounds.size() == phase.operators.entries.size();
  ResultTable table;
  table.columns = {{"", "", "", "operator"},      {"", "", "", "count"},
                   {"", "", "ms", "latency", 4},  {"", "", "%", "share", 1},
                   {"", "", "W ms", "energy", 1}, {"", "", "", "bound"},
                   {"", "", "", "from"}};
  const std::vector<std::size_t> order = LargestFirst(phase);
  for (const std::size_t i : order) {
    const OpEntry& e = phase.operators.entries[i];
    const OperatorBound* bound = bounds ? &phase.bounds[i] : nullptr;
    table.rows.push_back(
        {e.name,
         bound != nullptr && bound->count > 0 ? Cell(fmt::format("{:.4g}", bound->count)) : Cell(),
         e.latency_ms / phase.passes, total > 0 ? Cell(e.latency_ms / total * 100) : Cell(),
         energy && e.energy_wms > 0 ? Cell(e.energy_wms / phase.passes) : Cell(),
         bound != nullptr ? Cell(BoundText(*bound)) : Cell(), FromText(e)});
  }
  std::string text =
      fmt::format("\n{}: {:.3f} ms\n{}", PhaseHeading(phase), total / phase.passes, TextOf(table));
  const auto silent = std::ranges::count_if(phase.operators.entries,
                                            [](const OpEntry& e) { return e.latency_ms == 0; });
  if (silent > 0) {
    text += fmt::format("  ({} more cost{} nothing here)\n", silent, silent == 1 ? "s" : "");
  }
  return text;
}

// Shares in the words of an enumeration, largest first, without what rounds to nothing.
template <typename E>
std::vector<std::string> SharesText(
    const std::array<double, EnumNames<E>::kNames.size()>& shares,
    const std::array<const char*, EnumNames<E>::kNames.size()>& words) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] >= 0.005) order.push_back(i);
  }
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  std::vector<std::string> texts;
  texts.reserve(order.size());
  for (const std::size_t i : order) {
    texts.push_back(fmt::format("{:.0f} % {}", shares[i] * 100, words[i]));
  }
  return texts;
}

constexpr std::array<const char*, 6> kBoundWords = {"nothing", "compute",       "bandwidth",
                                                    "launch",  "communication", "not told"};
constexpr std::array<const char*, 4> kMarkWords = {"measured", "interpolated", "estimated",
                                                   "speed of light"};

// What would help where most of a phase is of one kind.
std::string AdviceOf(Bound bound, OperatorRole role, PassKind kind, double attention) {
  const bool decode = kind == PassKind::kGeneration;
  switch (bound) {
    case Bound::kCommunication:
      return "the links: less tensor parallelism per worker, more replicas, or experts and data "
             "parallelism instead";
    case Bound::kLaunch:
      return "starting kernels: more requests per step are nearly free; fewer GPUs per worker lose "
             "little";
    case Bound::kBandwidth:
      if (role == OperatorRole::kWeights) {
        std::string text =
            decode
                ? "reading weights: a larger batch is nearly free; fp8 or nvfp4 weights, or more "
                  "tensor parallelism, shorten the step"
                : "reading weights: more prefill tokens per step are nearly free";
        if (decode && attention >= 0.2) {
          text += fmt::format(" (its attention, {:.0f} %, grows with the batch)", attention * 100);
        }
        return text;
      }
      if (role == OperatorRole::kAttention) {
        return "reading the KV cache: it grows with batch and context; an fp8 KV cache or more "
               "GPUs "
               "for attention shorten it, a larger batch does not pay";
      }
      if (role == OperatorRole::kState) {
        return "reading recurrent states: they grow with the batch, not with the context";
      }
      return "moving activations between kernels: more GPUs per worker, fused kernels";
    case Bound::kCompute:
      if (role == OperatorRole::kAttention) {
        return "attention's arithmetic: it grows with the square of the prompt; cached prefixes or "
               "more GPUs shorten it";
      }
      return "arithmetic: it grows with the tokens of the step; fp8 or nvfp4 formats or more GPUs "
             "shorten it, a larger batch does not pay";
    default:
      return "far below compute and bandwidth alike: kernels that fill the GPU badly at these "
             "sizes; "
             "another batch size, backend or version may do better";
  }
}

}  // namespace

Mark MarkOf(const Origin& origin) {
  switch (origin.kind) {
    case OriginKind::kPoint:
      return Mark::kMeasured;
    case OriginKind::kInterpolated:
      return Mark::kInterpolated;
    case OriginKind::kSpeedOfLight:
      return Mark::kSpeedOfLight;
    default:
      return Mark::kEstimated;
  }
}

std::string_view TitleOf(const EstimatePhase& phase) {
  static constexpr std::pair<std::string_view, std::string_view> kTitles[] = {
      {"mix_step", "step with prefill"},
      {"genonly_step", "decode step"},
      {"encoder", "image encoder"},
      {"context", "prefill"},
      {"generation", "decode step"},
      {"decode", "decode step"},
      {"prefill_a_worker", "prefill, attention side"},
      {"prefill_f_worker", "prefill, feed-forward side"},
      {"decode_a_worker", "decode step, attention side"},
      {"decode_f_worker", "decode step, feed-forward side"},
      {"comm", "transfers between the sides, one layer"},
  };
  for (const auto& [name, title] : kTitles) {
    if (phase.name == name) return title;
  }
  return phase.name;
}

std::string PhaseHeading(const EstimatePhase& phase) {
  std::string about = phase.about;
  if (phase.passes != 1) {
    about += fmt::format("{}mean of {:.0f} steps", about.empty() ? "" : ", ", phase.passes);
  }
  return fmt::format("{}{}", TitleOf(phase), about.empty() ? "" : " (" + about + ")");
}

bool IsSumOfOthers(const OpEntry& e) { return e.name.ends_with("_afd_transfer"); }

std::string BoundText(const OperatorBound& bound) {
  const auto attained = [&](const char* of) {
    return bound.attained ? fmt::format("{:.0f} % of {}", *bound.attained * 100, of)
                          : std::string(of);
  };
  switch (bound.bound) {
    case Bound::kNone:
      return "";
    case Bound::kCompute:
      return attained("compute");
    case Bound::kBandwidth:
      return attained("bandwidth");
    case Bound::kLaunch:
      return "launch";
    case Bound::kCommunication:
      return bound.attained ? "communication, " + attained("the links") : "communication";
    case Bound::kUnknown:
      return bound.attained ? attained("its roofline") : "not told";
  }
  return "";
}

PhaseSummary SummaryOf(const EstimatePhase& phase) {
  PhaseSummary summary;
  summary.latency_ms = TotalOf(phase);
  if (!(summary.latency_ms > 0)) return summary;
  const bool bounds = phase.bounds.size() == phase.operators.entries.size();
  std::map<std::pair<Bound, OperatorRole>, double> groups;
  double attention = 0;
  std::vector<std::string> far;
  const std::vector<std::size_t> order = LargestFirst(phase);
  for (const std::size_t i : order) {
    const OpEntry& e = phase.operators.entries[i];
    const double share = e.latency_ms / summary.latency_ms;
    summary.by_mark[IndexOf(MarkOf(e.origin))] += share;
    if (share >= kSmallShare) {
      summary.octaves = std::max(summary.octaves, static_cast<double>(e.origin.octaves));
    }
    if (summary.largest.size() < kLargest) summary.largest.emplace_back(e.name, share);
    if (!bounds) continue;
    const OperatorBound& b = phase.bounds[i];
    summary.by_bound[IndexOf(b.bound)] += share;
    const bool roofline = b.bound == Bound::kCompute || b.bound == Bound::kBandwidth;
    if (roofline && b.attained && *b.attained < kNearBound) {
      groups[{Bound::kUnknown, OperatorRole::kOther}] += share;
    } else if (b.bound != Bound::kUnknown) {
      groups[{b.bound, b.role}] += share;
    }
    if (b.role == OperatorRole::kAttention) attention += share;
    if (roofline && share >= kWorthNaming && b.attained && *b.attained < kFarBelow) {
      far.push_back(fmt::format("{} ({})", e.name, BoundText(b)));
    }
  }
  if (groups.empty()) return summary;
  const auto largest = std::ranges::max_element(
      groups, [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest->second >= kWorthAdvice) {
    const auto& [bound, role] = largest->first;
    summary.advice = fmt::format("{:.0f} % is {}", largest->second * 100,
                                 AdviceOf(bound, role, phase.kind, attention));
  }
  if (!far.empty()) {
    summary.advice += fmt::format("{}far below the bound: {}", summary.advice.empty() ? "" : "; ",
                                  JoinNames(far));
  }
  return summary;
}

TrustSummary TrustOf(const std::vector<EstimatePhase>& phases) {
  const bool shares = std::ranges::any_of(phases, [](const auto& p) { return p.share > 0; });
  TrustSummary trust;
  double sum = 0;
  for (const EstimatePhase& phase : phases) {
    const PhaseSummary summary = SummaryOf(phase);
    const double weight = shares ? phase.share : summary.latency_ms;
    if (!(weight > 0)) continue;
    sum += weight;
    for (std::size_t i = 0; i < trust.by_mark.size(); ++i) {
      trust.by_mark[i] += weight * summary.by_mark[i];
    }
    trust.octaves = std::max(trust.octaves, summary.octaves);
  }
  if (sum > 0) {
    for (double& share : trust.by_mark) share /= sum;
  }
  return trust;
}

std::string OperatorTables(const std::vector<EstimatePhase>& phases, bool energy) {
  std::string text;
  bool bounds = false;
  for (const EstimatePhase& phase : phases) {
    text += TableOfPhase(phase, energy);
    bounds |= !phase.bounds.empty();
  }
  if (text.empty()) return text;
  text += fmt::format(
      "\n  from: {} measured   {} interpolated   {} estimated   {} speed of light, "
      "no measurement\n",
      kSymbols[0], kSymbols[1], kSymbols[2], kSymbols[3]);
  if (bounds) {
    text +=
        "  bound: what limits the operator, and how much of that limit it attains; launch: too "
        "short to fill the GPU\n";
  }
  return text;
}

std::string WhereTimeGoes(const std::vector<EstimatePhase>& phases) {
  std::string text;
  for (const EstimatePhase& phase : phases) {
    const PhaseSummary summary = SummaryOf(phase);
    if (!(summary.latency_ms > 0)) continue;
    std::string head(TitleOf(phase));
    if (phase.share > 0 && phase.share < 1) {
      head += fmt::format(", {:.0f} % of the time", phase.share * 100);
    }
    const std::vector<std::string> bounds = SharesText<Bound>(summary.by_bound, kBoundWords);
    if (!bounds.empty()) head += ": " + JoinNames(bounds);
    std::vector<std::string> largest;
    for (const auto& [name, share] : summary.largest) {
      largest.push_back(fmt::format("{} {:.0f} %", name, share * 100));
    }
    text += Wrapped(head, 2) + Wrapped("largest: " + JoinNames(largest), 4);
    if (!summary.advice.empty()) text += Wrapped(summary.advice, 4);
  }
  return text.empty() ? text : "\nwhere the time goes\n" + text;
}

std::string TrustText(const std::vector<EstimatePhase>& phases) {
  const TrustSummary trust = TrustOf(phases);
  const std::vector<std::string> shares = SharesText<Mark>(trust.by_mark, kMarkWords);
  if (shares.empty()) return "";
  std::string text = fmt::format("\nhow far to trust it: of the time {}", JoinNames(shares));
  if (trust.octaves >= 0.05) {
    text += fmt::format(", up to 2^{:.1f} beyond measured sizes", trust.octaves);
  }
  return text + "\n";
}

}  // namespace infercast
