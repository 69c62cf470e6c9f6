// Reading measured points: CSV of either spelling, and load generators' results.
#include "validation/measured_point.h"

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

TEST(BenchmarkResults, ForeignJsonIsRefused) {
  EXPECT_EQ(ParseMeasured(R"({"a": 1})", {}).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(ParseMeasured("[1, 2]", {}).error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(ParseMeasured("{broken", {}).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace infercast
