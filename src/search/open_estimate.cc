#include "search/open_estimate.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

namespace infercast {

namespace {

enum class Experts : std::uint8_t { kAsGiven, kNone, kOpen };

// One way to fill what was left open, and how it is told.
struct Reading {
  EstimateRequest request;
  std::string note;
};

std::int64_t WidthOf(const ParallelLayout& shared, const PoolSizes& own) {
  return own.tp.value_or(shared.tp) * own.dp.value_or(shared.dp) * shared.cp;
}

// Experts whole on their ranks, or each split over them; for every role of the deployment.
EstimateRequest WithExperts(EstimateRequest request, bool whole) {
  const auto set = [whole](auto& sizes, std::int64_t width) {
    sizes.moe_tp = whole ? 1 : width;
    sizes.moe_ep = whole ? width : 1;
  };
  if (request.mode == EstimateMode::kDisagg) {
    set(request.prefill, WidthOf(request.layout, request.prefill));
    set(request.decode, WidthOf(request.layout, request.decode));
  } else {
    set(request.layout, request.layout.AttentionWidth());
  }
  return request;
}

std::string WidthText(const EstimateRequest& request, bool whole) {
  const char* name = whole ? "ep" : "etp";
  if (request.mode != EstimateMode::kDisagg) {
    return fmt::format("{} {}", name, request.layout.AttentionWidth());
  }
  return fmt::format("{} {} and {}", name, WidthOf(request.layout, request.prefill),
                     WidthOf(request.layout, request.decode));
}

// What the user may have meant, best first.
std::vector<Reading> ExpertReadings(const EstimateRequest& request, Experts experts) {
  if (experts == Experts::kAsGiven) return {{request, ""}};
  // Of a family with experts, but this model has none.
  if (experts == Experts::kNone) return {{WithExperts(request, false), ""}};
  return {{WithExperts(request, true),
           fmt::format("no expert width given: each rank holds whole experts ({})",
                       WidthText(request, true))},
          {WithExperts(request, false),
           fmt::format("no expert width given: each expert is split over the ranks ({})",
                       WidthText(request, false))}};
}

// The first reading that answers; else the error of the first one.
Result<ChosenEstimate> FirstAnswer(std::vector<Reading> readings, Workbench& bench) {
  std::optional<Error> first;
  for (Reading& reading : readings) {
    Result<PointEstimate> point = EstimatePoint(reading.request, bench);
    if (point) {
      ChosenEstimate chosen{std::move(reading.request), *std::move(point), {}};
      if (!reading.note.empty()) chosen.notes.push_back(std::move(reading.note));
      return chosen;
    }
    if (!first) first = point.error();
    // A layout that does not fit is an answer; a layout that cannot be built or priced is not.
    if (point.error().kind == ErrorKind::kDoesNotFit) break;
  }
  return std::unexpected(*first);
}

Error FitsNowhere(const EstimateRequest& request) {
  return {ErrorKind::kDoesNotFit,
          fmt::format("{} with {} requests of {} + {} tokens does not fit on one worker of up to "
                      "{} GPUs of {}; lower --batch-size or give --tp-size and --pp-size",
                      request.model, request.batch, request.workload.isl, request.workload.osl,
                      kWidestGuess, request.system)};
}

// The smallest tensor parallelism that holds the weights and the requests.
Result<ChosenEstimate> SmallestAnswer(const EstimateRequest& request, Experts experts,
                                      Workbench& bench) {
  std::optional<Error> first;
  bool too_large = false;
  for (std::int64_t tp = 1; tp <= kWidestGuess; tp *= 2) {
    EstimateRequest wide = request;
    wide.layout.tp = tp;
    Result<ChosenEstimate> chosen = FirstAnswer(ExpertReadings(wide, experts), bench);
    if (chosen && !chosen->point.out_of_memory && !chosen->point.kv_warning) {
      // The layout says how wide the experts are.
      chosen->notes = {fmt::format(
          "no parallelism given: {} is the smallest that holds the weights and {} requests",
          ParallelText(chosen->request.layout), request.batch)};
      return chosen;
    }
    if (chosen || chosen.error().kind == ErrorKind::kDoesNotFit) {
      too_large = true;
    } else if (!first) {
      first = chosen.error();
    }
  }
  return std::unexpected(too_large ? FitsNowhere(request) : *first);
}

// One pool has the width of its experts, the other none.
Status CheckPoolExperts(const EstimateRequest& request) {
  const auto given = [&](const PoolSizes& own) {
    return request.layout.moe_tp || request.layout.moe_ep || own.moe_tp || own.moe_ep;
  };
  const bool prefill = given(request.prefill), decode = given(request.decode);
  if (prefill == decode) return {};
  const std::string role = prefill ? "decode" : "prefill";
  return Fail(ErrorKind::kInvalidArgument,
              fmt::format("the {0} workers have no expert width, though the {1} workers have: give "
                          "{0}_moe_ep_size or {0}_moe_tp_size (--{2}-ep, --{2}-etp)",
                          role, prefill ? "prefill" : "decode", role.substr(0, 1)));
}

Result<ChosenEstimate> Answer(const EstimateRequest& request, bool layout_open, Experts experts,
                              Workbench& bench) {
  return layout_open ? SmallestAnswer(request, experts, bench)
                     : FirstAnswer(ExpertReadings(request, experts), bench);
}

}  // namespace

void FillPools(EstimateRequest& request, std::vector<std::string>& notes) {
  const auto fill = [&](std::optional<std::int64_t>& value, std::int64_t plain, const char* what) {
    if (value) return;
    value = plain;
    notes.push_back(fmt::format("no {} given: {}", what, plain));
  };
  fill(request.prefill.batch, 1, "batch size of prefill workers");
  fill(request.prefill.workers, 1, "number of prefill workers");
  fill(request.decode.batch, request.batch, "batch size of decode workers");
  fill(request.decode.workers, 1, "number of decode workers");
}

Result<ChosenEstimate> EstimateWithChoices(const EstimateRequest& request, const OpenChoices& open,
                                           Workbench& bench) {
  IC_ASSIGN(const std::shared_ptr<const ModelConfig> model, bench.Model(request.model));
  Experts experts = Experts::kAsGiven;
  if (model->IsMoe() && (open.experts || open.layout)) {
    experts = model->num_experts > 0 ? Experts::kOpen : Experts::kNone;
  } else if (model->IsMoe() && request.mode == EstimateMode::kDisagg) {
    IC_RETURN_IF_ERROR(CheckPoolExperts(request));
  }
  Result<ChosenEstimate> measured = Answer(request, open.layout, experts, bench);
  if (measured || !open.estimates || request.database_mode != DatabaseMode::kSilicon) {
    return measured;
  }
  // Of an open parallelism, widths that would do may not have been measured.
  const ErrorKind kind = measured.error().kind;
  if (kind != ErrorKind::kPerfDatabase && !(open.layout && kind == ErrorKind::kDoesNotFit)) {
    return measured;
  }
  EstimateRequest relaxed = request;
  relaxed.database_mode = DatabaseMode::kHybrid;
  Result<ChosenEstimate> estimated = Answer(relaxed, open.layout, experts, bench);
  if (estimated) {
    estimated->notes.push_back(
        fmt::format("not everything was measured ({}): what is missing is estimated; "
                    "--database-mode SILICON takes measurements alone",
                    measured.error().message));
    return estimated;
  }
  // Memory needs no measurement.
  if (estimated.error().kind == ErrorKind::kDoesNotFit) return estimated;
  if (estimated.error().message == measured.error().message) return measured;
  return Fail(kind, fmt::format("{}; an estimate fails as well: {}", measured.error().message,
                                estimated.error().message));
}

}  // namespace infercast
