// NamedOptions: one table of setters, from which every options struct is filled.
#include "infercast/named_options.h"

#include <charconv>
#include <map>

#include "api/internal.h"

namespace infercast::v1 {

struct NamedOptions::Impl {
  ModelOptions model;
  MemoryOptions memory;
  EstimateOptions estimate;
  RecommendOptions recommend;
  OnlineOptions online;

  SweepOptions& search() { return recommend.search; }
};

namespace {

bool Read(std::string_view text, std::string& out) {
  out = text;
  return true;
}
bool Read(std::string_view text, bool& out) {
  if (text == "true" || text == "1" || text == "True") {
    out = true;
  } else if (text == "false" || text == "0" || text == "False") {
    out = false;
  } else {
    return false;
  }
  return true;
}
template <typename T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
bool Read(std::string_view text, T& out) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [at, error] = std::from_chars(begin, end, out);
  return error == std::errc() && at == end;
}
bool Read(std::string_view text, std::vector<std::string>& out) {
  out.clear();
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (!item.empty()) out.emplace_back(item);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return true;
}
template <typename T>
bool Read(std::string_view text, std::optional<T>& out) {
  if (text == "none" || text == "None") {
    out.reset();
    return true;
  }
  T value{};
  if (!Read(text, value)) return false;
  out = std::move(value);
  return true;
}

}  // namespace

