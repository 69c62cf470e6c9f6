"""Run by bridge_test.sh in the reference's environment: writes engine descriptions and what the reference answers for them.

One case for each model of the recorded engine cases (INFERCAST_BRIDGE_MODELS=N: only the first N models). The reference is used
through its public functions alone.
"""

import base64
import gzip
import json
import logging
import os
import pathlib
import sys

from aiconfigurator_core import AicEngine
from aiconfigurator_core.sdk.engine import compile_engine

OPTIONS = (
    "tp_size",
    "pp_size",
    "attention_dp_size",
    "moe_tp_size",
    "moe_ep_size",
    "gemm_quant_mode",
    "moe_quant_mode",
    "kvcache_quant_mode",
    "fmha_quant_mode",
    "comm_quant_mode",
    "nextn",
)
QUESTIONS = {
    "decode": [(1, 128, 2), (32, 2048, 2), (7, 3001, 130)],
    "prefill": [(1, 128, 0), (4, 2048, 512), (2, 5000, 0)],
}


def ask(call, arguments):
    try:
        return call(*arguments)
    except Exception as error:  # what is not measured there must not be measured here either
        return {"error": type(error).__name__}


def main():
    logging.disable(logging.WARNING)
    root = pathlib.Path(__file__).resolve().parents[1]
    limit = int(os.environ.get("INFERCAST_BRIDGE_MODELS", "1000"))
    done = set()
    cases = []
    recorded = [
        json.loads(line) for file in sorted((root / "golden" / "engine").glob("*.jsonl.gz")) for line in gzip.open(file, "rt")
    ]
    # The reference compiles for measured data alone; a model without such a case lends the layout of another one.
    recorded.sort(key=lambda case: case["mode"] != "SILICON" or case["transfer_policy_preset"] is not None)
    for case in recorded:
        if "error" in case or set(case["config"]) - set(OPTIONS) or case["model"] in done or len(done) >= limit:
            continue
        try:
            spec = compile_engine(case["model"], case["system"], case["backend"], case["version"], **case["config"])
            engine = AicEngine.from_spec(spec)
        except Exception as error:
            print(f"{case['id']}: the reference cannot compile it: {error}", file=sys.stderr)
            continue
        done.add(case["model"])
        answers = {
            "decode": [ask(engine.predict_decode_latency, q) for q in QUESTIONS["decode"]],
            "prefill": [ask(engine.predict_prefill_latency, q) for q in QUESTIONS["prefill"]],
        }
        cases.append({"id": case["id"], "model": case["model"], "spec": base64.b64encode(bytes(spec)).decode(), "answers": answers})
    output = pathlib.Path(sys.argv[1]) / "cases.json"
    output.write_text(json.dumps({"questions": QUESTIONS, "cases": cases}))
    missing = {case["model"] for case in recorded} - done
    print(f"{len(cases)} models compiled by the reference; none of: {', '.join(sorted(missing)) or '-'}")


if __name__ == "__main__":
    main()
