// Sparse attention blocks: full and reuse layers, look-ups, estimates, context parallelism.
#include "operators/dsa.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "operators/bound_operator.h"
#include "operators/dsa_context_parallel.h"
#include "operators/dsa_roofline.h"
#include "operators/measured_slice.h"
#include "operators/sparse_block.h"

namespace infercast {

namespace {

using latent::BlockRates;
using latent::DsaRoofline;
using latent::DsaShape;

std::uint64_t ToCount(double coordinate) { return static_cast<std::uint64_t>(coordinate); }

// Share of the result that the layers with an indexer of their own have; the others' share is the
// rest. 1: the others are not looked at. Where no reuse layer was ever measured, all layers count
// as full.
Result<double> FullShare(const DsaModule& op, const Database& db, TableId skip_table) {
  if (op.full_frac >= 1.0) return 1.0;
  if (db.IsSol()) return op.full_frac;
  const Result<const Table*> skip = db.Get(skip_table);
  if (skip) return op.full_frac;
  if (db.store().Get(skip_table).corrupt) return std::unexpected(skip.error());
  return 1.0;
}

// share * full + (1 - share) * skip.
PerfResult Blend(double share, const PerfResult& full, const PerfResult& skip) {
  const double rest = 1.0 - share;
  PerfResult result = full;
  result.latency_ms = share * full.latency_ms + rest * skip.latency_ms;
  result.energy_wms = share * full.energy_wms + rest * skip.energy_wms;
  result.has_sol = full.has_sol && skip.has_sol;
  result.sol_math_ms = result.has_sol ? share * full.sol_math_ms + rest * skip.sol_math_ms : 0.0;
  result.sol_mem_ms = result.has_sol ? share * full.sol_mem_ms + rest * skip.sol_mem_ms : 0.0;
  if (full.source != skip.source) result.source = Source::kMixed;
  result.tier = std::max(full.tier, skip.tier);
  result.origin = Origin::Weaker(full.origin, skip.origin);
  return result;
}

// Rows of an estimate that are not a sub-grid of their own.
struct SampleRows {
  std::vector<double> coords;
  std::vector<double> latency;
};

// Layers of one sort (full or reuse) in prefill: axes heads, cached tokens, new tokens, batch.
class PrefillLayers {
 public:
  PrefillLayers(const DsaContext& op, const Database& db, bool skip, std::string_view kernel,
                const BlockRates& rates)
      : mode_(db.mode()),
        heads_(op.num_heads),
        roofline_{DsaShape::Of(op.architecture), rates, op.index_topk, !skip} {
    if (db.IsSol()) return;
    const std::string key = fmt::format("dsa_context/{}/{}/{}/{}/{}/{}", skip ? "skip" : "full",
                                        ToString(op.fmha_quant_mode), ToString(op.kv_cache_dtype),
                                        ToString(op.gemm_quant_mode), op.architecture, kernel);
    const std::array<Table::Key, 4> keys{ToString(op.fmha_quant_mode), ToString(op.kv_cache_dtype),
                                         ToString(op.gemm_quant_mode), op.architecture};
    const auto view = latent::SparseBlockOf(
        db.Get(skip ? TableId::kDsaContextSkip : TableId::kDsaContextFull), keys, kernel, key);
    slice_ = MeasuredSlice::Of(db, view, -1, key);
    if (mode_ == DatabaseMode::kSilicon) return;
    if (!view) {
      along_prefix_ = across_prefix_ = Calibration(view.error());
      return;
    }
    BindEstimates(db, *view, fmt::format("util/{}/{}/{}", key, op.num_heads, op.index_topk));
  }

  Result<PerfResult> Query(std::uint32_t b, std::uint32_t s, std::uint32_t p) const {
    const std::array<double, 4> coords{static_cast<double>(heads_), static_cast<double>(p),
                                       static_cast<double>(s), static_cast<double>(b)};
    return AnswerByMode(
        mode_,
        [&] {
          return slice_.Seek(coords, [&](std::span<const double> c) {
            return roofline_.Context(ToCount(c[0]), ToCount(c[3]), ToCount(c[2]), ToCount(c[1]))
                .Time();
          });
        },
        [&] { return Estimate(coords, b, s, p); },
        [&]() -> Result<PerfResult> { return roofline_.Context(heads_, b, s, p).Result(); });
  }

