// The 35 operator kinds as plain data: what an EngineSpec carries. Members stand in wire order.
//
// An operator describes; binding it to a database (bound_operator.h) resolves what does not change
// from step to step. Every kind has a name (the folding key of breakdowns) and, composites and
// whole forward passes apart, a scale_factor (usually the layer count) that multiplies its result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "base/modes.h"
#include "operators/fields.h"

namespace infercast {

struct Operator;

// Number formats of the projections inside a sparse-attention block.
struct DsaProjectionQuants {
  GemmQuant q{};
  GemmQuant kv{};
  GemmQuant o{};
  GemmQuant indexer{};

  bool operator==(const DsaProjectionQuants&) const = default;
  static constexpr auto Fields() {
    return std::tuple{
        Required("q", &DsaProjectionQuants::q), Required("kv", &DsaProjectionQuants::kv),
        Required("o", &DsaProjectionQuants::o), Required("indexer", &DsaProjectionQuants::indexer)};
  }
};

// Matrix product of m tokens by an n x k weight.
struct Gemm {
  std::string name;
  double scale_factor = 0;
  std::uint32_t n = 0;
  std::uint32_t k = 0;
  GemmQuant quant_mode{};
  std::uint32_t scale_num_tokens = 0;
  bool low_precision_input = false;
  std::uint32_t seq_split = 1;
  bool below_grid_sol = false;

  bool operator==(const Gemm&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Gemm::name),
                      Required("scale_factor", &Gemm::scale_factor),
                      Required("n", &Gemm::n),
                      Required("k", &Gemm::k),
                      Required("quant_mode", &Gemm::quant_mode),
                      Required("scale_num_tokens", &Gemm::scale_num_tokens),
                      Required("low_precision_input", &Gemm::low_precision_input),
                      Defaulted("seq_split", &Gemm::seq_split),
                      Defaulted("below_grid_sol", &Gemm::below_grid_sol)};
  }
};

// Token embedding look-up.
struct Embedding {
  std::string name;
  double scale_factor = 0;
  std::uint32_t vocab_size = 0;
  std::uint32_t hidden_size = 0;
  GemmQuant quant_mode{};
  std::uint32_t seq_split = 1;

  bool operator==(const Embedding&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Embedding::name),
                      Required("scale_factor", &Embedding::scale_factor),
                      Required("vocab_size", &Embedding::vocab_size),
                      Required("hidden_size", &Embedding::hidden_size),
                      Required("quant_mode", &Embedding::quant_mode),
                      Defaulted("seq_split", &Embedding::seq_split)};
  }
};

// Memory-bound kernel: bytes_per_token bytes read and written per token.
struct Elementwise {
  std::string name;
  double scale_factor = 0;
  double bytes_per_token = 0;
  std::uint32_t scale_num_tokens = 1;
  std::uint32_t seq_split = 1;

  bool operator==(const Elementwise&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Elementwise::name),
                      Required("scale_factor", &Elementwise::scale_factor),
                      Required("bytes_per_token", &Elementwise::bytes_per_token),
                      Defaulted("scale_num_tokens", &Elementwise::scale_num_tokens),
                      Defaulted("seq_split", &Elementwise::seq_split)};
  }
};

// Prefill attention over grouped-query heads.
struct ContextAttention {
  std::string name;
  double scale_factor = 0;
  std::uint32_t n = 0;
  std::uint32_t n_kv = 0;
  std::uint32_t head_size = 0;
  std::uint32_t window_size = 0;
  KvQuant kv_cache_dtype{};
  FmhaQuant fmha_quant_mode{};
  bool use_qk_norm = false;
  std::uint32_t cp_size = 1;
  std::vector<std::string> lane_order{"default"};

  bool operator==(const ContextAttention&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &ContextAttention::name),
                      Required("scale_factor", &ContextAttention::scale_factor),
                      Required("n", &ContextAttention::n),
                      Required("n_kv", &ContextAttention::n_kv),
                      Required("head_size", &ContextAttention::head_size),
                      Required("window_size", &ContextAttention::window_size),
                      Required("kv_cache_dtype", &ContextAttention::kv_cache_dtype),
                      Required("fmha_quant_mode", &ContextAttention::fmha_quant_mode),
                      Required("use_qk_norm", &ContextAttention::use_qk_norm),
                      Defaulted("cp_size", &ContextAttention::cp_size),
                      Defaulted("lane_order", &ContextAttention::lane_order)};
  }
};

