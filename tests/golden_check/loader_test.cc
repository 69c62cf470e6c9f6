// Reading golden files, telling their kinds, reporting.
#include "golden_check/loader.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

#include "golden_check/adapters.h"
#include "golden_check/base64.h"
#include "golden_check/report.h"
#include "support/data_files.h"

namespace infercast::golden {
namespace {

using infercast::testing::TemporaryDirectory;
using infercast::testing::WriteText;

void WriteCompressed(const std::filesystem::path& file, const std::string& text) {
  gzFile out = gzopen(file.c_str(), "wb");
  ASSERT_NE(out, nullptr);
  ASSERT_EQ(gzwrite(out, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  ASSERT_EQ(gzclose(out), Z_OK);
}

TEST(Loader, ReadsEveryForm) {
  const TemporaryDirectory folder;
  WriteText(folder.path() / "a.json", "{\n \"x\": 1\n}\n");
  WriteText(folder.path() / "b.jsonl", "{\"x\":1}\n{\"x\":2}\n\n{\"x\":3}");
  WriteCompressed(folder.path() / "c.json.gz", "{\"x\":1}");
  WriteCompressed(folder.path() / "d.jsonl.gz", "{\"x\":1}\n{\"x\":2}\n");
  const auto count = [&](const char* name) {
    const auto documents = LoadDocuments(folder.path() / name);
    return documents ? documents->size() : 0;
  };
  EXPECT_EQ(count("a.json"), 1u);
  EXPECT_EQ(count("b.jsonl"), 3u);
  EXPECT_EQ(count("c.json.gz"), 1u);
  EXPECT_EQ(count("d.jsonl.gz"), 2u);
  EXPECT_EQ(LoadDocuments(folder.path() / "d.jsonl.gz")->at(1).at("x"), 2);
}

TEST(Loader, SaysWhatIsWrong) {
  const TemporaryDirectory folder;
  const auto kind = [&](const char* name) {
    const auto documents = LoadDocuments(folder.path() / name);
    return documents ? ErrorKind::kInternal : documents.error().kind;
  };
  EXPECT_EQ(kind("absent.json"), ErrorKind::kIo);
  WriteText(folder.path() / "bad.json", "{");
  EXPECT_EQ(kind("bad.json"), ErrorKind::kCorruptData);
  WriteText(folder.path() / "bad.jsonl", "{}\n{\n");
  EXPECT_EQ(kind("bad.jsonl"), ErrorKind::kCorruptData);
  WriteText(folder.path() / "cases.txt", "{}");
  EXPECT_EQ(kind("cases.txt"), ErrorKind::kCorruptData);
  WriteCompressed(folder.path() / "cut.json.gz", "[" + std::string(5000, ' ') + "1]");
  std::filesystem::resize_file(folder.path() / "cut.json.gz",
                               std::filesystem::file_size(folder.path() / "cut.json.gz") - 10);
  EXPECT_EQ(kind("cut.json.gz"), ErrorKind::kCorruptData);
}

TEST(Dispatch, TellsCasesByTheirContent) {
  const auto adapter = [](const char* text) {
    bool is_data = false;
    return AdapterFor(nlohmann::json::parse(text), is_data);
  };
  EXPECT_EQ(adapter(R"({"op":{},"ctx":{},"mode":"SOL"})"), &RunOperatorCase);
  EXPECT_EQ(adapter(R"({"create":"from_native","config":{},"steps":[]})"), &RunOnlineCase);
  EXPECT_EQ(adapter(R"({"family":"LLAMA","config":{},"spec":{},"runs":[]})"), &RunEngineCase);
  EXPECT_EQ(adapter(R"({"spec":{},"runs":[],"systems_root":"x"})"), &RunToyEngineCase);
  EXPECT_EQ(adapter(R"({"call":"estimate_kv_cache","args":{}})"), &RunKvCase);
  EXPECT_EQ(adapter(R"({"kind":"estimate","args":{},"result":{}})"), &RunAppCase);
  EXPECT_EQ(adapter(R"({"tuples":[],"samples":[]})"), &RunOracleFile);
  EXPECT_EQ(adapter(R"({"cases":[],"format":""})"), &RunSimulationFile);
  EXPECT_EQ(adapter(R"({"kind":"cli","params":{},"values":{}})"), &RunDeployCase);
  EXPECT_EQ(adapter(R"({"something":1})"), nullptr);
  EXPECT_EQ(adapter("[]"), nullptr);
  bool is_data = false;
  EXPECT_EQ(AdapterFor(nlohmann::json::parse(R"({"version_matrix":{}})"), is_data), nullptr);
  EXPECT_TRUE(is_data);
}

TEST(Base64, DecodesAndRefuses) {
  EXPECT_EQ(DecodeBase64("AAEC/w=="), (std::vector<std::uint8_t>{0, 1, 2, 255}));
  EXPECT_EQ(DecodeBase64(""), std::vector<std::uint8_t>{});
  EXPECT_FALSE(DecodeBase64("AAE"));
  EXPECT_FALSE(DecodeBase64("AA*="));
}

TEST(Report, CountsByKindAndVariant) {
  Report report(1);
  report.Add("f", {"operator", "Gemm", "g1", {}, 1e-12});
  report.Add("f", {"operator", "Gemm", "g2", {{"latency_ms", "1", "2"}}, 1.0});
  report.Add("f", {"operator", "Gemm", "g3", {{"latency_ms", "1", "3"}}, 2.0});
  report.Add("f", {"operator", "Moe", "m1", {}, 0});
  EXPECT_EQ(report.cases(), 4u);
  EXPECT_EQ(report.failed(), 2u);
  EXPECT_FALSE(report.any_unreadable());
  const auto json = nlohmann::json::parse(report.Json());
  EXPECT_EQ(json.at("passed"), 2);
  EXPECT_EQ(json.at("groups").size(), 2u);
  const auto& gemm = json.at("groups").at(0);
  EXPECT_EQ(gemm.at("cases"), 3);
  EXPECT_EQ(gemm.at("failed"), 2);
  EXPECT_EQ(gemm.at("largest_relative_error"), 2.0);
  ASSERT_EQ(gemm.at("failures").size(), 1u);  // only so many are shown
  EXPECT_EQ(gemm.at("failures").at(0).at("id"), "g2");
  EXPECT_NE(report.Text().find("4 cases, 2 passed, 2 failed"), std::string::npos);
  report.AddUnreadable("h", "why");
  EXPECT_TRUE(report.any_unreadable());
  EXPECT_NE(report.Text().find("UNREADABLE h: why"), std::string::npos);
}

}  // namespace
}  // namespace infercast::golden
