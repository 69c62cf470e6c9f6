#!/usr/bin/env python3
"""Writes docs/tour.md: what a new user types, and what the program answers.

    tools/make_tour.py PROGRAM            writes docs/tour.md
    tools/make_tour.py PROGRAM --check    compares instead; differences are shown, exit code 1

Every command of the tour really runs, in an empty folder, against the measured data that PROGRAM finds. The
text between commands is in this script.
"""

import argparse
import difflib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOUR = ROOT / "docs" / "tour.md"

# A model that no list knows: a small decoder of its own sizes.
OWN_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 64000,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
}

LLAMA = "meta-llama/Meta-Llama-3.1-70B"

# Text, or a command (a list: words and the exit code that is expected).
STEPS = [
    "# A tour\n\nMade by `tools/make_tour.py`, which runs every command below; a test runs it again.\n\n"
    "Infercast forecasts how fast a large language model will be served, without a GPU. `--help` lists what it can do:",
    (["--help"], 0),
    "## A first forecast\n\nA model and a GPU type are enough. The rest has defaults, which the answer names.",
    (["estimate", "--model", "Qwen/Qwen3-32B-FP8", "--system", "h200_sxm", "--isl", "4000", "--osl", "1000",
      "--batch-size", "32"], 0),
    "## Which GPU should I buy?\n\nSeveral systems and all backends in one run, with what a GPU hour costs me. Costs are per million "
    "tokens and per request, at the forecast rate.",
    (["sweep", "--model", LLAMA, "--system", "h100_sxm,h200_sxm,b200_sxm", "--backend", "auto", "--gpus", "16",
      "--isl", "3000", "--osl", "500", "--ttft", "2000", "--tpot", "40",
      "--gpu-hour-price", "h100_sxm=2.5,h200_sxm=3.2,b200_sxm=4.8"], 0),
    "## The best ways on one of them, as a plot\n\n`--html page.html` writes the same as an interactive page.",
    (["sweep", "--model", LLAMA, "--system", "h200_sxm", "--backend", "vllm", "--gpus", "16", "--isl", "3000",
      "--osl", "500", "--ttft", "2000", "--tpot", "40", "--top-n", "2", "--plot", "--html", "page.html"], 0),
    "## How few GPUs serve 20 requests per second?",
    (["recommend", "--model", LLAMA, "--system", "h200_sxm", "--backend", "vllm", "--isl", "3000", "--osl", "500",
      "--ttft", "2000", "--tpot", "40", "--target-request-rate", "20", "--top-n", "2"], 0),
    "## Why is this configuration slow?\n\n`--detail` tells where the time of a step goes.",
    (["estimate", "--model", LLAMA, "--system", "h100_sxm", "--backend", "vllm", "--tp-size", "8", "--batch-size",
      "16", "--isl", "3000", "--osl", "500", "--detail"], 0),
    "## One deployment for several kinds of requests",
    (["sweep", "--model", "Qwen/Qwen3-32B-FP8", "--system", "h200_sxm", "--gpus", "8", "--workload",
      "chat=3,rag=1", "--ttft", "3000", "--tpot", "40", "--top-n", "2"], 0),
    "## A model that is not bundled\n\nA folder with the model's `config.json`, as it comes from a model hub, is a model too:\n\n"
    "```json\n" + json.dumps(OWN_MODEL, indent=2) + "\n```",
    (["estimate", "--model", "my-model", "--system", "h100_sxm", "--batch-size", "64"], 0),
    "## What can be answered at all?",
    (["support", "--model", "Qwen/Qwen3-32B-FP8", "--system", "a100_sxm,h200_sxm"], 0),
    "## Five typical mistakes\n\nErrors say what to do next. A mistyped system:",
    (["estimate", "--model", LLAMA, "--system", "h100_smx"], 4),
    "A mistyped model:",
    (["estimate", "--model", "Qwen3-32B-FP", "--system", "h100_sxm"], 4),
    "An option that does not exist:",
    (["estimate", "--model", LLAMA, "--system", "h100_sxm", "--batchsize", "8"], 2),
    "Too little memory:",
    (["estimate", "--model", LLAMA, "--system", "h100_sxm", "--tp-size", "1", "--batch-size", "8"], 5),
    "Targets that nothing meets:",
    (["sweep", "--model", LLAMA, "--system", "h100_sxm", "--gpus", "8", "--ttft", "5", "--tpot", "30"], 1),
]


def quoted(words):
    plain = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:+")
    return " ".join(w if w and set(w) <= plain else "'" + w.replace("'", "'\\''") + "'" for w in words)


def run(program, words, folder):
    environment = {k: v for k, v in os.environ.items() if k in ("HOME", "PATH", "XDG_CACHE_HOME",
                                                                "INFERCAST_SYSTEMS_PATH", "INFERCAST_CACHE_DIR",
                                                                "LD_LIBRARY_PATH", "ASAN_OPTIONS")}
    environment.update(LC_ALL="C.UTF-8", NO_COLOR="1", COLUMNS="100")
    done = subprocess.run([program, *words], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def make(program):
    parts, mistakes = [], []
    with tempfile.TemporaryDirectory() as folder:
        own = pathlib.Path(folder) / "my-model"
        own.mkdir()
        (own / "config.json").write_text(json.dumps(OWN_MODEL))
        for step in STEPS:
            if isinstance(step, str):
                parts.append(step)
                continue
            words, expected = step
            code, output = run(program, words, folder)
            output = "\n".join(line.rstrip() for line in output.replace(folder, ".").splitlines())
            if code != expected:
                mistakes.append(f"`infercast {quoted(words)}` ended with {code}, not {expected}:\n{output}")
            tail = f"\n(exit code {code})" if code else ""
            parts.append(f"```console\n$ infercast {quoted(words)}\n{output}{tail}\n```")
    return "\n\n".join(parts) + "\n", mistakes


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program", type=pathlib.Path)
    arguments.add_argument("--check", action="store_true")
    options = arguments.parse_args()
    text, mistakes = make(options.program.resolve())
    for mistake in mistakes:
        print(mistake, file=sys.stderr)
    if not options.check:
        TOUR.write_text(text, encoding="utf-8")
        return 1 if mistakes else 0
    kept = TOUR.read_text(encoding="utf-8")
    sys.stderr.writelines(difflib.unified_diff(kept.splitlines(True), text.splitlines(True), "docs/tour.md", "now"))
    return 1 if mistakes or kept != text else 0


if __name__ == "__main__":
    sys.exit(main())