// Decode attention over the KV cache.
struct GenerationAttention {
  std::string name;
  double scale_factor = 0;
  std::uint32_t n = 0;
  std::uint32_t n_kv = 0;
  std::uint32_t head_size = 0;
  std::uint32_t window_size = 0;
  KvQuant kv_cache_dtype{};
  std::vector<std::string> lane_order{"default"};

  bool operator==(const GenerationAttention&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &GenerationAttention::name),
                      Required("scale_factor", &GenerationAttention::scale_factor),
                      Required("n", &GenerationAttention::n),
                      Required("n_kv", &GenerationAttention::n_kv),
                      Required("head_size", &GenerationAttention::head_size),
                      Required("window_size", &GenerationAttention::window_size),
                      Required("kv_cache_dtype", &GenerationAttention::kv_cache_dtype),
                      Defaulted("lane_order", &GenerationAttention::lane_order)};
  }
};

// Bidirectional attention of a vision encoder.
struct EncoderAttention {
  std::string name;
  double scale_factor = 0;
  std::uint32_t n = 0;
  std::uint32_t head_size = 0;
  FmhaQuant fmha_quant_mode{};
  double partial_rotary_factor = 0;

  bool operator==(const EncoderAttention&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &EncoderAttention::name),
                      Required("scale_factor", &EncoderAttention::scale_factor),
                      Required("n", &EncoderAttention::n),
                      Required("head_size", &EncoderAttention::head_size),
                      Required("fmha_quant_mode", &EncoderAttention::fmha_quant_mode),
                      Defaulted("partial_rotary_factor", &EncoderAttention::partial_rotary_factor)};
  }
};

// Multi-head latent attention, prefill kernel.
struct ContextMla {
  std::string name;
  double scale_factor = 0;
  std::uint32_t num_heads = 0;
  KvQuant kv_cache_dtype{};
  FmhaQuant fmha_quant_mode{};
  std::uint32_t cp_size = 1;

  bool operator==(const ContextMla&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &ContextMla::name),
                      Required("scale_factor", &ContextMla::scale_factor),
                      Required("num_heads", &ContextMla::num_heads),
                      Required("kv_cache_dtype", &ContextMla::kv_cache_dtype),
                      Required("fmha_quant_mode", &ContextMla::fmha_quant_mode),
                      Defaulted("cp_size", &ContextMla::cp_size)};
  }
};

// Multi-head latent attention, decode kernel.
struct GenerationMla {
  std::string name;
  double scale_factor = 0;
  std::uint32_t num_heads = 0;
  KvQuant kv_cache_dtype{};

  bool operator==(const GenerationMla&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &GenerationMla::name),
                      Required("scale_factor", &GenerationMla::scale_factor),
                      Required("num_heads", &GenerationMla::num_heads),
                      Required("kv_cache_dtype", &GenerationMla::kv_cache_dtype)};
  }
};

// Whole MLA block (projections and attention measured together).
struct MlaModule {
  std::string name;
  double scale_factor = 0;
  std::uint32_t num_heads = 0;
  KvQuant kv_cache_dtype{};
  FmhaQuant fmha_quant_mode{};
  GemmQuant gemm_quant_mode{};
  std::optional<std::uint32_t> native_num_heads;

  bool operator==(const MlaModule&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &MlaModule::name),
                      Required("scale_factor", &MlaModule::scale_factor),
                      Required("num_heads", &MlaModule::num_heads),
                      Required("kv_cache_dtype", &MlaModule::kv_cache_dtype),
                      Required("fmha_quant_mode", &MlaModule::fmha_quant_mode),
                      Required("gemm_quant_mode", &MlaModule::gemm_quant_mode),
                      Defaulted("native_num_heads", &MlaModule::native_num_heads)};
  }
};

struct MlaModuleContext : MlaModule {
  bool operator==(const MlaModuleContext&) const = default;
};

struct MlaModuleGeneration : MlaModule {
  bool operator==(const MlaModuleGeneration&) const = default;
};

// Batched matrix product that absorbs (pre) or expands (post) the MLA latent.
struct MlaBmm {
  std::string name;
  double scale_factor = 0;
  std::uint32_t num_heads = 0;
  GemmQuant quant_mode{};
  bool is_pre = false;

  bool operator==(const MlaBmm&) const = default;
  static constexpr auto Fields() {
    return std::tuple{
        Required("name", &MlaBmm::name), Required("scale_factor", &MlaBmm::scale_factor),
        Required("num_heads", &MlaBmm::num_heads), Required("quant_mode", &MlaBmm::quant_mode),
        Required("is_pre", &MlaBmm::is_pre)};
  }
};

