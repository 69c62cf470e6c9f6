// What must hold of every operator, whatever its numbers are: no negative or undefined answer, the
// scale factor scales, and neither threads nor the order of queries change anything. The operators
// are those of the golden cases, the queries are random; cases of the data package take part where
// it is installed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "engine/spec_json.h"
#include "golden_check/environment.h"
#include "golden_check/loader.h"
#include "operators/bound_operator.h"
#include "operators/context_attention.h"
#include "operators/gemm_roofline.h"
#include "operators/generation_attention.h"
#include "tables/introspection.h"

namespace infercast {
namespace {

using nlohmann::json;

// An operator, the data it is asked of, and a query that has an answer.
struct Subject {
  std::string id;
  std::string kind;
  json op;
  DatabaseIdentity identity;
  DatabaseMode mode = DatabaseMode::kSilicon;
  TransferPolicy policy;
  QueryContext ctx;
  bool is_context = true;

  Operator Parsed(double scale_by = 1) const {
    json scaled = op;
    json& fields = scaled.begin().value();
    if (scale_by != 1) fields["scale_factor"] = fields["scale_factor"].get<double>() * scale_by;
    return *ParseOperatorJson(scaled.dump());
  }
  Result<Database> Open(Behaviour behaviour = Behaviour::kNative) const {
    IC_ASSIGN(auto store, TableStore::Open(identity));
    return Database(std::move(store), mode, policy, behaviour);
  }
};

Result<Subject> SubjectOf(const json& document, const golden::Environment& environment) {
  Subject subject;
  subject.id = document.at("id");
  subject.op = document.at("op");
  subject.kind = subject.op.begin().key();
  subject.mode = *ParseEnum<DatabaseMode>(document.at("mode").get<std::string>());
  const json& db = document.at("db");
  DatabaseIdentity& identity = subject.identity;
  IC_ASSIGN(identity.systems_root, environment.SystemsRoot(document.value("systems_root", "")));
  identity.system = document.at("system");
  IC_ASSIGN(identity.backend, golden::ParseBackend(document.at("backend").get<std::string>()));
  identity.version = document.at("version");
  identity.shared_layer =
      db.at("enable_shared_layer").is_null()
          ? subject.mode == DatabaseMode::kSilicon || subject.mode == DatabaseMode::kHybrid
          : db.at("enable_shared_layer").get<bool>();
  identity.tolerate_missing_dir =
      db.at("tolerate_dirless_version").get<bool>() || subject.mode == DatabaseMode::kSol;
  std::optional<std::vector<std::string>> kinds;
  if (const json& policy = db.at("transfer_policy"); !policy.is_null()) {
    kinds = policy.get<std::vector<std::string>>();
  }
  IC_ASSIGN(subject.policy, golden::ParsePolicy(kinds));
  const json& ctx = document.at("ctx");
  subject.is_context = ctx.at("phase") == "context";
  subject.ctx = {.batch_size = ctx.at("batch_size"),
                 .beam_width = ctx.at("beam_width"),
                 .s = ctx.at("s"),
                 .prefix = ctx.at("prefix"),
                 .num_tokens = ctx.at("num_tokens"),
                 .seq_imbalance_correction_scale = ctx.at("seq_imbalance_correction_scale"),
                 .gen_seq_imbalance_correction_scale = ctx.at("gen_seq_imbalance_correction_scale"),
                 .num_image_tokens = ctx.at("num_image_tokens")};
  return subject;
}

// Negative factors, somewhere in an operator or its parts, ask for negative answers.
bool ScalesDown(const json& value) {
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      if (key.ends_with("scale_factor") && member.is_number() && member < 0) return true;
      if (ScalesDown(member)) return true;
    }
  } else if (value.is_array()) {
    return std::ranges::any_of(value, ScalesDown);
  }
  return false;
}

