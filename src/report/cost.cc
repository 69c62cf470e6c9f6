#include "report/cost.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/files.h"

namespace infercast {
namespace {

constexpr double kEnoughPower = 0.9;  // share of the time whose power must be measured

Result<double> PriceFrom(std::string_view text, std::string_view of) {
  double price = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), price);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(price) ||
      price <= 0) {
    return Fail(ErrorKind::kInvalidArgument,
                fmt::format("the price of {} is '{}': a positive number per GPU and hour is needed",
                            of, text));
  }
  return price;
}

// GPUs of one replica by system: prefill (and encode) workers and all others.
struct GpuUse {
  std::string system;
  double gpus = 0;
  bool prefill = false;
};

std::vector<GpuUse> UseOf(const TaskRow& row) {
  if (const AggregatedRow* agg = row.aggregated()) {
    return {{agg->worker->system, static_cast<double>(agg->num_total_gpus), false}};
  }
  if (const DisaggregatedRow* pools = row.disaggregated()) {
    const double prefill = static_cast<double>(pools->prefill_workers) *
                           static_cast<double>(pools->prefill.num_total_gpus);
    const double decode = static_cast<double>(pools->decode_workers) *
                          static_cast<double>(pools->decode.num_total_gpus);
    // Encode workers, if any, are what is left; they stand in front of prefill.
    const double rest = static_cast<double>(pools->num_total_gpus) - prefill - decode;
    return {{pools->prefill.worker->system, prefill + std::max(rest, 0.0), true},
            {pools->decode.worker->system, decode, false}};
  }
  const AfdRow* afd = row.afd();
  double partner = 0;
  if (afd->partner) {
    partner = static_cast<double>(afd->partner->workers * afd->partner->gpus_per_worker);
  }
  const bool partner_prefills = afd->partner && afd->partner->prefills;
  std::vector<GpuUse> use = {{afd->attention_worker->system,
                              static_cast<double>(afd->num_total_gpus) - partner,
                              afd->partner.has_value() && !partner_prefills}};
  if (afd->partner) {
    use.push_back({afd->partner->worker != nullptr ? afd->partner->worker->system
                                                   : afd->attention_worker->system,
                   partner, partner_prefills});
  }
  return use;
}

struct Load {
  double requests_per_s = 0;
  double isl = 0, osl = 0;
  double tokens_per_s = 0;
};

Load LoadOf(const TaskRow& row) {
  return std::visit(
      [&](const auto& r) {
        return Load{row.score ? row.score->seq_s : r.seq_s, static_cast<double>(r.isl),
                    static_cast<double>(r.osl), row.score ? row.score->tokens_s : r.tokens_s};
      },
      row.figures);
}

}  // namespace

std::optional<double> GpuPrices::For(const std::string& system) const {
  const auto found = by_system.find(system);
  return found != by_system.end() ? std::optional(found->second) : any;
}

Result<GpuPrices> ParseGpuPrices(std::string_view text) {
  GpuPrices prices;
  while (true) {
    const std::string_view part = text.substr(0, text.find(','));
    const std::size_t equals = part.find('=');
    if (equals == part.npos) {
      IC_ASSIGN(prices.any, PriceFrom(part, "a GPU hour"));
    } else {
      const std::string system(part.substr(0, equals));
      if (system.empty()) {
        return Fail(ErrorKind::kInvalidArgument,
                    fmt::format("'{}' names no system: write SYSTEM=PRICE", part));
      }
      IC_ASSIGN(prices.by_system[system], PriceFrom(part.substr(equals + 1), system));
    }
    if (part.size() == text.size()) return prices;
    text.remove_prefix(part.size() + 1);
  }
}

Result<GpuPrices> ParsePriceYaml(const std::string& text, const std::string& name) {
  GpuPrices prices;
  try {
    const YAML::Node document = YAML::Load(text);
    if (!document.IsMap()) {
      return Fail(ErrorKind::kYaml,
                  fmt::format("{}: a mapping of systems to prices is expected", name));
    }
    for (const auto& entry : document) {
      const auto key = entry.first.as<std::string>();
      if (!entry.second.IsScalar()) {
        return Fail(ErrorKind::kYaml, fmt::format("{}: {} is not a price", name, key));
      }
      const auto value = entry.second.as<std::string>();
      if (key == "currency") {
        prices.currency = value;
      } else if (key == "default") {
        IC_ASSIGN(prices.any, PriceFrom(value, name + ": default"));
      } else {
        IC_ASSIGN(prices.by_system[key], PriceFrom(value, name + ": " + key));
      }
    }
  } catch (const YAML::Exception& error) {
    return Fail(ErrorKind::kYaml, fmt::format("{}: {}", name, error.what()));
  }
  return prices;
}

