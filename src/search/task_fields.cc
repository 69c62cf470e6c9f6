// One list that serves reading and writing, so that the two cannot drift apart.
#include "search/task_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "base/near_names.h"
#include "tables/versions.h"

namespace infercast {

namespace {

using IntList = std::vector<std::int64_t>;

std::unexpected<Error> WrongType(std::string_view name, std::string_view expected) {
  return Fail(ErrorKind::kInvalidArgument, fmt::format("{}: expected {}", name, expected));
}

bool IsNull(const FieldValue& v) { return std::holds_alternative<std::monostate>(v); }

// --- one reader and one writer for each type of member ---

Status Read(const FieldValue& v, std::string_view name, bool& out) {
  if (const bool* b = std::get_if<bool>(&v)) {
    out = *b;
    return {};
  }
  return WrongType(name, "true or false");
}

Status Read(const FieldValue& v, std::string_view name, std::int64_t& out) {
  if (const auto* i = std::get_if<std::int64_t>(&v)) {
    out = *i;
    return {};
  }
  const double* d = std::get_if<double>(&v);
  if (d != nullptr && std::nearbyint(*d) == *d && std::abs(*d) < 9e15) {
    out = static_cast<std::int64_t>(*d);
    return {};
  }
  return WrongType(name, "a whole number");
}

Status Read(const FieldValue& v, std::string_view name, double& out) {
  if (const double* d = std::get_if<double>(&v)) {
    out = *d;
    return {};
  }
  if (const auto* i = std::get_if<std::int64_t>(&v)) {
    out = static_cast<double>(*i);
    return {};
  }
  return WrongType(name, "a number");
}

Status Read(const FieldValue& v, std::string_view name, std::string& out) {
  if (const auto* s = std::get_if<std::string>(&v)) {
    out = *s;
    return {};
  }
  // A version such as 1.2 reads as a number.
  if (const double* d = std::get_if<double>(&v)) {
    out = fmt::format("{}", *d);
    return {};
  }
  return WrongType(name, "text");
}

Status Read(const FieldValue& v, std::string_view name, IntList& out) {
  if (const auto* list = std::get_if<IntList>(&v)) {
    out = *list;
    return {};
  }
  const auto* words = std::get_if<std::vector<std::string>>(&v);
  if (IsNull(v) || (words != nullptr && words->empty())) {
    out.clear();
    return {};
  }
  return WrongType(name, "a list of whole numbers");
}

Status Read(const FieldValue& v, std::string_view name, std::vector<std::string>& out) {
  out.clear();
  if (IsNull(v)) return {};
  if (const auto* list = std::get_if<std::vector<std::string>>(&v)) {
    out = *list;
    return {};
  }
  if (const auto* numbers = std::get_if<IntList>(&v)) {
    for (const std::int64_t n : *numbers) out.push_back(std::to_string(n));
    return {};
  }
  return WrongType(name, "a list");
}

template <NamedEnum E>
Result<E> Word(std::string_view text, std::string_view name) {
  if (const std::optional<E> value = ParseEnum<E>(text)) return *value;
  std::vector<std::string> names;
  for (const std::string_view known : EnumNames<E>::kNames) names.emplace_back(known);
  return Fail(ErrorKind::kUnknownName,
              fmt::format("{}: unknown {} '{}'{}; known: {}", name, EnumNames<E>::kType, text,
                          DidYouMean(text, names), JoinNames(names)));
}

template <NamedEnum E>
Status Read(const FieldValue& v, std::string_view name, E& out) {
  const auto* text = std::get_if<std::string>(&v);
  if (text == nullptr) return WrongType(name, "a name");
  IC_ASSIGN(out, Word<E>(*text, name));
  return {};
}

template <NamedEnum E>
Status Read(const FieldValue& v, std::string_view name, std::vector<E>& out) {
  std::vector<std::string> words;
  IC_RETURN_IF_ERROR(Read(v, name, words));
  out.clear();
  for (const std::string& word : words) {
    IC_ASSIGN(const E value, Word<E>(word, name));
    out.push_back(value);
  }
  return {};
}

template <typename T>
Status Read(const FieldValue& v, std::string_view name, std::optional<T>& out) {
  if (IsNull(v)) {
    out.reset();
    return {};
  }
  T value{};
  IC_RETURN_IF_ERROR(Read(v, name, value));
  out = std::move(value);
  return {};
}

FieldValue Write(bool v) { return v; }
FieldValue Write(std::int64_t v) { return v; }
FieldValue Write(double v) { return v; }
FieldValue Write(const std::string& v) { return v; }
FieldValue Write(const IntList& v) { return v.empty() ? FieldValue() : FieldValue(v); }
FieldValue Write(const std::vector<std::string>& v) {
  return v.empty() ? FieldValue() : FieldValue(v);
}
template <NamedEnum E>
FieldValue Write(E v) {
  return std::string(ToString(v));
}
template <NamedEnum E>
FieldValue Write(const std::vector<E>& v) {
  std::vector<std::string> words;
  for (const E e : v) words.emplace_back(ToString(e));
  return Write(words);
}
template <typename T>
FieldValue Write(const std::optional<T>& v) {
  return v ? Write(*v) : FieldValue();
}

// --- fields ---

// A field that is one member; `Member` maps a task to it.
template <auto Member>
constexpr TaskField Plain(std::string_view name) {
  return {name, [](const Task& task) { return Write(Member(const_cast<Task&>(task))); },
          [](Task& task, const FieldValue& value, std::string_view field) {
            return Read(value, field, Member(task));
          }};
}

#define IC_FIELD(name, path) Plain<[](Task& t) -> auto& { return t.path; }>(name)

Status SetDatabaseMode(Task& task, const FieldValue& value, std::string_view name) {
  if (IsNull(value)) {
    task.database_mode = DatabaseMode::kSilicon;
    return {};
  }
  return Read(value, name, task.database_mode);
}

FieldValue GetPolicy(const Task& task) {
  const TransferPolicy& p = task.policy;
  if (p == TransferPolicy{}) return {};
  std::vector<std::string> kinds;
  if (p.xshape) kinds.emplace_back("xshape");
  if (p.xquant) kinds.emplace_back("xquant");
  if (p.xprofile) kinds.emplace_back("xprofile");
  if (p.xop) kinds.emplace_back("xop");
  return kinds.empty() ? FieldValue(std::string("off")) : FieldValue(kinds);
}

Status SetPolicy(Task& task, const FieldValue& value, std::string_view name) {
  if (IsNull(value)) {
    task.policy = {};
    return {};
  }
  std::string text;
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    text = list->empty() ? "off" : "";
    for (const std::string& kind : *list) text += (text.empty() ? "" : ",") + kind;
  } else {
    IC_RETURN_IF_ERROR(Read(value, name, text));
  }
  IC_ASSIGN(task.policy, ParseTransferPolicy(text));
  return {};
}

// There is one engine; its name is accepted.
Status SetEngine(Task&, const FieldValue& value, std::string_view name) {
  std::optional<std::string> text;
  IC_RETURN_IF_ERROR(Read(value, name, text));
  if (!text) return {};
  std::string lower = *text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "rust") return {};
  return Fail(ErrorKind::kInvalidArgument, fmt::format("{}: '{}' is not known", name, *text));
}

