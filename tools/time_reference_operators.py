#!/usr/bin/env python3
"""Times the reference on the queries that bench_operators_benchmark timed, and prints both.

usage: time_reference_operators.py BENCHMARK.json GOLDEN_FOLDER SYSTEMS_FOLDER

BENCHMARK.json is what bench_operators_benchmark wrote with --benchmark_out and aggregates only. The
reference (aiconfigurator-core) has to be installed in the Python that runs this. One call is
`evaluate_ops_json` of one operator on an engine that is loaded and warm: CPU time of the median
of CALLS calls, then the mean over the cases of a benchmark. The call takes the operator as JSON
text, so reading that text is part of it.
"""
import gzip
import json
import pathlib
import statistics
import sys
import time

import aiconfigurator_core as reference

CALLS = 200
WARM_UP = 20
CLASSES = ("on_grid", "interpolated", "held", "empirical", "formula")


def load_cases(root, kind):
    with gzip.open(root / "ops" / f"{kind}.jsonl.gz", "rt") as lines:
        return {case["id"]: case for case in map(json.loads, lines)}


def engine_template(root):
    with gzip.open(root / "fixtures" / "toy_engine.jsonl.gz", "rt") as lines:
        spec = json.loads(next(lines))["spec"]
    spec["context_ops"], spec["generation_ops"] = [], []
    spec["engine"].pop("forward_model", None)
    return spec


class Reference:
    def __init__(self, root, systems):
        self.root, self.systems = root, systems
        self.template = json.dumps(engine_template(root))
        self.engines = {}

    def engine(self, case):
        folder = str(self.root / case["systems_root"]) if "systems_root" in case else self.systems
        settings = {
            "system_name": case["system"],
            "backend": case["backend"],
            "backend_version": case["version"],
            "database_mode": case["mode"],
            **case["db"],
        }
        key = json.dumps([folder, settings])
        if key not in self.engines:
            spec = json.loads(self.template)
            spec["engine"].update(settings)
            text = reference.engine_spec_bincode_from_json(json.dumps(spec))
            self.engines[key] = reference.AicEngine.from_spec(text, folder)
        return self.engines[key]

    def nanoseconds(self, case):
        engine, ops, ctx = self.engine(case), json.dumps([case["op"]]), case["ctx"]
        is_context = ctx["phase"] == "context"
        scale = ctx["seq_imbalance_correction_scale" if is_context else "gen_seq_imbalance_correction_scale"]
        arguments = (ops, is_context, ctx["batch_size"], ctx["s"], ctx["prefix"], scale, ctx["num_tokens"])
        for _ in range(WARM_UP):
            engine.evaluate_ops_json(*arguments)
        samples = []
        for _ in range(CALLS):
            start = time.thread_time_ns()
            engine.evaluate_ops_json(*arguments)
            samples.append(time.thread_time_ns() - start)
        return statistics.median(samples)


def main(benchmark, root, systems):
    root = pathlib.Path(root)
    ask = Reference(root, systems)
    table, cases = {}, {}
    for run in json.load(open(benchmark))["benchmarks"]:
        if run.get("aggregate_name", "median") != "median":
            continue
        kind, way = run["run_name"].split("/")[:2]
        if kind not in cases:
            cases[kind] = load_cases(root, kind)
        try:
            theirs = statistics.fmean(ask.nanoseconds(cases[kind][i]) for i in run["label"].split(","))
        except Exception as error:  # the reference refuses: leave its figure out
            print(f"{kind}/{way}: {error}", file=sys.stderr)
            theirs = None
        table.setdefault(kind, {})[way] = (run["cpu_time"], theirs)
    print("| kind |" + "".join(f" {way} |" for way in CLASSES))
    print("|---|" + "---:|" * len(CLASSES))
    for kind, row in sorted(table.items()):
        cells = []
        for way in CLASSES:
            ours, theirs = row.get(way, (None, None))
            if ours is None:
                cells.append("")
            elif theirs is None:
                cells.append(f"{ours:.0f}")
            else:
                cells.append(f"{ours:.0f} / {theirs:.0f} ({theirs / ours:.0f})")
        print(f"| {kind} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(*sys.argv[1:])
