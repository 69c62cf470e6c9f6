// The C interface: settings, tables, engines, memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

#include "api/c_internal.h"

using namespace infercast::v1;
using infercast::v1::internal::AtBorder;
using infercast::v1::internal::Fail;
using infercast::v1::internal::Give;
using infercast::v1::internal::NullArgument;
using infercast::v1::internal::OrEmpty;

// A status is the kind of the error, counted from 1.
static_assert(INFERCAST_PERF_DATABASE == 1 + static_cast<int>(ErrorKind::kPerfDatabase));
static_assert(INFERCAST_INVALID_ARGUMENT == 1 + static_cast<int>(ErrorKind::kInvalidArgument));
static_assert(INFERCAST_DOES_NOT_FIT == 1 + static_cast<int>(ErrorKind::kDoesNotFit));
static_assert(static_cast<int>(INFERCAST_INTERRUPTED) ==
              1 + static_cast<int>(ErrorKind::kInterrupted));

namespace infercast::v1::internal {

namespace {
std::string& LastError() {
  static thread_local std::string message;
  return message;
}
}  // namespace

infercast_status Fail(const Error& error) noexcept {
  try {
    LastError() = error.message;
  } catch (...) {  // out of memory: the status alone must do
  }
  return static_cast<infercast_status>(1 + static_cast<int>(error.kind));
}

infercast_status Give(infercast_table table, infercast_table** out) {
  table.Finish();
  *out = new infercast_table(std::move(table));
  return INFERCAST_OK;
}

}  // namespace infercast::v1::internal

void infercast_table::Add(const std::vector<std::pair<std::string, Cell>>& cells) {
  Row row;
  row.cells.resize(columns.size());
  for (const auto& [name, cell] : cells) {
    const auto at = std::find(columns.begin(), columns.end(), name);
    const auto index = static_cast<std::size_t>(at - columns.begin());
    if (at == columns.end()) {
      columns.push_back(name);
      row.cells.emplace_back();
    }
    row.cells[index] = cell;
  }
  rows.push_back(std::move(row));
}

void infercast_table::Finish() {
  for (Row& row : rows) {
    row.cells.resize(columns.size());
    row.texts.clear();
    for (const Cell& cell : row.cells) {
      const double* number = std::get_if<double>(&cell);
      row.texts.push_back(number != nullptr ? fmt::format("{}", *number) : std::string());
    }
  }
}

namespace {

infercast_status GiveNames(const Result<std::vector<std::string>>& names, infercast_table** out) {
  if (!names) return Fail(names.error());
  infercast_table table;
  table.columns = {"name"};
  for (const std::string& name : *names) table.Add({{"name", name}});
  return Give(std::move(table), out);
}

infercast_status GiveNumber(const Result<double>& answer, double* out) {
  if (!answer) return Fail(answer.error());
  *out = *answer;
  return INFERCAST_OK;
}

infercast_status GiveBatch(const Result<std::vector<ShapeError>>& answer, std::size_t* failed) {
  if (!answer) return Fail(answer.error());
  if (!answer->empty()) static_cast<void>(Fail(answer->front().error));
  if (failed != nullptr) *failed = answer->size();
  return INFERCAST_OK;
}

MixedShape ShapeOf(const infercast_mixed_shape& s) {
  return {s.context_tokens,      s.decodes, s.isl, s.osl, s.prefix, s.context_imbalance,
          s.generation_imbalance};
}

void AddOperators(infercast_table& table, const char* part, const Breakdown& breakdown) {
  for (const OperatorCost& c : breakdown) {
    table.Add({{"part", part},
               {"name", c.name},
               {"latency_ms", c.latency_ms},
               {"energy_wms", c.energy_wms},
               {"source", c.source},
               {"origin", c.origin},
               {"octaves", c.octaves},
               {"version", c.version},
               {"donor", c.donor}});
  }
}

}  // namespace

extern "C" {

const char* infercast_version(void) { return Version(); }
int infercast_c_api_version(void) { return INFERCAST_C_API_VERSION; }

const char* infercast_status_name(infercast_status status) {
  if (status == INFERCAST_OK) return "ok";
  if (status < INFERCAST_OK || status > static_cast<int>(ErrorKind::kInternal) + 1)
    return "unknown";
  return ToString(static_cast<ErrorKind>(status - 1)).data();  // of a literal
}

const char* infercast_last_error(void) { return infercast::v1::internal::LastError().c_str(); }

infercast_options* infercast_options_new(void) {
  try {
    return new infercast_options();
  } catch (...) {
    return nullptr;
  }
}
void infercast_options_free(infercast_options* options) { delete options; }
infercast_status infercast_options_set(infercast_options* options, const char* name,
                                       const char* value) {
  if (options == nullptr || name == nullptr || value == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    const Result<void> set = options->named.Set(name, value);
    return set ? INFERCAST_OK : Fail(set.error());
  });
}

