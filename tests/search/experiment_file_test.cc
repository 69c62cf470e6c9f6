// Experiment files: both forms, what is refused, and writing a task back.
#include "search/experiment_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace infercast {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Result<ExperimentFile> Parse(std::string_view text) { return ParseExperiments(text, "file", {}); }

TEST(ExperimentFile, SaysHowItIsRun) {
  const std::string a = "a: {serving_mode: agg, model_path: m, system_name: s, total_gpus: 1}\n";
  const auto file =
      Parse("infercast: {concurrency: 40, max_gpus: 8, merge: true, strict: true, top_n: 2}\n" + a);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->experiments.size(), 1U);
  EXPECT_TRUE(file->notes.empty());
  EXPECT_EQ(file->options.load->concurrency, 40);
  EXPECT_EQ(file->options.load->request_rate, std::nullopt);
  EXPECT_EQ(file->options.load->max_gpus, 8);
  EXPECT_EQ(file->options.merge, true);
  EXPECT_EQ(file->options.strict, true);
  EXPECT_EQ(file->options.top_n, 2U);
  // What is written is read as it was.
  ExperimentOptions options;
  options.load = LoadTarget{.request_rate = 0.1 + 0.2};
  options.merge = true;
  const auto back = Parse(FormatExperimentOptions(options) + a);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->options.load->request_rate, 0.1 + 0.2);
  EXPECT_EQ(back->options.merge, true);
  EXPECT_EQ(back->options.score, ScoredBy::kFormula);  // as is not the default where it is read
  options.score = ScoredBy::kClosedLoop;
  EXPECT_EQ(Parse(FormatExperimentOptions(options) + a)->options.score, std::nullopt);
  EXPECT_FALSE(Parse(a)->options.load);

  const std::pair<const char*, const char*> wrong[] = {
      {"[1]", "expected a mapping"},         {"{request_rate: x}", "request_rate is no number"},
      {"{request_rate: -1}", "positive"},    {"{request_rate: 1, concurrency: 2}", "two loads"},
      {"{max_gpus: 8}", "goes with"},        {"{request_rat: 1}", "did you mean request_rate"},
      {"{merge: 3}", "merge is no boolean"}, {"{score: best}", "neither"}};
  for (const auto& [section, says] : wrong) {
    const auto refused = Parse(fmt::format("infercast: {}\n{}", section, a));
    ASSERT_FALSE(refused) << section;
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr(says));
  }
}

TEST(ExperimentFile, ReadsFlatFieldsInOrder) {
  const auto file = Parse(R"(
exps: [b, a, gone]
a:
  serving_mode: agg
  model_path: org/model
  system_name: h200_sxm
  backend_name: vllm
  backend_version: 0.24
  total_gpus: 8
  ttft: 900
  agg_tp_candidates: [1, 2]
  transfer_policy: [xshape, xop]
  nextn: auto
  nextn_accepted: 0.7
  kvcache_quant_mode: fp8
b:
  serving_mode: disagg
  prefill_model_path: org/model
  decode_model_path: org/model
  prefill_system_name: h200_sxm
  decode_system_name: h100_sxm
  total_gpus: 16
  num_gpu_per_replica: [4, 8]
c: {serving_mode: agg, model_path: m, system_name: s, total_gpus: 1}
)");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->experiments.size(), 2U);
  EXPECT_EQ(file->experiments[0].name, "b");
  EXPECT_EQ(file->experiments[0].task.decode.system, "h100_sxm");
  EXPECT_EQ(file->experiments[0].task.disagg.num_gpu_per_replica,
            (std::vector<std::int64_t>{4, 8}));
  const Task& a = file->experiments[1].task;
  EXPECT_EQ(a.worker.backend, Backend::kVllm);
  EXPECT_EQ(a.worker.version, "0.24");
  EXPECT_EQ(a.ttft, 900);
  EXPECT_EQ(a.tpot, 50);
  EXPECT_EQ(a.worker.lists.tp, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(a.policy, (TransferPolicy{true, false, false, true}));
  EXPECT_EQ(a.nextn, std::nullopt);
  EXPECT_EQ(a.nextn_accepted, 0.7);
  EXPECT_EQ(a.worker.quant.kv, KvQuant::kFp8);
  ASSERT_EQ(file->notes.size(), 1U);
  EXPECT_THAT(file->notes[0], HasSubstr("gone"));
}

TEST(ExperimentFile, DefaultsApplyWhereAKeyIsAbsent) {
  ExperimentDefaults defaults;
  defaults.fields = {{"attention_backend", std::string("fa3")}, {"isl", std::int64_t{77}}};
  const auto file = ParseExperiments(
      "a: {serving_mode: agg, model_path: m, system_name: s, total_gpus: 1, isl: 5}", "file",
      defaults);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->experiments[0].task.attention_backend, "fa3");
  EXPECT_EQ(file->experiments[0].task.workload.isl, 5);
}

