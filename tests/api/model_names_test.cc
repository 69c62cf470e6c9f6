// What a model may be named by in the public interface: everything the program takes, too. Needs
// the data package; the hub is a server of a few lines on this machine.
#include <gtest/gtest.h>
#include <stdlib.h>  // setenv

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "../support/http_server.h"
#include "infercast.h"
#include "infercast/infercast.hpp"

namespace infercast {
namespace {

namespace fs = std::filesystem;

// No family lists this architecture; the keys are those of a dense decoder.
constexpr char kUnlisted[] =
    R"({"architectures": ["MistralForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 32768, "max_position_embeddings": 32768})";

EstimateOptions Options(const std::string& model) {
  EstimateOptions options;
  options.model.model = model;
  options.model.data.system = "h200_sxm";
  options.model.data.backend = "vllm";
  options.batch_size = 8;
  return options;
}

bool NamesTheAssumption(const std::vector<std::string>& notes) {
  return std::ranges::any_of(notes, [](const std::string& note) {
    return note.find("MistralForCausalLM is not listed") != std::string::npos;
  });
}

// A cache directory of the test's own that shares everything but the hub's files.
class ModelNames : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "infercast-names-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    const fs::path own = folder_ / "cache" / "infercast";
    fs::create_directories(own);
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const char* home = std::getenv("HOME");
    fs::path before = cache != nullptr && *cache == '/' ? fs::path(cache)
                                                        : fs::path(home ? home : "/") / ".cache";
    before /= "infercast";
    std::error_code ec;
    for (fs::directory_iterator it(before, ec), end; !ec && it != end; it.increment(ec)) {
      if (it->path().filename() != "hub")
        fs::create_symlink(it->path(), own / it->path().filename());
    }
    Set("XDG_CACHE_HOME", (folder_ / "cache").string());
    Set("no_proxy", "127.0.0.1");
    Set("HF_HUB_OFFLINE", "1");
    fs::create_directories(folder_ / "model");
    std::ofstream(folder_ / "model" / "config.json") << kUnlisted;
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  void Set(const std::string& name, const std::string& value) {
    const char* now = std::getenv(name.c_str());
    before_.emplace_back(name, now != nullptr ? std::optional<std::string>(now) : std::nullopt);
    ::setenv(name.c_str(), value.c_str(), 1);
  }

  fs::path folder_;

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

TEST_F(ModelNames, BundledNamesUnderTheirOtherSpellings) {
  const Forecast as_listed = Estimate(Options("Qwen/Qwen3-32B")).value();
  const Forecast by_alias = Estimate(Options("qwen3-32b")).value();
  EXPECT_EQ(by_alias.ttft_ms, as_listed.ttft_ms);
  EXPECT_EQ(by_alias.tpot_ms, as_listed.tpot_ms);
}

TEST_F(ModelNames, DirectoriesAndFilesOfUnlistedArchitecturesCarryTheirNote) {
  const Result<Forecast> directory = Estimate(Options((folder_ / "model").string()));
  ASSERT_TRUE(directory) << directory.error().message;
  EXPECT_GT(directory->tpot_ms, 0);
  EXPECT_TRUE(NamesTheAssumption(directory->notes));
  const std::string file = (folder_ / "model" / "config.json").string();
  EXPECT_EQ(Estimate(Options(file))->tpot_ms, directory->tpot_ms);

  MemoryOptions memory;
  memory.model = Options(file).model;
  const Result<MemoryEstimate> needed = MemoryEstimate::Of(memory);
  ASSERT_TRUE(needed) << needed.error().message;
  // 7.25 G parameters of two bytes; prefill's list holds no more than these.
  EXPECT_NEAR(needed->weights_gib, 7.248e9 * 2 / 1073741824, 0.4);
  EXPECT_TRUE(NamesTheAssumption(needed->notes));
  EXPECT_TRUE(Engine::Compile(memory.model));
}

TEST_F(ModelNames, ReferenceBehaviourKnowsListedArchitecturesOnly) {
  EstimateOptions options = Options((folder_ / "model").string());
  options.model.data.behaviour = "reference";
  EXPECT_EQ(Estimate(options).error().kind, ErrorKind::kUnsupportedModel);
  MemoryOptions memory;
  memory.model = options.model;
  EXPECT_EQ(MemoryEstimate::Of(memory).error().kind, ErrorKind::kUnsupportedModel);
}

TEST_F(ModelNames, HubRepositoriesAreFetchedOnceAndStayUsableOffline) {
  {
    const testing::HttpServer server([](const std::string& head) {
      return head.find("GET /org/small/resolve/main/config.json ") == 0
                 ? testing::HttpReply("200 OK", kUnlisted)
                 : testing::HttpReply("404 Not Found", "");
    });
    Set("HF_HUB_OFFLINE", "0");
    Set("HF_ENDPOINT", server.url());
    Set("HF_TOKEN", "secret");
    const Result<Forecast> fetched = Estimate(Options("org/small"));
    ASSERT_TRUE(fetched) << fetched.error().message;
    EXPECT_TRUE(NamesTheAssumption(fetched->notes));
    ASSERT_FALSE(server.requests().empty());
    EXPECT_NE(server.requests()[0].find("Bearer secret"), std::string::npos);
    EXPECT_EQ(Estimate(Options("org/none")).error().kind, ErrorKind::kUnknownName);
  }
  Set("HF_HUB_OFFLINE", "1");
  EXPECT_TRUE(Estimate(Options("org/small")));
  EXPECT_EQ(Estimate(Options("org/other")).error().kind, ErrorKind::kNetwork);
  EXPECT_EQ(Estimate(Options("no-such-model")).error().kind, ErrorKind::kUnknownName);

  // The same through C.
  infercast_options* options = infercast_options_new();
  for (const auto& [key, value] : {std::pair{"model", "org/small"},
                                   {"system", "h200_sxm"},
                                   {"backend", "vllm"},
                                   {"batch_size", "8"}}) {
    ASSERT_EQ(infercast_options_set(options, key, value), INFERCAST_OK);
  }
  infercast_table* table = nullptr;
  EXPECT_EQ(infercast_estimate(options, &table), INFERCAST_OK) << infercast_last_error();
  infercast_table_free(table);
  infercast_options_free(options);
}

}  // namespace
}  // namespace infercast
