// Configurations from a hub, against a server of a few lines on this machine.
#include "models/hub.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "models/checkpoint.h"
#include "support/data_files.h"
#include "support/http_server.h"

namespace infercast {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLlama[] =
    R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 8,
        "vocab_size": 32000, "max_position_embeddings": 32768})";

using Server = testing::HttpServer;
using testing::HttpReply;

std::string ServeLlama(const std::string& head) {
  if (head.find("GET /org/small/resolve/main/config.json ") == 0)
    return HttpReply("200 OK", kLlama);
  return HttpReply("404 Not Found", "Entry not found");
}

class Hub : public ::testing::Test {
 protected:
  Hub() {
    ::setenv("no_proxy", "127.0.0.1", 1);
    options_.cache = directory_.path() / "hub";
  }
  // Nothing is left but whole repositories.
  std::size_t EntriesInCache() const {
    std::error_code ec;
    std::size_t entries = 0;
    for (fs::directory_iterator it(options_.cache, ec), end; !ec && it != end; it.increment(ec)) {
      ++entries;
    }
    return entries;
  }

  testing::TemporaryDirectory directory_;
  HubOptions options_;
};

TEST_F(Hub, FetchesOnceAndThenReadsTheCache) {
  std::string parsed;
  {
    const Server server(ServeLlama);
    options_.endpoint = server.url() + "/";
    const auto files = FetchFromHub("org/small", options_);
    ASSERT_TRUE(files) << files.error().message;
    EXPECT_TRUE(fs::is_regular_file(files->config));
    EXPECT_FALSE(fs::exists(files->quant));
    EXPECT_EQ(server.requests().size(), 2U);  // the second one: hf_quant_config.json
    EXPECT_THAT(server.requests()[0], Not(HasSubstr("Authorization")));
  }
  // The server is gone.
  options_.offline = true;
  CheckpointSearch search;
  search.hub = options_;
  const auto model = LoadModelConfig("org/small", search);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->name, "org/small");
  EXPECT_EQ(model->layers, 8);
  EXPECT_EQ(EntriesInCache(), 1U);
}

TEST_F(Hub, TakesTheQuantisationFileAndFollowsRedirects) {
  const Server server([](const std::string& head) {
    if (head.find("GET /org/fp8/resolve/main/config.json ") == 0) {
      return HttpReply("302 Found", "", "Location: /elsewhere\r\n");
    }
    if (head.find("GET /elsewhere ") == 0) return HttpReply("200 OK", kLlama);
    if (head.find("GET /org/fp8/resolve/main/hf_quant_config.json ") == 0) {
      return HttpReply("200 OK", R"({"quantization": {"quant_algo": "FP8"}})");
    }
    return HttpReply("404 Not Found", "");
  });
  options_.endpoint = server.url();
  CheckpointSearch search;
  search.hub = options_;
  const auto model = LoadModelConfig("org/fp8", search);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->quant.algorithm, "fp8");
}

TEST_F(Hub, SendsTheTokenToTheEndpointOnly) {
  const Server other([](const std::string&) { return HttpReply("200 OK", kLlama); });
  // localhost and 127.0.0.1 are different hosts to a client.
  std::string away = other.url() + "/config";
  const Server server([&](const std::string& head) {
    if (head.find("config.json ") != std::string::npos &&
        head.find("hf_quant") == std::string::npos) {
      return HttpReply("302 Found", "", "Location: " + away + "\r\n");
    }
    return HttpReply("404 Not Found", "");
  });
  options_.endpoint = server.url();
  options_.token = "secret";
  ASSERT_TRUE(FetchFromHub("org/gated", options_));
  EXPECT_THAT(server.requests()[0], HasSubstr("Authorization: Bearer secret"));
  // Another port is another server.
  EXPECT_THAT(other.requests()[0], Not(HasSubstr("secret")));
}

