// Pools and blocks by backend.
#include "memory/cache_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "memory/kv_growth.h"

namespace infercast {

namespace {

constexpr std::int64_t kMostBlocks = std::int64_t{1} << 53;

std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t FloorOf(double value) {
  if (!(value > 0)) return 0;
  return static_cast<std::int64_t>(std::min(std::floor(value), static_cast<double>(kMostBlocks)));
}

// Layers of one pipeline stage whose cache looks alike.
struct CachedLayers {
  std::int64_t layers = 0;
  double bytes = 0;  // per token and layer
  double state = 0;  // per sequence and layer
  std::int64_t window = 0;

  bool is_state() const { return state > 0; }
};

struct Stage {
  std::vector<CachedLayers> types;  // full attention first, then windows, then states

  std::int64_t Count(bool state) const {
    std::int64_t count = 0;
    for (const CachedLayers& t : types) count += t.is_state() == state ? t.layers : 0;
    return count;
  }
  double BytesPerToken(bool windowed_too) const {
    double bytes = 0;
    for (const CachedLayers& t : types) {
      if (t.window == 0 || windowed_too) bytes += static_cast<double>(t.layers) * t.bytes;
    }
    return bytes;
  }
  double StateBytes() const {
    double bytes = 0;
    for (const CachedLayers& t : types) bytes += static_cast<double>(t.layers) * t.state;
    return bytes;
  }
  bool HasWindows() const {
    return std::ranges::any_of(types, [](const CachedLayers& t) { return t.window > 0; });
  }
};

bool HasOwnRule(const ModelAnatomy& anatomy) {
  return std::ranges::any_of(anatomy.groups,
                             [](const LayerGroup& g) { return g.mixer == Mixer::kCompressed; });
}

Stage StageOf(const ModelAnatomy& anatomy, const ModelPlan& plan) {
  const double element = Profile(plan.quant.kv).memory;
  const std::int64_t tp = plan.layout.tp;
  Stage stage;
  const auto add = [&](const LayerGroup& g, std::int64_t layers) {
    CachedLayers type;
    type.bytes = KvBytesPerToken(g, tp, element);
    type.state = StateBytes(g, tp);
    type.window = g.mixer == Mixer::kSliding ? g.window : 0;
    if (!(type.bytes > 0) && !(type.state > 0)) return;
    for (CachedLayers& known : stage.types) {
      if (known.bytes == type.bytes && known.state == type.state && known.window == type.window) {
        known.layers += layers;
        return;
      }
    }
    type.layers = layers;
    stage.types.push_back(type);
  };
  for (const LayerGroup& g : anatomy.groups) add(g, g.layers);
  // The fullest stage decides, and it is the one with the extra layer.
  for (CachedLayers& t : stage.types) t.layers = CeilDivide(t.layers, plan.layout.pp);
  if (plan.nextn > 0 && anatomy.draft) add(*anatomy.draft, anatomy.draft->layers);
  std::ranges::stable_sort(stage.types, {}, [](const CachedLayers& t) {
    return t.is_state() ? 2 : t.window > 0 ? 1 : 0;
  });
  return stage;
}

void MergeWindows(Stage& stage) {
  std::vector<CachedLayers> merged;
  for (CachedLayers type : stage.types) {
    type.window = 0;
    const auto same = std::ranges::find_if(merged, [&](const CachedLayers& t) {
      return t.bytes == type.bytes && t.state == type.state;
    });
    if (same == merged.end()) {
      merged.push_back(type);
    } else {
      same->layers += type.layers;
    }
  }
  stage.types = std::move(merged);
}

// --- vLLM ---

// Layers of a type in groups of `size`; the last may be padded.
std::int64_t GroupSize(const std::vector<CachedLayers>& types) {
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = 0;
  for (const CachedLayers& t : types) {
    fewest = std::min(fewest, t.layers);
    most = std::max(most, t.layers);
  }
  // Nearly equal counts are rounded up to one group each rather than padded twice.
  return static_cast<double>(most) < static_cast<double>(fewest) * 1.25 ? most : fewest;
}

CacheLayout LayOutVllm(Stage stage, double bytes, const CacheOptions& options, std::int64_t max_len,
                       std::int64_t nextn) {
  CacheLayout out;
  if (!options.hybrid_manager && stage.HasWindows()) {
    MergeWindows(stage);
    out.assumptions.push_back("hybrid manager off: sliding layers keep every token");
  }
  const std::int64_t base = options.block_size > 0 ? options.block_size : 16;
  double state_page = 0;
  double largest = 0;
  for (const CachedLayers& t : stage.types) {
    state_page = std::max(state_page, t.state);
    largest = std::max(largest, t.bytes);
  }
  std::int64_t block = base;
  if (state_page > 0 && largest > 0) {
    // A block of attention holds at least what a state takes.
    block = std::max(block, base * static_cast<std::int64_t>(std::ceil(
                                       state_page / (static_cast<double>(base) * largest))));
    if (block != base) {
      out.assumptions.push_back(fmt::format(
          "blocks of {} tokens, so that a block holds the recurrent state of a layer", block));
    }
  }
  const double page = std::max(largest * static_cast<double>(block), state_page);
  const bool uniform_windows = std::ranges::none_of(
      stage.types, [&](const CachedLayers& t) { return t.window != stage.types.front().window; });
  CachePool pool{.name = "blocks"};
  out.block_size = block;
  if (uniform_windows && stage.Count(true) == 0) {
    // One group of all layers; their pages may differ in size.
    const double all = stage.BytesPerToken(true) * static_cast<double>(block);
    pool.block_bytes = all;
    pool.blocks = FloorOf(bytes / all);
    pool.uses.push_back({.block_size = block, .window = stage.types.front().window});
    out.tokens = pool.blocks * block;
  } else {
    const std::int64_t size = GroupSize(stage.types);
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    std::int64_t padded = 0;
    for (const CachedLayers& t : stage.types) {
      const std::int64_t groups = CeilDivide(t.layers, size);
      padded += groups * size - t.layers;
      CacheUse use{.block_size = block, .window = t.window};
      if (t.is_state()) {
        use.fixed = 1 + nextn;
      } else {
        // Layers that cache fewer bytes a token get longer blocks, so that all pages are equal.
        use.block_size = static_cast<std::int64_t>(page / t.bytes);
        shortest = std::min(shortest, use.block_size);
      }
      for (std::int64_t i = 0; i < groups; ++i) pool.uses.push_back(use);
    }
    if (padded > 0) {
      out.assumptions.push_back(
          fmt::format("{} groups of {} layers share the blocks; {} layers of padding",
                      pool.uses.size(), size, padded));
    } else {
      out.assumptions.push_back(
          fmt::format("{} groups of {} layers share the blocks", pool.uses.size(), size));
    }
    if (shortest == std::numeric_limits<std::int64_t>::max()) shortest = block;
    pool.block_bytes = page * static_cast<double>(size);
    pool.blocks = FloorOf(std::floor(bytes / page) / static_cast<double>(size));
    out.tokens = pool.blocks / static_cast<std::int64_t>(pool.uses.size()) * shortest;
    out.block_size = shortest;
  }
  if (max_len > 0) {
    // While a long prompt is read, a window holds the step's tokens too, and one block to slide.
    std::int64_t longest = 0;
    for (const CacheUse& use : pool.uses) {
      if (use.fixed > 0) {
        longest += use.fixed;
      } else if (use.window > 0 && options.max_num_tokens > 0) {
        longest +=
            CeilDivide(std::min(use.window - 1 + options.max_num_tokens, max_len), use.block_size) +
            1;
      } else {
        longest += CeilDivide(max_len, use.block_size);
      }
    }
    if (longest > 0) {
      out.tokens_by_concurrency =
          static_cast<std::int64_t>(static_cast<double>(pool.blocks) /
                                    static_cast<double>(longest) * static_cast<double>(max_len));
    }
  }
  out.pools.push_back(std::move(pool));
  return out;
}

// --- SGLang ---

CacheLayout LayOutSglang(Stage stage, double bytes, const CacheOptions& options) {
  CacheLayout out;
  const std::int64_t page = options.block_size > 0 ? options.block_size : 1;
  out.block_size = page;
  double left = bytes;
  if (const double state = stage.StateBytes(); state > 0) {
    CachePool slots{.name = "recurrent states", .block_bytes = state};
    slots.blocks = FloorOf(bytes * options.state_ratio / (1 + options.state_ratio) / state);
    left = bytes - static_cast<double>(slots.blocks) * state;
    // With a radix cache a running sequence holds up to three states.
    slots.uses.push_back({.fixed = 3});
    out.assumptions.push_back(fmt::format(
        "recurrent states get {:g} of the memory that attention gets; a running sequence holds "
        "three of {} slots",
        options.state_ratio, slots.blocks));
    out.pools.push_back(std::move(slots));
  }
  if (!options.hybrid_manager && stage.HasWindows()) {
    MergeWindows(stage);
    out.assumptions.push_back("one pool: sliding layers keep every token");
  }
  const double full = stage.BytesPerToken(false);
  const double sliding = stage.BytesPerToken(true) - full;
  const auto paged = [&](double tokens) { return FloorOf(tokens) / page; };
  std::int64_t window = 0;
  for (const CachedLayers& t : stage.types) window = std::max(window, t.window);
  if (full > 0 && sliding > 0) {
    const double tokens = std::floor(left / (full + options.sliding_ratio * sliding));
    CachePool pool{.name = "full attention",
                   .blocks = paged(tokens),
                   .block_bytes = full * static_cast<double>(page)};
    pool.uses.push_back({.block_size = page});
    CachePool narrow{.name = "sliding attention",
                     .blocks = paged(tokens * options.sliding_ratio),
                     .block_bytes = sliding * static_cast<double>(page)};
    narrow.uses.push_back({.block_size = page, .window = window});
    out.tokens = pool.blocks * page;
    out.assumptions.push_back(fmt::format("the sliding pool holds {:g} of the full pool's tokens",
                                          options.sliding_ratio));
    out.pools.push_back(std::move(pool));
    out.pools.push_back(std::move(narrow));
  } else if (full + sliding > 0) {
    CachePool pool{.name = "attention",
                   .blocks = paged(left / (full + sliding)),
                   .block_bytes = (full + sliding) * static_cast<double>(page)};
    pool.uses.push_back({.block_size = page, .window = full > 0 ? 0 : window});
    out.tokens = pool.blocks * page;
    out.pools.push_back(std::move(pool));
  }
  return out;
}

// --- TensorRT-LLM ---

CacheLayout LayOutTrtllm(Stage stage, double bytes, const CacheOptions& options,
                         std::int64_t max_len) {
  CacheLayout out;
  const std::int64_t block = options.block_size > 0 ? options.block_size : 32;
  out.block_size = block;
  double left = bytes;
  if (const double state = stage.StateBytes(); state > 0) {
    const std::int64_t slots = options.max_sequences > 0 ? options.max_sequences : 256;
    CachePool pool{.name = "recurrent states", .blocks = slots, .block_bytes = state};
    pool.uses.push_back({.fixed = 1});
    left = bytes - static_cast<double>(slots) * state;
    out.assumptions.push_back(
        fmt::format("recurrent states for a largest batch of {} sequences", slots));
    out.pools.push_back(std::move(pool));
  }
  if (stage.HasWindows() && !options.window_pools) {
    out.assumptions.push_back(
        "sliding layers keep every token: max_attention_window is not set by default");
    MergeWindows(stage);
  }
  double weight = 0;
  const auto span = [&](const CachedLayers& t) {
    return static_cast<double>(t.window > 0 ? t.window : std::max<std::int64_t>(max_len, 1));
  };
  const auto bytes_of = [](const CachedLayers& t) {
    return static_cast<double>(t.layers) * t.bytes;
  };
  // One pool for each window; layers of different width share it.
  std::vector<std::pair<std::int64_t, double>> windows;
  for (const CachedLayers& t : stage.types) {
    if (!(t.bytes > 0)) continue;
    weight += span(t) * bytes_of(t);
    const auto known =
        std::ranges::find(windows, t.window, &std::pair<std::int64_t, double>::first);
    if (known == windows.end()) {
      windows.emplace_back(t.window, bytes_of(t));
    } else {
      known->second += bytes_of(t);
    }
  }
  for (const auto& [window, per_token] : windows) {
    const double share = (window > 0 ? static_cast<double>(window)
                                     : static_cast<double>(std::max<std::int64_t>(max_len, 1))) *
                         per_token / weight;
    CachePool pool{.name = window > 0 ? fmt::format("window {}", window) : "full attention",
                   .block_bytes = per_token * static_cast<double>(block)};
    pool.blocks = FloorOf((windows.size() > 1 ? left * share : left) / pool.block_bytes);
    pool.uses.push_back({.block_size = block, .window = window});
    if (out.tokens == 0 || window == 0) out.tokens = pool.blocks * block;
    out.pools.push_back(std::move(pool));
  }
  return out;
}

}  // namespace

std::int64_t CacheUse::Blocks(std::int64_t tokens) const {
  if (fixed > 0) return fixed;
  const std::int64_t all = CeilDivide(tokens, block_size);
  if (window == 0) return all;
  // The window may begin anywhere in a block.
  return std::min(all, CeilDivide(window - 1, block_size) + 1);
}

std::int64_t CachePool::Blocks(std::int64_t tokens) const {
  std::int64_t sum = 0;
  for (const CacheUse& use : uses) sum += use.Blocks(tokens);
  return sum;
}

std::int64_t CacheLayout::MaxBatch(std::int64_t tokens) const {
  std::int64_t batch = std::numeric_limits<std::int64_t>::max();
  for (const CachePool& pool : pools) {
    const std::int64_t need = pool.Blocks(std::max<std::int64_t>(tokens, 1));
    if (need > 0) batch = std::min(batch, pool.blocks / need);
  }
  return pools.empty() ? 0 : batch;
}

std::int64_t CacheLayout::MaxTokens(std::int64_t batch, std::int64_t limit) const {
  if (batch < 1 || limit < 1 || MaxBatch(1) < batch) return 0;
  if (MaxBatch(limit) >= batch) return limit;
  std::int64_t low = 1;
  std::int64_t high = limit;
  while (low + 1 < high) {
    const std::int64_t mid = low + (high - low) / 2;
    (MaxBatch(mid) >= batch ? low : high) = mid;
  }
  return low;
}

Result<CacheLayout> LayOutCache(const ModelAnatomy& anatomy, const ModelPlan& plan, double bytes,
                                const CacheOptions& options) {
  const std::int64_t max_len =
      options.max_seq_len > 0 ? options.max_seq_len : plan.facts.context_length;
  CacheLayout out;
  if (HasOwnRule(anatomy)) {
    // A cache of windows, compressed entries and buffers: one pool of bytes.
    const KvLayout kv = NativeKvLayout(anatomy, plan);
    out.tokens = kv.Capacity(bytes);
    out.block_size = 1;
    const KvGrowth growth = GrowthOf(kv);
    out.bytes_per_sequence = growth.per_sequence;
    out.bytes_per_token = growth.per_token;
    out.assumptions.push_back(
        "compressed attention: the tokens of one sequence that fills the memory");
    // What one more token takes is the unit of the pool.
    const double unit = std::max(out.bytes_per_token, 1.0);
    CachePool pool{.name = "tokens", .blocks = FloorOf(bytes / unit), .block_bytes = unit};
    pool.uses.emplace_back();
    if (out.bytes_per_sequence > 0) {
      pool.uses.push_back({.fixed = FloorOf(std::ceil(out.bytes_per_sequence / unit))});
    }
    out.pools.push_back(std::move(pool));
    return out;
  }
  const Stage stage = StageOf(anatomy, plan);
  if (stage.types.empty()) {
    return Fail(ErrorKind::kInsufficientModelMetadata,
                fmt::format("no layer of {} is known to cache anything", plan.model));
  }
  switch (plan.backend) {
    case Backend::kVllm:
      out = LayOutVllm(stage, bytes, options, max_len, plan.nextn);
      break;
    case Backend::kSglang:
      out = LayOutSglang(stage, bytes, options);
      break;
    case Backend::kTrtllm:
      out = LayOutTrtllm(stage, bytes, options, max_len);
      break;
  }
  for (const CachePool& pool : out.pools) {
    double per_block = 0;
    for (const CacheUse& use : pool.uses) {
      // A vLLM block serves one group; the pools of the others serve all layers of their kind.
      if (use.fixed > 0) {
        out.bytes_per_sequence += static_cast<double>(use.fixed) * pool.block_bytes;
      } else if (use.window > 0) {
        out.bytes_per_sequence +=
            static_cast<double>(use.Blocks(use.window + use.block_size)) * pool.block_bytes;
      } else {
        per_block += pool.block_bytes / static_cast<double>(use.block_size);
      }
    }
    out.bytes_per_token += per_block;
  }
  if (plan.nextn > 0 && anatomy.draft) {
    out.assumptions.push_back(
        fmt::format("{} draft layer(s) with a cache of their own", anatomy.draft->layers));
  }
  if (plan.layout.pp > 1) {
    out.assumptions.push_back(
        fmt::format("the layers of the fullest of {} pipeline stages", plan.layout.pp));
  }
  return out;
}

KvLayout NativeKvLayout(const ModelAnatomy& anatomy, const ModelPlan& plan) {
  KvLayout kv = plan.facts.kv;
  const double layers = static_cast<double>(std::max<std::int64_t>(anatomy.Layers(), 1));
  if (HasOwnRule(anatomy) || plan.facts.family == ModelFamily::kKimiK3) {
    // State slots, compressed entries and the draft's cache follow the family's rule.
    const double share = static_cast<double>(CeilDivide(anatomy.Layers(), plan.layout.pp)) / layers;
    if (plan.layout.pp > 1) {
      for (KvTerm& term : kv.terms) term.bytes *= share;
      kv.state_bytes *= share;
      kv.elements_per_token *= share;
    }
    return kv;
  }
  const Stage stage = StageOf(anatomy, plan);
  kv.terms.clear();
  kv.state_bytes = stage.StateBytes();
  bool windowed = false;
  for (const CachedLayers& t : stage.types) {
    if (!(t.bytes > 0)) continue;
    const std::int64_t window = plan.backend == Backend::kTrtllm ? 0 : t.window;
    windowed |= window > 0;
    const double bytes = static_cast<double>(t.layers) * t.bytes;
    const auto same =
        std::ranges::find_if(kv.terms, [&](const KvTerm& term) { return term.window == window; });
    if (same == kv.terms.end()) {
      kv.terms.push_back({.bytes = bytes, .window = window});
    } else {
      same->bytes += bytes;
    }
  }
  kv.inverse = windowed             ? KvInverse::kSearch
               : kv.state_bytes > 0 ? KvInverse::kAffine
                                    : KvInverse::kLinear;
  return kv;
}

}  // namespace infercast
