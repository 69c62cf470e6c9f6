#!/usr/bin/env python3
"""Compares the engine descriptions that spec_dump builds with those of golden cases or of an installed reference.

  compare_specs.py golden DIR...            engine/*.jsonl.gz of these folders
  compare_specs.py reference                every bundled model on a grid of backends, systems, layouts and options
  compare_specs.py reference --random N     and N cases with random options for each model

The reference is used as a black box through its public compile call; run the script with its Python. `spec_dump` is looked
for in build/bin (flag --program). Attention lane orders are compared only with --lanes. Numbers: 1e-9 relative.
"""

import argparse
import collections
import gzip
import json
import logging
import math
import pathlib
import random
import subprocess
import sys

QUANTS = ("gemm_quant_mode", "moe_quant_mode", "kvcache_quant_mode", "fmha_quant_mode", "comm_quant_mode")


def same(expected, actual, lanes, path=""):
    """First difference as text, or None."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in expected:
            if key == "lane_order" and not lanes:
                continue
            if key not in actual:
                return f"{path}.{key}: missing"
            found = same(expected[key], actual[key], lanes, f"{path}.{key}")
            if found:
                return found
        # Members that only our writer has must be absent in spirit.
        for key in actual:
            if key not in expected and actual[key] is not None:
                return f"{path}.{key}: unexpected {actual[key]!r}"
        return None
    if isinstance(expected, list) and isinstance(actual, list):
        for i, (e, a) in enumerate(zip(expected, actual)):
            found = same(e, a, lanes, f"{path}[{i}]")
            if found:
                return found
        if len(expected) != len(actual):
            return f"{path}: {len(expected)} entries expected, got {len(actual)}"
        return None
    numbers = (int, float)
    if isinstance(expected, numbers) and isinstance(actual, numbers) and not isinstance(expected, bool):
        if isinstance(actual, bool) or not math.isclose(expected, actual, rel_tol=1e-9, abs_tol=1e-12):
            return f"{path}: expected {expected!r}, got {actual!r}"
        return None
    return None if expected == actual else f"{path}: expected {expected!r}, got {actual!r}"


def run_program(program, requests):
    text = "\n".join(json.dumps(r) for r in requests) + "\n"
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


CONFIGURATION_ERRORS = {
    "invalid_argument", "unsupported_model", "model_config", "unknown_name", "invalid_engine_config", "engine_spec"}


def error_differs(expected_class, actual):
    """Whether our error kind does not stand for the reference's exception class."""
    if expected_class == "PerfDataNotAvailableError":
        return actual["kind"] != "perf_database"
    return actual["kind"] not in CONFIGURATION_ERRORS


def compare_golden(arguments):
    tally = collections.Counter()
    for folder in arguments.folders:
        for file in sorted(pathlib.Path(folder).glob("*.jsonl.gz")):
            with gzip.open(file, "rt") as lines:
                cases = [json.loads(line) for line in lines]
            for case, answer in zip(cases, run_program(arguments.program, cases)):
                judge(case["family"], f"{file.name} {case['id']} {case['model']}", case, answer, arguments, tally)
    return report(tally)


def judge(family, name, case, answer, arguments, tally):
    """Counts one case as equal or different and prints the difference."""
    error = case.get("error")
    found = None
    if error and error.get("stage") in ("model", "spec", None):
        if "error" not in answer:
            found = f"expected an error: {error['class']}: {error['message'][:100]}"
        elif error_differs(error["class"], answer["error"]):
            found = f"expected {error['class']}, got {answer['error']}"
    elif "spec" not in case:
        return
    elif "error" in answer:
        found = f"unexpected error {answer['error']}"
    else:
        for key in ("resolved_quant", "spec", "encoder_ops"):
            if key in case and not found:
                found = same(without_data(case[key]), without_data(answer[key]), arguments.lanes, key)
        figures = case.get("memory") or {}
        if not found and "kv_bytes_per_sequence" in figures:
            ours = dict((k, v) for k, v in answer["kv_bytes_per_sequence"])
            for seq, expected in figures["kv_bytes_per_sequence"]:
                found = found or same(expected, ours.get(seq), False, f"kv_bytes[{seq}]")
        for key in ("kv_elements_per_token", "kv_capacity_1e10", "activation_hidden_size"):
            # The reference states the residual width for DeepSeek-V4, but its memory counts heads * head size.
            if key == "activation_hidden_size" and family == "DEEPSEEKV4":
                continue
            if key in case and not found:
                found = same(case[key], answer[key], False, key)
        if not found and arguments.weights and case.get("weights"):
            found = same(case["weights"]["context_ops_bytes"], answer["weights"], False, "weights")
    tally[family, "equal" if found is None else "different"] += 1
    if found:
        print(f"{family}: {name}: {found}"[:500])


