// What the JSON form accepts, refuses and writes.
#include "engine/spec_json.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/random_spec.h"

namespace infercast {
namespace {

const std::string kMinimal =
    R"({"schema_version":15,"engine":{"schema_version":1,"model_name":"m","system_name":"h200_sxm",)"
    R"("backend":"trtllm","tp_size":1,"pp_size":1},"context_ops":[],"generation_ops":[]})";

// `text` with the first `from` replaced by `to`.
std::string With(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(SpecJson, ReadsAMinimalDescriptionWithDefaults) {
  const auto spec = ParseEngineSpecJson(kMinimal);
  ASSERT_TRUE(spec) << spec.error().message;
  EngineSpec expected;
  expected.engine.model_name = "m";
  expected.engine.system_name = "h200_sxm";
  expected.engine.backend = "trtllm";
  EXPECT_EQ(*spec, expected);
}

TEST(SpecJson, WritesEveryMemberInOrder) {
  EXPECT_EQ(
      WriteEngineConfigJson(ParseEngineSpecJson(kMinimal)->engine),
      R"({"schema_version":1,"model_name":"m","system_name":"h200_sxm","systems_path":null,)"
      R"("backend":"trtllm","backend_version":null,"forward_model":null,"kv_block_size":null,)"
      R"("tp_size":1,"pp_size":1,"attention_dp_size":null,"moe_tp_size":null,"moe_ep_size":null,)"
      R"("cp_size":null,"weight_dtype":null,"moe_dtype":null,"activation_dtype":null,)"
      R"("kv_cache_dtype":null,"nextn":null,"enable_shared_layer":null,)"
      R"("strict_provenance":false,"database_mode":"SILICON","tolerate_dirless_version":false,)"
      R"("transfer_policy":null,"extra":{}})");
}

TEST(SpecJson, SortsExtraMembers) {
  const auto config = ParseEngineConfigJson(
      R"({"schema_version":1,"model_name":"m","system_name":"s","backend":"vllm","tp_size":1,)"
      R"("pp_size":1,"extra":{"b":"1","a":"2"}})");
  ASSERT_TRUE(config);
  EXPECT_NE(WriteEngineConfigJson(*config).find(R"("extra":{"a":"2","b":"1"})"), std::string::npos);
}

TEST(SpecJson, IgnoresUnknownMembersAndAcceptsNullOptions) {
  EXPECT_TRUE(ParseEngineSpecJson(
      With(kMinimal, R"("tp_size":1)", R"("tp_size":1,"model_arch":[{}],"cp_size":null)")));
  EXPECT_TRUE(ParseEngineSpecJson(With(kMinimal, "15,", R"(15,"more":{},)")));
}

TEST(SpecJson, CarriesAnotherSchemaVersion) {
  const auto spec = ParseEngineSpecJson(With(kMinimal, "15", "14"));
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->schema_version, 14u);
}

TEST(SpecJson, RefusesWrongMembers) {
  const std::pair<const char*, const char*> changes[] = {
      {R"("context_ops":[],)", ""},
      {R"(,"tp_size":1)", ""},
      {R"("tp_size":1)", R"("tp_size":-1)"},
      {R"("tp_size":1)", R"("tp_size":1.0)"},
      {R"("tp_size":1)", R"("tp_size":4294967296)"},
      {R"("tp_size":1)", R"("tp_size":"1")"},
      {R"("tp_size":1)", R"("tp_size":null)"},
      {R"("tp_size":1)", R"("tp_size":1,"strict_provenance":null)"},
      {R"("tp_size":1)", R"("tp_size":1,"weight_dtype":"half")"},
      {R"("tp_size":1)", R"("tp_size":1,"database_mode":"silicon")"},
      {R"("tp_size":1)", R"("tp_size":1,"extra":{"b":1})"},
      {R"("backend":"trtllm")", R"("backend":"foo")"},
      {R"("context_ops":[])", R"("context_ops":{})"},
      {R"("context_ops":[])", R"("context_ops":[{}])"},
      {R"("context_ops":[])", R"("context_ops":[{"Unknown":{}}])"},
      {R"("context_ops":[])", R"("context_ops":[{"Vision":{},"Gemm":{}}])"},
      {R"("engine":{)", R"("engine":[{)"},
      {"}", "} x"},
  };
  for (const auto& [from, to] : changes) {
    const auto spec = ParseEngineSpecJson(With(kMinimal, from, to));
    EXPECT_FALSE(spec) << from << " -> " << to;
    if (!spec) {
      EXPECT_EQ(spec.error().kind, ErrorKind::kEngineSpec);
      EXPECT_EQ(spec.error().message.find("engine spec JSON decode: "), 0u);
    }
  }
}

TEST(SpecJson, NamesWhatIsMissing) {
  const auto spec = ParseEngineSpecJson(With(kMinimal, R"(,"tp_size":1)", ""));
  ASSERT_FALSE(spec);
  EXPECT_NE(spec.error().message.find("missing field `tp_size`"), std::string::npos)
      << spec.error().message;
}

TEST(SpecJson, OperatorsTakeDefaultsAndIntegersForRealNumbers) {
  const auto op = ParseOperatorJson(
      R"({"Elementwise":{"name":"n","scale_factor":2,"bytes_per_token":8,"unknown":0}})");
  ASSERT_TRUE(op) << op.error().message;
  const auto& kernel = std::get<Elementwise>(op->kind);
  EXPECT_EQ(kernel.scale_factor, 2.0);
  EXPECT_EQ(kernel.scale_num_tokens, 1u);
  EXPECT_EQ(kernel.seq_split, 1u);
}

TEST(SpecJson, OperatorErrorsAreConfigurationErrors) {
  for (const char* text :
       {"", "[]", "3", R"({"Gemm":[]})", R"({"Mhc":{"name":"n"}})",
        R"({"ContextMla":{"name":"n","scale_factor":1,"num_heads":1,"kv_cache_dtype":"FP8",)"
        R"("fmha_quant_mode":"fp8"}})",
        R"({"Elementwise":{"name":"n","scale_factor":"1","bytes_per_token":8}})",
        R"({"Elementwise":{"name":"n","scale_factor":1e400,"bytes_per_token":8}})"}) {
    const auto op = ParseOperatorJson(text);
    ASSERT_FALSE(op) << text;
    EXPECT_EQ(op.error().kind, ErrorKind::kInvalidEngineConfig) << text;
  }
}

TEST(SpecJson, RoundsDecimalsCorrectlyAndWritesThemShortest) {
  const auto op = ParseOperatorJson(
      R"({"Elementwise":{"name":"n","scale_factor":95.99999999999999,"bytes_per_token":1e-7}})");
  ASSERT_TRUE(op);
  EXPECT_EQ(std::get<Elementwise>(op->kind).scale_factor, 95.99999999999999);
  EXPECT_EQ(WriteOperatorJson(*op),
            R"({"Elementwise":{"name":"n","scale_factor":95.99999999999999,)"
            R"("bytes_per_token":1e-07,"scale_num_tokens":1,"seq_split":1}})");
}

std::string Nested(int levels) {
  std::string open;
  std::string close;
  for (int i = 0; i < levels; ++i) {
    open += R"({"Overlap":{"name":"o","group_b":[],"group_a":[)";
    close += "]}}";
  }
  return open + R"({"Elementwise":{"name":"n","scale_factor":1,"bytes_per_token":8}})" + close;
}

TEST(SpecJson, LimitsNesting) {
  EXPECT_TRUE(ParseOperatorJson(Nested(kMaxOperatorNesting - 1)));
  EXPECT_FALSE(ParseOperatorJson(Nested(kMaxOperatorNesting)));
  EXPECT_FALSE(ParseOperatorJson(Nested(100000)));
  EXPECT_FALSE(ParseOperatorListJson(std::string(1000000, '[')));
  // Brackets inside texts do not count.
  EXPECT_TRUE(ParseEngineSpecJson(
      With(kMinimal, R"("m")", "\"" + std::string(10000, '[') + "\\\"" + "\"")));
}

TEST(SpecJson, RandomDescriptionsSurviveARoundTrip) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const EngineSpec spec = testing::RandomSpec(seed);
    const auto back = ParseEngineSpecJson(WriteEngineSpecJson(spec));
    ASSERT_TRUE(back) << back.error().message;
    ASSERT_EQ(*back, spec) << seed;
  }
}

TEST(SpecJson, ListsKeepTheirOrder) {
  const EngineSpec spec = testing::RandomSpec(7);
  EXPECT_EQ(ParseOperatorListJson(WriteOperatorListJson(spec.context_ops)).value(),
            spec.context_ops);
  EXPECT_TRUE(ParseOperatorListJson("[]")->empty());
}

}  // namespace
}  // namespace infercast
