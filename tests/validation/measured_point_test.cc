// Reading measured points: CSV of either spelling, and load generators' results.
#include "validation/measured_point.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "validation/benchmark_results.h"
#include "validation/csv.h"

namespace infercast {
namespace {

TEST(Csv, QuotesLineEndsAndBlankLines) {
  const auto lines = ParseCsv(
      "\xEF\xBB\xBF"
      "a,b\r\n\r\n\"x, \"\"y\"\"\",2\n\"two\nlines\",\n3");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0].cells, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(lines[1].cells, (std::vector<std::string>{"x, \"y\"", "2"}));
  EXPECT_EQ(lines[1].number, 3U);
  EXPECT_EQ(lines[2].cells, (std::vector<std::string>{"two\nlines", ""}));
  EXPECT_EQ(lines[3].cells, (std::vector<std::string>{"3"}));
  EXPECT_EQ(lines[3].number, 6U);
  EXPECT_EQ(CsvCell("a,\"b\""), "\"a,\"\"b\"\"\"");
  EXPECT_EQ(CsvCell("plain"), "plain");
}

TEST(MeasuredCsv, PlainColumnsAreUnderstood) {
  const auto file = ParseMeasuredCsv(
      "model,system,backend,isl,osl,concurrency,tp,ttft_ms,tpot_ms\n"
      "Qwen/Qwen3-32B,h200_sxm,vllm,1024,512,16,2,250.5,12.25\n");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->points.size(), 1U);
  const MeasuredPoint& p = file->points[0];
  EXPECT_EQ(p.model, "Qwen/Qwen3-32B");
  EXPECT_EQ(p.isl, 1024);
  EXPECT_EQ(p.concurrency, 16);
  EXPECT_EQ(p.worker.tp, 2);
  EXPECT_EQ(p.ttft_ms, 250.5);
  EXPECT_EQ(p.line, 2U);
  EXPECT_TRUE(file->warnings.empty());
}

TEST(MeasuredCsv, BadCellsAreEmptyCellsWithAWarning) {
  const auto file = ParseMeasuredCsv(
      "model_path,isl,tp_size,decode_num_workers,silicon_ttft_ms\nm,nan,many,2.0,1e400\nm,,,,\n");
  ASSERT_TRUE(file);
  EXPECT_FALSE(file->points[0].isl);
  EXPECT_FALSE(file->points[0].worker.tp);
  EXPECT_EQ(file->points[0].decode.workers, 2);
  EXPECT_FALSE(file->points[0].ttft_ms);
  EXPECT_EQ(file->warnings.size(), 2U);
  EXPECT_EQ(ParseMeasuredCsv("").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(ParseMeasuredCsv("a,b\n1,2\n").error().kind, ErrorKind::kInvalidArgument);
}

TEST(Provenance, FieldsAreFoundByName) {
  const std::string source = "source_file=x.csv; model=R1; silicon_concurrency=64; image=a/b:1";
  EXPECT_EQ(ProvenanceField(source, "silicon_concurrency"), "64");
  EXPECT_EQ(ProvenanceField(source, "image"), "a/b:1");
  EXPECT_EQ(ProvenanceField(source, "concurrency"), "");
}

BenchmarkDeployment OnH200() {
  BenchmarkDeployment d;
  d.system = "h200_sxm";
  d.backend = "vllm";
  d.worker.tp = 4;
  return d;
}

TEST(BenchmarkResults, VllmBenchServe) {
  const auto file = ParseBenchmarkResults(
      R"({"model_id": "Qwen/Qwen3-32B", "num_prompts": 160, "request_rate": "inf",
          "max_concurrency": 16, "completed": 160, "total_input_tokens": 160000,
          "total_output_tokens": 80000, "mean_ttft_ms": 120.0, "mean_tpot_ms": 14.5})",
      OnH200());
  ASSERT_TRUE(file) << file.error().message;
  const MeasuredPoint& p = file->points.at(0);
  EXPECT_EQ(p.model, "Qwen/Qwen3-32B");
  EXPECT_EQ(p.backend, "vllm");
  EXPECT_EQ(p.concurrency, 16);
  EXPECT_EQ(p.isl, 1000);
  EXPECT_EQ(p.osl, 500);
  EXPECT_EQ(p.shortest, 1);
  EXPECT_EQ(p.requests, 160);
  EXPECT_EQ(p.worker.tp, 4);
  EXPECT_FALSE(p.rate);
  EXPECT_EQ(p.tpot_ms, 14.5);
}