// Routed expert computation.
struct Moe {
  std::string name;
  double scale_factor = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t inter_size = 0;
  std::uint32_t topk = 0;
  std::uint32_t num_experts = 0;
  std::uint32_t moe_tp_size = 0;
  std::uint32_t moe_ep_size = 0;
  std::uint32_t attention_dp_size = 0;
  MoeQuant quant_mode{};
  std::string workload_distribution;
  bool is_gated = false;
  std::optional<std::string> moe_backend;
  bool enable_eplb = false;
  bool is_context = false;

  bool operator==(const Moe&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Moe::name),
                      Required("scale_factor", &Moe::scale_factor),
                      Required("hidden_size", &Moe::hidden_size),
                      Required("inter_size", &Moe::inter_size),
                      Required("topk", &Moe::topk),
                      Required("num_experts", &Moe::num_experts),
                      Required("moe_tp_size", &Moe::moe_tp_size),
                      Required("moe_ep_size", &Moe::moe_ep_size),
                      Defaulted("attention_dp_size", &Moe::attention_dp_size),
                      Required("quant_mode", &Moe::quant_mode),
                      Required("workload_distribution", &Moe::workload_distribution),
                      Required("is_gated", &Moe::is_gated),
                      Defaulted("moe_backend", &Moe::moe_backend),
                      Defaulted("enable_eplb", &Moe::enable_eplb),
                      Defaulted("is_context", &Moe::is_context)};
  }
};

// Token exchange around the experts: all-reduce, all-gather or all-to-all by flavor and backend.
struct MoeDispatch {
  std::string name;
  double scale_factor = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t topk = 0;
  std::uint32_t num_experts = 0;
  std::uint32_t moe_tp_size = 0;
  std::uint32_t moe_ep_size = 0;
  std::uint32_t attention_dp_size = 0;
  bool pre_dispatch = false;
  bool attn_ar_modeled = false;
  Backend backend{};
  DispatchFlavor flavor{};
  CommQuant comm_quant{};
  MoeQuant moe_quant{};
  std::uint32_t attn_cp_size = 1;
  bool is_context = false;
  std::uint32_t sms = 12;
  std::uint32_t scale_num_tokens = 1;

  bool operator==(const MoeDispatch&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &MoeDispatch::name),
                      Required("scale_factor", &MoeDispatch::scale_factor),
                      Required("hidden_size", &MoeDispatch::hidden_size),
                      Required("topk", &MoeDispatch::topk),
                      Required("num_experts", &MoeDispatch::num_experts),
                      Required("moe_tp_size", &MoeDispatch::moe_tp_size),
                      Required("moe_ep_size", &MoeDispatch::moe_ep_size),
                      Required("attention_dp_size", &MoeDispatch::attention_dp_size),
                      Required("pre_dispatch", &MoeDispatch::pre_dispatch),
                      Defaulted("attn_ar_modeled", &MoeDispatch::attn_ar_modeled),
                      Required("backend", &MoeDispatch::backend),
                      Required("flavor", &MoeDispatch::flavor),
                      Required("comm_quant", &MoeDispatch::comm_quant),
                      Required("moe_quant", &MoeDispatch::moe_quant),
                      Defaulted("attn_cp_size", &MoeDispatch::attn_cp_size),
                      Defaulted("is_context", &MoeDispatch::is_context),
                      Defaulted("sms", &MoeDispatch::sms),
                      Defaulted("scale_num_tokens", &MoeDispatch::scale_num_tokens)};
  }
};

// A backend's own in-node all-reduce.
struct CustomAllReduce {
  std::string name;
  double scale_factor = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t tp_size = 0;
  CommQuant quant{};
  std::uint32_t seq_split = 1;

  bool operator==(const CustomAllReduce&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &CustomAllReduce::name),
                      Required("scale_factor", &CustomAllReduce::scale_factor),
                      Required("hidden_size", &CustomAllReduce::hidden_size),
                      Required("tp_size", &CustomAllReduce::tp_size),
                      Required("quant", &CustomAllReduce::quant),
                      Defaulted("seq_split", &CustomAllReduce::seq_split)};
  }
};

// A library collective; hidden_size may be fractional.
struct Nccl {
  std::string name;
  double scale_factor = 0;
  double hidden_size = 0;
  std::uint32_t num_gpus = 0;
  CommQuant dtype{};
  std::string operation;
  std::uint32_t seq_split = 1;

  bool operator==(const Nccl&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Nccl::name),
                      Required("scale_factor", &Nccl::scale_factor),
                      Required("hidden_size", &Nccl::hidden_size),
                      Required("num_gpus", &Nccl::num_gpus),
                      Required("dtype", &Nccl::dtype),
                      Required("operation", &Nccl::operation),
                      Defaulted("seq_split", &Nccl::seq_split)};
  }
};

