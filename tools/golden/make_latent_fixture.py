#!/usr/bin/env python3
"""Makes the fixture `latent`: a small systems root with invented numbers for latent- and
sparse-attention blocks (with power, ragged grids, duplicates, both attention kernels, reuse layers,
context-parallel side tables), and golden cases over it.

The answers are asked of the reference (aiconfigurator-core 0.12.0) as a black box, a fresh engine
for each case. Needs that package and pyarrow.

usage: make_latent_fixture.py TESTS_GOLDEN_DIRECTORY
"""

import gzip
import json
import os
import random
import sys

import aiconfigurator_core as reference
import pyarrow as pa
import pyarrow.parquet as pq

YAML = """data_dir: data/{data}
gpu:
  mem_bw: 3000000000000
  mem_bw_empirical_scaling_factor: 0.8
  mem_empirical_constant_latency: 0.000003
  mem_capacity: 103079215104
  bfloat16_tc_flops: 600000000000000
  int8_tc_flops: 1200000000000000
{fp8}  power: 600
  sm_version: {sm}
node:
  num_gpus_per_node: 4
  inter_node_bw: 30000000000
  intra_node_bw: 300000000000
  pcie_bw: 40000000000
  p2p_latency: 0.00001
misc:
  nccl_mem:
    1: 0
    2: 100000000
    4: 200000000
  other_mem: 1500000000
  nccl_version: '2.99'
"""

BACKEND, VERSION = "sglang", "9.9.9"
HEADS, SEQS, BATCHES, STEPS = [16, 64, 128], [128, 1000, 2048, 4096], [1, 4, 16], [0, 1024, 4096]
GLM, V32, MINIMAX = "GlmMoeDsaForCausalLM", "DeepseekV32ForCausalLM", "MiniMaxM3ForCausalLM"


def write(root, relative, rows, power=True):
    path = os.path.join(root, "data", "latent_sxm", relative)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        kind = (
            pa.string()
            if isinstance(values[0], str)
            else pa.int64() if isinstance(values[0], int) else pa.float64()
        )
        columns[name] = pa.array(values, kind)
    if not power:
        columns.pop("power", None)
    pq.write_table(pa.table(columns), path, compression="zstd")


