#!/usr/bin/env python3
"""Compares the engine descriptions that spec_dump builds with those of golden cases or of an installed reference.

  compare_specs.py golden DIR...            engine/*.jsonl.gz of these folders
  compare_specs.py reference [--families F] every bundled model on a grid of backends, systems and layouts
  compare_specs.py reference --cases FILE   the cases of a JSON Lines file (model, system, backend, config)

The reference is used as a black box through its public compile call; run the script with its Python. `spec_dump` is looked
for in build/bin (flag --program). Attention lane orders are compared only with --lanes. Numbers: 1e-9 relative.
"""

import argparse
import collections
import gzip
import json
import math
import pathlib
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
        if not found and "weights" in case and case["weights"]:
            found = same(case["weights"].get("context_ops", answer["weights"]), answer["weights"], False, "weights")
    tally[family, "equal" if found is None else "different"] += 1
    if found:
        print(f"{family}: {name}: {found}"[:500])


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
    parser.add_argument("--lanes", action="store_true", help="compare attention lane orders too")
    commands = parser.add_subparsers(required=True)
    golden = commands.add_parser("golden")
    golden.add_argument("folders", nargs="+")
    golden.set_defaults(run=compare_golden)
    arguments = parser.parse_args()
    sys.exit(arguments.run(arguments))


if __name__ == "__main__":
    main()