 private:
  // Two sets of samples: with the axis of cached tokens, and of prefix-free rows alone. Each is
  // taken at the operator's own head count where that was measured, else across all.
  void BindEstimates(const Database& db, const GridView& grid, const std::string& key) {
    const auto own = grid.Find(heads_);
    own_heads_ = own.has_value();
    std::vector<double> prefixes;
    for (std::uint32_t head = grid.begin; head < grid.end; ++head) {
      if (own && head != *own) continue;
      const auto keys = grid.Child(head).keys();
      prefixes.insert(prefixes.end(), keys.begin(), keys.end());
    }
    std::sort(prefixes.begin(), prefixes.end());
    prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
    if (prefixes.size() >= 2) {
      least_prefix_ = prefixes.front();
      most_prefix_ = prefixes.back();
    }
    const bool prefix_free = !prefixes.empty() && prefixes.front() == 0;
    use_prefix_free_ = prefix_free;

    const DsaRoofline roofline = roofline_;
    const std::uint64_t heads = heads_;
    if (own) {
      const GridView rows = grid.Child(*own);
      along_prefix_ = Calibration(db, key + "/prefix", [rows, roofline, heads] {
        return UtilGrid::Build(rows, [&](std::span<const double> c) {
          return roofline.Context(heads, ToCount(c[2]), ToCount(c[1]), ToCount(c[0])).Time();
        });
      });
      if (!prefix_free) return;
      const GridView free_rows = rows.Child(*rows.Find(0));
      across_prefix_ = Calibration(db, key + "/free", [free_rows, roofline, heads] {
        return UtilGrid::Build(free_rows, [&](std::span<const double> c) {
          return roofline.Context(heads, ToCount(c[1]), ToCount(c[0]), 0).Time();
        });
      });
      return;
    }
    along_prefix_ = Calibration(db, key + "/prefix", [grid, roofline] {
      return UtilGrid::Build(grid, [&](std::span<const double> c) {
        return roofline.Context(ToCount(c[0]), ToCount(c[3]), ToCount(c[2]), ToCount(c[1])).Time();
      });
    });
    if (!prefix_free) return;
    across_prefix_ = Calibration(db, key + "/free", [grid, roofline] {
      const SampleRows rows = PrefixFreeRows(grid);
      return UtilGrid::Build(3, rows.coords, rows.latency, [&](std::span<const double> c) {
        return roofline.Context(ToCount(c[0]), ToCount(c[2]), ToCount(c[1]), 0).Time();
      });
    });
  }

  // (heads, new tokens, batch) of every row without cached tokens.
  static SampleRows PrefixFreeRows(const GridView& grid) {
    SampleRows rows;
    const Table& table = *grid.table;
    for (std::uint32_t head = grid.begin; head < grid.end; ++head) {
      const GridView prefixes = grid.Child(head);
      const auto free = prefixes.Find(0);
      if (!free) continue;
      const GridView seqs = prefixes.Child(*free);
      for (std::uint32_t seq = seqs.begin; seq < seqs.end; ++seq) {
        const GridView batches = seqs.Child(seq);
        for (std::uint32_t batch = batches.begin; batch < batches.end; ++batch) {
          rows.coords.insert(rows.coords.end(), {table.levels[grid.level].keys[head],
                                                 table.levels[seqs.level].keys[seq],
                                                 table.levels[batches.level].keys[batch]});
          rows.latency.push_back(table.latency[batch]);
        }
      }
    }
    return rows;
  }

  Result<PerfResult> Estimate(const std::array<double, 4>& coords, std::uint32_t b, std::uint32_t s,
                              std::uint32_t p) const {
    const char* what = "sparse attention prefill";
    const double sol = roofline_.Context(heads_, b, s, p).Time();
    const bool inside = least_prefix_ && coords[1] >= *least_prefix_ && coords[1] <= *most_prefix_;
    const std::size_t first = own_heads_ ? 1 : 0;
    if (inside || !use_prefix_free_) {
      return along_prefix_.Estimate(std::span(coords).subspan(first), sol, what);
    }
    const std::array<double, 3> free{coords[0], static_cast<double>(s) + static_cast<double>(p),
                                     coords[3]};
    return across_prefix_.Estimate(std::span(free).subspan(first), sol, what);
  }