TEST_F(Hub, ErrorsTellWhatIsWrongAndLeaveNothing) {
  struct Case {
    std::string reply;
    ErrorKind kind;
    std::string says;
  };
  const Case cases[] = {
      {HttpReply("404 Not Found", ""), ErrorKind::kUnknownName, "no repository"},
      {HttpReply("401 Unauthorized", ""), ErrorKind::kUnknownName, "HF_TOKEN"},
      {HttpReply("403 Forbidden", ""), ErrorKind::kUnknownName, "HF_TOKEN"},
      {HttpReply("500 Oops", ""), ErrorKind::kNetwork, "500"},
      {HttpReply("200 OK", "<html>"), ErrorKind::kNetwork, "JSON object"},
      {HttpReply("200 OK", "[1]"), ErrorKind::kNetwork, "JSON object"},
      {HttpReply("200 OK", std::string(5000, ' ') + "{}"), ErrorKind::kNetwork, "larger than"},
      // Breaks off in the middle.
      {"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"a\": 1", ErrorKind::kNetwork,
       "cannot fetch"},
      {HttpReply("302 Found", "", "Location: file:///etc/passwd\r\n"), ErrorKind::kNetwork,
       "cannot fetch"},
  };
  options_.max_bytes = 4096;
  for (const Case& c : cases) {
    const Server server([&](const std::string&) { return c.reply; });
    options_.endpoint = server.url();
    const auto files = FetchFromHub("org/bad", options_);
    ASSERT_FALSE(files) << c.says;
    EXPECT_EQ(files.error().kind, c.kind) << files.error().message;
    EXPECT_THAT(files.error().message, HasSubstr(c.says));
    EXPECT_EQ(EntriesInCache(), 0U);
  }
}

TEST_F(Hub, GivesUpOnASilentServer) {
  std::atomic<bool> done{false};
  const Server server([&](const std::string&) {
    while (!done) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return std::string();
  });
  options_.endpoint = server.url();
  options_.timeout = std::chrono::milliseconds(150);
  const auto files = FetchFromHub("org/slow", options_);
  done = true;
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::kNetwork);
}

TEST_F(Hub, AFailureOfTheSecondFileIsNotHalfARepository) {
  const Server server([](const std::string& head) {
    return head.find("hf_quant") == std::string::npos ? HttpReply("200 OK", kLlama)
                                                      : HttpReply("503 Busy", "");
  });
  options_.endpoint = server.url();
  EXPECT_FALSE(FetchFromHub("org/half", options_));
  EXPECT_EQ(EntriesInCache(), 0U);
}

TEST_F(Hub, WithoutNetworkTheErrorListsNearNames) {
  fs::create_directories(directory_.path() / "configs");
  testing::WriteText(directory_.path() / "configs" / "Qwen--Qwen3-8B_config.json", kLlama);
  options_.endpoint = "http://127.0.0.1:9";  // nobody listens there
  options_.connect_timeout = std::chrono::milliseconds(500);
  CheckpointSearch search;
  search.config_dirs = {directory_.path() / "configs"};
  search.hub = options_;
  const auto model = LoadModelConfig("Qwen/Qwen3-9B", search);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().kind, ErrorKind::kNetwork);
  EXPECT_THAT(model.error().message, HasSubstr("cannot fetch"));
  EXPECT_THAT(model.error().message, HasSubstr("Qwen/Qwen3-8B"));
  // Bundled names need no hub.
  EXPECT_TRUE(LoadModelConfig("Qwen/Qwen3-8B", search));
  search.hub->offline = true;
  const auto offline = LoadModelConfig("Qwen/Qwen3-9B", search);
  ASSERT_FALSE(offline);
  EXPECT_THAT(offline.error().message, HasSubstr("HF_HUB_OFFLINE"));
}

TEST_F(Hub, NamesCannotLeaveTheCache) {
  for (const char* name : {"", "noslash", "a/b/c", "../x", "x/..", "a/.hidden", "a/b c", "a/b\n",
                           "a--b/c", "/a", "a/", "a/b?x=1", "a/%2e%2e"}) {
    EXPECT_FALSE(IsHubName(name)) << name;
    EXPECT_FALSE(FetchFromHub(name, options_)) << name;
  }
  EXPECT_TRUE(IsHubName("meta-llama/Llama-3.1-8B"));
}

TEST_F(Hub, ReadsTheEnvironment) {
  ::setenv("HF_ENDPOINT", "https://mirror.example", 1);
  ::setenv("HF_TOKEN", "t", 1);
  ::setenv("HF_HUB_OFFLINE", "yes", 1);
  const auto options = HubOptionsFromEnvironment();
  ::unsetenv("HF_ENDPOINT");
  ::unsetenv("HF_TOKEN");
  ::unsetenv("HF_HUB_OFFLINE");
  ASSERT_TRUE(options);
  EXPECT_EQ(options->endpoint, "https://mirror.example");
  EXPECT_EQ(options->token, "t");
  EXPECT_TRUE(options->offline);
  EXPECT_EQ(options->cache.filename(), "hub");
}

}  // namespace
}  // namespace infercast