// Hand-over between pipeline stages.
struct P2P {
  std::string name;
  double scale_factor = 0;
  std::uint32_t pp_size = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t seq_split = 1;

  bool operator==(const P2P&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &P2P::name), Required("scale_factor", &P2P::scale_factor),
                      Required("pp_size", &P2P::pp_size),
                      Required("hidden_size", &P2P::hidden_size),
                      Defaulted("seq_split", &P2P::seq_split)};
  }
};

// Composite vision encoder; costs nothing without image tokens.
struct Vision {
  std::string name;
  double scale_factor = 0;
  std::uint32_t num_layers = 0;
  std::uint32_t num_heads = 0;
  std::uint32_t head_size = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;
  FmhaQuant fmha_quant{};
  GemmQuant gemm_quant{};

  bool operator==(const Vision&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Vision::name),
                      Required("scale_factor", &Vision::scale_factor),
                      Required("num_layers", &Vision::num_layers),
                      Required("num_heads", &Vision::num_heads),
                      Required("head_size", &Vision::head_size),
                      Required("hidden_size", &Vision::hidden_size),
                      Required("intermediate_size", &Vision::intermediate_size),
                      Required("fmha_quant", &Vision::fmha_quant),
                      Required("gemm_quant", &Vision::gemm_quant)};
  }
};

// DeepSeek sparse attention block with its indexer.
struct DsaModule {
  std::string name;
  double scale_factor = 0;
  std::uint32_t num_heads = 0;
  KvQuant kv_cache_dtype{};
  FmhaQuant fmha_quant_mode{};
  GemmQuant gemm_quant_mode{};
  std::string architecture;
  std::uint32_t index_topk = 0;
  std::uint32_t cp_size = 1;
  double full_frac = 1.0;
  std::optional<DsaProjectionQuants> attn_projection_quant_modes;

  bool operator==(const DsaModule&) const = default;
  static constexpr auto Fields() {
    return std::tuple{
        Required("name", &DsaModule::name),
        Required("scale_factor", &DsaModule::scale_factor),
        Required("num_heads", &DsaModule::num_heads),
        Required("kv_cache_dtype", &DsaModule::kv_cache_dtype),
        Required("fmha_quant_mode", &DsaModule::fmha_quant_mode),
        Required("gemm_quant_mode", &DsaModule::gemm_quant_mode),
        Required("architecture", &DsaModule::architecture),
        Required("index_topk", &DsaModule::index_topk),
        Defaulted("cp_size", &DsaModule::cp_size),
        Defaulted("full_frac", &DsaModule::full_frac),
        Defaulted("attn_projection_quant_modes", &DsaModule::attn_projection_quant_modes)};
  }
};

struct DsaContext : DsaModule {
  bool operator==(const DsaContext&) const = default;
};

struct DsaGeneration : DsaModule {
  bool operator==(const DsaGeneration&) const = default;
};

// MiniMax sparse attention block.
struct MsaModule {
  std::string name;
  double scale_factor = 0;
  std::uint32_t num_heads = 0;
  std::uint32_t num_kv_heads = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t v_head_dim = 0;
  std::uint32_t index_n_heads = 0;
  std::uint32_t index_head_dim = 0;
  std::uint32_t index_topk = 0;
  std::uint32_t block_size = 0;
  KvQuant kv_cache_dtype{};
  FmhaQuant fmha_quant_mode{};
  GemmQuant gemm_quant_mode{};
  std::string dsa_architecture;
  double dsa_scale_k = 0;

  bool operator==(const MsaModule&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &MsaModule::name),
                      Required("scale_factor", &MsaModule::scale_factor),
                      Required("num_heads", &MsaModule::num_heads),
                      Required("num_kv_heads", &MsaModule::num_kv_heads),
                      Required("hidden_size", &MsaModule::hidden_size),
                      Required("head_dim", &MsaModule::head_dim),
                      Required("v_head_dim", &MsaModule::v_head_dim),
                      Required("index_n_heads", &MsaModule::index_n_heads),
                      Required("index_head_dim", &MsaModule::index_head_dim),
                      Required("index_topk", &MsaModule::index_topk),
                      Required("block_size", &MsaModule::block_size),
                      Required("kv_cache_dtype", &MsaModule::kv_cache_dtype),
                      Required("fmha_quant_mode", &MsaModule::fmha_quant_mode),
                      Required("gemm_quant_mode", &MsaModule::gemm_quant_mode),
                      Required("dsa_architecture", &MsaModule::dsa_architecture),
                      Required("dsa_scale_k", &MsaModule::dsa_scale_k)};
  }
};