# Layouts that every model is built on: (tp, pp, dp, moe_tp, moe_ep).
LAYOUTS = [(tp, 1, 1, tp, 1) for tp in (1, 2, 4, 8)]
LAYOUTS += [(tp, 1, 1, 1, tp) for tp in (2, 4, 8)]
LAYOUTS += [(1, 1, dp, 1, dp) for dp in (2, 8)]
LAYOUTS += [(2, 1, 4, 1, 8), (4, 1, 2, 8, 1), (8, 1, 1, 2, 4), (1, 2, 1, 1, 1), (4, 2, 1, 4, 1), (8, 2, 1, 1, 8)]


def grid_cases(models):
    for model in models:
        for system in ("h200_sxm", "b200_sxm"):
            for backend in ("trtllm", "vllm", "sglang"):
                for tp, pp, dp, moe_tp, moe_ep in LAYOUTS:
                    layout = {"tp_size": tp, "pp_size": pp, "attention_dp_size": dp, "moe_tp_size": moe_tp,
                              "moe_ep_size": moe_ep}
                    yield {"model": model, "system": system, "backend": backend, "config": layout}


def random_cases(models, count, seed):
    chance = random.Random(seed)
    pick = chance.choice
    modes = {
        "gemm_quant_mode": ["bfloat16", "int8_wo", "int4_wo", "fp8", "fp8_static", "fp8_block", "nvfp4", "w4a16_nvfp4"],
        "moe_quant_mode": ["bfloat16", "fp8", "int4_wo", "fp8_block", "w4afp8", "nvfp4", "w4a16_mxfp4",
                           "w4a8_mxfp4_mxfp8"],
        "kvcache_quant_mode": ["bfloat16", "int8", "fp8"],
        "fmha_quant_mode": ["bfloat16", "fp8", "fp8_block"],
        "comm_quant_mode": ["half", "int8", "fp8"],
    }
    for model in models:
        for _ in range(count):
            backend = pick(["trtllm", "vllm", "sglang"])
            tp, dp, cp = pick([1, 1, 2, 3, 4, 8, 16]), pick([1, 1, 1, 2, 4, 16]), 1
            if chance.random() < 0.25:
                tp, dp, cp = pick([1, 1, 1, 2]), pick([1, 1, 1, 2]), pick([2, 4, 8])
                backend = pick(["sglang", "sglang", "sglang", "vllm"])
            width = tp * dp * cp
            moe_ep = pick([e for e in (1, 2, 4, 8, 16, 32) if width % e == 0])
            config = {"tp_size": tp, "pp_size": pick([1, 1, 2, 4, 7]), "attention_dp_size": dp, "cp_size": cp,
                      "moe_tp_size": width // moe_ep, "moe_ep_size": moe_ep}
            if chance.random() < 0.1:
                del config[pick(["moe_tp_size", "moe_ep_size"])]
            if chance.random() < 0.05:
                config["moe_tp_size"] = pick([1, 2, 3])
            for key, values in modes.items():
                if chance.random() < 0.2:
                    config[key] = pick(values)
            if chance.random() < 0.35:
                config["nextn"] = pick([1, 2, 3, 7])
            if chance.random() < 0.08:
                config["overwrite_num_layers"] = pick([1, 5, 60])
            if chance.random() < 0.1:
                config["workload_distribution"] = pick(["uniform", "balanced", "power_law"])
            if chance.random() < 0.1:
                config["language_only"] = True
            if chance.random() < 0.2:
                config["enable_encoder_dp"] = False
            if chance.random() < 0.15:
                config["moe_backend"] = pick(["megamoe", "deepep_moe", "flashinfer"])
            if chance.random() < 0.15:
                config["attention_backend"] = pick(["default", "flashinfer", "fa3"])
            if chance.random() < 0.25:
                ht = {"trtllm": ["trtllm_deepep_ht", "nvlink_two_sided", "nvlink_one_sided"],
                      "vllm": ["deepep_ht", "deepep_v2_context"], "sglang": ["deepep_ht"]}[backend]
                ll = {"trtllm": ["trtllm_deepep_ll", "nvlink_two_sided", "nvlink_one_sided"],
                      "vllm": ["deepep_ll", "deepep_v2_generation"], "sglang": ["deepep_ll"]}[backend]
                comm = {"context": pick(ht), "generation": pick(ll)}
                if chance.random() < 0.15:
                    del comm[pick(["context", "generation"])]
                config["moe_comm_backend"] = comm
                config["num_gpus_per_node"] = pick([4, 8, 8, 8, None])
                config["enable_eplb"] = chance.random() < 0.5
                config["system"] = pick(["h200_sxm", "b200_sxm", None])
                if chance.random() < 0.4:
                    config["wideep_num_slots"] = pick([0, 128, 144, 256, 288])
                if chance.random() < 0.3:
                    config["sms"] = 24
            if chance.random() < 0.04:
                config["forward_model"] = "fpm"
            yield {"model": model, "system": pick(["h200_sxm", "b200_sxm"]), "backend": backend, "config": config}


class Reference:
    """Asks the installed reference for what it builds."""

    VERSIONS = {"trtllm": "1.3.0rc20", "vllm": "0.24.0", "sglang": "0.5.14"}

    def __init__(self):
        logging.disable(logging.CRITICAL)
        from aiconfigurator_core.sdk import common, config, engine, models
        self.common, self.config, self.engine, self.models = common, config, engine, models

    def build(self, case):
        enums = dict(zip(QUANTS, ("GEMMQuantMode", "MoEQuantMode", "KVCacheQuantMode", "FMHAQuantMode",
                                  "CommQuantMode")))
        try:
            options = {key: getattr(self.common, enums[key])[value] if key in enums else value
                       for key, value in case["config"].items()}
            made = self.config.ModelConfig(**options)
            model = self.models.get_model(case["model"], made, case["backend"])
            spec = self.engine.build_engine_spec_json(
                model, model_path=case["model"], system=case["system"], backend=case["backend"],
                backend_version=case["version"], kv_block_size=None, systems_path=None, nextn=made.nextn, database=None)
            encoder = self.engine.build_ops_json(model.encoder_ops)
        except BaseException as error:  # noqa: B902: whatever it raises is its answer
            return {"error": {"class": type(error).__name__, "message": str(error)}}
        return {
            "spec": json.loads(spec), "encoder_ops": json.loads(encoder),
            "resolved_quant": {key: getattr(made, key).name for key in QUANTS},
            "memory": {"kv_bytes_per_sequence": [[s, model.get_kvcache_bytes_per_sequence(s)]
                                                 for s in (1, 100, 1024, 4097, 5000, 131072)]},
            "kv_elements_per_token": model.get_kvcache_elements_per_token(),
            "kv_capacity_1e10": model.get_kvcache_max_tokens(1e10),
            "activation_hidden_size": model.activation_hidden_size,
        }


def bundled_models():
    from aiconfigurator_core.sdk import common
    return sorted(common.DefaultHFModels)


def compare_reference(arguments):
    reference = Reference()
    names = [name for name in bundled_models() if arguments.model in name]
    cases = [] if arguments.no_grid else list(grid_cases(names))
    cases += random_cases(names, arguments.random, arguments.seed)
    for number, case in enumerate(cases):
        case["id"] = number
        case["version"] = Reference.VERSIONS[case["backend"]]
    answers = run_program(arguments.program, cases)
    tally = collections.Counter()
    errors = collections.Counter()
    for case, answer in zip(cases, answers):
        expected = reference.build(case)
        if "error" in expected:
            errors[expected["error"]["class"]] += 1
        name = f"{case['model']} {case['backend']} {json.dumps(case['config'])}"
        judge(answer.get("family", "(errors)"), name, {**case, **expected}, answer, arguments, tally)
    print("errors of the reference:", dict(errors))
    return report(tally)


def without_data(value):
    """A description without what depends on the opened tables rather than on the model."""
    if isinstance(value, dict) and "engine" in value:
        skip = {"systems_path", "enable_shared_layer", "database_mode", "transfer_policy", "tolerate_dirless_version"}
        engine = {k: v for k, v in value["engine"].items() if k not in skip}
        return {**value, "engine": engine}
    return value


def report(tally):
    families = sorted({family for family, _ in tally})
    for family in families:
        print(f"{family:12} equal {tally[family, 'equal']:5} different {tally[family, 'different']:5}")
    equal = sum(count for (_, verdict), count in tally.items() if verdict == "equal")
    print(f"{'all':12} equal {equal:5} different {sum(tally.values()) - equal:5}")
    return 0 if equal == sum(tally.values()) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bin/spec_dump")
    parser.add_argument("--weights", action="store_true", help="compare weight bytes too")
    parser.add_argument("--lanes", action="store_true", help="compare attention lane orders too")
    commands = parser.add_subparsers(required=True)
    golden = commands.add_parser("golden")
    golden.add_argument("folders", nargs="+")
    golden.set_defaults(run=compare_golden)
    reference = commands.add_parser("reference")
    reference.add_argument("--random", type=int, default=0, metavar="N", help="random cases for each model")
    reference.add_argument("--seed", type=int, default=1)
    reference.add_argument("--model", default="", help="only models whose name contains this")
    reference.add_argument("--no-grid", action="store_true")
    reference.set_defaults(run=compare_reference)
    arguments = parser.parse_args()
    sys.exit(arguments.run(arguments))


if __name__ == "__main__":
    main()