FieldValue GetForwardModel(const Task& task) {
  return std::string(task.forward_model == ForwardModel::kOperators ? "op_level" : "fpm");
}

Status SetForwardModel(Task& task, const FieldValue& value, std::string_view name) {
  std::optional<std::string> text;
  IC_RETURN_IF_ERROR(Read(value, name, text));
  if (!text || *text == "op_level") {
    task.forward_model = ForwardModel::kOperators;
  } else if (*text == "fpm") {
    task.forward_model = ForwardModel::kWholeForward;
  } else {
    return Fail(ErrorKind::kUnknownName,
                fmt::format("{}: unknown '{}'; known: op_level, fpm", name, *text));
  }
  return {};
}

FieldValue GetNextn(const Task& task) {
  return task.nextn ? FieldValue(*task.nextn) : FieldValue(std::string("auto"));
}

Status SetNextn(Task& task, const FieldValue& value, std::string_view name) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (*text != "auto") return WrongType(name, "a number of draft tokens or auto");
    task.nextn.reset();
    return {};
  }
  if (IsNull(value)) {
    task.nextn = 0;
    return {};
  }
  std::int64_t depth = 0;
  IC_RETURN_IF_ERROR(Read(value, name, depth));
  task.nextn = depth;
  return {};
}

// A worker of a role: where it runs and what it is.
#define IC_WORKER(prefix, role)                                                           \
  IC_FIELD(prefix "model_path", role.model), IC_FIELD(prefix "system_name", role.system), \
      IC_FIELD(prefix "backend_name", role.backend),                                      \
      IC_FIELD(prefix "backend_version", role.version),                                   \
      IC_FIELD(prefix "enable_wideep", role.enable_wideep)
