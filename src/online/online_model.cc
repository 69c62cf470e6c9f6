// Estimating and learning.
#include "online/online_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace infercast {

namespace {

constexpr double kShortestMs = 1e-6;

bool IsPositive(double value) { return std::isfinite(value) && value > 0.0; }

std::array<double, 2> LimitsOf(WorkKind kind, const OnlineOptions& o) {
  switch (kind) {
    case WorkKind::kPrefill:
      return {double(o.max_num_tokens), 0.0};
    case WorkKind::kDecode:
      return {double(o.max_batch_size), double(o.max_kv_tokens)};
    case WorkKind::kMixed:
      return {double(o.max_num_tokens), double(o.max_kv_tokens)};
  }
  std::unreachable();
}

// The errors that mean "there is no such model or data", for which a regression may stand in.
bool MayFallBack(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUnsupportedModel:
    case ErrorKind::kUnknownName:
    case ErrorKind::kDataRoot:
    case ErrorKind::kModelConfig:
    case ErrorKind::kPerfDatabase:
    case ErrorKind::kIo:
    case ErrorKind::kParquet:
      return true;
    default:
      return false;
  }
}

}  // namespace

OnlineModel::OnlineModel(std::shared_ptr<const Engine> engine, const OnlineOptions& options)
    : engine_(std::move(engine)), options_(options) {
  stores_.reserve(kNumWorkKinds);
  for (const WorkKind kind : {WorkKind::kPrefill, WorkKind::kDecode, WorkKind::kMixed}) {
    const auto limits = engine_ ? std::optional(LimitsOf(kind, options)) : std::nullopt;
    stores_.emplace_back(AxesOf(kind), options.bucket_count, options.max_observations, limits);
  }
}

Result<OnlineModel> OnlineModel::FromEngine(std::shared_ptr<const Engine> engine,
                                            const OnlineOptions& options) {
  IC_RETURN_IF_ERROR(ValidateOptions(options));
  return OnlineModel(std::move(engine), options);
}

Result<OnlineModel> OnlineModel::FromRegression(const OnlineOptions& options,
                                                std::optional<std::string> warning) {
  IC_RETURN_IF_ERROR(ValidateOptions(options));
  OnlineModel model(nullptr, options);
  model.warning_ = std::move(warning);
  return model;
}

Result<OnlineModel> OnlineModel::BestAvailable(const Result<std::shared_ptr<const Engine>>& engine,
                                               const OnlineOptions& options) {
  IC_RETURN_IF_ERROR(ValidateOptions(options));
  if (engine) return FromEngine(*engine, options);
  if (!MayFallBack(engine.error().kind)) return std::unexpected(engine.error());
  return FromRegression(options,
                        "native forward-pass estimator unavailable; using fallback regression: " +
                            engine.error().message);
}

Result<std::optional<double>> OnlineModel::Estimate(
    std::span<const ForwardPassMetrics> ranks) const {
  IC_ASSIGN(const auto workload, WorkloadOf(ranks));
  if (!workload) return 0.0;
  if (engine_) {
    IC_ASSIGN(const double native, ObservedForwardPass(*engine_, ranks));
    return native * Factor(*workload);
  }
  const auto& fit = fits_[static_cast<std::size_t>(workload->kind)];
  if (!fit) return std::optional<double>{};
  return std::max(fit->At(std::span(workload->x).first(workload->axes)), kShortestMs);
}

Status OnlineModel::Tune(std::span<const std::vector<ForwardPassMetrics>> iterations) {
  for (const auto& ranks : iterations) {
    IC_ASSIGN(const auto observation, ObservationOf(ranks));
    if (!observation) continue;
    const ObservedWork& workload = observation->workload;
    SampleStore& store = StoreOf(workload.kind);
    if (!engine_) {
      if (store.Add(workload.x, observation->latency_ms)) {
        fits_[static_cast<std::size_t>(workload.kind)] =
            FitSamples(store.samples(), workload.axes, options_.min_observations);
      }
      continue;
    }
    IC_ASSIGN(const double native, ObservedForwardPass(*engine_, ranks));
    if (!IsPositive(native) || !IsPositive(observation->latency_ms)) continue;
    double ratio = observation->latency_ms / native;
    if (const auto least = options_.min_faster_correction_factor) ratio = std::max(ratio, *least);
    if (const auto most = options_.max_slower_correction_factor) ratio = std::min(ratio, *most);
    store.Add(workload.x, ratio);
  }
  return {};
}

std::optional<double> OnlineModel::FactorOf(const SampleStore& store, std::uint64_t bucket) {
  // On the stack for the usual sizes: an estimate must not allocate.
  std::array<double, 128> few;
  std::vector<double> many;
  std::span<double> values(few);
  if (store.size() > few.size()) {
    many.resize(store.size());
    values = many;
  }
  std::size_t count = 0;
  for (const Sample& sample : store.samples()) {
    if (sample.bucket == bucket && IsPositive(sample.value)) values[count++] = sample.value;
  }
  if (count == 0) return std::nullopt;
  values = values.first(count);
  std::sort(values.begin(), values.end());
  const std::size_t mid = count / 2;
  return count % 2 == 1 ? values[mid] : (values[mid - 1] + values[mid]) / 2.0;
}

double OnlineModel::Factor(const ObservedWork& workload) const {
  const SampleStore& store = StoreOf(workload.kind);
  if (!IsReady(store)) return 1.0;
  const auto bucket = store.BucketOf(workload.x);
  if (!bucket) return 1.0;
  return FactorOf(store, *bucket).value_or(1.0);
}

OnlineDiagnostics OnlineModel::Diagnostics() const {
  OnlineDiagnostics d;
  for (const SampleStore& store : stores_) {
    d.retained_observations += store.size();
    if (engine_ && IsReady(store)) d.correction_ready_buckets += store.Populated().size();
  }
  if (engine_) {
    d.source =
        d.correction_ready_buckets > 0 ? OnlineSource::kCorrectedEngine : OnlineSource::kEngine;
    d.readiness = OnlineReadiness::kReady;
    return d;
  }
  d.source = OnlineSource::kRegression;
  d.last_warning = warning_;
  const bool fitted = std::ranges::any_of(fits_, [](const auto& fit) { return fit.has_value(); });
  d.readiness = fitted     ? OnlineReadiness::kReady
                : warning_ ? OnlineReadiness::kUnsupportedConfig
                           : OnlineReadiness::kInsufficientData;
  return d;
}

CorrectionFactors OnlineModel::Corrections() const {
  std::vector<double> factors;
  if (engine_) {
    for (const SampleStore& store : stores_) {
      if (!IsReady(store)) continue;
      for (const std::uint64_t bucket : store.Populated()) {
        if (const auto factor = FactorOf(store, bucket)) factors.push_back(*factor);
      }
    }
  }
  if (factors.empty()) return {};
  double sum = 0.0;
  for (const double factor : factors) sum += factor;
  return {*std::ranges::min_element(factors), *std::ranges::max_element(factors),
          sum / static_cast<double>(factors.size())};
}

}  // namespace infercast
