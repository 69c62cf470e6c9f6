// The binary form byte by byte, and what damaged input does.
#include "engine/spec_binary.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/random_spec.h"
#include "engine/spec_json.h"

namespace infercast {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes FromHex(std::string_view text) {
  Bytes bytes;
  int digits = 0;
  int value = 0;
  for (const char c : text) {
    if (c == ' ') continue;
    value = value * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
    if (++digits == 2) {
      bytes.push_back(static_cast<std::uint8_t>(value));
      digits = value = 0;
    }
  }
  return bytes;
}

EngineSpec Example() {
  EngineSpec spec;
  spec.engine.model_name = "m";
  spec.engine.system_name = "h200_sxm";
  spec.engine.backend = "trtllm";
  spec.engine.backend_version = "1.3.0rc20";
  Elementwise op;
  op.name = "n";
  op.scale_factor = 1.5;
  op.bytes_per_token = 8.0;
  op.scale_num_tokens = 0;
  spec.context_ops = {op};
  return spec;
}

TEST(SpecBinary, AWholeDescription) {
  const std::string config =
      R"({"schema_version":1,"model_name":"m","system_name":"h200_sxm","systems_path":null,)"
      R"("backend":"trtllm","backend_version":"1.3.0rc20","forward_model":null,)"
      R"("kv_block_size":null,"tp_size":1,"pp_size":1,"attention_dp_size":null,)"
      R"("moe_tp_size":null,"moe_ep_size":null,"cp_size":null,"weight_dtype":null,)"
      R"("moe_dtype":null,"activation_dtype":null,"kv_cache_dtype":null,"nextn":null,)"
      R"("enable_shared_layer":null,"strict_provenance":false,"database_mode":"SILICON",)"
      R"("tolerate_dirless_version":false,"transfer_policy":null,"extra":{}})";
  Bytes expected = FromHex("0f 00 00 00 05 02 00 00 00 00 00 00");
  expected.insert(expected.end(), config.begin(), config.end());
  const Bytes rest = FromHex(
      "01 00 00 00 00 00 00 00 02 00 00 00 01 00 00 00 00 00 00 00 6e 00 00 00 00 00 00 f8 3f"
      "00 00 00 00 00 00 20 40 00 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00");
  expected.insert(expected.end(), rest.begin(), rest.end());
  EXPECT_EQ(expected.size(), 582u);
  EXPECT_EQ(WriteEngineSpecBinary(Example()), expected);
  const auto back = ParseEngineSpecBinary(expected);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, Example());
}

TEST(SpecBinary, AChildIsWrittenLikeTheOperatorItself) {
  MlaModuleContext module;
  module.name = "m";
  module.scale_factor = 61.0;
  module.num_heads = 16;
  module.kv_cache_dtype = KvQuant::kFp8;
  module.gemm_quant_mode = GemmQuant::kFp8Block;
  module.native_num_heads = 128;
  Fallback op;
  op.name = "b";
  op.primary = Box<Operator>(module);
  const Bytes expected = FromHex(
      "1d 00 00 00 01 00 00 00 00 00 00 00 62 08 00 00 00 01 00 00 00 00 00 00 00 6d 00 00 00 00"
      "00 80 4e 40 10 00 00 00 02 00 00 00 00 00 00 00 06 00 00 00 01 80 00 00 00 00 00 00 00 00"
      "00 00 00");
  EXPECT_EQ(WriteOperatorBinary(op), expected);
  EXPECT_EQ(ParseOperatorBinary(expected).value(), Operator(op));

  module.native_num_heads.reset();
  op.primary = Box<Operator>(module);
  const Bytes bytes = WriteOperatorBinary(op);
  EXPECT_EQ(bytes.size(), expected.size() - 4);
  EXPECT_EQ(bytes[bytes.size() - 9], 0);
}

TEST(SpecBinary, ListsOfTexts) {
  ContextAttention op;
  op.name = "c";
  op.scale_factor = 1.0;
  op.n = 32;
  op.n_kv = 8;
  op.head_size = 128;
  op.kv_cache_dtype = KvQuant::kFp8;
  op.use_qk_norm = true;
  op.lane_order = {"trtllm_mha", "default"};
  const Bytes expected = FromHex(
      "03 00 00 00 01 00 00 00 00 00 00 00 63 00 00 00 00 00 00 f0 3f 20 00 00 00 08 00 00 00 80"
      "00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 01 01 00 00 00 02 00 00 00 00 00 00 00 0a 00"
      "00 00 00 00 00 00 74 72 74 6c 6c 6d 5f 6d 68 61 07 00 00 00 00 00 00 00 64 65 66 61 75 6c"
      "74");
  EXPECT_EQ(WriteOperatorBinary(op), expected);
  EXPECT_EQ(ParseOperatorBinary(expected).value(), Operator(op));
}

TEST(SpecBinary, RandomDescriptionsSurviveBothForms) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const EngineSpec spec = testing::RandomSpec(seed);
    const std::string json = WriteEngineSpecJson(spec);
    // The version is the one thing a reader insists on.
    EngineSpec current = spec;
    current.schema_version = kEngineSpecSchemaVersion;
    const auto binary = ParseEngineSpecBinary(WriteEngineSpecBinary(current));
    ASSERT_TRUE(binary) << binary.error().message;
    ASSERT_EQ(*binary, current) << seed;
    ASSERT_EQ(ParseEngineSpecJson(WriteEngineSpecJson(*binary)).value(), current) << seed;
  }
}

