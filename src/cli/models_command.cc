#include "cli/models_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/deployment_flags.h"
#include "cli/grouped_number.h"
#include "memory/cache_layout.h"
#include "memory/kv_growth.h"
#include "memory/memory_usage.h"
#include "models/anatomy.h"
#include "models/checkpoint.h"
#include "report/text_table.h"

namespace infercast {

namespace {

using nlohmann::ordered_json;

// "116.8 B", "752 M".
std::string Parameters(double count) {
  if (count >= 999.5e6) return fmt::format("{:.1f} B", count / 1e9);
  return fmt::format("{:.0f} M", count / 1e6);
}

std::string FeedForwardText(const LayerGroup& g) {
  switch (g.feed_forward) {
    case FeedForward::kNone:
      return "";
    case FeedForward::kDense:
      return fmt::format("feed-forward of {}", Grouped(g.inter));
    case FeedForward::kExperts:
      break;
  }
  std::string text = fmt::format("{} of {} experts of {}", g.topk, g.experts, Grouped(g.inter));
  if (g.shared_inter > 0) {
    text += fmt::format(", and {} for every token", Grouped(g.shared_inter));
  }
  return text;
}

std::string MixerText(const LayerGroup& g) {
  std::string text(MixerName(g.mixer));
  if (g.mixer == Mixer::kNone) return text;
  if (g.window > 0) text += fmt::format(" ({} tokens)", Grouped(g.window));
  text += fmt::format(", {} heads of {}", g.heads, g.head_dim);
  if (g.kv_heads > 0 && g.kv_by_heads) {
    text += fmt::format(", {} KV heads", g.kv_heads);
  } else if (g.kv_elements > 0) {
    text += fmt::format(", {} values cached a token", Grouped(g.kv_elements));
  } else if (g.state_bytes > 0) {
    text += fmt::format(", a state of {:.1f} MiB a sequence", g.state_bytes / 1048576.0);
  }
  return text;
}

std::string LayerText(const LayerGroup& g) {
  const std::string ffn = FeedForwardText(g);
  if (g.mixer == Mixer::kNone && !ffn.empty()) return ffn;
  return ffn.empty() ? MixerText(g) : MixerText(g) + "; " + ffn;
}

// Weight bytes of the whole model. Embedding and output stay in 16 bits.
double WeightBytesIn(const ModelAnatomy& a, GemmQuant gemm, MoeQuant moe) {
  double bytes = 2 * (a.embedding_params + a.head_params);
  for (const LayerGroup& g : a.groups) {
    const double layers = static_cast<double>(g.layers);
    bytes += layers * (g.mixer_params + g.dense_params) * Profile(gemm).memory +
             layers * g.expert_params * Profile(moe).memory;
  }
  return bytes;
}

struct WeightFormat {
  std::string name;
  double bytes = 0;
};

std::vector<WeightFormat> WeightFormats(const ModelConfig& m, const ModelAnatomy& a) {
  std::vector<WeightFormat> out;
  const GemmQuant own_gemm = m.inferred_quant.gemm.value_or(GemmQuant::kBfloat16);
  const MoeQuant own_moe = m.inferred_quant.moe.value_or(MoeQuant::kBfloat16);
  const bool experts = m.num_experts > 1;
  out.push_back(
      {experts ? fmt::format("as published: {}, experts {}", ToString(own_gemm), ToString(own_moe))
               : fmt::format("as published: {}", ToString(own_gemm)),
       WeightBytesIn(a, own_gemm, own_moe)});
  out.push_back({"bfloat16", WeightBytesIn(a, GemmQuant::kBfloat16, MoeQuant::kBfloat16)});
  out.push_back({"fp8", WeightBytesIn(a, GemmQuant::kFp8, MoeQuant::kFp8)});
  out.push_back({"nvfp4", WeightBytesIn(a, GemmQuant::kNvfp4, MoeQuant::kNvfp4)});
  return out;
}

struct KvFormat {
  KvQuant mode;
  KvLayout layout;
  KvGrowth growth;
};

// On one GPU that holds the whole model, windows kept as such.
Result<KvFormat> KvIn(const ModelConfig& m, const ModelAnatomy& anatomy, KvQuant mode) {
  BuildOptions options;
  options.backend = Backend::kSglang;
  options.layout.moe_tp = 1;
  options.layout.moe_ep = 1;
  options.quant.kv = mode;
  options.gpus_per_node = 8;
  IC_ASSIGN(const ModelPlan plan, BuildModelPlan(m, options));
  KvLayout layout = NativeKvLayout(anatomy, plan);
  const KvGrowth growth = GrowthOf(layout);
  return KvFormat{mode, std::move(layout), growth};
}

std::string QuantName(const ModelConfig& m) {
  if (m.quant_error) return m.quant.algorithm.value_or("unknown");
  return m.quant.algorithm.value_or("bfloat16");
}

Result<int> List(const CheckpointSearch& search, CliContext& context) {
  ordered_json json = ordered_json::array();
  std::string text = fmt::format("{:<52} {:>9} {:>9} {:>7}  {:<19} {}\n", "model", "params",
                                 "active", "layers", "format", "family");
  if (context.csv) text = "model,parameters,active_parameters,layers,format,family,architecture\n";
  for (const std::string& name : BundledModels(search)) {
    const Result<ModelConfig> model = LoadModelConfig(name, search);
    const Result<ModelAnatomy> described =
        model ? DescribeModel(*model) : Result<ModelAnatomy>(std::unexpected(model.error()));
    if (!described) {
      const std::string& why = described.error().message;
      json.push_back({{"model", name}, {"error", why}});
      if (!context.csv) text += fmt::format("{:<52} cannot be read: {}\n", name, why);
      continue;
    }
    const ModelAnatomy& a = *described;
    const std::string_view family = ToString(model->family_id());
    json.push_back({{"model", name},
                    {"architecture", model->architecture},
                    {"family", family},
                    {"layers", model->layers},
                    {"parameters", a.TotalParams()},
                    {"active_parameters", a.ActiveParams()},
                    {"format", QuantName(*model)},
                    {"context_length", model->context}});
    text += context.csv ? fmt::format("{},{:.0f},{:.0f},{},{},{},{}\n", name, a.TotalParams(),
                                      a.ActiveParams(), model->layers, QuantName(*model), family,
                                      model->architecture)
                        : fmt::format("{:<52} {:>9} {:>9} {:>7}  {:<19} {}\n", name,
                                      Parameters(a.TotalParams()), Parameters(a.ActiveParams()),
                                      model->layers, QuantName(*model), family);
  }
  if (context.json) {
    context.Print(json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    return kExitAnswer;
  }
  context.Print(text);
  if (!context.csv) {
    context.Note(
        "\nAlso: a directory, a config.json, or the organisation/name of a repository on "
        "the Hugging Face Hub.\n`infercast models NAME` explains one.");
  }
  return kExitAnswer;
}

ordered_json LayerJson(const LayerGroup& g) {
  ordered_json json = {{"layers", g.layers}, {"mixer", MixerName(g.mixer)}};
  if (g.mixer != Mixer::kNone) {
    json["heads"] = g.heads;
    json["head_size"] = g.head_dim;
    if (g.kv_heads > 0) json["kv_heads"] = g.kv_heads;
    if (g.window > 0) json["window"] = g.window;
  }
  if (g.feed_forward == FeedForward::kDense) json["feed_forward_size"] = g.inter;
  if (g.feed_forward == FeedForward::kExperts) {
    json["experts"] = {{"count", g.experts},
                       {"per_token", g.topk},
                       {"size", g.inter},
                       {"shared_size", g.shared_inter}};
  }
  json["parameters"] = g.Params();
  return json;
}

// What the model is made of, with the parameters of each kind of layer on the right.
std::string LayersText(const ModelAnatomy& a) {
  std::vector<std::pair<std::string, double>> lines;
  for (const LayerGroup& g : a.groups) {
    lines.emplace_back(fmt::format("  {:>4} x  {}", g.layers, LayerText(g)), g.Params());
  }
  if (a.draft) {
    lines.emplace_back(fmt::format("  {:>4} x  draft layer for multi-token prediction, not counted "
                                   "above",
                                   a.draft->layers),
                       a.DraftParams());
  }
  lines.emplace_back(
      a.tied ? "         embedding, which is the output layer, too" : "         embedding",
      a.embedding_params);
  if (!a.tied) lines.emplace_back("         output layer", a.head_params);
  std::size_t widest = 0;
  for (const auto& [line, count] : lines) widest = std::max(widest, line.size());
  std::string text;
  for (const auto& [line, count] : lines) {
    text += fmt::format("{:<{}}  {:>9}\n", line, widest, Parameters(count));
  }
  return text;
}

Result<int> Explain(const std::string& name, const CheckpointSearch& search, CliContext& context) {
  IC_ASSIGN(const ModelConfig m, LoadModelConfig(name, search));
  IC_ASSIGN(const ModelAnatomy a, DescribeModel(m));
  std::vector<std::string> notes = m.notes;
  notes.insert(notes.end(), a.notes.begin(), a.notes.end());
  if (m.quant_error) notes.push_back(m.quant_error->message);
  std::vector<KvFormat> caches;
  for (const KvQuant mode : {KvQuant::kBfloat16, KvQuant::kFp8}) {
    Result<KvFormat> kv = KvIn(m, a, mode);
    if (kv) caches.push_back(*std::move(kv));
  }
  const std::vector<WeightFormat> weights = WeightFormats(m, a);
  const std::int64_t longest = m.context > 0 ? m.context : 8192;

  if (context.json) {
    ordered_json groups = ordered_json::array();
    for (const LayerGroup& g : a.groups) groups.push_back(LayerJson(g));
    ordered_json formats = ordered_json::array();
    for (const WeightFormat& w : weights) {
      formats.push_back({{"format", w.name}, {"bytes", w.bytes}});
    }
    ordered_json kv = ordered_json::array();
    for (const KvFormat& c : caches) {
      kv.push_back({{"format", ToString(c.mode)},
                    {"bytes_per_token", c.growth.per_token},
                    {"bytes_per_sequence", c.growth.per_sequence},
                    {"bytes_of_8192_tokens", c.layout.Bytes(8192)},
                    {"bytes_of_longest_sequence", c.layout.Bytes(longest)}});
    }
    ordered_json json = {{"model", m.name},
                         {"architecture", m.architecture},
                         {"family", ToString(m.family_id())},
                         {"context_length", m.context},
                         {"hidden_size", m.hidden_size},
                         {"vocabulary", m.vocab},
                         {"parameters", a.TotalParams()},
                         {"active_parameters", a.ActiveParams()},
                         {"embedding_parameters", a.embedding_params},
                         {"output_shares_embedding", a.tied},
                         {"layers", m.layers},
                         {"layer_groups", std::move(groups)},
                         {"weights", std::move(formats)},
                         {"kv_cache", std::move(kv)},
                         {"notes", notes}};
    if (a.draft) {
      json["draft"] = {{"layers", a.draft->layers}, {"parameters", a.DraftParams()}};
    }
    context.Print(json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    return kExitAnswer;
  }
  std::string text = fmt::format(
      "{}\n{}, {} family\ncontext {} tokens, hidden size {}, vocabulary {}{}\n\n", m.name,
      m.architecture, ToString(m.family_id()), Grouped(m.context), Grouped(m.hidden_size),
      Grouped(m.vocab), a.tied ? " (the output shares the embedding)" : "");
  text += fmt::format("Parameters  {}", Parameters(a.TotalParams()));
  if (a.ActiveParams() < a.TotalParams()) {
    text += fmt::format(", of which a token visits {}", Parameters(a.ActiveParams()));
  }
  text +=
      fmt::format("\n\nLayers      {}\n{}\nWeights, all of the model\n", m.layers, LayersText(a));
  for (const WeightFormat& w : weights) {
    text += fmt::format("  {:>9.1f} GiB  {}\n", w.bytes / kGiB, w.name);
  }
  if (!caches.empty()) {
    const bool fixed =
        std::ranges::any_of(caches, [](const KvFormat& c) { return c.growth.per_sequence > 0; });
    ResultTable table;
    const std::string short_heading = "8,192 tokens", long_heading = Grouped(longest) + " tokens";
    table.columns = {{"", "", "", "format"},
                     {"", "", "bytes", "a token more"},
                     {"", "", "MiB", "a sequence", 2},
                     {"", "", "MiB", short_heading, 1},
                     {"", "", "GiB", long_heading, 2}};
    for (const KvFormat& c : caches) {
      table.rows.push_back({std::string(ToString(c.mode)),
                            static_cast<std::int64_t>(std::llround(c.growth.per_token)),
                            fixed ? Cell(c.growth.per_sequence / 1048576.0) : Cell(),
                            c.layout.Bytes(8192) / 1048576.0, c.layout.Bytes(longest) / kGiB});
    }
    text += "\nKV cache of a sequence, on one GPU that holds the whole model\n" + TextOf(table);
    if (fixed) {
      const bool windows =
          std::ranges::any_of(a.groups, [](const LayerGroup& g) { return g.window > 0; });
      const bool states =
          std::ranges::any_of(a.groups, [](const LayerGroup& g) { return g.state_bytes > 0; });
      text += fmt::format("  a sequence: {}, whatever its length\n",
                          windows && states ? "recurrent states, and windows once they are full"
                          : states          ? "recurrent states"
                                            : "windows, once they are full");
    }
  }
  if (!notes.empty()) {
    text += "\nNotes\n";
    for (const std::string& note : notes) text += fmt::format("  {}\n", note);
  }
  context.Print(text);
  return kExitAnswer;
}

}  // namespace

void AddModelsCommand(CLI::App& app, CliContext& context) {
  CLI::App& models = *app.add_subcommand("models", "List the models, or explain one");
  auto name = std::make_shared<std::string>();
  models.add_option("name", *name,
                    "A bundled name, a directory, a config.json, or organisation/name on the Hub");
  OnRun(models, context, [name, &context]() -> Result<int> {
    IC_ASSIGN(const Surroundings around, OpenSurroundings(context));
    if (name->empty()) return List(around.checkpoints, context);
    return Explain(*name, around.checkpoints, context);
  });
}

}  // namespace infercast
