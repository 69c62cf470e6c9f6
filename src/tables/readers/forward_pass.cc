// Whole forward passes: one measured iteration of a served model a row.
//
// The file comes with a metadata file that pins what it is (schema, identity, checksum, row count);
// everything is checked, row by row, because a silent mix-up here would misprice a whole model.
// Decode rows whose KV cache had to be faked are replaced by the line through the two nearest
// honest rows below them.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files.h"
#include "tables/digest.h"
#include "tables/readers/families.h"

namespace infercast {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kStem = "fpm_forward_perf";
constexpr std::array<std::string_view, 15> kIdentity = {"gemm_quant_mode",
                                                        "moe_quant_mode",
                                                        "fmha_quant_mode",
                                                        "comm_quant_mode",
                                                        "kv_cache_dtype",
                                                        "tp",
                                                        "pp",
                                                        "dp",
                                                        "moe_tp",
                                                        "moe_ep",
                                                        "cp",
                                                        "moe_backend",
                                                        "attention_backend",
                                                        "enable_wideep",
                                                        "enable_eplb"};
constexpr std::size_t kFirstCount = 5, kEndCounts = 11, kFirstFlag = 13;

// The measured file must be exactly the one its metadata speaks of.
std::optional<std::string> CheckMetadata(const std::string& parquet_path,
                                         const DatabaseIdentity& identity, std::size_t num_rows) {
  const std::string path =
      parquet_path.substr(0, parquet_path.size() - std::string_view(".parquet").size()) +
      ".metadata.json";
  const Result<std::string> text = ReadTextFile(path);
  if (!text) return "FPM database lacks its metadata: " + text.error().message;
  const Json metadata = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (metadata.is_discarded()) return fmt::format("FPM metadata is not valid JSON: {}", path);
  if (!metadata.is_object()) return fmt::format("FPM metadata is not a JSON object: {}", path);
  const auto value = [&](std::string_view key) {
    const auto it = metadata.find(key);
    return it == metadata.end() ? Json() : *it;
  };
  const auto differs = [&](std::string_view key,
                           const Json& expected) -> std::optional<std::string> {
    const Json actual = value(key);
    // Numbers compare by value: 6.0 is 6.
    if (actual == expected) return std::nullopt;
    return fmt::format("FPM metadata has {} = {}, expected {} at {}", key, actual.dump(),
                       expected.dump(), path);
  };
  for (const auto& [key, expected] : std::initializer_list<std::pair<std::string_view, Json>>{
           {"schema_name", "aic_fpm_forward_perf"},
           {"schema_version", 6},
           {"coordinate_system", "iteration_totals_balanced_v1"},
           {"measurement_policy", "dynamo_native_single_sample_v1"},
           {"system", identity.system},
           {"backend", std::string(ToString(identity.backend))},
           {"backend_version", identity.version}}) {
    if (auto problem = differs(key, expected)) return problem;
  }
  const auto digest = Sha256OfFile(parquet_path);
  if (!digest) return digest.error().message;
  if (auto problem = differs("parquet_sha256", ToHex(*digest))) return problem;
  return differs("row_count", num_rows);
}

bool KeepsFabricatedRows() {
  const char* value = std::getenv("AIC_FPM_FAKE_FALLBACK_RAW");
  return value != nullptr && std::string_view(value) == "1";
}

struct Iteration {
  std::string model, identity;  // the cell
  bool decode = false;
  double batch = 0, prefill = 0, kv = 0;
  double latency = 0;
  bool fabricated = false, honest = false;  // how the KV cache was seeded
};

// Reads and checks all rows. Stops at the first error.
std::vector<Iteration> ReadIterations(RowFile& file, const DatabaseIdentity& identity) {
  const auto reject = [&](std::string message) {
    file.SetError(ErrorKind::kPerfDatabase, std::move(message));
  };
  const auto column = [&](std::string_view name) { return file.Require(name); };
  std::array<const ParquetColumn*, kIdentity.size()> identity_columns{};
  const ParquetColumn* cell_id = column("cell_id");
  const ParquetColumn* model = column("model_path");
  const ParquetColumn* system = column("system");
  const ParquetColumn* backend = column("backend");
  const ParquetColumn* version = column("backend_version");
  const ParquetColumn* weights = column("weight_quantization");
  for (std::size_t i = 0; i < kIdentity.size(); ++i) identity_columns[i] = column(kIdentity[i]);
  const ParquetColumn* kind = column("workload_kind");
  const ParquetColumn* policy = column("partition_policy");
  const ParquetColumn* batch = column("batch_size");
  const ParquetColumn* prefill = column("total_prefill_tokens");
  const ParquetColumn* kv = column("total_kv_read_tokens");
  const ParquetColumn* latency = column("latency_ms");
  const ParquetColumn* seed = file.Optional("kv_seed_regime");
  std::vector<Iteration> rows;
  if (!file.ok()) return rows;
  if (auto problem = CheckMetadata(file.source().path, identity, file.num_rows())) {
    reject(*std::move(problem));
    return rows;
  }
  if (file.num_rows() == 0) reject("FPM database contains no rows");

  // Null texts and counts are empty, so that their cell can never be asked for.
  const auto text = [&](const ParquetColumn* cells, std::size_t row) -> std::string {
    if (cells->type != ParquetColumn::Type::kText) return std::string(file.Text(cells, row));
    return std::string(RowFile::OptionalText(cells, row).value_or(""));
  };
  const auto count = [&](const ParquetColumn* cells, std::size_t row) -> std::string {
    if (cells->type != ParquetColumn::Type::kInteger) file.U64(cells, row);
    if (!file.ok() || cells->IsNull(row)) return "";
    return fmt::format("{}", cells->integers[row]);
  };

  std::set<std::string> physical;
  std::set<std::string> coordinates;
  for (std::size_t row = 0; row < file.num_rows() && file.ok(); ++row) {
    const std::string workload = text(kind, row);
    if (workload != "prefill" && workload != "decode") {
      reject(fmt::format("FPM row {} has workload_kind '{}'", row, workload));
    }
    if (text(policy, row) != "balanced_v1") {
      reject(fmt::format("FPM row {} has partition_policy '{}'", row, text(policy, row)));
    }
    if (text(version, row) != identity.version || text(system, row) != identity.system ||
        text(backend, row) != ToString(identity.backend)) {
      reject(fmt::format("FPM row {} belongs to another system, backend or version", row));
    }
    Iteration it;
    it.decode = workload == "decode";
    it.latency = file.Real(latency, row);
    if (file.ok() && !(std::isfinite(it.latency) && it.latency > 0)) {
      reject(fmt::format("FPM row {} has latency {}", row, it.latency));
    }
    it.batch = file.U32(batch, row);
    it.prefill = file.U32(prefill, row);
    it.kv = file.U32(kv, row);
    if (file.ok() && it.batch < 1) reject(fmt::format("FPM row {} has no requests", row));
    if (file.ok() && (it.decode ? it.prefill != 0 : it.prefill < 1)) {
      reject(fmt::format("FPM row {} ({}) has {} prefill tokens", row, workload, it.prefill));
    }
    it.model = text(model, row);
    for (std::size_t i = 0; i < kIdentity.size(); ++i) {
      if (i > 0) it.identity += '|';
      if (i >= kFirstFlag) {
        it.identity += file.StrictFlag(identity_columns[i], row) ? "True" : "False";
      } else if (i >= kFirstCount && i < kEndCounts) {
        it.identity += count(identity_columns[i], row);
      } else {
        const std::string value = text(identity_columns[i], row);
        if (value.empty() && i >= kEndCounts) {
          reject(fmt::format("FPM row {} has an empty {}", row, kIdentity[i]));
        }
        it.identity += value;
      }
    }
    if (!file.ok()) break;
    const std::string at = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", it.model, it.identity, workload,
                                       it.batch, it.prefill, it.kv);
    const std::string key = fmt::format("{}\n{}\n{}", text(cell_id, row), text(weights, row), at);
    if (!physical.insert(key).second) {
      reject(fmt::format("FPM database contains a duplicate physical row key: row {}", row));
    }
    if (!coordinates.insert(at).second) {
      reject(
          fmt::format("FPM row {} collides with an earlier row at the same cell coordinates; "
                      "refusing to silently overwrite latencies.",
                      row));
    }
    const std::string_view regime = RowFile::OptionalText(seed, row).value_or("");
    it.fabricated = regime == "fake_fallback";
    it.honest = regime == "real_kv";
    rows.push_back(std::move(it));
  }
  return rows;
}