  DatabaseMode mode_;
  std::uint32_t heads_;
  DsaRoofline roofline_;
  MeasuredSlice slice_{Error{}};
  bool own_heads_ = false;
  bool use_prefix_free_ = false;
  std::optional<double> least_prefix_, most_prefix_;  // set where at least two were measured
  Calibration along_prefix_, across_prefix_;
};

// Layers of one sort in decode: axes heads, batch, sequence.
class DecodeLayers {
 public:
  DecodeLayers(const DsaGeneration& op, const Database& db, bool skip, const BlockRates& rates)
      : mode_(db.mode()),
        heads_(op.num_heads),
        roofline_{DsaShape::Of(op.architecture), rates, op.index_topk, !skip} {
    if (db.IsSol()) return;
    const std::string key = fmt::format("dsa_generation/{}/{}/{}/{}/{}", skip ? "skip" : "full",
                                        ToString(op.fmha_quant_mode), ToString(op.kv_cache_dtype),
                                        ToString(op.gemm_quant_mode), op.architecture);
    const std::array<Table::Key, 4> keys{ToString(op.fmha_quant_mode), ToString(op.kv_cache_dtype),
                                         ToString(op.gemm_quant_mode), op.architecture};
    const auto view = latent::SparseBlockOf(
        db.Get(skip ? TableId::kDsaGenerationSkip : TableId::kDsaGenerationFull), keys,
        latent::kTrtllmKernel, key);
    slice_ = MeasuredSlice::Of(db, view, -1, key);
    if (mode_ == DatabaseMode::kSilicon) return;
    if (!view) {
      calibration_ = Calibration(view.error());
      return;
    }
    const DsaRoofline roofline = roofline_;
    const std::string util_key = fmt::format("util/{}/{}", key, op.num_heads);
    if (const auto own = view->Find(heads_)) {
      own_heads_ = true;
      calibration_ =
          Calibration(db, util_key, [rows = view->Child(*own), roofline, heads = heads_] {
            return UtilGrid::Build(rows, [&](std::span<const double> c) {
              return roofline.Generation(heads, ToCount(c[0]), ToCount(c[1])).Time();
            });
          });
    } else {
      calibration_ = Calibration(db, util_key, [grid = *view, roofline] {
        const SampleRows rows = RowsBySequence(grid);
        return UtilGrid::Build(3, rows.coords, rows.latency, [&](std::span<const double> c) {
          return roofline.Generation(ToCount(c[0]), ToCount(c[1]), ToCount(c[2])).Time();
        });
      });
    }
  }

  Result<PerfResult> Query(std::uint32_t b, std::uint32_t s) const {
    const std::array<double, 3> coords{static_cast<double>(heads_), static_cast<double>(b),
                                       static_cast<double>(s)};
    return AnswerByMode(
        mode_,
        [&] {
          return slice_.Seek(coords, [&](std::span<const double> c) {
            return roofline_.Generation(ToCount(c[0]), ToCount(c[1]), ToCount(c[2])).Time();
          });
        },
        [&] {
          return calibration_.Estimate(std::span(coords).subspan(own_heads_ ? 1 : 0),
                                       roofline_.Generation(heads_, b, s).Time(),
                                       "sparse attention decode");
        },
        [&]() -> Result<PerfResult> { return roofline_.Generation(heads_, b, s).Result(); });
  }

 private:
  // (heads, batch, sequence) of every row, within a head count by sequence and then batch: the
  // order decides between samples at equal distance.
  static SampleRows RowsBySequence(const GridView& grid) {
    struct Row {
      double heads, seq, batch, latency;
    };
    std::vector<Row> sorted;
    const Table& table = *grid.table;
    for (std::uint32_t head = grid.begin; head < grid.end; ++head) {
      const GridView batches = grid.Child(head);
      for (std::uint32_t batch = batches.begin; batch < batches.end; ++batch) {
        const GridView seqs = batches.Child(batch);
        for (std::uint32_t seq = seqs.begin; seq < seqs.end; ++seq) {
          sorted.push_back({table.levels[grid.level].keys[head], table.levels[seqs.level].keys[seq],
                            table.levels[batches.level].keys[batch], table.latency[seq]});
        }
      }
    }
    std::sort(sorted.begin(), sorted.end(), [](const Row& x, const Row& y) {
      return std::tie(x.heads, x.seq, x.batch) < std::tie(y.heads, y.seq, y.batch);
    });
    SampleRows rows;
    for (const Row& row : sorted) {
      rows.coords.insert(rows.coords.end(), {row.heads, row.batch, row.seq});
      rows.latency.push_back(row.latency);
    }
    return rows;
  }