Result<GpuPrices> ReadPriceFile(const std::filesystem::path& file) {
  IC_ASSIGN(const std::string text, ReadTextFile(file));
  return ParsePriceYaml(text, file.string());
}

std::optional<double> PrefillShare(const TaskRow& row) {
  if (const AggregatedRow* agg = row.aggregated()) {
    const double all =
        agg->num_mixed_steps * agg->mixed_step_ms + agg->num_decode_steps * agg->decode_step_ms;
    if (!(all > 0)) return std::nullopt;
    // Without prefill its steps would have been steps of decoding alone; those of a worker that
    // never decodes alone are all prefill's.
    const double added = agg->num_mixed_steps * (agg->mixed_step_ms - agg->decode_step_ms);
    return std::clamp(added / all, 0.0, 1.0);
  }
  if (row.afd() != nullptr && !row.afd()->partner) return std::nullopt;
  double prefill = 0, all = 0;
  for (const GpuUse& use : UseOf(row)) {
    all += use.gpus;
    if (use.prefill) prefill += use.gpus;
  }
  if (!(all > 0)) return std::nullopt;
  return prefill / all;
}

std::optional<Cost> CostOf(const TaskRow& row, const GpuPrices& prices) {
  const Load load = LoadOf(row);
  if (!(load.requests_per_s > 0)) return std::nullopt;
  Cost cost;
  double prefill_per_hour = 0;
  for (const GpuUse& use : UseOf(row)) {
    const std::optional<double> price = prices.For(use.system);
    if (!price) return std::nullopt;
    cost.per_hour += use.gpus * *price;
    if (use.prefill) prefill_per_hour += use.gpus * *price;
  }
  const double per_hour_and_request = 1 / (load.requests_per_s * 3600);
  cost.per_request = cost.per_hour * per_hour_and_request;
  std::optional<double> input = prefill_per_hour * per_hour_and_request;
  if (row.aggregated() != nullptr || !PrefillShare(row)) {
    // Shared GPUs; where nothing tells the phases apart, output pays for all.
    input = cost.per_request * PrefillShare(row).value_or(0);
  }
  if (load.isl > 0) cost.per_million_input_tokens = *input / load.isl * 1e6;
  if (load.osl > 0) cost.per_million_output_tokens = (cost.per_request - *input) / load.osl * 1e6;
  return cost;
}

std::optional<double> EnergyPerOutputToken(const TaskRow& row) {
  double watts_per_gpu = 0, coverage = 0, gpus = 0;
  if (const AggregatedRow* agg = row.aggregated()) {
    watts_per_gpu = agg->power_w;
    coverage = agg->power_coverage;
    gpus = static_cast<double>(agg->num_total_gpus);
  } else if (const DisaggregatedRow* pools = row.disaggregated()) {
    watts_per_gpu = pools->power_w;
    coverage = std::min(pools->prefill.power_coverage, pools->decode.power_coverage);
    gpus = static_cast<double>(pools->num_total_gpus);
  }
  const Load load = LoadOf(row);
  const double tokens = load.requests_per_s * load.osl;
  if (!(watts_per_gpu > 0) || coverage < kEnoughPower || !(tokens > 0)) return std::nullopt;
  return watts_per_gpu * gpus / tokens;
}

std::string MoneyText(double amount, const GpuPrices& prices) {
  // Four significant digits, never in powers of ten.
  int decimals = 4;
  if (amount > 0) {
    decimals = std::clamp(3 - static_cast<int>(std::floor(std::log10(amount))), 0, 12);
  }
  const bool symbol = prices.currency.size() == 1 || !std::isalpha(prices.currency.front());
  return fmt::format("{}{}{:.{}f}", prices.currency, symbol ? "" : " ", amount, decimals);
}

}  // namespace infercast