namespace {

using All = NamedOptions::Impl;

// Reads the text into every member that a setting stands for; false when it is no value of it.
template <typename... Members>
bool Into(std::string_view text, Members&... members) {
  return (Read(text, members) && ...);
}

using Setter = bool (*)(All&, std::string_view);

// clang-format off
const std::map<std::string_view, Setter>& Setters() {
  static const std::map<std::string_view, Setter> setters = {
    // What is served, and on what.
    {"model", [](All& a, std::string_view t) { return Into(t, a.model.model); }},
    {"system", [](All& a, std::string_view t) { return Into(t, a.model.data.system); }},
    {"backend", [](All& a, std::string_view t) { return Into(t, a.model.data.backend); }},
    {"backend_version", [](All& a, std::string_view t) { return Into(t, a.model.data.version); }},
    {"database_mode", [](All& a, std::string_view t) { return Into(t, a.model.data.mode); }},
    {"transfer_policy", [](All& a, std::string_view t) { return Into(t, a.model.data.transfer_policy); }},
    {"behaviour", [](All& a, std::string_view t) { return Into(t, a.model.data.behaviour); }},
    {"allow_unlisted_versions", [](All& a, std::string_view t) { return Into(t, a.model.data.allow_unlisted_versions); }},
    {"systems_paths", [](All& a, std::string_view t) { return Into(t, a.model.data.systems_paths); }},
    {"gemm_quant_mode", [](All& a, std::string_view t) { return Into(t, a.model.formats.gemm); }},
    {"moe_quant_mode", [](All& a, std::string_view t) { return Into(t, a.model.formats.moe); }},
    {"kvcache_quant_mode", [](All& a, std::string_view t) { return Into(t, a.model.formats.kvcache); }},
    {"fmha_quant_mode", [](All& a, std::string_view t) { return Into(t, a.model.formats.fmha); }},
    {"comm_quant_mode", [](All& a, std::string_view t) { return Into(t, a.model.formats.comm); }},
    {"attention_backend", [](All& a, std::string_view t) { return Into(t, a.model.attention_backend); }},
    {"moe_backend", [](All& a, std::string_view t) { return Into(t, a.model.moe_backend); }},
    {"nextn", [](All& a, std::string_view t) {
       if (t != "auto") return Into(t, a.model.nextn);
       a.model.nextn.reset();
       return true;
     }},
    {"nextn_accepted", [](All& a, std::string_view t) { return Into(t, a.estimate.nextn_accepted, a.search().nextn_accepted); }},
    // Layout of a worker.
    {"tp_size", [](All& a, std::string_view t) { return Into(t, a.model.parallelism.tp); }},
    {"pp_size", [](All& a, std::string_view t) { return Into(t, a.model.parallelism.pp); }},
    {"attention_dp_size", [](All& a, std::string_view t) { return Into(t, a.model.parallelism.dp); }},
    {"cp_size", [](All& a, std::string_view t) { return Into(t, a.model.parallelism.cp); }},
    {"moe_tp_size", [](All& a, std::string_view t) { return Into(t, a.model.parallelism.moe_tp); }},
    {"moe_ep_size", [](All& a, std::string_view t) { return Into(t, a.model.parallelism.moe_ep); }},
    // Workload.
    {"isl", [](All& a, std::string_view t) { return Into(t, a.memory.isl, a.estimate.workload.isl, a.search().workload.isl); }},
    {"osl", [](All& a, std::string_view t) { return Into(t, a.memory.osl, a.estimate.workload.osl, a.search().workload.osl); }},
    {"prefix", [](All& a, std::string_view t) { return Into(t, a.memory.prefix, a.estimate.workload.prefix, a.search().workload.prefix); }},
    {"image_height", [](All& a, std::string_view t) { return Into(t, a.estimate.workload.image_height, a.search().workload.image_height); }},
    {"image_width", [](All& a, std::string_view t) { return Into(t, a.estimate.workload.image_width, a.search().workload.image_width); }},
    {"num_images", [](All& a, std::string_view t) { return Into(t, a.estimate.workload.num_images, a.search().workload.num_images); }},
    {"batch_size", [](All& a, std::string_view t) { return Into(t, a.memory.batch_size, a.estimate.batch_size); }},
    {"beam_width", [](All& a, std::string_view t) { return Into(t, a.memory.beam_width); }},
    {"max_num_tokens", [](All& a, std::string_view t) { return Into(t, a.memory.max_num_tokens); }},
    {"memory_fraction", [](All& a, std::string_view t) { return Into(t, a.memory.memory_fraction, a.estimate.memory_fraction, a.search().memory_fraction); }},
    {"max_seq_len", [](All& a, std::string_view t) { return Into(t, a.memory.max_seq_len, a.estimate.max_seq_len, a.search().max_seq_len); }},
    // One forecast.
    {"estimate_mode", [](All& a, std::string_view t) { return Into(t, a.estimate.mode); }},
    {"ctx_tokens", [](All& a, std::string_view t) { return Into(t, a.estimate.ctx_tokens); }},
    {"bounds", [](All& a, std::string_view t) { return Into(t, a.estimate.bounds); }},
    {"stride", [](All& a, std::string_view t) { return Into(t, a.estimate.stride); }},
    {"decode_system", [](All& a, std::string_view t) { return Into(t, a.estimate.decode_system, a.search().decode_system); }},
    {"prefill_tp_size", [](All& a, std::string_view t) { return Into(t, a.estimate.prefill.parallelism.tp); }},
    {"prefill_pp_size", [](All& a, std::string_view t) { return Into(t, a.estimate.prefill.parallelism.pp); }},
    {"prefill_attention_dp_size", [](All& a, std::string_view t) { return Into(t, a.estimate.prefill.parallelism.dp); }},
    {"prefill_moe_tp_size", [](All& a, std::string_view t) { return Into(t, a.estimate.prefill.parallelism.moe_tp); }},
    {"prefill_moe_ep_size", [](All& a, std::string_view t) { return Into(t, a.estimate.prefill.parallelism.moe_ep); }},
    {"prefill_batch_size", [](All& a, std::string_view t) { return Into(t, a.estimate.prefill.batch_size); }},
    {"prefill_num_workers", [](All& a, std::string_view t) { return Into(t, a.estimate.prefill.workers); }},
    {"decode_tp_size", [](All& a, std::string_view t) { return Into(t, a.estimate.decode.parallelism.tp); }},
    {"decode_pp_size", [](All& a, std::string_view t) { return Into(t, a.estimate.decode.parallelism.pp); }},
    {"decode_attention_dp_size", [](All& a, std::string_view t) { return Into(t, a.estimate.decode.parallelism.dp); }},
    {"decode_moe_tp_size", [](All& a, std::string_view t) { return Into(t, a.estimate.decode.parallelism.moe_tp); }},
    {"decode_moe_ep_size", [](All& a, std::string_view t) { return Into(t, a.estimate.decode.parallelism.moe_ep); }},
    {"decode_batch_size", [](All& a, std::string_view t) { return Into(t, a.estimate.decode.batch_size); }},
    {"decode_num_workers", [](All& a, std::string_view t) { return Into(t, a.estimate.decode.workers); }},
    {"score", [](All& a, std::string_view t) { return Into(t, a.estimate.score, a.search().score); }},
    // The load of an estimate's run; "concurrency" stands below.
    {"rate", [](All& a, std::string_view t) { return Into(t, a.estimate.load.rate); }},
    {"num_requests", [](All& a, std::string_view t) { return Into(t, a.estimate.load.num_requests); }},
    {"shortest", [](All& a, std::string_view t) { return Into(t, a.estimate.load.shortest); }},
    {"seed", [](All& a, std::string_view t) { return Into(t, a.estimate.load.seed); }},
    {"token_budget", [](All& a, std::string_view t) { return Into(t, a.estimate.load.token_budget); }},
    {"poll_interval", [](All& a, std::string_view t) { return Into(t, a.estimate.load.poll_interval); }},
    {"hold_steps", [](All& a, std::string_view t) { return Into(t, a.estimate.load.hold_steps); }},
    {"max_num_seqs", [](All& a, std::string_view t) { return Into(t, a.estimate.load.max_num_seqs); }},
    {"correction", [](All& a, std::string_view t) { return Into(t, a.estimate.load.corrections); }},
    {"no_corrections", [](All& a, std::string_view t) { return Into(t, a.estimate.load.no_corrections); }},
    {"recipe", [](All& a, std::string_view t) { return Into(t, a.estimate.load.recipe); }},
    // Searches.
    {"ttft", [](All& a, std::string_view t) { return Into(t, a.search().ttft_ms); }},
    {"tpot", [](All& a, std::string_view t) { return Into(t, a.search().tpot_ms); }},
    {"request_latency", [](All& a, std::string_view t) { return Into(t, a.search().request_latency_ms); }},
    {"strict", [](All& a, std::string_view t) { return Into(t, a.search().strict); }},
    {"chunked_prefill", [](All& a, std::string_view t) { return Into(t, a.search().chunked_prefill); }},
    {"modes", [](All& a, std::string_view t) { return Into(t, a.search().modes); }},
    {"top_n", [](All& a, std::string_view t) { return Into(t, a.search().top_n); }},
    {"total_gpus", [](All& a, std::string_view t) { return Into(t, a.search().total_gpus); }},
    {"request_rate", [](All& a, std::string_view t) { return Into(t, a.recommend.request_rate); }},
    {"concurrency", [](All& a, std::string_view t) { return Into(t, a.recommend.concurrency, a.estimate.load.concurrency); }},
    {"max_gpus", [](All& a, std::string_view t) { return Into(t, a.recommend.max_gpus); }},
    // Online models.
    {"max_observations", [](All& a, std::string_view t) { return Into(t, a.online.max_observations); }},
    {"min_observations", [](All& a, std::string_view t) { return Into(t, a.online.min_observations); }},
    {"min_faster_correction_factor", [](All& a, std::string_view t) { return Into(t, a.online.min_faster_correction_factor); }},
    {"max_slower_correction_factor", [](All& a, std::string_view t) { return Into(t, a.online.max_slower_correction_factor); }},
    {"bucket_count", [](All& a, std::string_view t) { return Into(t, a.online.bucket_count); }},
    {"max_batched_tokens", [](All& a, std::string_view t) { return Into(t, a.online.max_num_tokens); }},
    {"max_batch_size", [](All& a, std::string_view t) { return Into(t, a.online.max_batch_size); }},
    {"max_kv_tokens", [](All& a, std::string_view t) { return Into(t, a.online.max_kv_tokens); }},
  };
  return setters;
}
// clang-format on

}  // namespace