void infercast_table_free(infercast_table* table) { delete table; }
size_t infercast_table_rows(const infercast_table* table) {
  return table != nullptr ? table->rows.size() : 0;
}
size_t infercast_table_columns(const infercast_table* table) {
  return table != nullptr ? table->columns.size() : 0;
}
const char* infercast_table_column_name(const infercast_table* table, size_t column) {
  if (table == nullptr || column >= table->columns.size()) return nullptr;
  return table->columns[column].c_str();
}
infercast_status infercast_table_number(const infercast_table* table, size_t row,
                                        const char* column, double* value) {
  if (table == nullptr || column == nullptr || value == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    const auto at = std::find(table->columns.begin(), table->columns.end(), column);
    if (at == table->columns.end()) {
      return Fail({ErrorKind::kUnknownName, fmt::format("the table has no column '{}'", column)});
    }
    const auto index = static_cast<std::size_t>(at - table->columns.begin());
    const double* number =
        row < table->rows.size() ? std::get_if<double>(&table->rows[row].cells[index]) : nullptr;
    if (number == nullptr) {
      return Fail({ErrorKind::kInvalidArgument,
                   fmt::format("no number in row {} of column '{}'", row, column)});
    }
    *value = *number;
    return INFERCAST_OK;
  });
}
const char* infercast_table_text(const infercast_table* table, size_t row, const char* column) {
  if (table == nullptr || column == nullptr || row >= table->rows.size()) return nullptr;
  const auto at = std::find(table->columns.begin(), table->columns.end(), column);
  if (at == table->columns.end()) return nullptr;
  const auto index = static_cast<std::size_t>(at - table->columns.begin());
  const infercast_table::Row& cells = table->rows[row];
  const std::string* text = std::get_if<std::string>(&cells.cells[index]);
  return text != nullptr ? text->c_str() : cells.texts[index].c_str();
}

infercast_status infercast_systems(const char* systems_paths, infercast_table** table) {
  if (table == nullptr) return NullArgument("table");
  return AtBorder([&] { return GiveNames(PerfDatabase::Systems(OrEmpty(systems_paths)), table); });
}
infercast_status infercast_versions(const char* system, const char* backend,
                                    const char* systems_paths, infercast_table** table) {
  if (system == nullptr || backend == nullptr || table == nullptr) {
    return NullArgument("an argument");
  }
  return AtBorder([&] {
    return GiveNames(PerfDatabase::Versions(system, backend, OrEmpty(systems_paths)), table);
  });
}
infercast_status infercast_models(const char* systems_paths, infercast_table** table) {
  if (table == nullptr) return NullArgument("table");
  return AtBorder([&] { return GiveNames(PerfDatabase::Models(OrEmpty(systems_paths)), table); });
}

infercast_status infercast_engine_compile(const infercast_options* options,
                                          infercast_engine** engine) {
  if (options == nullptr || engine == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    Result<Engine> compiled = Engine::Compile(options->named.model());
    if (!compiled) return Fail(compiled.error());
    *engine = new infercast_engine{*std::move(compiled)};
    return INFERCAST_OK;
  });
}
infercast_status infercast_engine_from_spec(const uint8_t* bytes, size_t size,
                                            const char* systems_paths, const char* behaviour,
                                            infercast_engine** engine) {
  if ((bytes == nullptr && size > 0) || engine == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    const Result<EngineSpec> spec = EngineSpec::FromBytes(std::span(bytes, size));
    if (!spec) return Fail(spec.error());
    Result<Engine> opened = Engine::FromSpec(*spec, OrEmpty(systems_paths),
                                             behaviour != nullptr ? behaviour : "native");
    if (!opened) return Fail(opened.error());
    *engine = new infercast_engine{*std::move(opened)};
    return INFERCAST_OK;
  });
}
void infercast_engine_free(infercast_engine* engine) { delete engine; }

void infercast_free(void* memory) { std::free(memory); }
infercast_status infercast_engine_spec(const infercast_engine* engine, uint8_t** bytes,
                                       size_t* size) {
  if (engine == nullptr || bytes == nullptr || size == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    const std::vector<std::uint8_t> spec = engine->engine.spec().ToBytes();
    void* copy = std::malloc(spec.size());
    if (copy == nullptr) throw std::bad_alloc();
    std::memcpy(copy, spec.data(), spec.size());
    *bytes = static_cast<uint8_t*>(copy);
    *size = spec.size();
    return INFERCAST_OK;
  });
}
infercast_status infercast_engine_spec_json(const infercast_engine* engine, char** text) {
  if (engine == nullptr || text == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    const std::string json = engine->engine.spec().ToJson();
    void* copy = std::malloc(json.size() + 1);
    if (copy == nullptr) throw std::bad_alloc();
    std::memcpy(copy, json.c_str(), json.size() + 1);
    *text = static_cast<char*>(copy);
    return INFERCAST_OK;
  });
}