TEST(SpecBinary, TheVersionComesFirst) {
  Bytes bytes = WriteEngineSpecBinary(Example());
  bytes[0] = 16;
  for (const std::size_t size : {bytes.size(), std::size_t{4}}) {
    const auto spec = ParseEngineSpecBinary(std::span(bytes).first(size));
    ASSERT_FALSE(spec);
    EXPECT_EQ(spec.error().kind, ErrorKind::kUnsupportedSchemaVersion);
    EXPECT_NE(spec.error().message.find("got 16, expected 15"), std::string::npos);
  }
  const auto empty = ParseEngineSpecBinary({});
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().kind, ErrorKind::kEngineSpec);
  EXPECT_NE(empty.error().message.find("schema_version prefix"), std::string::npos);
  EXPECT_NE(empty.error().message.find("payload is 0 bytes"), std::string::npos);
}

TEST(SpecBinary, EveryCutIsAnError) {
  const Bytes bytes = WriteEngineSpecBinary(Example());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto spec = ParseEngineSpecBinary(std::span(bytes).first(size), Behaviour::kReference);
    ASSERT_FALSE(spec) << size;
    EXPECT_EQ(spec.error().kind, ErrorKind::kEngineSpec) << size;
  }
  const auto cut = ParseEngineSpecBinary(std::span(bytes).first(bytes.size() - 8));
  EXPECT_NE(cut.error().message.find("op payloads"), std::string::npos);
  EXPECT_NE(cut.error().message.find("schema_version 15"), std::string::npos);
}

TEST(SpecBinary, TrailingBytesAreIgnoredOnlyInReferenceBehaviour) {
  Bytes bytes = WriteEngineSpecBinary(Example());
  bytes.push_back(0);
  EXPECT_TRUE(ParseEngineSpecBinary(bytes, Behaviour::kReference));
  const auto spec = ParseEngineSpecBinary(bytes, Behaviour::kNative);
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().kind, ErrorKind::kEngineSpec);
}

// One byte of an operator changed at a time.
TEST(SpecBinary, TagsAndTextsAreChecked) {
  Fallback op;
  op.name = "b";
  MlaModuleContext module;
  module.name = "m";
  op.primary = Box<Operator>(module);
  const Bytes good = WriteOperatorBinary(op);
  ASSERT_TRUE(ParseOperatorBinary(good));
  const auto broken = [&](std::size_t at, std::uint8_t value) {
    Bytes bytes = good;
    bytes.at(at) = value;
    return !ParseOperatorBinary(bytes);
  };
  EXPECT_TRUE(broken(0, 35));                  // operator tag
  EXPECT_TRUE(broken(3, 1));                   // operator tag, high byte
  EXPECT_TRUE(broken(4, 200));                 // text longer than the input
  EXPECT_TRUE(broken(11, 0xff));               // text length beyond any memory
  EXPECT_TRUE(broken(12, 0xff));               // not UTF-8
  EXPECT_TRUE(broken(38, 3));                  // KV format
  EXPECT_TRUE(broken(42, 3));                  // attention format
  EXPECT_TRUE(broken(46, 11));                 // GEMM format
  EXPECT_TRUE(broken(50, 2));                  // option
  EXPECT_TRUE(broken(good.size() - 8, 1));     // one more operator than there is
  EXPECT_TRUE(broken(good.size() - 1, 0x80));  // a count beyond any memory
}

TEST(SpecBinary, TextsMustBeUtf8) {
  const auto accepts = [](std::string_view text) {
    Elementwise op;
    op.name = text;
    return ParseOperatorBinary(WriteOperatorBinary(op)).has_value();
  };
  EXPECT_TRUE(accepts("größe 大 😀"));
  EXPECT_TRUE(accepts("\xf4\x8f\xbf\xbf"));
  for (const std::string_view bad :
       {"\x80", "\xc3", "\xc0\xaf", "\xc1\x81", "\xe0\x80\x80", "\xed\xa0\x80", "\xe5\xa4",
        "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "a\xc3z"}) {
    EXPECT_FALSE(accepts(bad));
  }
}

TEST(SpecBinary, LimitsNesting) {
  const auto nested = [](int levels) {
    Bytes bytes;
    for (int i = 0; i < levels; ++i) {
      // Overlap without name, one child in the first group.
      const Bytes head = FromHex("1c 00 00 00 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00");
      bytes.insert(bytes.end(), head.begin(), head.end());
    }
    const Bytes leaf = WriteOperatorBinary(Elementwise{});
    bytes.insert(bytes.end(), leaf.begin(), leaf.end());
    bytes.insert(bytes.end(), static_cast<std::size_t>(levels) * 8, 0);  // the second groups
    return bytes;
  };
  EXPECT_TRUE(ParseOperatorBinary(nested(kMaxOperatorNesting - 1)));
  EXPECT_FALSE(ParseOperatorBinary(nested(kMaxOperatorNesting)));
  EXPECT_FALSE(ParseOperatorBinary(nested(200000)));
}

TEST(SpecBinary, ABadConfigurationIsNamed) {
  EngineSpec spec = Example();
  spec.engine.backend = "nobody";
  const auto back = ParseEngineSpecBinary(WriteEngineSpecBinary(spec));
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().kind, ErrorKind::kEngineSpec);
  EXPECT_NE(back.error().message.find("engine JSON"), std::string::npos);
}

}  // namespace
}  // namespace infercast
