"""Run by ray_test.sh."""

import ray

import infercast
import infercast.ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
grid = {
    "models": ["Qwen/Qwen3-32B", "no-such-model"],
    "systems": ["h200_sxm", "b200_sxm"],
    "workloads": [(4000, 500), (1000, 100)],
    "total_gpus": 8,
    "modes": ["agg"],
}
local = infercast.sweep_grid(**grid)
remote = infercast.ray.sweep(**grid)
ray.shutdown()
assert len(local.rows) > 4, local.rows
assert len(local.errors) == 4, local.errors
assert all(e["kind"] == "unknown_name" for e in local.errors), local.errors
assert remote.rows == local.rows
assert remote.errors == local.errors
print(f"{len(remote.rows)} rows, equal to the local sweep")
