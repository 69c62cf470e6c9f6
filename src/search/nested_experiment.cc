// Conversion by tables of names: which key of which block becomes which field.
#include "search/nested_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "base/near_names.h"

namespace infercast {

namespace {

using Fields = std::vector<SourceField>;

bool IsNull(const FieldValue* v) {
  return v == nullptr || std::holds_alternative<std::monostate>(*v);
}

struct Renamed {
  std::string_view from, to;
};

constexpr std::string_view kCopied[] = {"serving_mode",
                                        "isl",
                                        "osl",
                                        "prefix",
                                        "ttft",
                                        "tpot",
                                        "request_latency",
                                        "total_gpus",
                                        "database_mode",
                                        "free_gpu_memory_fraction",
                                        "max_seq_len",
                                        "engine_step_backend",
                                        "forward_model",
                                        "nextn",
                                        "moe_backend",
                                        "attention_backend",
                                        "wideep_num_slots"};
constexpr std::string_view kOfConfig[] = {"moe_backend", "nextn", "attention_backend",
                                          "wideep_num_slots"};
constexpr Renamed kLists[] = {{"num_gpu_per_worker", "num_gpu_candidates"},
                              {"tp_list", "tp_candidates"},
                              {"pp_list", "pp_candidates"},
                              {"dp_list", "dp_candidates"},
                              {"moe_tp_list", "moe_tp_candidates"},
                              {"moe_ep_list", "moe_ep_candidates"}};
constexpr std::string_view kOfWorkers[] = {
    "gemm_quant_mode", "moe_quant_mode", "kvcache_quant_mode", "fmha_quant_mode",
    "comm_quant_mode", "enable_wideep",  "enable_eplb"};
constexpr Renamed kReplica[] = {{"num_gpu_per_replica", "num_gpu_per_replica"},
                                {"max_gpu_per_replica", "max_gpu_per_replica"},
                                {"max_prefill_worker", "max_prefill_workers"},
                                {"max_decode_worker", "max_decode_workers"}};
constexpr Renamed kTuning[] = {{"prefill_max_batch_size", "prefill_max_batch_size"},
                               {"decode_max_batch_size", "decode_max_batch_size"},
                               {"prefill_latency_correction_scale", "prefill_latency_correction"},
                               {"decode_latency_correction_scale", "decode_latency_correction"}};

struct Profile {
  std::string_view name;
  std::array<std::string_view, 5> modes;  // gemm, moe, kvcache, fmha, comm
};
constexpr Profile kProfiles[] = {
    {"fp8", {"fp8", "fp8", "fp8", "fp8", "half"}},
    {"fp8_static", {"fp8_static", "fp8", "fp8", "fp8", "half"}},
    {"bfloat16", {"bfloat16", "bfloat16", "bfloat16", "bfloat16", "half"}},
    {"nvfp4", {"nvfp4", "nvfp4", "fp8", "fp8", "half"}},
    {"mxfp4", {"bfloat16", "w4a16_mxfp4", "bfloat16", "bfloat16", "half"}}};

class Flattener {
 public:
  explicit Flattener(const NestedFields& nested) : nested_(nested) {}

  Result<Fields> Run() {
    for (const std::string_view name : kCopied) Copy(nested_, name, name);
    const FieldValue* mode = nested_.Value("serving_mode");
    const auto* word = mode == nullptr ? nullptr : std::get_if<std::string>(mode);
    disagg_ = word != nullptr && *word == "disagg";
    Identity();
    Profiles();
    Config();
    IC_RETURN_IF_ERROR(Acceptance());
    if (!unmapped_.empty()) {
      return Fail(ErrorKind::kInvalidArgument,
                  fmt::format("the older form holds what has no field: {}", JoinNames(unmapped_)));
    }
    return std::move(out_);
  }

 private:
  void Set(const std::string& name, const FieldValue& value, int line) {
    const auto old = std::ranges::find(out_, name, &SourceField::name);
    if (old != out_.end()) {
      *old = {name, value, line};
    } else {
      out_.push_back({name, value, line});
    }
  }
  void Copy(const NestedFields& from, std::string_view key, std::string_view name) {
    if (const SourceField* field = from.Field(key)) {
      Set(std::string(name), field->value, field->line);
    }
  }
  void HasNoField(int line, const std::string& what) { unmapped_.push_back(AtLine(line) + what); }

  std::vector<std::string> Prefixes() const {
    if (disagg_) return {"prefill_", "decode_"};
    return {""};
  }

  void Identity() {
    for (const std::string& prefix : Prefixes()) {
      for (const std::string_view key :
           {"model_path", "backend_name", "backend_version", "enable_wideep", "enable_eplb"}) {
        Copy(nested_, key, prefix + std::string(key));
      }
      Copy(nested_, "system_name", prefix + "system_name");
    }
    if (disagg_ && !IsNull(nested_.Value("decode_system_name"))) {
      Copy(nested_, "decode_system_name", "decode_system_name");
    }
  }