// Answered golden cases, the same number of every kind and mode, grouped by their data.
const std::vector<Subject>& Subjects() {
  static const std::vector<Subject> all = [] {
    constexpr int kPerKindAndMode = 8;
    std::vector<Subject> subjects;
    std::vector<std::filesystem::path> files = {"tests/golden/fixtures/toy_ops.jsonl.gz",
                                                "tests/golden/fixtures/latent_ops.jsonl.gz"};
    const char* data = std::getenv("INFERCAST_SYSTEMS_PATH");
    if (data != nullptr && std::filesystem::is_directory(data)) {
      for (const auto& entry : std::filesystem::directory_iterator("tests/golden/ops")) {
        files.push_back(entry.path());
      }
    }
    std::ranges::sort(files);
    golden::Environment environment(std::nullopt, 0);
    for (const std::filesystem::path& file : files) {
      environment.set_file(file);
      const auto documents = golden::LoadDocuments(file);
      if (!documents) {
        ADD_FAILURE() << file << ": " << documents.error().message;
        continue;
      }
      std::map<std::pair<std::string, std::string>, int> taken;
      for (const json& document : *documents) {
        const std::string mode = document.at("mode");
        const json& expect = document.at("expect");
        if (mode == "SOL_FULL" || expect.contains("error") || expect.contains("weight_error") ||
            ScalesDown(document.at("op"))) {
          continue;
        }
        if (taken[{document.at("op").begin().key(), mode}]++ >= kPerKindAndMode) continue;
        auto subject = SubjectOf(document, environment);
        if (subject) {
          subjects.push_back(*std::move(subject));
        } else {
          ADD_FAILURE() << document.at("id") << ": " << subject.error().message;
        }
      }
    }
    std::ranges::stable_sort(subjects, {}, [](const Subject& s) {
      return std::tuple(s.identity.system, s.identity.backend, s.identity.version);
    });
    return subjects;
  }();
  return all;
}

// Between 1 and `most`, small ones as often as large ones.
std::uint32_t Draw(std::mt19937_64& random, double most) {
  std::uniform_real_distribution<double> exponent(0, std::log2(most));
  return static_cast<std::uint32_t>(std::exp2(exponent(random)));
}

std::vector<QueryContext> RandomQueries(const Subject& subject, std::mt19937_64& random,
                                        int count) {
  std::vector<QueryContext> queries = {subject.ctx};
  for (int i = 0; i < count; ++i) {
    QueryContext ctx = subject.ctx;
    ctx.batch_size = Draw(random, 512);
    ctx.s = Draw(random, 131072);
    ctx.prefix = i % 2 == 0 ? 0 : Draw(random, 65536);
    ctx.num_tokens = subject.is_context ? ctx.batch_size * ctx.s : ctx.batch_size;
    queries.push_back(ctx);
  }
  return queries;
}

std::string Text(const QueryContext& ctx) {
  return "batch " + std::to_string(ctx.batch_size) + ", s " + std::to_string(ctx.s) + ", prefix " +
         std::to_string(ctx.prefix) + ", tokens " + std::to_string(ctx.num_tokens);
}

TEST(OperatorProperties, NoAnswerIsNegativeOrUndefined) {
  std::mt19937_64 random(1);
  std::set<std::string> kinds;
  std::size_t answers = 0;
  for (const Subject& subject : Subjects()) {
    for (const Behaviour behaviour : {Behaviour::kNative, Behaviour::kReference}) {
      const auto db = subject.Open(behaviour);
      ASSERT_TRUE(db) << subject.id << ": " << db.error().message;
      const BoundOperator bound = BoundOperator::Bind(subject.Parsed(), *db);
      for (const QueryContext& ctx : RandomQueries(subject, random, 25)) {
        const auto result = bound.Query(ctx);
        if (!result) continue;  // a query beyond what can be said has no answer
        ++answers;
        kinds.insert(subject.kind);
        // Comparisons with NaN are false.
        EXPECT_TRUE(result->latency_ms >= 0 && std::isfinite(result->latency_ms))
            << subject.id << " " << ToString(subject.mode) << ", " << Text(ctx) << ": "
            << result->latency_ms;
        EXPECT_TRUE(result->energy_wms >= 0 && std::isfinite(result->energy_wms))
            << subject.id << " " << ToString(subject.mode) << ", " << Text(ctx) << ": "
            << result->energy_wms;
      }
    }
  }
  EXPECT_GT(answers, 10 * Subjects().size());
  if (std::getenv("INFERCAST_SYSTEMS_PATH") != nullptr) {
    EXPECT_EQ(kinds.size(), 35u);
  }
}

