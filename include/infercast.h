/* C interface of Infercast: a performance model of LLM serving.
 *
 * Handles are opaque; each has a _free function that also takes NULL. Every fallible function
 * returns a status: INFERCAST_OK or what went wrong. infercast_last_error() then says more: it
 * belongs to the calling thread and lives until that thread's next failing call. No exception
 * crosses this interface; out parameters are untouched on failure.
 *
 * Units: milliseconds, tokens, GiB = 2^30 bytes. Requests and tokens of engine calls are those of
 * one data-parallel rank.
 *
 * Threads: engines, specs and tables are immutable and may be shared. Options and online models
 * are used by one thread at a time.
 */
#ifndef INFERCAST_H_
#define INFERCAST_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define INFERCAST_C_API __attribute__((visibility("default")))
#else
#define INFERCAST_C_API
#endif

/* Version of this interface: functions are only ever added under one number. */
#define INFERCAST_C_API_VERSION 1

typedef enum infercast_status {
  INFERCAST_OK = 0,
  /* Data. */
  INFERCAST_PERF_DATABASE = 1, /* a table, slice or measurement is missing */
  INFERCAST_IO = 2,
  INFERCAST_PARQUET = 3,
  INFERCAST_YAML = 4,
  INFERCAST_CORRUPT_DATA = 5,
  /* Estimates. */
  INFERCAST_MISSING_SYSTEM_FLOPS = 6,
  INFERCAST_EMPIRICAL_NOT_IMPLEMENTED = 7,
  INFERCAST_SOL_NOT_IMPLEMENTED = 8,
  /* Configuration. */
  INFERCAST_INVALID_ENGINE_CONFIG = 9,
  INFERCAST_UNSUPPORTED_SCHEMA_VERSION = 10,
  INFERCAST_ENGINE_SPEC = 11, /* an engine description cannot be decoded */
  INFERCAST_INVALID_FORWARD_PASS_METRICS = 12,
  INFERCAST_UNSUPPORTED_MODEL = 13,
  INFERCAST_MODEL_CONFIG = 14,
  INFERCAST_DATA_ROOT = 15, /* the measured data is not there: `infercast data fetch` */
  INFERCAST_INVALID_ARGUMENT = 16,
  INFERCAST_UNKNOWN_NAME = 17, /* unknown model, system, backend, version, setting ... */
  INFERCAST_BAD_MODEL_CONFIG = 18,
  INFERCAST_INCOMPATIBLE_MEMORY_FRACTION = 19,
  INFERCAST_INSUFFICIENT_MODEL_METADATA = 20,
  INFERCAST_NO_KV_BUDGET = 21,
  /* Outcomes. */
  INFERCAST_DOES_NOT_FIT = 22,
  INFERCAST_NO_FEASIBLE_CONFIG = 23,
  INFERCAST_USAGE = 24,
  INFERCAST_NETWORK = 25,
  INFERCAST_INTERRUPTED = 26,
  INFERCAST_INTERNAL = 27,
  /* Never returned: a status of a newer library is a valid value of this type, too. */
  INFERCAST_STATUS_LARGEST = 0x7fffffff
} infercast_status;

/* "0.1.0" */
INFERCAST_C_API const char* infercast_version(void);
/* INFERCAST_C_API_VERSION of the library that is loaded. */
INFERCAST_C_API int infercast_c_api_version(void);
/* "ok", "perf_database" ...; static. */
INFERCAST_C_API const char* infercast_status_name(infercast_status status);
/* Message of this thread's last failing call; "" before the first. */
INFERCAST_C_API const char* infercast_last_error(void);

/* --- settings -------------------------------------------------------------------------------- */

/* Settings by name and text. Names are those of the command line's long options with underscores:
 * "model", "system", "backend", "tp_size", "isl", "ttft" ...; docs/api.md lists them. */
typedef struct infercast_options infercast_options;
/* NULL when memory is exhausted. */
INFERCAST_C_API infercast_options* infercast_options_new(void);
INFERCAST_C_API void infercast_options_free(infercast_options* options);
/* INFERCAST_UNKNOWN_NAME, INFERCAST_INVALID_ARGUMENT; the options are unchanged then. */
INFERCAST_C_API infercast_status infercast_options_set(infercast_options* options, const char* name,
                                                       const char* value);

/* --- tables ---------------------------------------------------------------------------------- */