TEST(ExperimentFile, LeavesOutWhatCannotRunAndKeepsTheRest) {
  const auto file = Parse(R"(
text: hello
no_mode: {model_path: m, system_name: s, total_gpus: 1}
no_model: {serving_mode: agg, system_name: s, total_gpus: 1}
no_system: {serving_mode: agg, model_path: m, total_gpus: 1}
no_gpus: {serving_mode: agg, model_path: m, system_name: s}
unknown: {serving_mode: agg, model_path: m, system_name: s, total_gpus: 1, ttfd: 3, aaa: 1}
bad_mode: {serving_mode: agg, model_path: m, system_name: s, total_gpus: 1, gemm_quant_mode: fp9}
bad_type: {serving_mode: agg, model_path: m, system_name: s, total_gpus: 1, isl: many}
good: {serving_mode: agg, model_path: m, system_name: s, total_gpus: 1}
)");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->experiments.size(), 1U);
  EXPECT_EQ(file->experiments[0].name, "good");
  EXPECT_EQ(file->notes.size(), 5U);
  ASSERT_EQ(file->broken.size(), 3U);
  EXPECT_EQ(file->broken[0].second.kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(file->broken[0].second.message,
              AllOf(HasSubstr("line 7: unknown field 'ttfd'"), HasSubstr("ttft"),
                    HasSubstr("line 7: unknown field 'aaa'")));
  EXPECT_EQ(file->broken[1].second.kind, ErrorKind::kUnknownName);
  EXPECT_EQ(file->broken[2].second.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(file->broken[2].second.message, "line 9: isl: expected a whole number");
}

TEST(ExperimentFile, NamesTheLineOfEveryWrongField) {
  const auto file = Parse(R"(
wrong:
  serving_mode: agg
  model_path: m
  system_name: s
  total_gpus: 1
  ttft: fast
  isl: 100
  backend_name: vlm
  agg_tp_candidates: {a: 1}
wrong_too:
  serving_mode: agg
  model_path: m
  system_name: s
  total_gpus: 1
  ttft: fast
  isl: 100
  backend_name: vlm
old:
  serving_mode: agg
  model_path: m
  system_name: s
  total_gpus: 1
  config:
    worker_config:
      tp_list: [one]
      speed: 3
older:
  serving_mode: agg
  model_path: m
  system_name: s
  total_gpus: 1
  config:
    worker_config:
      tp_list: [one]
good: {serving_mode: agg, model_path: m, system_name: s, total_gpus: 1}
)");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->broken.size(), 4U);
  EXPECT_THAT(file->broken[0].second.message, HasSubstr("line 10: agg_tp_candidates: expected"));
  EXPECT_THAT(file->broken[1].second.message,
              AllOf(HasSubstr("line 16: ttft: expected a number"),
                    HasSubstr("line 18: backend_name: unknown backend 'vlm'"), HasSubstr("vllm")));
  EXPECT_THAT(file->broken[2].second.message, HasSubstr("line 27: worker_config.speed"));
  EXPECT_THAT(file->broken[3].second.message,
              HasSubstr("line 35: agg_tp_candidates: expected a list of whole numbers"));
  // A text of one line has no lines worth naming.
  const auto json = Parse(R"({"a": {"serving_mode": "agg", "model_path": "m", "system_name": "s",)"
                          R"( "total_gpus": "two"}})");
  ASSERT_FALSE(json);
  EXPECT_THAT(json.error().message, Not(HasSubstr("line")));
}

TEST(ExperimentFile, RefusesBrokenFiles) {
  EXPECT_EQ(Parse("a: [1, 2").error().kind, ErrorKind::kYaml);
  EXPECT_EQ(Parse("- a\n- b").error().kind, ErrorKind::kYaml);
  EXPECT_EQ(Parse("").error().kind, ErrorKind::kYaml);
  EXPECT_EQ(Parse("a: 1").error().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(ReadExperiments("/no/such/file.yaml", {}).error().kind, ErrorKind::kIo);
}

TEST(ExperimentFile, RefusesFieldsWithoutEnd) {
  const auto own = Parse(R"(
endless: &x
  mode: patch
  config: *x
good: {serving_mode: agg, model_path: m, system_name: s, total_gpus: 1}
)");
  ASSERT_TRUE(own) << own.error().message;
  ASSERT_EQ(own->broken.size(), 1U);
  EXPECT_EQ(own->broken[0].first, "endless");
  EXPECT_EQ(own->broken[0].second.kind, ErrorKind::kInvalidArgument);

  std::string text = "l0: &l0 {x: 1}\n";
  for (int level = 1; level < 12; ++level) {
    text += fmt::format("l{0}: &l{0} {{", level);
    for (int i = 0; i < 8; ++i) text += fmt::format("k{}: *l{}, ", i, level - 1);
    text += "}\n";
  }
  const auto many = Parse(text + "many: {mode: patch, config: *l11}\n");
  ASSERT_FALSE(many);
  EXPECT_THAT(many.error().message, HasSubstr("too many"));
}

TEST(ExperimentFile, ConvertsTheNestedForm) {
  const auto file = Parse(R"(
old:
  mode: patch
  serving_mode: disagg
  model_path: org/model
  system_name: h200_sxm
  decode_system_name: h100_sxm
  backend_name: sglang
  total_gpus: 16
  isl: 3000
  some_top_level_key: 1
  profiles: [nvfp4]
  config:
    nextn: 2
    nextn_accept_rates: [0.8, 0.5]
    prefill_worker_config:
      tp_list: [1, 2]
      gemm_quant_mode: fp8
    decode_worker_config:
      num_gpu_per_worker: [4]
      enable_eplb: true
    replica_config:
      max_prefill_worker: 7
    advanced_tuning_config:
      decode_latency_correction_scale: 1.2
)");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->experiments.size(), 1U);
  const Task& task = file->experiments[0].task;
  EXPECT_EQ(task.prefill.system, "h200_sxm");
  EXPECT_EQ(task.decode.system, "h100_sxm");
  EXPECT_EQ(task.prefill.model, "org/model");
  EXPECT_EQ(task.decode.backend, Backend::kSglang);
  EXPECT_EQ(task.prefill.quant.gemm, GemmQuant::kFp8);  // the block wins over the profile
  EXPECT_EQ(task.decode.quant.gemm, GemmQuant::kNvfp4);
  EXPECT_EQ(task.decode.quant.fmha, FmhaQuant::kFp8);
  EXPECT_EQ(task.prefill.lists.tp, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(task.decode.lists.num_gpu, (std::vector<std::int64_t>{4}));
  EXPECT_TRUE(task.decode.enable_eplb);
  EXPECT_FALSE(task.prefill.enable_eplb);
  EXPECT_EQ(task.disagg.max_prefill_workers, 7);
  EXPECT_EQ(task.disagg.decode_latency_correction, 1.2);
  EXPECT_EQ(task.nextn, 2);
  EXPECT_DOUBLE_EQ(*task.nextn_accepted, 0.8 + 0.8 * 0.5);
}

TEST(ExperimentFile, NestedFormListsWhatHasNoPlace) {
  const auto file = Parse(R"(
old:
  serving_mode: agg
  model_path: m
  system_name: s
  total_gpus: 1
  config:
    colour: red
    worker_config: {tp_list: [1], speed: 3}
good: {serving_mode: agg, model_path: m, system_name: s, total_gpus: 1}
)");
  ASSERT_TRUE(file);
  ASSERT_EQ(file->broken.size(), 1U);
  EXPECT_THAT(file->broken[0].second.message, HasSubstr("worker_config.speed"));
  EXPECT_THAT(file->broken[0].second.message, HasSubstr("config.colour"));
}

TEST(ExperimentFile, WrittenTasksReadBackEqual) {
  Task task;
  task.mode = ServingMode::kDisaggregated;
  task.prefill.model = task.decode.model = "org/model: 1";
  task.prefill.system = task.decode.system = "h200_sxm";
  task.prefill.quant.gemm = GemmQuant::kFp8Block;
  task.decode.lists.tp = {1, 2, 4};
  task.ttft = 1e6;
  task.tpot = 0.1;
  task.total_gpus = 64;
  task.policy = {false, false, false, false};
  task.afd.f_moe_ep_candidates = {"2", "tp_f"};
  task.afd.pipeline_candidates = {AfdPipeline::kConservative};
  task.epd.system = "l40s";
  const std::string text = FormatTask(task);
  EXPECT_THAT(text, HasSubstr("serving_mode: disagg\nisl: 4000\n"));
  EXPECT_THAT(text, HasSubstr("request_latency: null\n"));
  EXPECT_THAT(text, HasSubstr("ttft: 1000000.0\n"));
  const auto back = ParseTask(text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, task);
}

}  // namespace
}  // namespace infercast