infercast_status infercast_engine_prefill(const infercast_engine* engine, uint32_t batch,
                                          uint32_t isl, uint32_t prefix, double* latency_ms) {
  if (engine == nullptr || latency_ms == nullptr) return NullArgument("an argument");
  return AtBorder(
      [&] { return GiveNumber(engine->engine.Prefill(batch, isl, prefix), latency_ms); });
}
infercast_status infercast_engine_decode(const infercast_engine* engine, uint32_t batch,
                                         uint32_t isl, uint32_t osl, double* latency_ms) {
  if (engine == nullptr || latency_ms == nullptr) return NullArgument("an argument");
  return AtBorder([&] { return GiveNumber(engine->engine.Decode(batch, isl, osl), latency_ms); });
}
infercast_status infercast_engine_mixed_step(const infercast_engine* engine,
                                             const infercast_mixed_shape* shape,
                                             double* latency_ms) {
  if (engine == nullptr || shape == nullptr || latency_ms == nullptr) {
    return NullArgument("an argument");
  }
  return AtBorder([&] {
    const Result<MixedCost> cost = engine->engine.MixedStep(ShapeOf(*shape));
    if (!cost) return Fail(cost.error());
    *latency_ms = cost->total_ms();
    return INFERCAST_OK;
  });
}
infercast_status infercast_engine_decode_step(const infercast_engine* engine, uint32_t decodes,
                                              uint32_t isl, uint32_t osl, double* latency_ms) {
  if (engine == nullptr || latency_ms == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    const Result<StepCost> cost = engine->engine.DecodeStep(decodes, isl, osl);
    if (!cost) return Fail(cost.error());
    *latency_ms = cost->latency_ms;
    return INFERCAST_OK;
  });
}
infercast_status infercast_engine_explain_mixed_step(const infercast_engine* engine,
                                                     const infercast_mixed_shape* shape,
                                                     infercast_table** table) {
  if (engine == nullptr || shape == nullptr || table == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    const Result<MixedBreakdown> step = engine->engine.ExplainMixedStep(ShapeOf(*shape));
    if (!step) return Fail(step.error());
    infercast_table out;
    AddOperators(out, "shared", step->shared);
    AddOperators(out, "context_attention", step->context_attention);
    AddOperators(out, "decode_attention", step->decode_attention);
    return Give(std::move(out), table);
  });
}
infercast_status infercast_engine_forward_pass(const infercast_engine* engine,
                                               const infercast_scheduled* ranks, size_t count,
                                               double* latency_ms) {
  if (engine == nullptr || (ranks == nullptr && count > 0) || latency_ms == nullptr) {
    return NullArgument("an argument");
  }
  return AtBorder([&] {
    // Rank by rank: nothing is allocated. No rank at all is the engine's error to tell.
    if (count == 0) {
      return GiveNumber(engine->engine.ForwardPass(std::span<const ScheduledRequests>()),
                        latency_ms);
    }
    double slowest = 0;
    for (size_t i = 0; i < count; ++i) {
      const infercast_scheduled& r = ranks[i];
      const Result<double> ms = engine->engine.ForwardPass(
          ScheduledRequests{r.num_prefill_requests, r.sum_prefill_tokens, r.sum_prefill_kv_tokens,
                            r.num_decode_requests, r.sum_decode_kv_tokens});
      if (!ms) return Fail(ms.error());
      slowest = std::max(slowest, *ms);
    }
    *latency_ms = slowest;
    return INFERCAST_OK;
  });
}

infercast_status infercast_engine_prefill_batch(const infercast_engine* engine, size_t count,
                                                const uint32_t* batch, const uint32_t* isl,
                                                const uint32_t* prefix, double* latency_ms,
                                                size_t* failed) {
  if (engine == nullptr || batch == nullptr || isl == nullptr || prefix == nullptr ||
      latency_ms == nullptr) {
    return NullArgument("an argument");
  }
  return AtBorder([&] {
    return GiveBatch(
        engine->engine.PrefillBatch(std::span(batch, count), std::span(isl, count),
                                    std::span(prefix, count), std::span(latency_ms, count)),
        failed);
  });
}
infercast_status infercast_engine_decode_batch(const infercast_engine* engine, size_t count,
                                               const uint32_t* batch, const uint32_t* isl,
                                               const uint32_t* osl, double* latency_ms,
                                               size_t* failed) {
  if (engine == nullptr || batch == nullptr || isl == nullptr || osl == nullptr ||
      latency_ms == nullptr) {
    return NullArgument("an argument");
  }
  return AtBorder([&] {
    return GiveBatch(
        engine->engine.DecodeBatch(std::span(batch, count), std::span(isl, count),
                                   std::span(osl, count), std::span(latency_ms, count)),
        failed);
  });
}

infercast_status infercast_memory_estimate(const infercast_options* options,
                                           infercast_memory* memory) {
  if (options == nullptr || memory == nullptr) return NullArgument("an argument");
  return AtBorder([&] {
    const Result<MemoryEstimate> m = MemoryEstimate::Of(options->named.memory());
    if (!m) return Fail(m.error());
    *memory = {m->weights_gib,       m->activations_gib,    m->kvcache_gib,
               m->communication_gib, m->runtime_gib,        m->total_gib,
               m->capacity_gib,      m->fits ? 1 : 0,       m->kv_budget_gib,
               m->kv_tokens,         m->kv_bytes_per_token, m->kv_bytes_per_sequence};
    return INFERCAST_OK;
  });
}

}  // extern "C"
