// Per-operator bounds of the whole-model roofline. Each operator is reduced to a closure over plain
// numbers, so that evaluating the sum neither looks at names nor allocates.
#include "operators/forward_roofline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>

namespace infercast {

namespace {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};

double AtLeastOne(std::uint32_t value) { return std::max<std::uint32_t>(value, 1); }

double SplitTokens(double tokens, double split) { return std::ceil(tokens / split); }

// Rates and links of the system, in the form the bounds need.
struct Machine {
  explicit Machine(const SystemSpec& spec) : system(spec) {}

  double Bandwidth() const { return system.mem_bw; }
  double Bfloat16() const { return system.bfloat16_tc_flops.value_or(0.0); }
  // Operations/s of a number format that computes `factor` times as fast as bfloat16.
  double Rate(double factor) const {
    std::optional<double> figure;
    if (factor == 1.0) figure = system.bfloat16_tc_flops;
    if (factor == 2.0) figure = system.fp8_tc_flops;
    if (factor == 4.0) figure = system.fp4_tc_flops;
    return figure ? *figure : Bfloat16() * factor;
  }

  const SystemSpec& system;
};

// Time (ms) of a ring all-reduce of `elements` 2-byte elements over n ranks, over its link.
double AllReduce(double n, double elements, double link) {
  if (n <= 1.0) return 0.0;
  return 2.0 * elements * 2.0 / n * (n - 1.0) / link * 1000.0;
}

enum class Collective { kOnePass, kAllReduce, kUnknown };

double CollectiveTime(Collective collective, double n, double elements, double bytes, double link) {
  if (collective == Collective::kUnknown) return 0.0;
  const double one = bytes * elements * (n - 1.0) / n / link * 1000.0;
  return collective == Collective::kAllReduce ? 2.0 * one : one;
}

Collective ParseCollective(const std::string& name) {
  if (name == "all_gather" || name == "alltoall" || name == "reduce_scatter") {
    return Collective::kOnePass;
  }
  return name == "all_reduce" ? Collective::kAllReduce : Collective::kUnknown;
}

using Term = std::function<double(const ForwardPoint&)>;

Term GemmTerm(const Gemm& op, const Machine& machine, bool top_level) {
  const QuantProfile quant = Profile(op.quant_mode);
  // The output projection sees one token a request.
  const bool per_request = top_level && op.name.find("logits_gemm") != std::string::npos;
  return [scale = op.scale_factor, n = double(op.n), k = double(op.k),
          shrink = AtLeastOne(op.scale_num_tokens), split = AtLeastOne(op.seq_split),
          memory = quant.memory, rate = machine.Rate(quant.compute), bw = machine.Bandwidth(),
          per_request](const ForwardPoint& at) {
    const double x = per_request ? at.requests : at.tokens;
    const double m = SplitTokens(std::floor(x / shrink), split);
    const double math = 2.0 * m * n * k / rate;
    const double mem = memory * (m * n + m * k + n * k) / bw;
    return std::max(math, mem) * 1000.0 * scale;
  };
}

Term ContextAttentionTerm(const ContextAttention& op, const Machine& machine) {
  struct Shape {
    double n, n_kv, h, window, kv_bytes, fmha_bytes, rate, compute, bw;

    double Core(double b, double s, double p) const {
      const double full = s + p;
      const double ops = window > 0.0 && full > window ? 4.0 * b * s * window * n * h
                                                       : 2.0 * b * (full * full - p * p) * n * h;
      const double bytes = 4.0 * b * n * s * h + kv_bytes * 2.0 * b * n_kv * full * h;
      return std::max(ops / rate * 1000.0 / compute, bytes / bw * 1000.0);
    }
    double MemoryTime(double bytes) const { return bytes / bw * 1000.0; }
  };
  const QuantProfile fmha = Profile(op.fmha_quant_mode);
  const Shape shape{.n = double(op.n),
                    .n_kv = double(op.n_kv),
                    .h = double(op.head_size),
                    .window = double(op.window_size),
                    .kv_bytes = Profile(op.kv_cache_dtype).memory,
                    .fmha_bytes = fmha.memory,
                    .rate = machine.Bfloat16(),
                    .compute = fmha.compute,
                    .bw = machine.Bandwidth()};
  // Rotary embedding, KV write and the optional q/k norms, as memory traffic.
  const double q = shape.n * shape.h;
  const double k = shape.n_kv * shape.h;
  double extra =
      2.0 * shape.MemoryTime(2.0 * q + 2.0 * k) + 2.0 * shape.MemoryTime(k * shape.fmha_bytes);
  if (op.use_qk_norm) {
    extra += 2.0 * (2.0 * shape.MemoryTime(2.0 * q) + 2.0 * shape.MemoryTime(2.0 * k));
  }
  return [shape, extra, scale = op.scale_factor, cp = double(op.cp_size)](const ForwardPoint& at) {
    double core = 0.0;
    if (cp > 1.0) {
      // The first and the last chunk of a zigzag split stand for one rank's share.
      const double chunk = std::max(std::ceil(at.length / (2.0 * cp)), 1.0);
      core = shape.Core(at.requests, chunk, at.prefix) +
             shape.Core(at.requests, chunk, at.prefix + at.length - chunk);
    } else {
      core = shape.Core(at.requests, at.length, at.prefix);
    }
    return (core + 1.1 * extra) * scale;
  };
}

Term GenerationAttentionTerm(const GenerationAttention& op, const Machine& machine) {
  return
      [scale = op.scale_factor, n = double(op.n), n_kv = double(op.n_kv), h = double(op.head_size),
       window = double(op.window_size), kv_bytes = Profile(op.kv_cache_dtype).memory,
       rate = machine.Bfloat16(), compute = op.kv_cache_dtype == KvQuant::kFp8 ? 2.0 : 1.0,
       bw = machine.Bandwidth()](const ForwardPoint& at) {
        const double b = at.requests;
        const double kv = window > 0.0 ? std::min(at.length - 1.0, window) : at.length - 1.0;
        const double ops = 4.0 * b * n * h * kv;
        const double bytes = b * (4.0 * n * h + 2.0 * n_kv * kv * h * kv_bytes);
        return std::max(ops / rate * 1000.0 / compute, bytes / bw * 1000.0) * scale;
      };
}

Term MoeTerm(const Moe& op, const Machine& machine) {
  const QuantProfile quant = Profile(op.quant_mode);
  return [scale = op.scale_factor, h = double(op.hidden_size), i = double(op.inter_size),
          topk = double(op.topk), experts = double(op.num_experts), tp = AtLeastOne(op.moe_tp_size),
          ep = AtLeastOne(op.moe_ep_size), dp = AtLeastOne(op.attention_dp_size),
          gates = op.is_gated ? 3.0 : 2.0, memory = quant.memory,
          rate = machine.Bfloat16() * quant.compute,
          bw = machine.Bandwidth()](const ForwardPoint& at) {
    const double routed = at.tokens * dp * topk;
    const double ops = std::floor(std::floor(routed * h * i * gates * 2.0 / ep) / tp);
    const double local = std::floor(routed / ep);
    const double weights =
        std::floor(h * i * gates / tp) * std::min(std::floor(experts / ep), local);
    const double bytes = memory * (2.0 * local * h + std::floor(local * i * gates / tp) + weights);
    return std::max(ops / rate, bytes / bw) * 1000.0 * scale;
  };
}

Result<Term> MoeDispatchTerm(const MoeDispatch& op, const Machine& machine) {
  if (op.flavor == DispatchFlavor::kRetiredDeepEp) {
    return Fail(ErrorKind::kInvalidEngineConfig,
                fmt::format("operator '{}' uses the retired DeepEP dispatch flavour", op.name));
  }
  const std::uint32_t group = std::max<std::uint32_t>(op.moe_tp_size * op.moe_ep_size, 1);
  const std::uint32_t data_parallel = std::max<std::uint32_t>(op.attention_dp_size, 1);
  const std::uint32_t attention_tp = std::max<std::uint32_t>(group / data_parallel, 1);
  const double G = group, dp = data_parallel, at = attention_tp;
  const double group_link = machine.system.P2pBandwidth(group);
  const double at_link = machine.system.P2pBandwidth(attention_tp);
  const bool pre = op.pre_dispatch;

  // Per volume V of 2-byte elements of this rank.
  const auto one_pass = [](double n, double link) {
    return [n, link](double v) { return CollectiveTime(Collective::kOnePass, n, v, 2.0, link); };
  };
  const auto group_pass = one_pass(G, group_link);
  const auto at_pass = one_pass(at, at_link);
  const auto reduce = [G, group_link](double v) { return AllReduce(G, v, group_link); };

  std::function<double(double)> volume_time = [](double) { return 0.0; };
  if (op.flavor == DispatchFlavor::kTrtllmAlltoall) {
    const std::uint32_t per_node = machine.system.num_gpus_per_node;
    if (data_parallel > 1 && op.moe_tp_size == 1 && per_node >= 72) {
      const double link =
          op.moe_ep_size / 4 > 1 ? machine.system.inter_node_bw : machine.system.intra_node_bw;
      const std::uint32_t peers = op.moe_ep_size > 0 ? op.moe_ep_size - 1 : 0;
      const double copies = std::min({op.topk, op.num_experts, peers});
      const double bytes = pre ? Profile(op.moe_quant).memory : 2.0;
      return Term([=, scale = op.scale_factor, h = double(op.hidden_size)](const ForwardPoint& p) {
        return p.tokens * copies * h * bytes / link * 1000.0 * scale;
      });
    }
    if (data_parallel > 1) {
      if (!pre) {
        volume_time = [=](double v) { return group_pass(v * dp); };
      } else if (op.moe_quant == MoeQuant::kNvfp4) {
        volume_time = [=](double v) { return group_pass((v / 4.0 + v / 32.0) * dp); };
      } else if (op.moe_quant == MoeQuant::kFp8 || op.moe_quant == MoeQuant::kFp8Block) {
        volume_time = [=](double v) { return group_pass(v / 2.0 * dp); };
      } else {
        volume_time = [=](double v) { return group_pass(v * dp); };
      }
    } else if (attention_tp > 1) {
      if (per_node == 72 && group > 4) {
        volume_time = [=](double v) {
          return CollectiveTime(Collective::kAllReduce, G, v, 2.0, group_link);
        };
      } else {
        volume_time = reduce;
      }
    }
  } else if (op.backend == Backend::kVllm) {
    volume_time = [=](double v) {
      double time = 0.0;
      if (at > 1.0) time += reduce(v);
      if (dp > 1.0) time += group_pass(v * dp);
      return time;
    };
  } else if (op.backend == Backend::kSglang && attention_tp > 1 && data_parallel > 1) {
    if (pre) {
      volume_time = [=](double v) { return at_pass(v) + group_pass(v * dp); };
    } else {
      volume_time = [=](double v) { return group_pass(v * dp) + at_pass(v); };
    }
  } else if (op.backend == Backend::kSglang && op.attn_cp_size > 1) {
    if (op.is_context) {
      volume_time = group_pass;
    } else if (!pre) {
      volume_time = reduce;
    }
  } else if (attention_tp > 1) {
    volume_time = reduce;
  } else if (data_parallel > 1) {
    volume_time = [=](double v) { return group_pass(v * dp); };
  }
  return Term([volume_time = std::move(volume_time), scale = op.scale_factor,
               h = double(op.hidden_size)](const ForwardPoint& p) {
    return volume_time(p.tokens * h) * scale;
  });
}

}  // namespace