struct MsaContext : MsaModule {
  bool operator==(const MsaContext&) const = default;
};

struct MsaGeneration : MsaModule {
  bool operator==(const MsaGeneration&) const = default;
};

// DeepSeek-V4 compressed attention block.
struct Dsv4Module {
  std::string name;
  double scale_factor = 0;
  Dsv4AttentionKind attn_kind{};
  std::uint32_t num_heads = 0;
  std::uint32_t native_heads = 0;
  std::uint32_t tp_size = 0;
  KvQuant kv_cache_dtype{};
  FmhaQuant fmha_quant_mode{};
  GemmQuant gemm_quant_mode{};
  std::string architecture;
  std::uint32_t cp_size = 1;
  std::optional<std::uint32_t> window_size;
  std::uint32_t hidden_size = 7168;
  std::uint32_t q_lora_rank = 1536;
  std::uint32_t o_lora_rank = 1024;
  std::uint32_t head_dim = 512;
  std::uint32_t rope_head_dim = 64;
  std::uint32_t index_n_heads = 64;
  std::uint32_t index_head_dim = 128;
  std::uint32_t index_topk = 1024;
  std::optional<std::uint32_t> o_groups;

  bool operator==(const Dsv4Module&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Dsv4Module::name),
                      Required("scale_factor", &Dsv4Module::scale_factor),
                      Required("attn_kind", &Dsv4Module::attn_kind),
                      Required("num_heads", &Dsv4Module::num_heads),
                      Required("native_heads", &Dsv4Module::native_heads),
                      Required("tp_size", &Dsv4Module::tp_size),
                      Required("kv_cache_dtype", &Dsv4Module::kv_cache_dtype),
                      Required("fmha_quant_mode", &Dsv4Module::fmha_quant_mode),
                      Required("gemm_quant_mode", &Dsv4Module::gemm_quant_mode),
                      Required("architecture", &Dsv4Module::architecture),
                      Defaulted("cp_size", &Dsv4Module::cp_size),
                      Defaulted("window_size", &Dsv4Module::window_size),
                      Defaulted("hidden_size", &Dsv4Module::hidden_size),
                      Defaulted("q_lora_rank", &Dsv4Module::q_lora_rank),
                      Defaulted("o_lora_rank", &Dsv4Module::o_lora_rank),
                      Defaulted("head_dim", &Dsv4Module::head_dim),
                      Defaulted("rope_head_dim", &Dsv4Module::rope_head_dim),
                      Defaulted("index_n_heads", &Dsv4Module::index_n_heads),
                      Defaulted("index_head_dim", &Dsv4Module::index_head_dim),
                      Defaulted("index_topk", &Dsv4Module::index_topk),
                      Defaulted("o_groups", &Dsv4Module::o_groups)};
  }
};

struct Dsv4Context : Dsv4Module {
  bool operator==(const Dsv4Context&) const = default;
};

struct Dsv4Generation : Dsv4Module {
  bool operator==(const Dsv4Generation&) const = default;
};

// Manifold-constrained hyper-connections.
struct Mhc {
  std::string name;
  double scale_factor = 0;
  std::string op;
  std::uint32_t hc_mult = 0;
  std::uint32_t hidden_size = 0;
  std::string architecture;
  std::uint32_t sinkhorn_iters = 20;
  GemmQuant quant_mode = GemmQuant::kBfloat16;
  std::uint32_t seq_split = 1;

  bool operator==(const Mhc&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Mhc::name),
                      Required("scale_factor", &Mhc::scale_factor),
                      Required("op", &Mhc::op),
                      Required("hc_mult", &Mhc::hc_mult),
                      Required("hidden_size", &Mhc::hidden_size),
                      Required("architecture", &Mhc::architecture),
                      Defaulted("sinkhorn_iters", &Mhc::sinkhorn_iters),
                      Defaulted("quant_mode", &Mhc::quant_mode),
                      Defaulted("seq_split", &Mhc::seq_split)};
  }
};

// Mamba-2 state-space kernel.
struct Mamba2 {
  std::string name;
  double scale_factor = 0;
  std::string kernel_source;
  std::string phase;
  std::uint32_t d_model = 0;
  std::uint32_t d_state = 0;
  std::uint32_t d_conv = 0;
  std::uint32_t nheads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t n_groups = 0;
  std::uint32_t chunk_size = 0;

