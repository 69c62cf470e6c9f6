/* The C interface from a C program. Needs the data package. Ends with a line of what failed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infercast.h"

static int failures = 0;

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      ++failures;                                                                    \
      printf("%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
             infercast_last_error());                                                \
    }                                                                                \
  } while (0)

static infercast_options* Qwen(void) {
  static const char* const kSettings[][2] = {
      {"model", "Qwen/Qwen3-32B"},   {"system", "h200_sxm"},
      {"backend", "vllm"},           {"tp_size", "2"},
      {"backend_version", "0.24.0"}, {"behaviour", "reference"}};
  infercast_options* options = infercast_options_new();
  for (size_t i = 0; i < sizeof kSettings / sizeof kSettings[0]; ++i) {
    CHECK(infercast_options_set(options, kSettings[i][0], kSettings[i][1]) == INFERCAST_OK);
  }
  return options;
}

static void TestErrors(void) {
  infercast_options* options = Qwen();
  infercast_engine* engine = NULL;
  CHECK(infercast_options_set(options, "tp_sise", "2") == INFERCAST_UNKNOWN_NAME);
  CHECK(strstr(infercast_last_error(), "tp_size") != NULL);
  CHECK(infercast_options_set(options, "tp_size", "two") == INFERCAST_INVALID_ARGUMENT);
  CHECK(infercast_options_set(NULL, "tp_size", "2") == INFERCAST_INVALID_ARGUMENT);
  CHECK(infercast_options_set(options, "system", "h999") == INFERCAST_OK);
  CHECK(infercast_engine_compile(options, &engine) == INFERCAST_UNKNOWN_NAME);
  CHECK(engine == NULL);
  const uint8_t bytes[] = {1, 2, 3};
  CHECK(infercast_engine_from_spec(bytes, sizeof bytes, NULL, NULL, &engine) ==
        INFERCAST_ENGINE_SPEC);
  CHECK(strcmp(infercast_status_name(INFERCAST_ENGINE_SPEC), "engine_spec") == 0);
  CHECK(strcmp(infercast_status_name(INFERCAST_OK), "ok") == 0);
  CHECK(strcmp(infercast_status_name((infercast_status)99), "unknown") == 0);
  infercast_options_free(options);
  infercast_options_free(NULL);
  infercast_table_free(NULL);
  infercast_engine_free(NULL);
  infercast_online_free(NULL);
}

static void TestEngine(void) {
  infercast_options* options = Qwen();
  infercast_engine* engine = NULL;
  double ms = 0;
  CHECK(infercast_engine_compile(options, &engine) == INFERCAST_OK);
  if (engine == NULL) return;
  CHECK(infercast_engine_prefill(engine, 4, 2048, 512, &ms) == INFERCAST_OK);
  CHECK(fabs(ms - 329.01270386905037) < 1e-9);
  CHECK(infercast_engine_decode(engine, 32, 2048, 2, &ms) == INFERCAST_OK);
  CHECK(fabs(ms - 13.456241041371072) < 1e-9);
  CHECK(infercast_engine_decode_step(engine, 16, 4000, 500, &ms) == INFERCAST_OK);
  CHECK(fabs(ms - 13.460777688859533) < 1e-9);

  infercast_mixed_shape shape = INFERCAST_MIXED_SHAPE_INIT;
  shape.context_tokens = 1024;
  shape.decodes = 15;
  shape.isl = 4000;
  shape.osl = 500;
  shape.prefix = 1000;
  CHECK(infercast_engine_mixed_step(engine, &shape, &ms) == INFERCAST_OK);
  CHECK(fabs(ms - 66.1695385972306) < 1e-9);
  infercast_table* table = NULL;
  CHECK(infercast_engine_explain_mixed_step(engine, &shape, &table) == INFERCAST_OK);
  double sum = 0;
  for (size_t row = 0; row < infercast_table_rows(table); ++row) {
    double part = 0;
    CHECK(infercast_table_number(table, row, "latency_ms", &part) == INFERCAST_OK);
    sum += part;
  }
  CHECK(fabs(sum - ms) < 1e-9);
  CHECK(strcmp(infercast_table_column_name(table, 1), "name") == 0);
  CHECK(infercast_table_column_name(table, 99) == NULL);
  CHECK(infercast_table_text(table, 0, "name")[0] != '\0');
  CHECK(infercast_table_text(table, 0, "no such") == NULL);
  CHECK(infercast_table_number(table, 0, "no such", &sum) == INFERCAST_UNKNOWN_NAME);
  CHECK(infercast_table_number(table, 0, "name", &sum) == INFERCAST_INVALID_ARGUMENT);
  infercast_table_free(table);

  uint8_t* bytes = NULL;
  size_t size = 0;
  infercast_engine* again = NULL;
  CHECK(infercast_engine_spec(engine, &bytes, &size) == INFERCAST_OK);
  CHECK(infercast_engine_from_spec(bytes, size, NULL, "reference", &again) == INFERCAST_OK);
  infercast_free(bytes);
  double other = 0;
  CHECK(infercast_engine_decode(engine, 9, 1234, 40, &ms) == INFERCAST_OK);
  CHECK(again != NULL && infercast_engine_decode(again, 9, 1234, 40, &other) == INFERCAST_OK);
  CHECK(ms == other);
  infercast_engine_free(again);
  char* json = NULL;
  CHECK(infercast_engine_spec_json(engine, &json) == INFERCAST_OK);
  CHECK(json != NULL && strstr(json, "Qwen/Qwen3-32B") != NULL);
  infercast_free(json);

  const uint32_t batch[] = {32, 0}, isl[] = {2048, 0}, osl[] = {2, 2};
  double answers[2] = {0, 0};
  size_t failed = 99;
  CHECK(infercast_engine_decode_batch(engine, 2, batch, isl, osl, answers, &failed) ==
        INFERCAST_OK);
  CHECK(fabs(answers[0] - 13.456241041371072) < 1e-9);
  CHECK(failed == (isnan(answers[1]) ? 1u : 0u));

  infercast_online* online = NULL;
  CHECK(infercast_online_from_engine(engine, options, &online) == INFERCAST_OK);
  const infercast_scheduled rank = {0, 0, 0, 32, 64000};
  int known = 0;
  CHECK(infercast_engine_forward_pass(engine, &rank, 1, &ms) == INFERCAST_OK);
  CHECK(infercast_online_estimate(online, &rank, 1, &other, &known) == INFERCAST_OK);
  CHECK(known == 1 && ms == other);
  const double seconds = 0.8 * ms / 1e3;
  for (int i = 0; i < 6; ++i) {
    CHECK(infercast_online_observe(online, &rank, &seconds, 1) == INFERCAST_OK);
  }
  CHECK(infercast_online_estimate(online, &rank, 1, &other, &known) == INFERCAST_OK);
  CHECK(fabs(other - 0.8 * ms) < 1e-9);
  CHECK(infercast_online_diagnostics(online, &table) == INFERCAST_OK);
  CHECK(strcmp(infercast_table_text(table, 0, "source"), "aic_with_correction") == 0);
  infercast_table_free(table);
  infercast_online_free(online);
  infercast_engine_free(engine);

  infercast_memory memory;
  CHECK(infercast_options_set(options, "batch_size", "16") == INFERCAST_OK);
  CHECK(infercast_memory_estimate(options, &memory) == INFERCAST_OK);
  CHECK(memory.fits == 1 && memory.kv_tokens > 0);
  infercast_options_free(options);
}

static double Number(const infercast_table* table, const char* column) {
  double value = -1;
  CHECK(infercast_table_number(table, 0, column, &value) == INFERCAST_OK);
  return value;
}

static void TestForecasts(void) {
  infercast_options* options = Qwen();
  infercast_table* table = NULL;
  CHECK(infercast_options_set(options, "batch_size", "16") == INFERCAST_OK);
  CHECK(infercast_estimate(options, &table) == INFERCAST_OK);
  CHECK(strcmp(infercast_table_text(table, 0, "scored_by"), "formula") == 0);
  const double formula = Number(table, "ttft_ms");
  CHECK(Number(table, "formula_ttft_ms") == formula);
  CHECK(infercast_table_text(table, 0, "serving_requests") == NULL);
  infercast_table_free(table);

  CHECK(infercast_options_set(options, "behaviour", "native") == INFERCAST_OK);
  CHECK(infercast_options_set(options, "score", "formula") == INFERCAST_OK);
  CHECK(infercast_estimate(options, &table) == INFERCAST_OK);
  CHECK(strcmp(infercast_table_text(table, 0, "scored_by"), "formula") == 0);
  const double native_formula = Number(table, "ttft_ms");
  infercast_table_free(table);
  CHECK(infercast_options_set(options, "score", "closed-loop") == INFERCAST_OK);
  CHECK(infercast_options_set(options, "concurrency", "8") == INFERCAST_OK);
  CHECK(infercast_estimate(options, &table) == INFERCAST_OK);
  CHECK(strcmp(infercast_table_text(table, 0, "scored_by"), "closed_loop") == 0);
  CHECK(Number(table, "formula_ttft_ms") == native_formula);
  CHECK(Number(table, "serving_requests") == 80);
  CHECK(Number(table, "concurrency") == 8);
  CHECK(Number(table, "ttft_ms") == Number(table, "serving_ttft_ms_mean"));
  CHECK(Number(table, "serving_ttft_ms_p99") >= Number(table, "serving_ttft_ms_median"));
  CHECK(Number(table, "serving_tpot_interval_ms_low") < Number(table, "tpot_ms"));
  CHECK(Number(table, "serving_ttft_parts_ms_prefill") > 0);
  infercast_table_free(table);

  CHECK(infercast_options_set(options, "modes", "agg") == INFERCAST_OK);
  CHECK(infercast_options_set(options, "total_gpus", "2") == INFERCAST_OK);
  CHECK(infercast_sweep(options, &table) == INFERCAST_OK);
  CHECK(strcmp(infercast_table_text(table, 0, "scored_by"), "closed_loop") == 0);
  CHECK(Number(table, "ttft_ms") == Number(table, "serving_ttft_ms_mean"));
  infercast_table_free(table);
  CHECK(infercast_options_set(options, "score", "formula") == INFERCAST_OK);
  CHECK(infercast_sweep(options, &table) == INFERCAST_OK);
  CHECK(strcmp(infercast_table_text(table, 0, "scored_by"), "formula") == 0);
  CHECK(Number(table, "ttft_ms") == Number(table, "formula_ttft_ms"));
  infercast_table_free(table);
  infercast_options_free(options);
}

static void TestLists(void) {
  infercast_table* table = NULL;
  CHECK(infercast_versions("h200_sxm", "vllm", NULL, &table) == INFERCAST_OK);
  CHECK(infercast_table_rows(table) > 0);
  infercast_table_free(table);
  CHECK(infercast_systems("/no/such/place", &table) == INFERCAST_DATA_ROOT);
}

int main(void) {
  CHECK(infercast_c_api_version() == INFERCAST_C_API_VERSION);
  CHECK(infercast_version()[0] != '\0');
  TestErrors();
  TestEngine();
  TestForecasts();
  TestLists();
  printf("%d checks failed\n", failures);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