TEST(OperatorProperties, TheScaleFactorScales) {
  // A power of two: nothing may be lost to rounding.
  constexpr double kFactor = 4;
  std::mt19937_64 random(2);
  std::size_t compared = 0;
  for (const Subject& subject : Subjects()) {
    if (!subject.op.begin().value().contains("scale_factor")) continue;
    const auto db = subject.Open();
    ASSERT_TRUE(db) << subject.id << ": " << db.error().message;
    const BoundOperator once = BoundOperator::Bind(subject.Parsed(), *db);
    const BoundOperator scaled = BoundOperator::Bind(subject.Parsed(kFactor), *db);
    for (const QueryContext& ctx : RandomQueries(subject, random, 5)) {
      const auto a = once.Query(ctx);
      const auto b = scaled.Query(ctx);
      ASSERT_EQ(a.has_value(), b.has_value()) << subject.id << ", " << Text(ctx);
      if (!a) continue;
      ++compared;
      EXPECT_EQ(a->latency_ms * kFactor, b->latency_ms) << subject.id << ", " << Text(ctx);
      EXPECT_EQ(a->energy_wms * kFactor, b->energy_wms) << subject.id << ", " << Text(ctx);
    }
  }
  EXPECT_GT(compared, Subjects().size());
}

// What a caller can tell two answers apart by, bit for bit.
using Fingerprint = std::array<std::uint64_t, 5>;
Fingerprint FingerprintOf(const Result<PerfResult>& result) {
  if (!result) return {1, static_cast<std::uint64_t>(result.error().kind)};
  return {0, std::bit_cast<std::uint64_t>(result->latency_ms),
          std::bit_cast<std::uint64_t>(result->energy_wms),
          static_cast<std::uint64_t>(result->source),
          static_cast<std::uint64_t>(result->origin.kind)};
}

// Every subject's answers, subjects asked in the given order, by `threads` threads at once.
std::vector<std::vector<Fingerprint>> Ask(const std::vector<std::size_t>& order, int threads) {
  const std::vector<Subject>& subjects = Subjects();
  std::vector<std::vector<Fingerprint>> answers(subjects.size());
  const auto work = [&](std::size_t first) {
    for (std::size_t i = first; i < order.size(); i += static_cast<std::size_t>(threads)) {
      const Subject& subject = subjects[order[i]];
      std::mt19937_64 random(order[i]);
      const auto db = subject.Open();
      if (!db) continue;
      const BoundOperator bound = BoundOperator::Bind(subject.Parsed(), *db);
      for (const QueryContext& ctx : RandomQueries(subject, random, 10)) {
        answers[order[i]].push_back(FingerprintOf(bound.Query(ctx)));
      }
    }
  };
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) running.emplace_back(work, static_cast<std::size_t>(t));
  for (std::thread& thread : running) thread.join();
  return answers;
}

// `alone` asks each subject of stores that nobody asked before; `together` of shared ones.
TEST(OperatorProperties, NeitherThreadsNorOrderChangeAnAnswer) {
  std::vector<std::size_t> order(Subjects().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto alone = Ask(order, 1);
  // Within one data identity any order; identities stay together, else each would load many times.
  std::mt19937_64 random(3);
  for (auto first = order.begin(); first != order.end();) {
    const std::string& system = Subjects()[*first].identity.system;
    const auto last = std::find_if(
        first, order.end(), [&](std::size_t i) { return Subjects()[i].identity.system != system; });
    std::shuffle(first, last, random);
    first = last;
  }
  std::vector<Database> kept;
  for (const Subject& subject : Subjects()) {
    auto db = subject.Open();
    ASSERT_TRUE(db) << subject.id << ": " << db.error().message;
    kept.push_back(*std::move(db));
  }
  const auto together = Ask(order, 4);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_FALSE(alone[i].empty()) << Subjects()[i].id;
    EXPECT_EQ(alone[i], together[i]) << Subjects()[i].id;
  }
}