  void Profiles() {
    const SourceField* field = nested_.Field("profiles");
    if (field == nullptr || IsNull(&field->value)) return;
    const FieldValue* value = &field->value;
    std::vector<std::string> names;
    if (const auto* list = std::get_if<std::vector<std::string>>(value)) {
      names = *list;
    } else if (const auto* one = std::get_if<std::string>(value)) {
      names = {*one};
    }
    if (names.empty()) return;
    const auto profile = std::ranges::find(kProfiles, names.front(), &Profile::name);
    if (names.size() > 1 || profile == std::end(kProfiles)) {
      for (const std::string& name : names) HasNoField(field->line, "profiles: " + name);
      return;
    }
    for (const std::string& prefix : Prefixes()) {
      for (std::size_t i = 0; i < profile->modes.size(); ++i) {
        Set(prefix + std::string(kOfWorkers[i]), std::string(profile->modes[i]), field->line);
      }
    }
  }

  void Renames(const NestedFields& block, std::string_view where, std::span<const Renamed> names) {
    for (const auto& [key, value, line] : block.values) {
      const auto rule = std::ranges::find(names, key, &Renamed::from);
      if (rule == names.end()) {
        HasNoField(line, fmt::format("{}.{}", where, key));
      } else {
        Set(std::string(rule->to), value, line);
      }
    }
    for (const auto& [key, child, line] : block.blocks) {
      HasNoField(line, fmt::format("{}.{}", where, key));
    }
  }

  void Worker(const NestedFields& block, const std::string& where, const std::string& lists,
              const std::string& fields) {
    for (const auto& [key, value, line] : block.values) {
      const auto list = std::ranges::find(kLists, key, &Renamed::from);
      if (list != std::end(kLists)) {
        Set(lists + std::string(list->to), value, line);
      } else if (std::ranges::find(kOfWorkers, key) != std::end(kOfWorkers)) {
        Set(fields + key, value, line);
      } else {
        HasNoField(line, fmt::format("{}.{}", where, key));
      }
    }
    for (const auto& [key, child, line] : block.blocks) {
      HasNoField(line, fmt::format("{}.{}", where, key));
    }
  }

  void Config() {
    // Blocks may also stand at the top.
    const NestedFields* config = nested_.Block("config");
    for (const NestedFields* level : {&nested_, config}) {
      if (level == nullptr) continue;
      const bool top = level == &nested_;
      for (const auto& [key, block, line] : level->blocks) {
        if (key == "worker_config") {
          Worker(block, key, "agg_", "");
        } else if (key == "prefill_worker_config") {
          Worker(block, key, "prefill_", "prefill_");
        } else if (key == "decode_worker_config") {
          Worker(block, key, "decode_", "decode_");
        } else if (key == "replica_config") {
          Renames(block, key, kReplica);
        } else if (key == "advanced_tuning_config") {
          Renames(block, key, kTuning);
        } else if (!top) {
          HasNoField(line, "config." + key);
        }
      }
      if (top) continue;
      for (const auto& [key, value, line] : level->values) {
        if (std::ranges::find(kOfConfig, key) != std::end(kOfConfig)) {
          Set(key, value, line);
        } else if (key != "nextn_accept_rates") {
          HasNoField(line, "config." + key);
        }
      }
    }
  }

  // Acceptance rates by position become the expected number of accepted drafts.
  Status Acceptance() {
    const auto depth = std::ranges::find(out_, "nextn", &SourceField::name);
    const auto* nextn = depth == out_.end() ? nullptr : std::get_if<std::int64_t>(&depth->value);
    if (nextn == nullptr || *nextn <= 0) return {};
    const FieldValue* given = nullptr;
    if (const NestedFields* config = nested_.Block("config")) {
      given = config->Value("nextn_accept_rates");
    }
    if (IsNull(given)) given = nested_.Value("nextn_accept_rates");
    std::vector<double> rates = {0.85, 0.3, 0, 0, 0};
    if (!IsNull(given)) {
      rates.clear();
      if (const auto* integers = std::get_if<std::vector<std::int64_t>>(given)) {
        for (const std::int64_t i : *integers) rates.push_back(static_cast<double>(i));
      } else if (const auto* words = std::get_if<std::vector<std::string>>(given)) {
        for (const std::string& word : *words) {
          try {
            rates.push_back(std::stod(word));
          } catch (const std::exception&) {
            return Fail(ErrorKind::kInvalidArgument,
                        fmt::format("nextn_accept_rates holds '{}', which is no number", word));
          }
        }
      } else {
        return Fail(ErrorKind::kInvalidArgument, "nextn_accept_rates is no list of numbers");
      }
    }
    double accepted = 0;
    double all = 1;
    for (std::int64_t i = 0; i < *nextn; ++i) {
      all *= static_cast<std::size_t>(i) < rates.size() ? rates[static_cast<std::size_t>(i)] : 0.0;
      accepted += all;
    }
    Set("nextn_accepted", accepted, depth->line);
    return {};
  }

  const NestedFields& nested_;
  Fields out_;
  std::vector<std::string> unmapped_;
  bool disagg_ = false;
};

}  // namespace

const SourceField* NestedFields::Field(std::string_view name) const {
  const auto found = std::ranges::find(values, name, &SourceField::name);
  return found == values.end() ? nullptr : &*found;
}

const FieldValue* NestedFields::Value(std::string_view name) const {
  const SourceField* field = Field(name);
  return field == nullptr ? nullptr : &field->value;
}

const NestedFields* NestedFields::Block(std::string_view name) const {
  for (const NamedBlock& block : blocks) {
    if (block.name == name) return &block.fields;
  }
  return nullptr;
}

Result<Fields> FlattenNested(const NestedFields& nested) { return Flattener(nested).Run(); }

}  // namespace infercast
