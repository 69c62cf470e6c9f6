/* A scheduler asks how long its next iteration will take, and corrects the model by what it sees. */
#include <stdio.h>
#include <stdlib.h>

#include <infercast.h>

static void Must(infercast_status status) {
  if (status == INFERCAST_OK) return;
  fprintf(stderr, "%s: %s\n", infercast_status_name(status), infercast_last_error());
  exit(1);
}

int main(void) {
  infercast_options* options = infercast_options_new();
  if (options == NULL) return 1;
  Must(infercast_options_set(options, "model", "Qwen/Qwen3-32B"));
  Must(infercast_options_set(options, "system", "h200_sxm"));
  Must(infercast_options_set(options, "backend", "vllm"));
  Must(infercast_options_set(options, "tp_size", "2"));

  infercast_engine* engine = NULL;
  infercast_online* online = NULL;
  Must(infercast_engine_compile(options, &engine));
  Must(infercast_online_from_engine(engine, options, &online));

  /* 48 requests decode with 4000 tokens of KV each, beside one prefill of growing size. */
  for (uint32_t prefill = 0; prefill <= 4096; prefill += 1024) {
    const infercast_scheduled rank = {prefill > 0 ? 1u : 0u, prefill, 0, 48, 48 * 4000};
    double ms = 0;
    int known = 0;
    Must(infercast_online_estimate(online, &rank, 1, &ms, &known));
    printf("%4u prefill tokens beside 48 decodes: %.2f ms\n", prefill, ms);
  }

  /* The real engine turns out 10 % slower. */
  const infercast_scheduled decode = {0, 0, 0, 48, 48 * 4000};
  double before = 0, after = 0;
  int known = 0;
  Must(infercast_online_estimate(online, &decode, 1, &before, &known));
  const double seen = 1.1 * before / 1e3;
  for (int i = 0; i < 8; ++i) Must(infercast_online_observe(online, &decode, &seen, 1));
  Must(infercast_online_estimate(online, &decode, 1, &after, &known));
  printf("decode step: %.2f ms forecast, %.2f ms after 8 observations\n", before, after);

  infercast_online_free(online);
  infercast_engine_free(engine);
  infercast_options_free(options);
  return 0;
}