TEST(OperatorProperties, MemoryOperatorsGrowWithTokens) {
  std::size_t asked = 0;
  for (const Subject& subject : Subjects()) {
    if (subject.kind != "Elementwise" && subject.kind != "Embedding") continue;
    const auto db = subject.Open();
    ASSERT_TRUE(db) << subject.id << ": " << db.error().message;
    const BoundOperator bound = BoundOperator::Bind(subject.Parsed(), *db);
    QueryContext ctx = subject.ctx;
    double before = 0;
    for (std::uint32_t tokens = 0; tokens < 100000; tokens += 1 + tokens / 7) {
      ctx.num_tokens = tokens;
      const auto result = bound.Query(ctx);
      ASSERT_TRUE(result) << subject.id << ": " << result.error().message;
      EXPECT_GE(result->latency_ms, before) << subject.id << ", tokens " << tokens;
      before = result->latency_ms;
      ++asked;
    }
  }
  EXPECT_GT(asked, 0u);
}

// Rows of one measured table, and those that beat their roofline.
struct RowCount {
  std::size_t rows = 0;
  std::size_t faster = 0;
};

// `roofline(cells)`: milliseconds, or none for a row without one. A measured latency of zero is a
// point below the timer's resolution, no measurement of speed.
template <typename Roofline>
RowCount CountFasterThanLight(const Database& db, TableId id, const Roofline& roofline) {
  RowCount count;
  const auto table = db.Get(id);
  if (!table) return count;
  VisitRows(**table, [&](std::span<const RowCell> cells, std::uint32_t leaf) {
    const double measured = (*table)->latency[leaf];
    const std::optional<double> sol = roofline(cells);
    if (!sol || measured == 0) return true;
    ++count.rows;
    if (measured < *sol * (1 - 1e-12)) ++count.faster;
    return true;
  });
  return count;
}

struct DenseCounts {
  RowCount gemm, context, context_exact, generation, encoder;
};

DenseCounts CountDense(const Database& db) {
  const SystemSpec& system = db.system();
  const double bandwidth = system.mem_bw;
  DenseCounts counts;
  counts.gemm = CountFasterThanLight(db, TableId::kGemm, [&](auto cells) -> std::optional<double> {
    const auto quant = ParseEnum<GemmQuant>(*cells[0].text);
    if (!quant) return std::nullopt;
    const auto flops = system.TensorCoreFlops(Profile(*quant).dtype);
    if (!flops) return std::nullopt;
    return GemmRoofline::Of(*quant, *flops, bandwidth)
        .Time(cells[1].number, cells[2].number, cells[3].number);
  });
  const auto context = [&](bool exact_window) {
    return [&, exact_window](auto c) -> std::optional<double> {
      const auto quant = ParseEnum<FmhaQuant>(*c[1].text);
      const auto kv = ParseEnum<KvQuant>(*c[2].text);
      if (!quant || !kv) return std::nullopt;
      const auto flops = system.TensorCoreFlops(Profile(*quant).dtype);
      if (!flops) return std::nullopt;
      ContextAttentionRoofline roofline{.head_size = c[4].number,
                                        .window = c[5].number,
                                        .kv_bytes = Profile(*kv).memory,
                                        .flops = *flops,
                                        .bandwidth = bandwidth};
      const double window = c[5].number;
      const double heads = c[6].number;
      const double s = c[7].number;
      const double b = c[8].number;
      const double kv_heads = c[3].number == 0 ? heads : c[3].number;
      if (!exact_window || window == 0 || s <= window) {
        return roofline.Time(b, s, 0, heads, kv_heads);
      }
      const auto [math, memory] = roofline.At(b, s - window, window, heads, kv_heads);
      roofline.window = 0;
      return std::max(math + roofline.At(b, window, 0, heads, kv_heads).math_ms, memory);
    };
  };
  counts.context = CountFasterThanLight(db, TableId::kContextAttention, context(false));
  counts.context_exact = CountFasterThanLight(db, TableId::kContextAttention, context(true));
  const Database sol = db.WithMode(DatabaseMode::kSol);
  counts.generation =
      CountFasterThanLight(db, TableId::kGenerationAttention, [&](auto c) -> std::optional<double> {
        const auto kv = ParseEnum<KvQuant>(*c[1].text);
        if (!kv) return std::nullopt;
        const GenerationAttention op{.name = "generation",
                                     .scale_factor = 1,
                                     .n = static_cast<std::uint32_t>(c[5].number),
                                     .n_kv = static_cast<std::uint32_t>(c[2].number),
                                     .head_size = static_cast<std::uint32_t>(c[3].number),
                                     .window_size = static_cast<std::uint32_t>(c[4].number),
                                     .kv_cache_dtype = *kv};
        QueryContext ctx;
        ctx.batch_size = static_cast<std::uint32_t>(c[6].number);
        ctx.s = static_cast<std::uint32_t>(c[7].number);
        const auto result = BoundGenerationAttention(op, sol).Query(ctx);
        if (!result) return std::nullopt;
        return result->latency_ms;
      });
  counts.encoder =
      CountFasterThanLight(db, TableId::kEncoderAttention, [&](auto c) -> std::optional<double> {
        const auto quant = ParseEnum<FmhaQuant>(*c[0].text);
        if (!quant) return std::nullopt;
        const EncoderAttention op{.name = "encoder",
                                  .scale_factor = 1,
                                  .n = static_cast<std::uint32_t>(c[2].number),
                                  .head_size = static_cast<std::uint32_t>(c[1].number),
                                  .fmha_quant_mode = *quant,
                                  .partial_rotary_factor = 0};
        const auto result = BoundEncoderAttention(op, sol).QueryShape(
            static_cast<std::uint32_t>(c[4].number), static_cast<std::uint32_t>(c[3].number));
        if (!result) return std::nullopt;
        return result->latency_ms;
      });
  return counts;
}