/* Rows of named columns; a cell is a number, a text, or empty. */
typedef struct infercast_table infercast_table;
INFERCAST_C_API void infercast_table_free(infercast_table* table);
INFERCAST_C_API size_t infercast_table_rows(const infercast_table* table);
INFERCAST_C_API size_t infercast_table_columns(const infercast_table* table);
/* NULL beyond the last column. */
INFERCAST_C_API const char* infercast_table_column_name(const infercast_table* table,
                                                        size_t column);
/* INFERCAST_INVALID_ARGUMENT when there is no such row or the cell holds no number;
 * INFERCAST_UNKNOWN_NAME when there is no such column. */
INFERCAST_C_API infercast_status infercast_table_number(const infercast_table* table, size_t row,
                                                        const char* column, double* value);
/* The text of any cell, "" for an empty one; NULL when there is none. Lives with the table. */
INFERCAST_C_API const char* infercast_table_text(const infercast_table* table, size_t row,
                                                 const char* column);

/* --- what is there --------------------------------------------------------------------------- */

/* One column "name". systems_paths may be NULL: the default data. */
INFERCAST_C_API infercast_status infercast_systems(const char* systems_paths,
                                                   infercast_table** table);
INFERCAST_C_API infercast_status infercast_versions(const char* system, const char* backend,
                                                    const char* systems_paths,
                                                    infercast_table** table);
INFERCAST_C_API infercast_status infercast_models(const char* systems_paths,
                                                  infercast_table** table);

/* --- engines --------------------------------------------------------------------------------- */

typedef struct infercast_engine infercast_engine;

/* Builds the model of the options ("model", "system", "backend", "tp_size" ...). */
INFERCAST_C_API infercast_status infercast_engine_compile(const infercast_options* options,
                                                          infercast_engine** engine);
/* From an engine description in binary form. systems_paths NULL: default; behaviour NULL:
 * "native". */
INFERCAST_C_API infercast_status infercast_engine_from_spec(const uint8_t* bytes, size_t size,
                                                            const char* systems_paths,
                                                            const char* behaviour,
                                                            infercast_engine** engine);
INFERCAST_C_API void infercast_engine_free(infercast_engine* engine);
/* The engine's description; *bytes is to be given to infercast_free. */
INFERCAST_C_API infercast_status infercast_engine_spec(const infercast_engine* engine,
                                                       uint8_t** bytes, size_t* size);
/* As JSON, NUL-terminated; to be given to infercast_free. */
INFERCAST_C_API infercast_status infercast_engine_spec_json(const infercast_engine* engine,
                                                            char** text);
INFERCAST_C_API void infercast_free(void* memory);

/* Prefill of `batch` requests of `isl` tokens, `prefix` of which are cached. */
INFERCAST_C_API infercast_status infercast_engine_prefill(const infercast_engine* engine,
                                                          uint32_t batch, uint32_t isl,
                                                          uint32_t prefix, double* latency_ms);
/* All decode steps after the first of `osl` tokens; osl = 2: one step. */
INFERCAST_C_API infercast_status infercast_engine_decode(const infercast_engine* engine,
                                                         uint32_t batch, uint32_t isl, uint32_t osl,
                                                         double* latency_ms);

/* One iteration of a continuous batch. Initialise with INFERCAST_MIXED_SHAPE_INIT. */
typedef struct infercast_mixed_shape {
  uint32_t context_tokens; /* prefill tokens of the step */
  uint32_t decodes;        /* requests that decode, halfway through their output */
  uint32_t isl;
  uint32_t osl;
  uint32_t prefix;
  double context_imbalance; /* scales of attention between ranks; 1 */
  double generation_imbalance;
} infercast_mixed_shape;
#define INFERCAST_MIXED_SHAPE_INIT {0, 0, 1, 1, 0, 1.0, 1.0}
INFERCAST_C_API infercast_status infercast_engine_mixed_step(const infercast_engine* engine,
                                                             const infercast_mixed_shape* shape,
                                                             double* latency_ms);
INFERCAST_C_API infercast_status infercast_engine_decode_step(const infercast_engine* engine,
                                                              uint32_t decodes, uint32_t isl,
                                                              uint32_t osl, double* latency_ms);
/* The step by operator: columns part, name, latency_ms, energy_wms, source, origin, octaves,
 * version, donor. */
INFERCAST_C_API infercast_status infercast_engine_explain_mixed_step(
    const infercast_engine* engine, const infercast_mixed_shape* shape, infercast_table** table);