TEST(BenchmarkResults, SglangLinesNameTheirServer) {
  BenchmarkDeployment d;
  d.system = "b200_sxm";
  const auto file = ParseBenchmarkResults(
      R"({"backend": "sglang", "request_rate": 4, "max_concurrency": null, "random_range_ratio": 1,
 "completed": 10, "total_input_tokens": 10240, "total_output_tokens": 5120, "mean_ttft_ms": 90,
 "mean_tpot_ms": 8, "server_info": {"model_path": "deepseek-ai/DeepSeek-R1", "tp_size": 8,
 "dp_size": 1, "version": "0.5.9"}})"
      "\n",
      d);
  ASSERT_TRUE(file);
  const MeasuredPoint& p = file->points.at(0);
  EXPECT_EQ(p.backend, "sglang");
  EXPECT_EQ(p.model, "deepseek-ai/DeepSeek-R1");
  EXPECT_EQ(p.version, "0.5.9");
  EXPECT_EQ(p.worker.tp, 8);
  EXPECT_EQ(p.rate, 4);
  EXPECT_FALSE(p.concurrency);
}

TEST(BenchmarkResults, GuideLlmListsBenchmarks) {
  const auto file = ParseBenchmarkResults(
      R"({"benchmarks": [{"args": {"strategy": {"type_": "concurrent", "streams": 8}}, "metrics": {
        "time_to_first_token_ms": {"successful": {"mean": 70.0}},
        "inter_token_latency_ms": {"successful": {"mean": 9.0}},
        "time_per_output_token_ms": {"successful": {"mean": 99.0}},
        "prompt_token_count": {"successful": {"mean": 512.2}},
        "output_token_count": {"successful": {"mean": 128}}}},
       {"args": {"strategy": {"type_": "constant", "rate": 2.5}}, "metrics": {
        "time_to_first_token_ms": {"successful": {"mean": 50.0}},
        "request_concurrency": {"successful": {"mean": 3.2}}}}]})",
      OnH200());
  ASSERT_TRUE(file);
  ASSERT_EQ(file->points.size(), 2U);
  EXPECT_EQ(file->points[0].concurrency, 8);
  EXPECT_EQ(file->points[0].isl, 512);
  EXPECT_EQ(file->points[0].tpot_ms, 9.0);
  EXPECT_EQ(file->points[1].rate, 2.5);
  EXPECT_FALSE(file->points[1].concurrency);
}

TEST(BenchmarkResults, AiPerfKeepsItsLoadInItsInput) {
  const auto file = ParseBenchmarkResults(
      R"({"time_to_first_token": {"unit": "ms", "avg": 33.0}, "inter_token_latency": {"avg": 7.0},
          "input_sequence_length": {"avg": 1000}, "output_sequence_length": {"avg": 200},
          "request_count": {"avg": 40}, "input_config": {"endpoint": {"model_names": ["m"]},
          "loadgen": {"concurrency": 4}}})",
      OnH200());
  ASSERT_TRUE(file);
  EXPECT_EQ(file->points[0].model, "m");
  EXPECT_EQ(file->points[0].concurrency, 4);
  EXPECT_EQ(file->points[0].osl, 200);
}

// As `vllm bench serve --save-result --save-detailed --metadata tensor_parallel_size=8` writes it.
TEST(BenchmarkResults, VllmDetailsTellLengthsSpeculationAndMetadata) {
  const auto file = ParseBenchmarkResults(
      R"({"date": "20260401-120000", "endpoint_type": "openai", "backend": "openai", "label": "openai",
          "model_id": "Qwen/Qwen3-32B", "tokenizer_id": "Qwen/Qwen3-32B", "num_prompts": 4,
          "tensor_parallel_size": "8", "request_rate": "inf", "burstiness": 1.0,
          "max_concurrency": null, "duration": 12.5, "completed": 4, "failed": 1,
          "total_input_tokens": 3600, "total_output_tokens": 360, "request_throughput": 0.32,
          "request_goodput": null, "input_lens": [800, 1000, 900, 900, 850],
          "output_lens": [100, 80, 90, 90, 0], "ttfts": [0.1, 0.2, 0.1, 0.1, 0.0],
          "spec_decode_acceptance_rate": 60.0, "spec_decode_acceptance_length": 2.8,
          "spec_decode_num_drafts": 100, "spec_decode_draft_tokens": 300,
          "spec_decode_accepted_tokens": 180, "spec_decode_per_position_acceptance_rates": [0.8],
          "mean_ttft_ms": 125.0, "median_ttft_ms": 100.0, "p99_ttft_ms": 200.0,
          "mean_itl_ms": 9.0})",
      OnH200());
  ASSERT_TRUE(file) << file.error().message;
  const MeasuredPoint& p = file->points.at(0);
  EXPECT_EQ(p.source, "vllm bench serve");
  EXPECT_EQ(p.backend, "vllm");  // what the caller says: the endpoint may be anybody's
  EXPECT_EQ(p.concurrency, 4);   // all at once
  EXPECT_EQ(p.worker.tp, 8);
  EXPECT_EQ(p.isl, 1000);
  EXPECT_EQ(p.osl, 100);
  EXPECT_NEAR(*p.shortest, 0.5 * (0.78 + 0.8), 1e-9);
  EXPECT_EQ(p.nextn, 3);
  EXPECT_NEAR(*p.nextn_accepted, 1.8, 1e-12);
  EXPECT_EQ(p.ttft_ms, 125);
  EXPECT_FALSE(p.tpot_ms);  // left out by --percentile-metrics
}