class Maker:
    """Invented rows; a fifth of each grid is left out so that grids are ragged."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def keep(self):
        return self.rng.random() > 0.2

    def leaf(self, work):
        rng = self.rng
        latency = round(0.005 + work * (0.7 + 0.6 * rng.random()), 9)
        if rng.random() < 0.02:
            latency = 0.0
        power = None if rng.random() < 0.05 else round(100 + 450 * rng.random(), 3)
        return {"latency": latency, "power": power}

    def context(self, keys, steps=(0,), scale=1.0):
        rows = []
        for n in HEADS:
            for p in steps:
                for s in SEQS:
                    for b in BATCHES:
                        if self.keep():
                            rows.append(
                                {
                                    **keys,
                                    "num_heads": n,
                                    "batch_size": b,
                                    "isl": s,
                                    "step": p,
                                    **self.leaf(scale * b * n * s * (s + p) * 2e-10),
                                }
                            )
        return rows

    def decode(self, keys, scale=1.0):
        rows = []
        for n in HEADS:
            for b in [1, 8, 64]:
                for s in [128, 1000, 4097, 16384]:
                    if self.keep():
                        step = s - 1 if self.rng.random() < 0.8 else s // 2
                        rows.append(
                            {
                                **keys,
                                "num_heads": n,
                                "batch_size": b,
                                "isl": s - step,
                                "step": step,
                                **self.leaf(scale * (b * n * s * 3e-8 + 1e-3 * n)),
                            }
                        )
        return rows

    def shuffled_with_duplicates(self, rows):
        rows = list(rows)
        for row in self.rng.sample(rows, max(1, len(rows) // 15)):
            rows.append({**row, **self.leaf(0.5 + row["latency"])})
        self.rng.shuffle(rows)
        return rows


def make_tables(root):
    m = Maker(20)
    base = {"framework": "toy", "version": VERSION, "device": "toy"}
    mla = f"mla/{BACKEND}/{VERSION}"
    rows = []
    for math in ["bfloat16", "fp8_block"]:
        for kv in ["bfloat16", "fp8"]:
            rows += m.context(
                {**base, "kernel_source": "k", "mla_dtype": math, "kv_cache_dtype": kv, "tp_size": 1}
            )
    write(root, f"{mla}/context_mla_perf.parquet", m.shuffled_with_duplicates(rows))
    rows = []
    for kv in ["bfloat16", "fp8"]:
        rows += m.decode(
            {**base, "kernel_source": "k", "mla_dtype": "bfloat16", "kv_cache_dtype": kv, "tp_size": 1}
        )
    write(root, f"{mla}/generation_mla_perf.parquet", m.shuffled_with_duplicates(rows))

    # Two models with different head counts under one set of keys, one model under another.
    for phase in ["context", "generation"]:
        rows = []
        for model, gemm in [
            ("deepseek-ai/DeepSeek-V3", "bfloat16"),
            ("moonshotai/Kimi-K3", "bfloat16"),
            ("deepseek-ai/DeepSeek-R1", "fp8_block"),
        ]:
            keys = {
                **base,
                "kernel_source": "k",
                "model": model,
                "architecture": "a",
                "mla_dtype": "bfloat16",
                "kv_cache_dtype": "fp8",
                "gemm_type": gemm,
                "tp_size": 1,
            }
            rows += m.context(keys, scale=2) if phase == "context" else m.decode(keys, scale=2)
        write(root, f"{mla}/mla_{phase}_module_perf.parquet", m.shuffled_with_duplicates(rows))

    rows = []
    for quant, op, heads in [
        ("bfloat16", "mla_gen_pre", [1, 16, 32, 128]),
        ("bfloat16", "mla_gen_post", [16, 48, 64]),
        ("fp8", "mla_gen_pre", [16, 24, 32]),
    ]:
        for n in heads:
            for t in [1, 16, 100, 1024]:
                if m.keep():
                    rows.append(
                        {
                            **base,
                            "op_name": op,
                            "kernel_source": "k",
                            "bmm_dtype": quant,
                            "num_tokens": t,
                            "num_heads": n,
                            **m.leaf(n * (t + 50) * 1e-6),
                        }
                    )
    write(root, f"mla_bmm/{BACKEND}/{VERSION}/mla_bmm_perf.parquet", m.shuffled_with_duplicates(rows))

    for phase in ["context", "generation"]:
        rows = []
        for kernel, math, kv in [
            ("flashinfer", "fp8_block", "fp8"),
            ("fa3", "bfloat16", "bfloat16"),
            ("trtllm_mla", "fp8_block", "bfloat16"),
            ("trtllm_mla", "bfloat16", "bfloat16"),
        ]:
            keys = {
                **base,
                "kernel_source": kernel,
                "mla_dtype": math,
                "kv_cache_dtype": kv,
                "gemm_type": math,
                "tp_size": 1,
            }
            rows += m.context(keys) if phase == "context" else m.decode(keys)
        write(root, f"{mla}/wideep_{phase}_mla_perf.parquet", m.shuffled_with_duplicates(rows))

    sparse = f"sparse_attention/{BACKEND}/{VERSION}"
    for phase in ["context", "generation"]:
        rows = []
        for arch, op, kernel, kv, gemm in [
            (GLM, "dsa", "sglang_dsa_indexer_trtllm", "fp8", "fp8_block"),
            (GLM, "dsa", "sglang_dsa_indexer_flashmla_sparse", "fp8", "fp8_block"),
            (GLM, "dsa_skip_indexer", "sglang_dsa_skip_indexer_trtllm", "fp8", "fp8_block"),
            (GLM, "dsa", "sglang_dsa_indexer_trtllm", "bfloat16", "bfloat16"),
            (GLM, "dsa_skip_indexer", "sglang_dsa_skip_indexer_trtllm", "bfloat16", "bfloat16"),
            (V32, "dsa", "sglang_dsa_indexer_flashmla_sparse", "fp8", "bfloat16"),
        ]:
            keys = {
                **base,
                "op_name": op,
                "kernel_source": kernel,
                "model": "toy",
                "architecture": arch,
                "mla_dtype": "bfloat16",
                "kv_cache_dtype": kv,
                "gemm_type": gemm,
                "tp_size": 1,
            }
            # DeepSeek-V3.2 was collected without cached tokens.
            steps = STEPS if arch == GLM else [0]
            rows += m.context(keys, steps, 3) if phase == "context" else m.decode(keys, scale=3)
        write(root, f"{sparse}/dsa_{phase}_module_perf.parquet", m.shuffled_with_duplicates(rows))

    for kernel in ["mqa_logits", "topk", "dsa_attn"]:
        rows = []
        for mode in ["flat", "top_last"] if kernel == "topk" else [""]:
            for n in [64, 128]:
                for b in [1, 4, 16]:
                    for s in [64, 1000, 4096]:
                        for p in STEPS:
                            if m.keep():
                                row = {
                                    **base,
                                    "op_name": kernel,
                                    "kernel_source": "k",
                                    "architecture": GLM,
                                    "num_heads": n,
                                    "batch_size": b,
                                    "isl": s,
                                    "step": p,
                                    "latency": m.leaf(b * s * (s + p) * 1e-9)["latency"],
                                }
                                if kernel == "topk":
                                    row["score_mode"] = mode
                                rows.append(row)
        m.rng.shuffle(rows)
        write(root, f"{sparse}/glm5_{kernel}_module_perf.parquet", rows)

    for phase in ["context", "generation"]:
        rows = []
        for kernel, kv in [("sglang_msa_trtllm", "fp8"), ("other", "fp8"), ("other", "bfloat16")]:
            keys = {
                **base,
                "op_name": "msa",
                "kernel_source": kernel,
                "model": "toy",
                "architecture": MINIMAX,
                "mla_dtype": "bfloat16",
                "kv_cache_dtype": kv,
                "gemm_type": "bfloat16",
                "tp_size": 1,
            }
            rows += m.context(keys, STEPS, 2) if phase == "context" else m.decode(keys, scale=2)
        write(root, f"msa/{BACKEND}/{VERSION}/msa_{phase}_module_perf.parquet", m.shuffled_with_duplicates(rows))

    rows = []
    for n in [2, 4]:
        for exponent in range(8, 29, 4):
            rows.append(
                {
                    **base,
                    "op_name": "all_gather",
                    "kernel_source": "NCCL",
                    "nccl_dtype": "half",
                    "num_gpus": n,
                    "message_size": 2**exponent,
                    "latency": 0.006 + 2**exponent * n * 1.1e-9,
                }
            )
    write(root, "comm/nccl/2.99/nccl_perf.parquet", rows)


class Cases:
    def __init__(self, seed, template):
        self.rng = random.Random(seed)
        self.template = template

    def pick(self, *values):
        return self.rng.choice(values)

    def op(self, kind):
        pick = self.pick
        common = {
            "name": pick("context_attention", "op"),
            "scale_factor": pick(1.0, 1.0, 61.0, 0.5, -2.0),
            "num_heads": pick(16, 16, 64, 64, 128, 128, 24, 96, 8, 200),
        }
        kv = pick("bfloat16", "fp8", "fp8", "int8")
        math = pick("bfloat16", "bfloat16", "fp8_block", "fp8")
        if kind == "ContextMla":
            return {**common, "kv_cache_dtype": kv, "fmha_quant_mode": math, "cp_size": pick(0, 1, 1, 2, 4)}
        if kind == "GenerationMla":
            return {**common, "kv_cache_dtype": kv}
        if kind.startswith("MlaModule"):
            return {
                **common,
                "kv_cache_dtype": pick("fp8", "fp8", "fp8", "bfloat16"),
                "fmha_quant_mode": pick("bfloat16", "bfloat16", "bfloat16", "fp8"),
                "gemm_quant_mode": pick(*["bfloat16"] * 4, *["fp8_block"] * 4, "nvfp4"),
                "native_num_heads": pick(None, 128, 96, 100, 64, 256),
            }
        if kind == "MlaBmm":
            return {
                **common,
                "num_heads": pick(0, 1, 12, 16, 20, 24, 30, 32, 48, 60, 64, 128, 100),
                "quant_mode": pick("bfloat16", "bfloat16", "fp8", "fp8_block", "int8_wo"),
                "is_pre": pick(True, False),
            }
        if kind.startswith("WideEp"):
            op = {
                **common,
                "kv_cache_dtype": pick("bfloat16", "fp8"),
                "fmha_quant_mode": pick("bfloat16", "fp8_block"),
                "attn_backend": pick(*["flashinfer"] * 4, *["fa3"] * 4, "trtllm_mla", "other", ""),
            }
            if kind == "WideEpContextMla":
                op["cp_size"] = pick(1, 1, 2, 3)
            return op
        dsa = {
            **common,
            "kv_cache_dtype": pick("fp8", "fp8", "bfloat16"),
            "fmha_quant_mode": pick(*["bfloat16"] * 9, "fp8"),
            "gemm_quant_mode": "bfloat16",
        }
        if kind.startswith("Dsa"):
            arch = pick(*[GLM] * 7, V32, V32, "Other")
            quant = "bfloat16" if arch != GLM or dsa["kv_cache_dtype"] == "bfloat16" else "fp8_block"
            cp_size = pick(1, 1, 1, 2, 4, 8)
            if cp_size > 1 and kind == "DsaContext":
                arch = pick(GLM, GLM, GLM, GLM, V32)
                dsa["num_heads"] = pick(64, 64, 128, 128, 16)
            return {
                **dsa,
                "gemm_quant_mode": quant,
                "architecture": arch,
                "index_topk": pick(2048, 2048, 512),
                "cp_size": cp_size,
                "full_frac": pick(1.0, 1.0, 0.25, 0.25, 1.5, 0.0),
                "attn_projection_quant_modes": pick(
                    None, {"q": "fp8", "kv": "bfloat16", "o": "nvfp4", "indexer": "int4_wo"}
                ),
            }
        return {
            **common,
            "num_kv_heads": pick(4, 1),
            "hidden_size": 6144,
            "head_dim": 128,
            "v_head_dim": 128,
            "index_n_heads": 4,
            "index_head_dim": 128,
            "index_topk": pick(2048, 2048, 512, 0),
            "block_size": pick(128, 64),
            "kv_cache_dtype": dsa["kv_cache_dtype"],
            "fmha_quant_mode": dsa["fmha_quant_mode"],
            "gemm_quant_mode": pick("bfloat16", "bfloat16", "bfloat16", "fp8_block"),
            "dsa_architecture": pick(GLM, GLM, V32),
            "dsa_scale_k": pick(1.0, 1.3),
        }

    def query(self, kind):
        pick = self.pick
        if kind == "MlaBmm":
            return pick(0, 1, 16, 33, 100, 700, 1024, 50000), 1, 0
        if "Generation" in kind:
            return pick(1, 1, 3, 8, 8, 64, 500), pick(0, 1, 128, 600, 1000, 1000, 4097, 9000, 16384, 70000), 0
        return (
            pick(1, 1, 2, 4, 4, 16, 100),
            pick(0, 1, 128, 500, 1000, 1000, 2048, 3000, 4096, 6000, 20000),
            pick(0, 0, 0, 24, 1024, 1048, 2000, 4096, 9000),
        )

    def spec(self, system, mode, policy):
        spec = json.loads(self.template)
        spec["engine"].update(
            system_name=system,
            backend=BACKEND,
            backend_version=VERSION,
            database_mode=mode,
            transfer_policy=policy,
            enable_shared_layer=None,
            tolerate_dirless_version=False,
        )
        spec["context_ops"] = []
        spec["generation_ops"] = []
        return reference.engine_spec_bincode_from_json(json.dumps(spec))

    def expect(self, root, case):
        decomposition = case["mode"] == "SOL_FULL"
        mode = "SILICON" if decomposition else case["mode"]
        ops = json.dumps([case["op"]])
        ctx = case["ctx"]
        weight = reference.weights_ops_json(ops)[0]
        try:
            engine = reference.AicEngine.from_spec(
                self.spec(case["system"], mode, case["db"]["transfer_policy"]), root
            )
            ask = engine.evaluate_ops_sol_json if decomposition else engine.evaluate_ops_json
            answer = ask(ops, ctx["phase"] == "context", ctx["batch_size"], ctx["s"], ctx["prefix"])[0]
            if decomposition:
                _, total, math, mem = answer
                return {
                    "latency_ms": total,
                    "sol_math_ms": math,
                    "sol_mem_ms": mem,
                    "weight_bytes": weight,
                }
            _, latency, energy, source = answer
            return {
                "latency_ms": latency,
                "energy_wms": energy,
                "source": source,
                "provenance": engine.last_provenance(),
                "fallbacks": [],
                "weight_bytes": weight,
            }
        except Exception as error:
            prefixes = {
                "perf database error": "PerfDatabase",
                "empirical estimation not implemented": "EmpiricalNotImplemented",
                "missing system flops": "MissingSystemFlops",
                "SOL estimation not implemented": "SolNotImplemented",
                "invalid engine config": "InvalidEngineConfig",
            }
            text = str(error)
            kind = next(kind for prefix, kind in prefixes.items() if text.startswith(prefix))
            return {
                "error": {
                    "kind": kind,
                    "class": type(error).__name__,
                    "message": text.replace(root, "<systems>"),
                },
                "weight_bytes": weight,
            }

    def case(self, root, kind, number):
        b, s, p = self.query(kind)
        context = "Context" in kind
        case = {
            "id": f"latent-{kind}-{number:03d}",
            "systems_root": "fixtures/latent",
            "system": self.pick(*["latent_sxm"] * 12, "latent_old"),
            "backend": BACKEND,
            "version": VERSION,
            "mode": self.pick(*["SILICON"] * 4, *["HYBRID"] * 3, *["EMPIRICAL"] * 3, "SOL", "SOL_FULL"),
            "db": {
                "transfer_policy": self.pick(None, None, None, [], ["xop"]),
                "enable_shared_layer": None,
                "tolerate_dirless_version": False,
            },
            "op": {kind: self.op(kind)},
            "ctx": {
                "phase": "context" if context else "generation",
                "batch_size": b,
                "beam_width": 1,
                "s": s,
                "prefix": p,
                "num_tokens": (b * s if context else b) % 2**32,
                "seq_imbalance_correction_scale": 1.0,
                "gen_seq_imbalance_correction_scale": 1.0,
                "num_image_tokens": 0,
            },
        }
        case["expect"] = self.expect(root, case)
        return case


KINDS = [
    "ContextMla",
    "GenerationMla",
    "MlaModuleContext",
    "MlaModuleGeneration",
    "MlaBmm",
    "WideEpContextMla",
    "WideEpGenerationMla",
    "DsaContext",
    "DsaGeneration",
    "MsaContext",
    "MsaGeneration",
]

ENGINE = {
    "schema_version": 1,
    "model_name": "toy",
    "kv_block_size": None,
    "tp_size": 1,
    "pp_size": 1,
    "attention_dp_size": 1,
    "moe_tp_size": 1,
    "moe_ep_size": 1,
    "cp_size": 1,
    "weight_dtype": "bfloat16",
    "moe_dtype": "bfloat16",
    "activation_dtype": "bfloat16",
    "kv_cache_dtype": "bfloat16",
    "strict_provenance": False,
    "systems_path": None,
    "extra": {},
}


def main():
    golden = sys.argv[1]
    per_kind = int(sys.argv[2]) if len(sys.argv) > 2 else 90
    root = os.path.join(golden, "fixtures", "latent")
    os.makedirs(root, exist_ok=True)
    for system, fp8, sm in [("latent_sxm", "  fp8_tc_flops: 1200000000000000\n", 90), ("latent_old", "", 80)]:
        with open(os.path.join(root, f"{system}.yaml"), "w") as out:
            out.write(YAML.format(data="latent_sxm", fp8=fp8, sm=sm))
    make_tables(root)
    schema = reference.engine_spec_schema_version()
    template = json.dumps({"schema_version": schema, "engine": ENGINE})
    cases = Cases(21, template)
    target = os.path.join(golden, "fixtures", "latent_ops.jsonl.gz")
    with gzip.GzipFile(target, "wb", mtime=0) as out:
        for kind in KINDS:
            for number in range(per_kind):
                line = json.dumps(cases.case(root, kind, number), separators=(",", ":"))
                out.write(line.encode() + b"\n")


if __name__ == "__main__":
    main()