NamedOptions::NamedOptions() : impl_(std::make_unique<Impl>()) {}
NamedOptions::NamedOptions(const NamedOptions& other)
    : impl_(std::make_unique<Impl>(*other.impl_)) {}
NamedOptions& NamedOptions::operator=(const NamedOptions& other) {
  *impl_ = *other.impl_;
  return *this;
}
NamedOptions::~NamedOptions() = default;

Result<void> NamedOptions::Set(std::string_view name, std::string_view value) {
  return internal::Guarded<void>([&]() -> Result<void> {
    const auto found = Setters().find(name);
    if (found == Setters().end()) {
      return internal::Refuse(ErrorKind::kUnknownName,
                              fmt::format("unknown setting '{}'{}", name,
                                          infercast::DidYouMean(std::string(name), Names())));
    }
    // A setting is all or nothing.
    Impl changed = *impl_;
    if (!found->second(changed, value)) {
      return internal::Refuse(ErrorKind::kInvalidArgument,
                              fmt::format("{} is '{}', which is no value for it", name, value));
    }
    changed.memory.model = changed.model;
    changed.estimate.model = changed.model;
    changed.search().model = changed.model;
    *impl_ = std::move(changed);
    return {};
  });
}

std::vector<std::string> NamedOptions::Names() {
  std::vector<std::string> names;
  for (const auto& [name, setter] : Setters()) names.emplace_back(name);
  return names;
}

const ModelOptions& NamedOptions::model() const { return impl_->model; }
const MemoryOptions& NamedOptions::memory() const { return impl_->memory; }
const EstimateOptions& NamedOptions::estimate() const { return impl_->estimate; }
const SweepOptions& NamedOptions::sweep() const { return impl_->recommend.search; }
const RecommendOptions& NamedOptions::recommend() const { return impl_->recommend; }
const OnlineOptions& NamedOptions::online() const { return impl_->online; }

}  // namespace infercast::v1