// As `--append-result` writes it: one document a line. Lengths that are not uniform count by mean.
TEST(BenchmarkResults, VllmAppendsRunsBelowEachOther) {
  const auto file = ParseBenchmarkResults(
      R"({"model_id": "m", "request_rate": 2.0, "max_concurrency": 64, "completed": 3,
          "total_input_tokens": 1020, "total_output_tokens": 30, "input_lens": [1000, 10, 10],
          "output_lens": [10, 10, 10], "mean_ttft_ms": 50, "mean_tpot_ms": 5})"
      "\n",
      OnH200());
  ASSERT_TRUE(file);
  EXPECT_EQ(file->points.at(0).isl, 340);
  EXPECT_EQ(file->points.at(0).rate, 2);  // up to 64 in flight
  EXPECT_FALSE(file->points.at(0).concurrency);
  EXPECT_EQ(file->points.at(0).shortest, 1);
  const auto two = ParseBenchmarkResults(
      R"({"completed": 1, "total_input_tokens": 9, "total_output_tokens": 9, "mean_ttft_ms": 1})"
      "\n"
      R"({"completed": 1, "total_input_tokens": 9, "total_output_tokens": 9, "mean_ttft_ms": 2})",
      OnH200());
  ASSERT_TRUE(two);
  EXPECT_EQ(two->points.size(), 2U);
}

// A line of `python -m sglang.bench_serving --dataset-name random`, against another engine.
TEST(BenchmarkResults, SglangsRandomLengthsAreUniform) {
  const auto line = [](const char* backend, const char* dataset, const char* ratio) {
    return fmt::format(
        R"({{"backend": "{}", "dataset_name": "{}", "request_rate": Infinity, "max_concurrency": 32,
            "sharegpt_output_len": null, "random_input_len": 1024, "random_output_len": 512,
            "random_range_ratio": {}, "duration": 99.0, "completed": 320,
            "total_input_tokens": 294912, "total_output_tokens": 147456,
            "total_output_tokens_retokenized": 147000, "request_throughput": 3.2,
            "mean_e2e_latency_ms": 5000.0, "mean_ttft_ms": 140.0, "median_ttft_ms": 120.0,
            "mean_tpot_ms": 10.0, "mean_itl_ms": 10.1, "concurrency": 31.5,
            "accept_length": null}})",
        backend, dataset, ratio);
  };
  // Python writes an infinite rate as a word that is no JSON.
  const auto file = ParseBenchmarkResults(line("vllm-chat", "random", "0.8"), {});
  ASSERT_TRUE(file) << file.error().message;
  const MeasuredPoint& p = file->points.at(0);
  EXPECT_EQ(p.backend, "vllm");
  EXPECT_EQ(p.source, "sglang bench_serving");
  EXPECT_EQ(p.concurrency, 32);
  EXPECT_FALSE(p.rate);
  EXPECT_EQ(p.isl, 1024);
  EXPECT_EQ(p.osl, 512);
  EXPECT_EQ(p.shortest, 0.8);
  EXPECT_EQ(ParseBenchmarkResults(line("trt", "random", "1.0"), {})->points[0].backend, "trtllm");
  const auto shared = ParseBenchmarkResults(line("sglang-oai", "sharegpt", "0.0"), {});
  EXPECT_EQ(shared->points[0].backend, "sglang");
  EXPECT_EQ(shared->points[0].isl, 922);  // 294912 / 320
  EXPECT_EQ(shared->points[0].shortest, 1);
}

