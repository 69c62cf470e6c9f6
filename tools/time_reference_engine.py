#!/usr/bin/env python3
"""Times what a user waits for, here and in the reference, in one run, and prints the README's table.

    python tools/time_reference_engine.py --infercast build/release/bin/infercast
        --benchmark build/release/benchmarks/bench_engine_benchmark [--runs 5]

Run it with the Python in which the reference (aiconfigurator and aiconfigurator-core 0.12.0) is installed; both programs
read the same measured data ($INFERCAST_SYSTEMS_PATH names the reference's own). The reference is a black box: its command, and
its public engine class. The case is Qwen3-32B on two h200_sxm under TensorRT-LLM.

- A command: wall time and CPU time of the process, median; both programs take turns.
- Compiling an engine: from a model name to an engine that answers, everything loaded before. CPU time.
- A step: a shape that was not asked before, on a warm engine. CPU time.
"""

import argparse
import json
import logging
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import time

MODEL, SYSTEM, BACKEND, VERSION, TP = "Qwen/Qwen3-32B", "h200_sxm", "trtllm", "1.3.0rc20", 2
ISL, OSL, BATCH = 4000, 500, 16


def timed(command):
    """(wall seconds, CPU seconds) of a process that must succeed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands(program, runs):
    common = ["--isl", str(ISL), "--osl", str(OSL), "--batch-size", str(BATCH), "--tp-size", str(TP), "--backend", BACKEND,
              "--system", SYSTEM]
    ours = [program, "estimate", "--model", MODEL, *common]
    theirs = [str(pathlib.Path(sys.executable).parent / "aiconfigurator"), "cli", "estimate", "--model-path", MODEL, *common]
    samples = {"ours": [], "theirs": []}
    timed(ours)  # fills the caches of files
    timed(theirs)
    for _ in range(runs):
        samples["ours"] += [timed(ours) for _ in range(3)]
        samples["theirs"].append(timed(theirs))
    return {side: [statistics.median(part) for part in zip(*times)] for side, times in samples.items()}


def cpu_nanoseconds(call, calls):
    samples = []
    for _ in range(calls):
        start = time.thread_time_ns()
        call()
        samples.append(time.thread_time_ns() - start)
    return statistics.median(samples)


def reference_engine():
    """Nanoseconds of (compile, decode step, mixed step)."""
    logging.disable(logging.CRITICAL)
    import aiconfigurator_core as core
    from aiconfigurator_core.sdk import config, engine, models

    def compile_engine():
        made = config.ModelConfig(tp_size=TP)
        model = models.get_model(MODEL, made, BACKEND)
        spec = engine.build_engine_spec_json(model, model_path=MODEL, system=SYSTEM, backend=BACKEND, backend_version=VERSION,
                                             kv_block_size=None, systems_path=None, nextn=0, database=None)
        return core.AicEngine.from_spec(core.engine_spec_bincode_from_json(spec), None)

    made, shapes = compile_engine(), random.Random(1)
    decode = lambda: made.decode_step_latency(shapes.randint(1, 256), shapes.randint(1, 8000), 2)
    mixed = lambda: made.mixed_step_latency(shapes.randint(1, 8192), shapes.randint(1, 256), shapes.randint(1, 8000), 1000)
    for step in (decode, mixed):
        cpu_nanoseconds(step, 200)  # tables load at the first questions
    return cpu_nanoseconds(compile_engine, 20), cpu_nanoseconds(decode, 5000), cpu_nanoseconds(mixed, 5000)


def our_engine(benchmark):
    done = subprocess.run([benchmark, "--benchmark_filter=BM_(Compile|DecodeStep|MixedStep)/0", "--benchmark_min_time=0.3",
                           "--benchmark_repetitions=5", "--benchmark_report_aggregates_only=true",
                           "--benchmark_format=json"], capture_output=True, text=True, check=True)
    scale = {"ns": 1, "us": 1e3, "ms": 1e6}
    found = {run["run_name"].split("/")[0]: run["cpu_time"] * scale[run["time_unit"]]
             for run in json.loads(done.stdout)["benchmarks"] if run["aggregate_name"] == "median"}
    return found["BM_Compile"], found["BM_DecodeStep"], found["BM_MixedStep"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--infercast", required=True)
    parser.add_argument("--benchmark", required=True)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    ours, theirs = our_engine(options.benchmark), reference_engine()
    shell = commands(options.infercast, options.runs)
    (wall, cpu), (their_wall, their_cpu) = shell["ours"], shell["theirs"]
    rows = [("`estimate` from the shell, wall time", wall * 1e9, their_wall * 1e9),
            ("`estimate` from the shell, CPU time", cpu * 1e9, their_cpu * 1e9),
            ("compiling an engine", ours[0], theirs[0]),
            ("decode step, shape not asked before", ours[1], theirs[1]),
            ("mixed step, shape not asked before", ours[2], theirs[2])]

    def shown(nanoseconds):
        for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
            if nanoseconds >= size:
                return f"{nanoseconds / size:.3g} {unit}"
        return f"{nanoseconds:.0f} ns"

    print("| | Infercast | reference | ratio |\n|---|---:|---:|---:|")
    for name, mine, other in rows:
        print(f"| {name} | {shown(mine)} | {shown(other)} | {other / mine:.0f} |")
    print(f"\nload average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors", file=sys.stderr)


if __name__ == "__main__":
    main()