#define IC_QUANT(prefix, role)                              \
  IC_FIELD(prefix "gemm_quant_mode", role.quant.gemm),      \
      IC_FIELD(prefix "moe_quant_mode", role.quant.moe),    \
      IC_FIELD(prefix "kvcache_quant_mode", role.quant.kv), \
      IC_FIELD(prefix "fmha_quant_mode", role.quant.fmha),  \
      IC_FIELD(prefix "comm_quant_mode", role.quant.comm)
#define IC_LISTS(prefix, role)                                 \
  IC_FIELD(prefix "num_gpu_candidates", role.lists.num_gpu),   \
      IC_FIELD(prefix "tp_candidates", role.lists.tp),         \
      IC_FIELD(prefix "pp_candidates", role.lists.pp),         \
      IC_FIELD(prefix "dp_candidates", role.lists.dp),         \
      IC_FIELD(prefix "moe_tp_candidates", role.lists.moe_tp), \
      IC_FIELD(prefix "moe_ep_candidates", role.lists.moe_ep), \
      IC_FIELD(prefix "cp_candidates", role.lists.cp)

constexpr TaskField kFields[] = {
    // Workload and targets.
    IC_FIELD("serving_mode", mode),
    IC_FIELD("isl", workload.isl),
    IC_FIELD("osl", workload.osl),
    IC_FIELD("prefix", workload.prefix),
    IC_FIELD("image_height", workload.image_height),
    IC_FIELD("image_width", workload.image_width),
    IC_FIELD("num_images_per_request", workload.num_images),
    IC_FIELD("enable_encoder_dp", encoder_data_parallel),
    IC_FIELD("ttft", ttft),
    IC_FIELD("tpot", tpot),
    IC_FIELD("pareto_sweep", pareto_sweep),
    IC_FIELD("request_latency", request_latency),
    IC_FIELD("total_gpus", total_gpus),
    {"database_mode", [](const Task& t) { return Write(t.database_mode); }, &SetDatabaseMode},
    {"transfer_policy", &GetPolicy, &SetPolicy},
    IC_FIELD("free_gpu_memory_fraction", memory_fraction),
    IC_FIELD("max_seq_len", max_seq_len),
    {"engine_step_backend", [](const Task&) { return FieldValue(); }, &SetEngine},
    {"forward_model", &GetForwardModel, &SetForwardModel},
    // The worker of aggregated and AFD serving.
    IC_WORKER("", worker),
    IC_FIELD("enable_chunked_prefill", worker.chunked_prefill),
    IC_FIELD("enable_eplb", worker.enable_eplb),
    {"nextn", &GetNextn, &SetNextn},
    IC_FIELD("nextn_accepted", nextn_accepted),
    IC_FIELD("moe_backend", moe_backend),
    IC_FIELD("attention_backend", attention_backend),
    IC_FIELD("wideep_num_slots", expert_slots),
    IC_QUANT("", worker),
    IC_LISTS("agg_", worker),
    // Workers that prefill.
    IC_WORKER("prefill_", prefill),
    IC_FIELD("prefill_enable_chunked_prefill", prefill.chunked_prefill),
    IC_FIELD("prefill_enable_eplb", prefill.enable_eplb),
    IC_QUANT("prefill_", prefill),
    IC_LISTS("prefill_", prefill),
    // Workers that decode.
    IC_WORKER("decode_", decode),
    IC_FIELD("decode_enable_eplb", decode.enable_eplb),
    IC_QUANT("decode_", decode),
    IC_LISTS("decode_", decode),
    // Pools.
    IC_FIELD("num_gpu_per_replica", disagg.num_gpu_per_replica),
    IC_FIELD("max_gpu_per_replica", disagg.max_gpu_per_replica),
    IC_FIELD("max_prefill_workers", disagg.max_prefill_workers),
    IC_FIELD("max_decode_workers", disagg.max_decode_workers),
    IC_FIELD("prefill_max_batch_size", disagg.prefill_max_batch),
    IC_FIELD("decode_max_batch_size", disagg.decode_max_batch),
    IC_FIELD("prefill_latency_correction", disagg.prefill_latency_correction),
    IC_FIELD("decode_latency_correction", disagg.decode_latency_correction),
    IC_FIELD("rate_match_prefill_degradation", disagg.prefill_degradation),
    IC_FIELD("rate_match_decode_degradation", disagg.decode_degradation),
    IC_FIELD("rate_match_encoder_degradation", disagg.encoder_degradation),
    IC_FIELD("autoscale_ttft_correction_factor", disagg.ttft_queueing),
    // Encode workers.
    IC_FIELD("enable_epd", epd.enabled),
    IC_FIELD("encoder_tp_candidates", epd.tp),
    IC_FIELD("encoder_batch_candidates", epd.batch),
    IC_FIELD("max_encoder_workers", epd.max_workers),
    IC_FIELD("encoder_latency_correction", epd.latency_correction),
    IC_FIELD("encoder_system_name", epd.system),
    // Attention/feed-forward disaggregation.
    IC_FIELD("afd_total_gpus", afd.total_gpus),
    IC_FIELD("afd_combined_with_pd", afd.combined_with_pd),
    IC_FIELD("afd_comm_overhead_factor", afd.comm_overhead_factor),
    IC_FIELD("afd_boundary_on_attn", afd.boundary_on_attn),
    IC_FIELD("afd_total_batch_size", afd.total_batch),
    IC_FIELD("afd_max_a_batch_size", afd.max_a_batch),
    IC_FIELD("afd_n_a_nodes", afd.n_a_nodes),
    IC_FIELD("afd_n_f_nodes", afd.n_f_nodes),
    IC_FIELD("afd_tp_a", afd.tp_a),
    IC_FIELD("afd_a_batch_size", afd.a_batch),
    IC_FIELD("afd_tp_a_candidates", afd.tp_a_candidates),
    IC_FIELD("afd_microbatch_candidates", afd.microbatch_candidates),
    IC_FIELD("afd_pipeline_model_candidates", afd.pipeline_candidates),
    IC_FIELD("afd_f_moe_ep_size_candidates", afd.f_moe_ep_candidates),
    IC_FIELD("afd_max_af_ratio", afd.max_af_ratio),
    IC_FIELD("afd_max_candidates", afd.max_candidates),
    IC_FIELD("afd_candidate_overflow", afd.candidate_overflow),
    IC_FIELD("afd_prefill_batch_size_list", afd.prefill_batches),
    IC_FIELD("afd_prefill_max_candidates", afd.prefill_max_candidates),
    IC_FIELD("afd_prefill_candidate_overflow", afd.prefill_candidate_overflow),
    IC_FIELD("afd_max_prefill_gpus", afd.max_prefill_gpus),
    IC_FIELD("afd_max_prefill_workers", afd.max_prefill_workers),
    IC_FIELD("afd_prefill_degradation", afd.prefill_degradation),
    IC_FIELD("afd_decode_degradation", afd.decode_degradation),
    IC_FIELD("afd_ttft_correction_factor", afd.ttft_correction),
    IC_FIELD("afd_decode_latency_correction", afd.decode_latency_correction),
};

