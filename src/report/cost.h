// What a forecast costs: money from GPU prices per hour, energy from measured power.
//
// A replica is paid for by the hour, busy or not, and the figures are those of a replica at its
// forecast rate: real traffic that leaves it idle costs more. The money of a request is divided
// between its input and its output by the GPU time that each takes: by the sizes of the pools where
// prefill and decode run apart, by the time that prefill adds to the steps where they share GPUs.
// Hence input tokens x input price + output tokens x output price = price of a request.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "search/task_table.h"

namespace infercast {

// Money per GPU and hour, by system.
struct GpuPrices {
  std::optional<double> any;  // for systems that are not listed
  std::map<std::string, double> by_system;
  std::string currency = "$";

  bool empty() const { return !any && by_system.empty(); }
  // Absent where no price is known.
  std::optional<double> For(const std::string& system) const;
};

// "2.5", or "h100_sxm=2.5,h200_sxm=3.1". kInvalidArgument unless prices are finite and positive.
Result<GpuPrices> ParseGpuPrices(std::string_view text);

// A YAML mapping of systems to prices, with an optional `currency` and an optional `default`:
//   currency: EUR
//   default: 2.0
//   h100_sxm: 2.5
// kIo where it cannot be read, kYaml where it is malformed, kInvalidArgument for a bad price.
Result<GpuPrices> ReadPriceFile(const std::filesystem::path& file);
Result<GpuPrices> ParsePriceYaml(const std::string& text, const std::string& name);

struct Cost {
  double per_hour = 0;  // of one replica
  double per_request = 0;
  double per_million_input_tokens = 0;  // tokens found in a prefix cache count as input
  double per_million_output_tokens = 0;
};

// Share of the GPU time that goes into prefill (and encoding), 0 to 1. Absent in AFD deployments
// that do not say where the other phase runs.
std::optional<double> PrefillShare(const TaskRow& row);

// Absent where a price or the rate is unknown.
std::optional<Cost> CostOf(const TaskRow& row, const GpuPrices& prices);

// Joules per output token, all GPUs of the replica together. Absent unless power was measured for
// at least nine tenths of the time.
std::optional<double> EnergyPerOutputToken(const TaskRow& row);

// "$0.4213": four significant digits.
std::string MoneyText(double amount, const GpuPrices& prices);

}  // namespace infercast