void Heal(std::vector<Iteration>& rows) {
  // Honest decode rows by (cell, batch): kv -> latency.
  std::map<std::tuple<std::string_view, std::string_view, double>, std::map<double, double>> lines;
  for (const Iteration& row : rows) {
    if (row.decode && row.honest) {
      lines[{row.model, row.identity, row.batch}].emplace(row.kv, row.latency);
    }
  }
  for (Iteration& row : rows) {
    if (!row.decode || !row.fabricated) continue;
    const auto line = lines.find({row.model, row.identity, row.batch});
    if (line == lines.end()) continue;
    const auto above = line->second.lower_bound(row.kv);
    if (std::distance(line->second.begin(), above) < 2) continue;
    const auto& [k2, l2] = *std::prev(above);
    const auto& [k1, l1] = *std::prev(above, 2);
    const double healed = l2 + (row.kv - k2) * ((l2 - l1) / (k2 - k1));
    if (std::isfinite(healed) && healed > 0) row.latency = healed;
  }
}

}  // namespace

TableRecipe FpmRecipe(FpmPhase phase) {
  const bool decode = phase == FpmPhase::kDecode;
  TableRecipe recipe;
  recipe.basenames = {std::string(kStem)};
  recipe.sources = SourceRule::kFlat;
  recipe.latency_only = true;
  recipe.cacheable = false;  // what is loaded depends on the metadata and the environment too
  recipe.keys = {OpenKey("model_path", true, {"model_path"}), OpenKey("identity", true),
                 OpenKey("batch", false, {"batch_size"}),
                 OpenKey("kv", false, {"total_kv_read_tokens"})};
  if (!decode) recipe.keys.push_back(OpenKey("prefill_tokens", false, {"total_prefill_tokens"}));
  recipe.more_columns = {
      "cell_id",       "system",           "backend",    "backend_version", "weight_quantization",
      "workload_kind", "partition_policy", "latency_ms", "kv_seed_regime",  "total_prefill_tokens"};
  recipe.more_columns.insert(recipe.more_columns.end(), kIdentity.begin(), kIdentity.end());
  recipe.custom = [decode](const LoadContext& context, const TableRecipe&) -> CustomReader {
    const auto read = [decode, &context](RowFile& file, TableBuilder& builder, std::uint64_t) {
      std::vector<Iteration> rows = ReadIterations(file, context.identity);
      if (!file.ok()) return;
      if (!KeepsFabricatedRows()) Heal(rows);
      for (const Iteration& row : rows) {
        if (row.decode != decode) continue;
        const std::array<double, 5> keys = {builder.Code(0, row.model),
                                            builder.Code(1, row.identity), row.batch, row.kv,
                                            row.prefill};
        builder.Add(std::span(keys).first(builder.num_levels()), Leaf{row.latency, 0, 0});
      }
    };
    return {read, {}};
  };
  return recipe;
}

}  // namespace infercast