  DatabaseMode mode_;
  std::uint32_t heads_;
  DsaRoofline roofline_;
  MeasuredSlice slice_{Error{}};
  bool own_heads_ = false;
  Calibration calibration_;
};

// How a context-parallel rank exchanges what the others computed: an all-gather of `width` half
// elements per token of every request.
class Gather {
 public:
  Gather(const Database& db, std::uint32_t cp_size, double width)
      : db_(db), op_(Op(cp_size, width)), bound_(op_, db) {}

  Result<PerfResult> Query(std::uint32_t b, std::uint32_t s) const {
    QueryContext ctx;
    const std::uint64_t tokens = static_cast<std::uint64_t>(b) * s;
    if (tokens <= UINT32_MAX) {
      ctx.num_tokens = static_cast<std::uint32_t>(tokens);
      return bound_.Query(ctx);
    }
    // More tokens than a query can say: say them in the width.
    Nccl op = op_;
    op.hidden_size *= static_cast<double>(tokens);
    ctx.num_tokens = 1;
    return BoundOf<Nccl>::type(op, db_).Query(ctx);
  }

 private:
  static Nccl Op(std::uint32_t cp_size, double width) {
    Nccl op;
    op.name = "context_parallel_gather";
    op.scale_factor = 1.0;
    op.hidden_size = width;
    op.num_gpus = cp_size;
    op.dtype = CommQuant::kHalf;
    op.operation = "all_gather";
    return op;
  }

  Database db_;
  Nccl op_;
  BoundOf<Nccl>::type bound_;
};

}  // namespace

struct BoundDsaContext::State {
  struct ContextParallel {
    latent::SparseKernels kernels;
    Gather keys;     // the indexer's keys: full layers only
    Gather latents;  // latent and rotary part
  };

  std::shared_ptr<const TableStore> store;
  DatabaseMode mode{};
  double scale_factor = 0;
  std::uint32_t cp_size = 1;
  Result<double> full_share = 1.0;
  Result<BlockRates> rates = BlockRates{};
  std::optional<PrefillLayers> full, skip;
  std::optional<ContextParallel> context_parallel;