  bool operator==(const Mamba2&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Mamba2::name),
                      Required("scale_factor", &Mamba2::scale_factor),
                      Required("kernel_source", &Mamba2::kernel_source),
                      Required("phase", &Mamba2::phase),
                      Required("d_model", &Mamba2::d_model),
                      Required("d_state", &Mamba2::d_state),
                      Required("d_conv", &Mamba2::d_conv),
                      Required("nheads", &Mamba2::nheads),
                      Required("head_dim", &Mamba2::head_dim),
                      Required("n_groups", &Mamba2::n_groups),
                      Required("chunk_size", &Mamba2::chunk_size)};
  }
};

// Gated delta-net kernel.
struct Gdn {
  std::string name;
  double scale_factor = 0;
  std::string kernel_source;
  std::string phase;
  std::uint32_t d_model = 0;
  std::uint32_t d_conv = 0;
  std::uint32_t num_k_heads = 0;
  std::uint32_t head_k_dim = 0;
  std::uint32_t num_v_heads = 0;
  std::uint32_t head_v_dim = 0;
  std::string mamba_ssm_dtype = "float32";

  bool operator==(const Gdn&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Gdn::name),
                      Required("scale_factor", &Gdn::scale_factor),
                      Required("kernel_source", &Gdn::kernel_source),
                      Required("phase", &Gdn::phase),
                      Required("d_model", &Gdn::d_model),
                      Required("d_conv", &Gdn::d_conv),
                      Required("num_k_heads", &Gdn::num_k_heads),
                      Required("head_k_dim", &Gdn::head_k_dim),
                      Required("num_v_heads", &Gdn::num_v_heads),
                      Required("head_v_dim", &Gdn::head_v_dim),
                      Defaulted("mamba_ssm_dtype", &Gdn::mamba_ssm_dtype)};
  }
};

// MLA prefill under wide expert parallelism.
struct WideEpContextMla {
  std::string name;
  double scale_factor = 0;
  std::uint32_t num_heads = 0;
  KvQuant kv_cache_dtype{};
  FmhaQuant fmha_quant_mode{};
  std::string attn_backend;
  std::uint32_t cp_size = 1;

  bool operator==(const WideEpContextMla&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &WideEpContextMla::name),
                      Required("scale_factor", &WideEpContextMla::scale_factor),
                      Required("num_heads", &WideEpContextMla::num_heads),
                      Required("kv_cache_dtype", &WideEpContextMla::kv_cache_dtype),
                      Required("fmha_quant_mode", &WideEpContextMla::fmha_quant_mode),
                      Required("attn_backend", &WideEpContextMla::attn_backend),
                      Defaulted("cp_size", &WideEpContextMla::cp_size)};
  }
};

// MLA decode under wide expert parallelism.
struct WideEpGenerationMla {
  std::string name;
  double scale_factor = 0;
  std::uint32_t num_heads = 0;
  KvQuant kv_cache_dtype{};
  FmhaQuant fmha_quant_mode{};
  std::string attn_backend;

  bool operator==(const WideEpGenerationMla&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &WideEpGenerationMla::name),
                      Required("scale_factor", &WideEpGenerationMla::scale_factor),
                      Required("num_heads", &WideEpGenerationMla::num_heads),
                      Required("kv_cache_dtype", &WideEpGenerationMla::kv_cache_dtype),
                      Required("fmha_quant_mode", &WideEpGenerationMla::fmha_quant_mode),
                      Required("attn_backend", &WideEpGenerationMla::attn_backend)};
  }
};

// Two groups that run side by side: the slower one counts.
struct Overlap {
  std::string name;
  std::vector<Operator> group_a;
  std::vector<Operator> group_b;

  bool operator==(const Overlap&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Overlap::name), Required("group_a", &Overlap::group_a),
                      Required("group_b", &Overlap::group_b)};
  }
};

// A measured block, or its parts where the block was not measured.
struct Fallback {
  std::string name;
  Box<Operator> primary;
  std::vector<Operator> fallback;

  bool operator==(const Fallback&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Fallback::name), Required("primary", &Fallback::primary),
                      Required("fallback", &Fallback::fallback)};
  }
};

// DeepSeek-V4 fused expert module (dispatch, experts, combine).
struct Dsv4MegaMoe {
  std::string name;
  double scale_factor = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t inter_size = 0;
  std::uint32_t topk = 0;
  std::uint32_t num_experts = 0;
  std::uint32_t moe_tp_size = 0;
  std::uint32_t moe_ep_size = 0;
  MoeQuant quant_mode{};
  std::string workload_distribution;
  bool is_context = false;
  std::string source_policy;
  std::string pre_dispatch;
  std::uint32_t num_fused_shared_experts = 0;
  std::string kernel_source;
  std::string kernel_dtype;