Result<ForwardRoofline::Term> ForwardRoofline::CompileTerm(const Operator& op,
                                                           const SystemSpec& system,
                                                           bool top_level) {
  const Machine machine(system);
  const double bw = machine.Bandwidth();
  return std::visit(
      Overloaded{
          [&](const Gemm& o) -> Result<Term> { return GemmTerm(o, machine, top_level); },
          [&](const Embedding& o) -> Result<Term> {
            return Term([scale = o.scale_factor, split = AtLeastOne(o.seq_split),
                         h = double(o.hidden_size), bw](const ForwardPoint& at) {
              return SplitTokens(at.tokens, split) * h * 2.0 / bw * 1000.0 * scale;
            });
          },
          [&](const Elementwise& o) -> Result<Term> {
            return Term([scale = o.scale_factor, bytes = o.bytes_per_token,
                         shrink = AtLeastOne(o.scale_num_tokens), split = AtLeastOne(o.seq_split),
                         bw](const ForwardPoint& at) {
              const double x = SplitTokens(std::floor(at.tokens / shrink), split);
              return bytes * x / bw * 1000.0 * scale;
            });
          },
          [&](const ContextAttention& o) -> Result<Term> {
            return ContextAttentionTerm(o, machine);
          },
          [&](const GenerationAttention& o) -> Result<Term> {
            return GenerationAttentionTerm(o, machine);
          },
          [&](const Moe& o) -> Result<Term> { return MoeTerm(o, machine); },
          [&](const MoeDispatch& o) -> Result<Term> { return MoeDispatchTerm(o, machine); },
          [&](const CustomAllReduce& o) -> Result<Term> {
            if (o.tp_size == 1) return Term([](const ForwardPoint&) { return 0.0; });
            return Term([scale = o.scale_factor, tp = double(o.tp_size), h = double(o.hidden_size),
                         split = AtLeastOne(o.seq_split),
                         link = system.P2pBandwidth(o.tp_size)](const ForwardPoint& at) {
              return AllReduce(tp, SplitTokens(at.tokens, split) * h, link) * scale;
            });
          },
          [&](const Nccl& o) -> Result<Term> {
            return Term([scale = o.scale_factor, n = double(o.num_gpus),
                         collective = ParseCollective(o.operation), elements = o.hidden_size,
                         bytes = Profile(o.dtype).memory, split = AtLeastOne(o.seq_split),
                         link = system.P2pBandwidth(o.num_gpus)](const ForwardPoint& at) {
              const double size = SplitTokens(at.tokens, split) * elements;
              return CollectiveTime(collective, n, size, bytes, link) * scale;
            });
          },
          [&](const P2P& o) -> Result<Term> {
            if (o.pp_size == 1) return Term([](const ForwardPoint&) { return 0.0; });
            return Term([scale = o.scale_factor, h = double(o.hidden_size),
                         split = AtLeastOne(o.seq_split),
                         link = system.inter_node_bw](const ForwardPoint& at) {
              return SplitTokens(at.tokens, split) * h * 2.0 / link * 1000.0 * scale;
            });
          },
          [&](const Overlap& o) -> Result<Term> {
            IC_ASSIGN(auto a, CompileGroup(o.group_a, system, false));
            IC_ASSIGN(auto b, CompileGroup(o.group_b, system, false));
            return Term([a = std::move(a), b = std::move(b)](const ForwardPoint& at) {
              return std::max(a.Evaluate(at), b.Evaluate(at));
            });
          },
          // A roofline never lacks data, so the fallback list is never needed.
          [&](const Fallback& o) -> Result<Term> { return CompileTerm(*o.primary, system, false); },
          [&](const auto& o) -> Result<Term> {
            return Fail(
                ErrorKind::kSolNotImplemented,
                fmt::format("the whole-model roofline has no bound for operator '{}'", o.name));
          },
      },
      op.kind);
}

Result<ForwardRoofline> ForwardRoofline::CompileGroup(const std::vector<Operator>& ops,
                                                      const SystemSpec& system, bool top_level) {
  ForwardRoofline roofline;
  roofline.terms_.reserve(ops.size());
  for (const Operator& op : ops) {
    IC_ASSIGN(Term term, CompileTerm(op, system, top_level));
    roofline.terms_.push_back(std::move(term));
  }
  return roofline;
}

Result<ForwardRoofline> ForwardRoofline::Compile(const std::vector<Operator>& ops,
                                                 const SystemSpec& system) {
  return CompileGroup(ops, system, true);
}

double ForwardRoofline::Evaluate(const ForwardPoint& point) const {
  double sum = 0.0;
  for (const Term& term : terms_) sum += term(point);
  return sum;
}

}  // namespace infercast
