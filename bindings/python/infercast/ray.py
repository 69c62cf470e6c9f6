"""Sweeps over a Ray cluster (optional: pip install 'infercast[ray]').

    import ray, infercast.ray
    ray.init()
    infercast.ray.sweep(models=["Qwen/Qwen3-32B"], systems=["h200_sxm", "b200_sxm"], workloads=[(4000, 1000), (1000, 200)])

Every node needs infercast and the measured data. Results equal those of infercast.sweep_grid exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infercast import _grid
from infercast._grid import SweepGrid


def _ray():
    try:
        import ray
    except ImportError as error:
        raise ImportError("infercast.ray needs Ray: pip install 'infercast[ray]'") from error
    return ray


def sweep(
    models: str | Iterable[str],
    systems: str | Iterable[str],
    backends: str | Iterable[str] = "trtllm",
    workloads: Iterable[tuple[int, int] | Mapping] = ((4000, 1000),),
    *,
    num_cpus: float = 1,
    **settings,
) -> SweepGrid:
    """infercast.sweep_grid with one Ray task for each cell of the grid.

    num_cpus: processors that Ray reserves for a task. Ray is started with its defaults where it has not been. The rows keep the
    order of the grid, whatever the order in which tasks finish. ImportError when Ray is not installed.
    """
    ray = _ray()
    if not ray.is_initialized():
        ray.init()
    task = ray.remote(num_cpus=num_cpus)(_grid.run)
    cells = _grid.cells(models, systems, backends, workloads, settings)
    return _grid.collect(ray.get([task.remote(cell) for cell in cells]))