  bool operator==(const Dsv4MegaMoe&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Dsv4MegaMoe::name),
                      Required("scale_factor", &Dsv4MegaMoe::scale_factor),
                      Required("hidden_size", &Dsv4MegaMoe::hidden_size),
                      Required("inter_size", &Dsv4MegaMoe::inter_size),
                      Required("topk", &Dsv4MegaMoe::topk),
                      Required("num_experts", &Dsv4MegaMoe::num_experts),
                      Required("moe_tp_size", &Dsv4MegaMoe::moe_tp_size),
                      Required("moe_ep_size", &Dsv4MegaMoe::moe_ep_size),
                      Required("quant_mode", &Dsv4MegaMoe::quant_mode),
                      Required("workload_distribution", &Dsv4MegaMoe::workload_distribution),
                      Required("is_context", &Dsv4MegaMoe::is_context),
                      Required("source_policy", &Dsv4MegaMoe::source_policy),
                      Required("pre_dispatch", &Dsv4MegaMoe::pre_dispatch),
                      Required("num_fused_shared_experts", &Dsv4MegaMoe::num_fused_shared_experts),
                      Required("kernel_source", &Dsv4MegaMoe::kernel_source),
                      Required("kernel_dtype", &Dsv4MegaMoe::kernel_dtype)};
  }
};

// Kimi delta attention kernel.
struct Kda {
  std::string name;
  double scale_factor = 0;
  std::string kernel_source;
  std::string phase;
  std::uint32_t d_model = 0;
  std::uint32_t d_conv = 0;
  std::uint32_t num_k_heads = 0;
  std::uint32_t head_k_dim = 0;
  std::uint32_t num_v_heads = 0;
  std::uint32_t head_v_dim = 0;
  std::int64_t draft_tokens = 0;

  bool operator==(const Kda&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &Kda::name),
                      Required("scale_factor", &Kda::scale_factor),
                      Required("kernel_source", &Kda::kernel_source),
                      Required("phase", &Kda::phase),
                      Required("d_model", &Kda::d_model),
                      Required("d_conv", &Kda::d_conv),
                      Required("num_k_heads", &Kda::num_k_heads),
                      Required("head_k_dim", &Kda::head_k_dim),
                      Required("num_v_heads", &Kda::num_v_heads),
                      Required("head_v_dim", &Kda::head_v_dim),
                      Required("draft_tokens", &Kda::draft_tokens)};
  }
};

// A whole measured forward pass.
struct FpmForward {
  std::string name;
  FpmPhase phase{};
  std::string model_path;
  std::vector<std::string> match_identity;
  double weight_bytes = 0;
  std::vector<Operator> sol_ops;

  bool operator==(const FpmForward&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &FpmForward::name),
                      Required("phase", &FpmForward::phase),
                      Required("model_path", &FpmForward::model_path),
                      Required("match_identity", &FpmForward::match_identity),
                      Defaulted("weight_bytes", &FpmForward::weight_bytes),
                      Required("sol_ops", &FpmForward::sol_ops)};
  }
};

// One phase of an expert all-to-all over a named library.
struct MoeAllToAll {
  std::string name;
  double scale_factor = 0;
  std::string phase;
  std::string comm_backend;
  std::string comm_dtype = "default";
  std::uint32_t hidden_size = 0;
  std::uint32_t topk = 0;
  std::uint32_t num_experts = 0;
  std::uint32_t moe_ep_size = 0;
  std::uint32_t node_num = 0;
  std::uint32_t sms = 0;
  std::uint32_t attention_tp_size = 1;

  bool operator==(const MoeAllToAll&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &MoeAllToAll::name),
                      Required("scale_factor", &MoeAllToAll::scale_factor),
                      Required("phase", &MoeAllToAll::phase),
                      Required("comm_backend", &MoeAllToAll::comm_backend),
                      Defaulted("comm_dtype", &MoeAllToAll::comm_dtype),
                      Required("hidden_size", &MoeAllToAll::hidden_size),
                      Required("topk", &MoeAllToAll::topk),
                      Required("num_experts", &MoeAllToAll::num_experts),
                      Required("moe_ep_size", &MoeAllToAll::moe_ep_size),
                      Required("node_num", &MoeAllToAll::node_num),
                      Defaulted("sms", &MoeAllToAll::sms),
                      Defaulted("attention_tp_size", &MoeAllToAll::attention_tp_size)};
  }
};