/* What one rank ran in one iteration. */
typedef struct infercast_scheduled {
  uint32_t num_prefill_requests;
  uint32_t sum_prefill_tokens;    /* new tokens */
  uint32_t sum_prefill_kv_tokens; /* cached tokens that prefill reads */
  uint32_t num_decode_requests;
  uint32_t sum_decode_kv_tokens;
} infercast_scheduled;
/* The slowest of `count` ranks; 0 without work. */
INFERCAST_C_API infercast_status infercast_engine_forward_pass(const infercast_engine* engine,
                                                               const infercast_scheduled* ranks,
                                                               size_t count, double* latency_ms);

/* Many shapes in one call. A shape without an answer gets NaN; *failed (may be NULL) counts them,
 * and infercast_last_error() tells about the first. */
INFERCAST_C_API infercast_status infercast_engine_prefill_batch(const infercast_engine* engine,
                                                                size_t count, const uint32_t* batch,
                                                                const uint32_t* isl,
                                                                const uint32_t* prefix,
                                                                double* latency_ms, size_t* failed);
INFERCAST_C_API infercast_status infercast_engine_decode_batch(const infercast_engine* engine,
                                                               size_t count, const uint32_t* batch,
                                                               const uint32_t* isl,
                                                               const uint32_t* osl,
                                                               double* latency_ms, size_t* failed);

/* --- memory ---------------------------------------------------------------------------------- */

/* Of one GPU. */
typedef struct infercast_memory {
  double weights_gib;
  double activations_gib;
  double kvcache_gib; /* of the batch asked for */
  double communication_gib;
  double runtime_gib;
  double total_gib;
  double capacity_gib;
  int fits;
  double kv_budget_gib; /* what the KV cache can hold in all */
  int64_t kv_tokens;
  int64_t kv_bytes_per_token;    /* what one more token of a long sequence adds */
  int64_t kv_bytes_per_sequence; /* recurrent state, buffers, filled attention windows */
} infercast_memory;
/* Options: those of an engine, and "batch_size", "isl", "osl", "prefix", "max_num_tokens",
 * "max_seq_len", "memory_fraction". */
INFERCAST_C_API infercast_status infercast_memory_estimate(const infercast_options* options,
                                                           infercast_memory* memory);

/* --- forecasts ------------------------------------------------------------------------------- */

/* One given deployment: one row. "scored_by" tells what its figures are: "closed_loop" (a benchmark
 * run in virtual time, with the option "score" = "closed-loop", natively the default) or "formula".
 * Columns "formula_..." are the formula's figures, "serving_..." those of the run, where there was
 * one: its load, mean, median, p90 and p99 of TTFT and TPOT, their intervals, parts of the TTFT. */
INFERCAST_C_API infercast_status infercast_estimate(const infercast_options* options,
                                                    infercast_table** table);
/* The best deployments on "total_gpus": the picked rows of every experiment, the best experiment
 * first. */
INFERCAST_C_API infercast_status infercast_sweep(const infercast_options* options,
                                                 infercast_table** table);
/* The fewest GPUs for "request_rate" or "concurrency". */
INFERCAST_C_API infercast_status infercast_recommend(const infercast_options* options,
                                                     infercast_table** table);

/* --- online model ---------------------------------------------------------------------------- */

typedef struct infercast_online infercast_online;

/* From an engine's estimates. `options` may be NULL: defaults. */
INFERCAST_C_API infercast_status infercast_online_from_engine(const infercast_engine* engine,
                                                              const infercast_options* options,
                                                              infercast_online** model);
INFERCAST_C_API infercast_status infercast_online_from_regression(const infercast_options* options,
                                                                  infercast_online** model);
/* From an engine's identity as JSON: an engine, or a regression where there is none. */
INFERCAST_C_API infercast_status infercast_online_best_available(const char* engine_config_json,
                                                                 const infercast_options* options,
                                                                 infercast_online** model);
INFERCAST_C_API void infercast_online_free(infercast_online* model);
/* *known is 0 while the model cannot tell yet. */
INFERCAST_C_API infercast_status infercast_online_estimate(const infercast_online* model,
                                                           const infercast_scheduled* ranks,
                                                           size_t count, double* latency_ms,
                                                           int* known);
/* Learns from one iteration; wall_time_s holds one figure a rank, in seconds. */
INFERCAST_C_API infercast_status infercast_online_observe(infercast_online* model,
                                                          const infercast_scheduled* ranks,
                                                          const double* wall_time_s, size_t count);
/* One row: source, readiness, retained_observations, correction_ready_buckets, last_warning,
 * min_correction, max_correction, mean_correction. */
INFERCAST_C_API infercast_status infercast_online_diagnostics(const infercast_online* model,
                                                              infercast_table** table);

#ifdef __cplusplus
}
#endif

#endif /* INFERCAST_H_ */
