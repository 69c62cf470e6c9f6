#!/usr/bin/env python3
"""Scores the reference package's estimates on the measured points that `infercast validate` scores.

Needs a Python environment with the package aiconfigurator 0.12.0 (outside this tree):

    infercast validate --measured points.csv --json > ours.json
    python tools/score_reference.py --measured points.csv --validated ours.json [--every 8] [--output table.csv]

Every N-th scored row (aggregated, each measurement once) goes to the reference's `cli_estimate` with the row's own columns. Its
version is left to the reference where it does not know the row's. Prints how many it answered, and the errors of its answers and of
Infercast's on the same rows. With --output, rows that the file already holds are not asked again.
"""

import argparse
import csv
import json
import logging
import os
import statistics
import sys
import warnings

SIZES = {"isl": "isl", "osl": "osl", "batch_size": "batch_size", "tp_size": "tp_size", "pp_size": "pp_size",
         "attention_dp_size": "attention_dp_size", "moe_tp_size": "moe_tp_size", "moe_ep_size": "moe_ep_size"}
# What the reference would download (some only with an account): the bundled configuration of the same sizes.
SAME_SIZES = {"meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
              "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
              "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
              "nvidia/DeepSeek-R1-NVFP4": "nvidia/DeepSeek-V3.1-NVFP4",
              "zhipuai/GLM-5": "zai-org/GLM-5"}
FORMATS = ["gemm_quant_mode", "moe_quant_mode"]


def ask(estimate, row):
    """(TTFT, TPOT, '') in milliseconds, or (None, None, why)."""
    given = {name: int(float(row[column])) for column, name in SIZES.items() if row.get(column)}
    given |= {name: row[name] for name in FORMATS if row.get(name)}
    model = SAME_SIZES.get(row["model_path"], row["model_path"])
    why = ""
    for version in ([row["backend_version"]] if row.get("backend_version") else []) + [None]:
        try:
            answer = estimate(model, row["system"], backend_name=row["backend"],
                              backend_version=version, **given)
            return answer.ttft, answer.tpot, ""
        except (Exception, SystemExit) as error:  # any failure is an answer here
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return None, None, why


def errors(pairs):
    apes = [abs(predicted / measured - 1) * 100 for predicted, measured in pairs]
    return f"mean {statistics.mean(apes):.1f} %, median {statistics.median(apes):.1f} %" if apes else "none"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measured", required=True, help="CSV of measured points")
    parser.add_argument("--validated", required=True, help="what `infercast validate --json` made of it")
    parser.add_argument("--every", type=int, default=8, help="take every N-th scored row")
    parser.add_argument("--output", help="CSV of the answers; asked rows are kept")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")

    with open(options.measured, newline="", encoding="utf-8") as text:
        rows = {row["id"]: row for row in csv.DictReader(text)}
    with open(options.validated, encoding="utf-8") as text:
        points = [p for p in json.load(text)["points"]
                  if p["status"] == "answered" and not p.get("copy") and not p.get("hidden_speculation")
                  and rows[p["id"]]["mode"] == "agg"][::options.every]
    known = {}
    if options.output and os.path.exists(options.output):
        with open(options.output, newline="", encoding="utf-8") as table:
            known = {r["id"]: r for r in csv.DictReader(table)}

    from aiconfigurator.cli.api import cli_estimate

    header = ["id", "ttft_ms", "tpot_ms", "why"]
    for point in points:
        if point["id"] in known:
            continue
        ttft, tpot, why = ask(cli_estimate, rows[point["id"]])
        known[point["id"]] = {"id": point["id"], "ttft_ms": ttft or "", "tpot_ms": tpot or "", "why": why}
        if options.output:
            new = not os.path.exists(options.output)
            with open(options.output, "a", newline="", encoding="utf-8") as table:
                writer = csv.DictWriter(table, header)
                if new:
                    writer.writeheader()
                writer.writerow(known[point["id"]])
        print(point["id"], ttft, tpot, why, file=sys.stderr, flush=True)

    answered = [p for p in points if known[p["id"]]["ttft_ms"] != ""]
    print(f"{len(points)} rows, the reference answered {len(answered)} ({100 * len(answered) / len(points):.0f} %)")
    for name in ("ttft", "tpot"):
        measured = f"measured_{name}_ms"
        print(name.upper(), "reference:", errors([(float(known[p["id"]][f"{name}_ms"]), p[measured]) for p in answered]))
        print(name.upper(), "infercast, the same rows:", errors([(p[f"{name}_ms"], p[measured]) for p in answered]))
        print(name.upper(), "infercast, all of the sample:", errors([(p[f"{name}_ms"], p[measured]) for p in points]))


if __name__ == "__main__":
    main()