// Expert computation under large expert parallelism.
struct MoeExpertCompute {
  std::string name;
  double scale_factor = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t inter_size = 0;
  std::uint32_t topk = 0;
  std::uint32_t num_experts = 0;
  std::uint32_t moe_ep_size = 0;
  MoeQuant quant_mode{};
  std::string workload_distribution;
  std::uint32_t attention_dp_size = 0;
  std::string inference_phase;
  std::optional<std::uint32_t> num_slots;
  std::optional<std::string> kernel_source;
  bool is_gated = true;
  bool enable_eplb = false;

  bool operator==(const MoeExpertCompute&) const = default;
  static constexpr auto Fields() {
    return std::tuple{Required("name", &MoeExpertCompute::name),
                      Required("scale_factor", &MoeExpertCompute::scale_factor),
                      Required("hidden_size", &MoeExpertCompute::hidden_size),
                      Required("inter_size", &MoeExpertCompute::inter_size),
                      Required("topk", &MoeExpertCompute::topk),
                      Required("num_experts", &MoeExpertCompute::num_experts),
                      Required("moe_ep_size", &MoeExpertCompute::moe_ep_size),
                      Required("quant_mode", &MoeExpertCompute::quant_mode),
                      Required("workload_distribution", &MoeExpertCompute::workload_distribution),
                      Required("attention_dp_size", &MoeExpertCompute::attention_dp_size),
                      Required("inference_phase", &MoeExpertCompute::inference_phase),
                      Defaulted("num_slots", &MoeExpertCompute::num_slots),
                      Defaulted("kernel_source", &MoeExpertCompute::kernel_source),
                      Defaulted("is_gated", &MoeExpertCompute::is_gated),
                      Defaulted("enable_eplb", &MoeExpertCompute::enable_eplb)};
  }
};

// Alternatives in wire order: the index is the binary tag.
using OperatorVariant =
    std::variant<Gemm, Embedding, Elementwise, ContextAttention, GenerationAttention,
                 EncoderAttention, ContextMla, GenerationMla, MlaModuleContext, MlaModuleGeneration,
                 MlaBmm, Moe, MoeDispatch, CustomAllReduce, Nccl, P2P, Vision, DsaContext,
                 DsaGeneration, MsaContext, MsaGeneration, Dsv4Context, Dsv4Generation, Mhc, Mamba2,
                 Gdn, WideEpContextMla, WideEpGenerationMla, Overlap, Fallback, Dsv4MegaMoe, Kda,
                 FpmForward, MoeAllToAll, MoeExpertCompute>;

struct Operator {
  OperatorVariant kind;

  Operator() = default;
  template <typename T>
    requires std::is_constructible_v<OperatorVariant, T&&> &&
             (!std::is_same_v<std::remove_cvref_t<T>, Operator>)
  Operator(T&& op) : kind(std::forward<T>(op)) {}  // NOLINT(google-explicit-constructor)

  const std::string& name() const {
    return std::visit([](const auto& op) -> const std::string& { return op.name; }, kind);
  }
  void set_name(std::string name) {
    std::visit([&](auto& op) { op.name = std::move(name); }, kind);
  }
  bool operator==(const Operator&) const;
};

inline constexpr std::array<std::string_view, 35> kOperatorNames = {"Gemm",
                                                                    "Embedding",
                                                                    "Elementwise",
                                                                    "ContextAttention",
                                                                    "GenerationAttention",
                                                                    "EncoderAttention",
                                                                    "ContextMla",
                                                                    "GenerationMla",
                                                                    "MlaModuleContext",
                                                                    "MlaModuleGeneration",
                                                                    "MlaBmm",
                                                                    "Moe",
                                                                    "MoeDispatch",
                                                                    "CustomAllReduce",
                                                                    "Nccl",
                                                                    "P2P",
                                                                    "Vision",
                                                                    "DsaContext",
                                                                    "DsaGeneration",
                                                                    "MsaContext",
                                                                    "MsaGeneration",
                                                                    "Dsv4Context",
                                                                    "Dsv4Generation",
                                                                    "Mhc",
                                                                    "Mamba2",
                                                                    "Gdn",
                                                                    "WideEpContextMla",
                                                                    "WideEpGenerationMla",
                                                                    "Overlap",
                                                                    "Fallback",
                                                                    "Dsv4MegaMoe",
                                                                    "Kda",
                                                                    "FpmForward",
                                                                    "MoeAllToAll",
                                                                    "MoeExpertCompute"};

inline std::string_view KindName(const Operator& op) { return kOperatorNames[op.kind.index()]; }

}  // namespace infercast