#undef IC_FIELD
#undef IC_WORKER
#undef IC_QUANT
#undef IC_LISTS

}  // namespace

std::span<const TaskField> TaskFields() { return kFields; }

const TaskField* FindTaskField(std::string_view name) {
  const auto found = std::ranges::find(kFields, name, &TaskField::name);
  return found == std::end(kFields) ? nullptr : found;
}

std::string AtLine(int line) { return line > 0 ? fmt::format("line {}: ", line) : std::string(); }

Status SetTaskFields(Task& task, std::span<const SourceField> fields) {
  std::optional<Error> error;
  const auto add = [&](ErrorKind kind, std::string message) {
    if (error) {
      error->message += "; " + message;
    } else {
      error = Error{kind, std::move(message)};
    }
  };
  std::vector<std::string> known;
  for (const TaskField& field : kFields) known.emplace_back(field.name);
  for (const SourceField& field : fields) {
    if (FindTaskField(field.name) != nullptr) continue;
    add(ErrorKind::kInvalidArgument, fmt::format("{}unknown field '{}'{}", AtLine(field.line),
                                                 field.name, DidYouMean(field.name, known)));
  }
  if (error) return std::unexpected(*std::move(error));
  for (const SourceField& field : fields) {
    const Status set = FindTaskField(field.name)->set(task, field.value, field.name);
    if (!set) add(set.error().kind, AtLine(field.line) + set.error().message);
  }
  if (error) return std::unexpected(*std::move(error));
  return {};
}

}  // namespace infercast
