# %% [markdown]
# # The Pareto front of a model on 8 GPUs
#
# Cells are marked with `# %%`: run this file as a script, or cell by cell in an editor that knows them.
# The plot is written to `pareto_front.png`, or to the file named on the command line.

# %%
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import infercast

# %% [markdown]
# What one step costs, and why.

# %%
engine = infercast.Engine.compile(model="Qwen/Qwen3-32B", system="h200_sxm", backend="vllm", tp_size=2)
print(f"decode step of 32 requests: {engine.decode(32, 4096):.2f} ms")
for cost in sorted(engine.explain_decode_step(32, 4096, 512), key=lambda c: -c.latency_ms)[:4]:
    print(f"  {cost.name:28} {cost.latency_ms:8.3f} ms  {cost.origin}")

# %% [markdown]
# Many shapes in one call: decode latency against batch size.

# %%
batches = np.arange(1, 257)
latency = engine.decode_batch(batches, 4096)
print(f"{len(batches)} shapes, {latency[0]:.2f} to {latency[-1]:.2f} ms")

# %% [markdown]
# The search: one experiment for each serving mode.

# %%
result = infercast.sweep(model="Qwen/Qwen3-32B", system="h200_sxm", backend="vllm", total_gpus=8, isl=4000, osl=500)
print(f"best: {result.chosen}")
for row in result.to_rows()[:5]:
    print(f"  {row['experiment']:8} {row['tokens_per_s_per_gpu']:8.1f} tokens/s/GPU at {row['tpot_ms']:.1f} ms per token")

# %%
figure, axes = plt.subplots(figsize=(7, 4.5))
for experiment in result.experiments:
    front = sorted(experiment.front, key=lambda f: f.tokens_per_s_per_user)
    axes.plot(
        [f.tokens_per_s_per_user for f in front],
        [f.tokens_per_s_per_gpu for f in front],
        marker="o",
        label=experiment.name,
    )
axes.set_xlabel("tokens/s per user")
axes.set_ylabel("tokens/s per GPU")
axes.set_title("Qwen3-32B on 8 H200, 4000 tokens in, 500 out")
axes.grid(alpha=0.3)
axes.legend()
target = sys.argv[1] if len(sys.argv) > 1 else "pareto_front.png"
figure.savefig(target, dpi=150, bbox_inches="tight")
print(f"wrote {target}")