  Result<PerfResult> Layers(bool reuse, std::uint32_t b, std::uint32_t s, std::uint32_t p) const {
    if (!rates) return std::unexpected(rates.error());
    return (reuse ? *skip : *full).Query(b, s, p);
  }
  Result<PerfResult> ParallelLayers(bool reuse, const QueryContext& ctx) const;
};

BoundDsaContext::BoundDsaContext(const DsaContext& op, const Database& db) {
  auto state = std::make_shared<State>();
  state->store = db.shared_store();
  state->mode = db.mode();
  state->scale_factor = op.scale_factor;
  state->cp_size = op.cp_size;
  state->full_share = FullShare(op, db, TableId::kDsaContextSkip);
  state->rates =
      BlockRates::Of(db.system(), op.gemm_quant_mode, op.kv_cache_dtype, op.fmha_quant_mode);
  const bool parallel = op.cp_size > 1;
  if (state->rates && state->full_share) {
    const std::string_view kernel = parallel ? latent::kFlashMlaKernel : latent::kTrtllmKernel;
    state->full.emplace(op, db, false, kernel, *state->rates);
    if (*state->full_share < 1.0) state->skip.emplace(op, db, true, kernel, *state->rates);
  }
  if (parallel && db.mode() != DatabaseMode::kSolFull) {
    const DsaShape shape = DsaShape::Of(op.architecture);
    state->context_parallel.emplace(State::ContextParallel{
        latent::SparseKernels(db, op.architecture, op.num_heads),
        Gather(db, op.cp_size, static_cast<double>(shape.index_dim)),
        Gather(db, op.cp_size, static_cast<double>(shape.kv_rank + shape.rope))});
  }
  state_ = std::move(state);
}

// One rank computes its share of the tokens as if alone; indexer scores and choice, which see the
// whole sequence, are corrected by the difference of their kernels; keys and latents are gathered.
Result<PerfResult> BoundDsaContext::State::ParallelLayers(bool reuse,
                                                          const QueryContext& ctx) const {
  const ContextParallel& parallel = *context_parallel;
  const std::uint32_t share = std::max<std::uint32_t>(
      static_cast<std::uint32_t>((static_cast<std::uint64_t>(ctx.s) + cp_size - 1) / cp_size), 1);
  if (!reuse) IC_RETURN_IF_ERROR(parallel.kernels.RequireIndexer());
  IC_ASSIGN(const PerfResult base, Layers(reuse, ctx.batch_size, share, ctx.prefix));
  IC_ASSIGN(const double correction,
            parallel.kernels.IndexerCorrection(ctx.batch_size, ctx.s, share, ctx.prefix, cp_size));

  PerfResult result =
      PerfResult::Of(base.latency_ms, 0, Source::kEstimated, OriginKind::kSubstituted);
  result.tier = base.tier;
  result.origin = Origin::Weaker(base.origin, result.origin);
  double gathered = 0;
  const auto gather = [&](const Gather& from) -> Status {
    IC_ASSIGN(const PerfResult part, from.Query(ctx.batch_size, ctx.s));
    gathered += part.latency_ms;
    result.tier = std::max(result.tier, part.tier);
    result.origin = Origin::Weaker(result.origin, part.origin);
    return {};
  };
  if (!reuse) {
    result.latency_ms += correction;
    IC_RETURN_IF_ERROR(gather(parallel.keys));
  }
  IC_RETURN_IF_ERROR(gather(parallel.latents));
  result.latency_ms += gathered;
  result.Scale(scale_factor);
  return result;
}

Result<PerfResult> BoundDsaContext::Query(const QueryContext& ctx) const {
  const State& state = *state_;
  const bool parallel = state.cp_size > 1;
  if (parallel && state.mode == DatabaseMode::kSolFull) {
    return Fail(ErrorKind::kInvalidEngineConfig,
                fmt::format("sparse attention with cp_size={} has no roofline decomposition: the "
                            "indexer's correction is measured latency",
                            state.cp_size));
  }
  if (!state.full_share) return std::unexpected(state.full_share.error());
  const double full_share = *state.full_share;
  const auto layers = [&](bool reuse) {
    return parallel ? state.ParallelLayers(reuse, ctx)
                    : state.Layers(reuse, ctx.batch_size, ctx.s, ctx.prefix);
  };
  IC_ASSIGN(PerfResult result, layers(false));
  if (full_share < 1.0) {
    IC_ASSIGN(const PerfResult reuse, layers(true));
    result = Blend(full_share, result, reuse);
  }
  if (!parallel) {
    result.Clamp();
    result.Scale(state.scale_factor);
  }
  return result;
}

struct BoundDsaGeneration::State {
  std::shared_ptr<const TableStore> store;
  double scale_factor = 0;
  Result<double> full_share = 1.0;
  Result<BlockRates> rates = BlockRates{};
  std::optional<DecodeLayers> full, skip;
};

BoundDsaGeneration::BoundDsaGeneration(const DsaGeneration& op, const Database& db) {
  auto state = std::make_shared<State>();
  state->store = db.shared_store();
  state->scale_factor = op.scale_factor;
  state->full_share = FullShare(op, db, TableId::kDsaGenerationSkip);
  // Decode attention computes in bfloat16 whatever the operator says.
  state->rates =
      BlockRates::Of(db.system(), op.gemm_quant_mode, op.kv_cache_dtype, FmhaQuant::kBfloat16);
  if (state->rates && state->full_share) {
    state->full.emplace(op, db, false, *state->rates);
    if (*state->full_share < 1.0) state->skip.emplace(op, db, true, *state->rates);
  }
  state_ = std::move(state);
}

Result<PerfResult> BoundDsaGeneration::Query(const QueryContext& ctx) const {
  const State& state = *state_;
  if (!state.full_share) return std::unexpected(state.full_share.error());
  if (!state.rates) return std::unexpected(state.rates.error());
  IC_ASSIGN(PerfResult result, state.full->Query(ctx.batch_size, ctx.s));
  if (*state.full_share < 1.0) {
    IC_ASSIGN(const PerfResult reuse, state.skip->Query(ctx.batch_size, ctx.s));
    result = Blend(*state.full_share, result, reuse);
  }
  result.Clamp();
  result.Scale(state.scale_factor);
  return result;
}

}  // namespace infercast