// A report of GuideLLM: settings under config, figures under metrics, by outcome.
TEST(BenchmarkResults, GuideLlmReportsNameTheirModel) {
  const auto file = ParseBenchmarkResults(
      R"({"metadata": {"version": 1, "guidellm_version": "0.5.3"},
       "args": {"target": "http://localhost:8000", "backend": "openai_http",
                "backend_kwargs": {"model": "other"}, "data": ["prompt_tokens=1000,output_tokens=200"]},
       "benchmarks": [
        {"type_": "generative_benchmark",
         "config": {"strategy": {"type_": "concurrent", "streams": 32, "worker_count": 10},
                    "backend": {"target": "http://localhost:8000", "model": "Qwen/Qwen3-32B"}},
         "metrics": {"request_totals": {"successful": 706, "incomplete": 0, "errored": 2, "total": 708},
          "request_concurrency": {"successful": {"mean": 31.2}},
          "prompt_token_count": {"successful": {"mean": 1001.4}},
          "output_token_count": {"successful": {"mean": 200.0}},
          "time_to_first_token_ms": {"successful": {"mean": 210.0, "median": 200.0}, "errored": {"mean": 1.0}},
          "inter_token_latency_ms": {"successful": {"mean": 13.0}}}},
        {"config": {"strategy": {"type_": "synchronous"}},
         "metrics": {"request_concurrency": {"successful": {"mean": 0.98}},
          "time_to_first_token_ms": {"successful": {"mean": 40.0}}}},
        {"config": {"strategy": {"type_": "poisson", "rate": 3.5, "max_concurrency": 100}},
         "metrics": {"time_to_first_token_ms": {"successful": {"mean": 60.0}}}}]})",
      OnH200());
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->points.size(), 3U);
  EXPECT_EQ(file->points[0].model, "Qwen/Qwen3-32B");
  EXPECT_EQ(file->points[0].requests, 706);
  EXPECT_EQ(file->points[0].concurrency, 32);
  EXPECT_EQ(file->points[0].ttft_ms, 210);
  EXPECT_EQ(file->points[0].isl, 1001);
  EXPECT_EQ(file->points[1].model, "other");
  EXPECT_EQ(file->points[1].concurrency, 1);
  EXPECT_EQ(file->points[2].rate, 3.5);
  EXPECT_FALSE(file->points[2].concurrency);
}

// AIPerf since its configuration has phases; a rate's concurrency is a limit.
TEST(BenchmarkResults, AiPerfCountsTheProfilingPhase) {
  const auto ask = [](const char* phase) {
    const auto file =
        ParseBenchmarkResults(fmt::format(R"({{"schema_version": "1.3", "aiperf_version": "0.12.0",
            "input_config": {{"models": {{"items": [{{"name": "Qwen/Qwen3-32B"}}]}},
              "endpoint": {{"urls": ["http://localhost:8000"], "type": "chat", "streaming": true}},
              "phases": [{{"name": "warmup", "kind": "warmup", "type": "concurrency", "concurrency": 2}},
                         {}]}},
            "request_count": {{"unit": "requests", "avg": 320.0}},
            "request_latency": {{"unit": "ms", "avg": 5000.0, "p99": 9000.0}},
            "time_to_first_token": {{"unit": "ms", "avg": 133.0, "p50": 120.0}},
            "inter_token_latency": {{"unit": "ms", "avg": 9.5}},
            "input_sequence_length": {{"unit": "tokens", "avg": 999.6}},
            "output_sequence_length": {{"unit": "tokens", "avg": 250.0}}}})",
                                          phase),
                              OnH200());
    return file ? file->points.at(0) : MeasuredPoint{};
  };
  const MeasuredPoint closed =
      ask(R"({"name": "profiling", "type": "concurrency", "concurrency": 32, "requests": 320})");
  EXPECT_EQ(closed.model, "Qwen/Qwen3-32B");
  EXPECT_EQ(closed.concurrency, 32);
  EXPECT_EQ(closed.requests, 320);
  EXPECT_EQ(closed.isl, 1000);
  EXPECT_EQ(closed.tpot_ms, 9.5);
  const MeasuredPoint open = ask(
      R"({"name": "main", "kind": "profiling", "type": "poisson", "rate": 4.0, "concurrency": 99})");
  EXPECT_EQ(open.rate, 4.0);
  EXPECT_FALSE(open.concurrency);
}

TEST(BenchmarkResults, ListsAreFollowedOnlyAsDeepAsToolsWriteThem) {
  const std::string result =
      R"({"backend": "vllm", "model_id": "Qwen/Qwen3-8B", "max_concurrency": 4, "completed": 40,
          "total_input_tokens": 40960, "total_output_tokens": 4096, "mean_ttft_ms": 100,
          "mean_tpot_ms": 10})";
  EXPECT_TRUE(ParseBenchmarkResults("[[" + result + "]]", {}));
  const std::string deep(200'000, '[');
  EXPECT_FALSE(ParseBenchmarkResults(deep + result + std::string(deep.size(), ']'), {}));
}

TEST(BenchmarkResults, ForeignJsonIsRefused) {
  EXPECT_EQ(ParseMeasured(R"({"a": 1})", {}).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(ParseMeasured("[1, 2]", {}).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(ParseMeasured("{broken", {}).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace infercast
