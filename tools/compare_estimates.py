#!/usr/bin/env python3
"""Compares `infercast estimate` with the reference package, configuration by configuration.

Needs a Python environment with the packages aiconfigurator and aiconfigurator-core 0.12.0 (outside this tree), and a built
infercast program:

    python tools/compare_estimates.py --infercast ./infercast [--relative 1e-9] [--output table.csv]

With --output, configurations that the file already holds are not asked again: an interrupted run goes on where it was.
Every model is asked on every system with every backend at tensor parallelism 1 and 8, aggregated serving, one batch. Both
sides must give the same figures, or both must say that the model does not fit or was not measured.
"""

import argparse
import csv
import itertools
import json
import logging
import os
import subprocess
import sys

MODELS = ["Qwen/Qwen3-32B", "meta-llama/Meta-Llama-3.1-70B", "Qwen/Qwen3-8B"]
SYSTEMS = ["h100_sxm", "h200_sxm", "b200_sxm", "l40s"]
BACKENDS = ["trtllm", "vllm", "sglang"]
TENSOR_PARALLEL = [1, 8]
WORKLOAD = {"isl": 4000, "osl": 500, "batch": 16}


def ours(program, model, system, backend, tp):
    """(figures, None) or (None, kind of the error)."""
    command = [program, "estimate", "--model", model, "--system", system, "--backend", backend,
               "--tp-size", str(tp), "--isl", str(WORKLOAD["isl"]), "--osl", str(WORKLOAD["osl"]),
               "--batch-size", str(WORKLOAD["batch"]), "--behaviour", "reference", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    answer = json.loads(done.stdout)
    if "error" in answer:
        return None, answer["error"]["kind"]
    figures = answer["figures"]
    return (figures["ttft_ms"], figures["tpot_ms"], figures["tokens_per_s"],
            answer["memory_gib"]["total"]), None


def theirs(estimate, model, system, backend, tp):
    """(figures, None) or (None, text of the error)."""
    try:
        answer = estimate(model, system, backend_name=backend, isl=WORKLOAD["isl"],
                          osl=WORKLOAD["osl"], batch_size=WORKLOAD["batch"], tp_size=tp)
    except Exception as error:  # any failure is an answer here
        return None, f"{type(error).__name__}: {error}"
    return (answer.ttft, answer.tpot, answer.raw["tokens/s"], answer.raw["memory"]), None


def largest_difference(a, b):
    return max((abs(x - y) / abs(y) if y else abs(x)) for x, y in zip(a, b))


def same_error(kind, text):
    """Whether both errors mean the same: no room, no data, or a wrong configuration."""
    words = {"does_not_fit": ["OOM"],
             "perf_database": ["PerfDataNotAvailable", "No database"],
             "missing_system_flops": ["MissingSystemFlops"],
             "unknown_name": ["No database", "ValueError"],
             "invalid_argument": ["AssertionError", "ValueError"]}
    return any(word in text for word in words.get(kind, []))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--infercast", required=True, help="the program")
    parser.add_argument("--relative", type=float, default=1e-9)
    parser.add_argument("--output", help="CSV of all configurations; asked ones are kept")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    from aiconfigurator.cli.api import cli_estimate

    header = ["model", "system", "backend", "tp", "verdict", "difference", "ours", "reference"]
    rows = []
    if options.output and os.path.exists(options.output):
        with open(options.output, newline="", encoding="utf-8") as table:
            rows = list(csv.reader(table))[1:]
    elif options.output:
        with open(options.output, "w", newline="", encoding="utf-8") as table:
            csv.writer(table).writerow(header)
    known = {tuple(row[:4]) for row in rows}
    for model, system, backend, tp in itertools.product(MODELS, SYSTEMS, BACKENDS, TENSOR_PARALLEL):
        if (model, system, backend, str(tp)) in known:
            continue
        a, our_error = ours(options.infercast, model, system, backend, tp)
        b, their_error = theirs(cli_estimate, model, system, backend, tp)
        if a and b:
            difference = largest_difference(a, b)
            verdict = "same" if difference <= options.relative else "DIFFERENT"
        elif a or b:
            difference, verdict = "", "DIFFERENT"
        else:
            difference, verdict = "", "same error" if same_error(our_error, their_error) else "DIFFERENT"
        rows.append([model, system, backend, tp, verdict, difference, a or our_error, b or their_error])
        print(*rows[-1][:6], "" if verdict.startswith("same") else rows[-1][6:], flush=True)
        if options.output:
            with open(options.output, "a", newline="", encoding="utf-8") as table:
                csv.writer(table).writerow(rows[-1])
    wrong = sum(row[4] == "DIFFERENT" for row in rows)
    print(f"{len(rows)} configurations, {len(rows) - wrong} agree, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