// Rows of products and of decode attention are raised to their roofline when they load, so these
// say that the bound operators and the loader agree on it; the others are as measured.
TEST(OperatorProperties, DenseMeasurementsKeepToTheSpeedOfLight) {
  const char* data = std::getenv("INFERCAST_SYSTEMS_PATH");
  if (data == nullptr || !std::filesystem::is_directory(data)) GTEST_SKIP() << "no measured data";
  struct Case {
    const char* system;
    Backend backend;
    const char* version;
    std::size_t windowed_exceptions;
  };
  for (const Case& at : {Case{"h200_sxm", Backend::kVllm, "0.24.0", 8},
                         Case{"b200_sxm", Backend::kTrtllm, "1.3.0rc20", 0}}) {
    DatabaseIdentity identity;
    identity.systems_root = data;
    identity.system = at.system;
    identity.backend = at.backend;
    identity.version = at.version;
    identity.shared_layer = false;
    auto store = TableStore::Open(identity);
    ASSERT_TRUE(store) << store.error().message;
    const Database db(*std::move(store), DatabaseMode::kSilicon, {}, Behaviour::kNative);
    const DenseCounts counts = CountDense(db);
    EXPECT_GT(counts.gemm.rows, 100000u);
    EXPECT_GT(counts.context.rows, 50000u);
    EXPECT_GT(counts.generation.rows, 50000u);
    EXPECT_GT(counts.encoder.rows, 5000u);
    EXPECT_EQ(counts.gemm.faster, 0u) << at.system;
    EXPECT_EQ(counts.generation.faster, 0u) << at.system;
    EXPECT_EQ(counts.encoder.faster, 0u) << at.system;
    // The model's roofline charges a whole window to every token, but the first tokens of a prompt
    // see fewer. Prompts just longer than a wide window can be up to three per cent faster than
    // that; with the exact work of the window none is.
    EXPECT_EQ(counts.context.faster, at.windowed_exceptions) << at.system;
    EXPECT_EQ(counts.context_exact.faster, 0u) << at.system;
  }
}

}  // namespace
}  // namespace infercast
