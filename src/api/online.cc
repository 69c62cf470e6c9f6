// OnlineModel.
#include <array>

#include "api/internal.h"
#include "engine/forward_pass_metrics.h"
#include "engine/spec_json.h"
#include "online/native_engine.h"
#include "online/online_model.h"
#include "tables/systems_paths.h"

namespace infercast::v1 {

using internal::Guarded;

struct OnlineModel::Impl {
  infercast::OnlineModel model;
};

namespace {

infercast::OnlineOptions OptionsOf(const OnlineOptions& o) {
  infercast::OnlineOptions out;
  out.max_observations = o.max_observations;
  out.min_observations = o.min_observations;
  out.min_faster_correction_factor = o.min_faster_correction_factor;
  out.max_slower_correction_factor = o.max_slower_correction_factor;
  out.bucket_count = o.bucket_count;
  out.max_num_tokens = o.max_num_tokens;
  out.max_batch_size = o.max_batch_size;
  out.max_kv_tokens = o.max_kv_tokens;
  return out;
}

void Fill(const ForwardPassMetrics& from, infercast::ForwardPassMetrics& to) {
  to.wall_time = from.wall_time_s;
  infercast::ScheduledMetrics& s = to.scheduled_requests;
  s.num_prefill_requests = from.scheduled.num_prefill_requests;
  s.sum_prefill_tokens = from.scheduled.sum_prefill_tokens;
  s.sum_prefill_kv_tokens = from.scheduled.sum_prefill_kv_tokens;
  s.num_decode_requests = from.scheduled.num_decode_requests;
  s.sum_decode_kv_tokens = from.scheduled.sum_decode_kv_tokens;
}

std::vector<infercast::ForwardPassMetrics> RanksOf(std::span<const ForwardPassMetrics> ranks) {
  std::vector<infercast::ForwardPassMetrics> out(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) Fill(ranks[i], out[i]);
  return out;
}

Result<OnlineModel> Wrap(infercast::Result<infercast::OnlineModel> model) {
  API_ASSIGN(infercast::OnlineModel inner, std::move(model));
  return OnlineModel(std::make_unique<OnlineModel::Impl>(OnlineModel::Impl{std::move(inner)}));
}

}  // namespace

OnlineModel::OnlineModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OnlineModel::OnlineModel(OnlineModel&&) noexcept = default;
OnlineModel& OnlineModel::operator=(OnlineModel&&) noexcept = default;
OnlineModel::~OnlineModel() = default;

Result<OnlineModel> OnlineModel::FromEngine(const Engine& engine, const OnlineOptions& options) {
  return Guarded<OnlineModel>([&] {
    return Wrap(infercast::OnlineModel::FromEngine(engine.impl().engine, OptionsOf(options)));
  });
}

Result<OnlineModel> OnlineModel::FromRegression(const OnlineOptions& options) {
  return Guarded<OnlineModel>(
      [&] { return Wrap(infercast::OnlineModel::FromRegression(OptionsOf(options))); });
}

Result<OnlineModel> OnlineModel::BestAvailable(std::string_view engine_config_json,
                                               const OnlineOptions& options,
                                               const std::string& systems_paths,
                                               const std::string& behaviour) {
  return Guarded<OnlineModel>([&]() -> Result<OnlineModel> {
    API_ASSIGN(const auto parsed, internal::ParseName<infercast::Behaviour>(behaviour));
    API_ASSIGN(const infercast::EngineConfig config,
               infercast::ParseEngineConfigJson(engine_config_json));
    const auto build = [&]() -> infercast::Result<std::shared_ptr<const infercast::Engine>> {
      std::optional<std::string_view> list;
      if (config.systems_path) {
        list = *config.systems_path;
      } else if (!systems_paths.empty()) {
        list = systems_paths;
      }
      IC_ASSIGN(const auto roots, infercast::ResolveSystemsPaths(list));
      return infercast::BuildNativeEngine(config, roots, parsed);
    };
    return Wrap(infercast::OnlineModel::BestAvailable(build(), OptionsOf(options)));
  });
}

Result<std::optional<double>> OnlineModel::Estimate(const ForwardPassMetrics& rank) const {
  infercast::ForwardPassMetrics record;
  Fill(rank, record);
  API_ASSIGN(const std::optional<double> ms, impl_->model.Estimate(std::span(&record, 1)));
  return ms;
}

Result<std::optional<double>> OnlineModel::Estimate(
    std::span<const ForwardPassMetrics> ranks) const {
  if (ranks.size() == 1) return Estimate(ranks.front());
  return Guarded<std::optional<double>>([&]() -> Result<std::optional<double>> {
    API_ASSIGN(const std::optional<double> ms, impl_->model.Estimate(RanksOf(ranks)));
    return ms;
  });
}

Result<void> OnlineModel::Observe(std::span<const ForwardPassMetrics> ranks) {
  return Guarded<void>([&]() -> Result<void> {
    const std::array iterations{RanksOf(ranks)};
    API_RETURN_IF_ERROR(impl_->model.Tune(iterations));
    return {};
  });
}

OnlineDiagnostics OnlineModel::Diagnostics() const {
  const infercast::OnlineDiagnostics d = impl_->model.Diagnostics();
  const infercast::CorrectionFactors factors = impl_->model.Corrections();
  OnlineDiagnostics out;
  out.source = infercast::ToString(d.source);
  out.readiness = infercast::ToString(d.readiness);
  out.retained_observations = d.retained_observations;
  out.correction_ready_buckets = d.correction_ready_buckets;
  out.last_warning = d.last_warning.value_or(std::string());
  out.min_correction = factors.min;
  out.max_correction = factors.max;
  out.mean_correction = factors.mean;
  return out;
}

Result<std::vector<std::vector<ForwardPassMetrics>>> ParseMetrics(std::string_view json) {
  using Iterations = std::vector<std::vector<ForwardPassMetrics>>;
  return Guarded<Iterations>([&]() -> Result<Iterations> {
    API_ASSIGN(const auto parsed, infercast::ParseAnyIterations(json));
    Iterations out;
    for (const auto& ranks : parsed) {
      auto& iteration = out.emplace_back();
      for (const infercast::ForwardPassMetrics& rank : ranks) {
        API_RETURN_IF_ERROR(infercast::ValidateMetrics(rank));
        const infercast::ScheduledMetrics& s = rank.scheduled_requests;
        iteration.push_back({{s.num_prefill_requests, s.sum_prefill_tokens, s.sum_prefill_kv_tokens,
                              s.num_decode_requests, s.sum_decode_kv_tokens},
                             rank.wall_time});
      }
    }
    return out;
  });
}

}  // namespace infercast::v1
