"""Forecasts of whole deployments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infercast import _core, _grid
from infercast._core import Forecast, SearchResult


def estimate(
    model: str,
    system: str,
    *,
    backend: str = "trtllm",
    backend_version: str | None = None,
    estimate_mode: str = "agg",
    isl: int = 1024,
    osl: int = 1024,
    prefix: int = 0,
    batch_size: int = 128,
    tp_size: int = 1,
    pp_size: int = 1,
    attention_dp_size: int = 1,
    moe_tp_size: int | None = None,
    moe_ep_size: int | None = None,
    score: str | None = None,
    concurrency: int | None = None,
    rate: float | None = None,
    database_mode: str | None = None,
    behaviour: str = "native",
    **settings,
) -> Forecast:
    """The forecast of one given deployment, with the cost of every operator in `phases`.

    Its figures are those of a benchmark run in virtual time (`serving` has the rest of them), the closed formula's stand in `formula`.

    estimate_mode: "agg" (continuous batching), "disagg" (prefill and decode pools), "static", "static_ctx", "static_gen".
    isl, osl, prefix: input, generated and cached tokens of a request.
    batch_size: requests in flight per data-parallel rank.
    score: "closed-loop" (the default but for behaviour "reference") or "formula": no run, in a fraction of the time.
    concurrency, rate: the load of the run: requests in flight (default: as many as the batches hold), or arrivals per second.
    database_mode: "SILICON" (measurements alone), "HYBRID", "EMPIRICAL" or "SOL"; None: what was not measured is estimated, with a note.
    tp_size and so on: the layout of a worker, tensor parallelism 1 where nothing is given (the program takes the smallest that fits).
    settings: any of infercast.option_names(); of pools prefill_tp_size, prefill_batch_size, prefill_num_workers and so on, by default
    the layout above, one worker each, a prefill batch of 1 and a decode batch of batch_size.

    Raises DoesNotFitError, UnknownNameError, InvalidArgumentError, NotMeasuredError and others of infercast.errors.
    """
    return _core.estimate(
        model=model,
        system=system,
        backend=backend,
        backend_version=backend_version,
        estimate_mode=estimate_mode,
        isl=isl,
        osl=osl,
        prefix=prefix,
        batch_size=batch_size,
        tp_size=tp_size,
        pp_size=pp_size,
        attention_dp_size=attention_dp_size,
        moe_tp_size=moe_tp_size,
        moe_ep_size=moe_ep_size,
        score=score,
        concurrency=concurrency,
        rate=rate,
        database_mode=database_mode,
        behaviour=behaviour,
        **settings,
    )


def sweep(
    model: str,
    system: str,
    *,
    total_gpus: int = 8,
    backend: str | None = "trtllm",
    backend_version: str | None = None,
    isl: int = 4000,
    osl: int = 1000,
    prefix: int = 0,
    ttft: float = 2000.0,
    tpot: float = 30.0,
    modes: Iterable[str] = ("agg", "disagg"),
    top_n: int = 5,
    score: str | None = None,
    database_mode: str = "SILICON",
    behaviour: str = "native",
    **settings,
) -> SearchResult:
    """The best deployments on `total_gpus` GPUs, one experiment for each backend and serving mode.

    backend: "any" or None: every backend that was measured on the system.
    ttft, tpot: targets for the time to first token and per output token (ms).
    score: what is shown is ranked and held against the targets by benchmark runs in virtual time ("closed-loop", the default but for
    behaviour "reference") or by the closed formula alone ("formula").
    settings: any of infercast.option_names().

    Runs on all processors with the GIL released; the answer does not depend on their number.
    """
    return _core.sweep(
        model=model,
        system=system,
        total_gpus=total_gpus,
        backend=backend if backend is not None else "any",
        backend_version=backend_version,
        isl=isl,
        osl=osl,
        prefix=prefix,
        ttft=ttft,
        tpot=tpot,
        modes=list(modes),
        top_n=top_n,
        score=score,
        database_mode=database_mode,
        behaviour=behaviour,
        **settings,
    )


def recommend(
    model: str,
    system: str,
    *,
    request_rate: float | None = None,
    concurrency: float | None = None,
    max_gpus: int | None = None,
    backend: str | None = "trtllm",
    backend_version: str | None = None,
    isl: int = 4000,
    osl: int = 1000,
    prefix: int = 0,
    ttft: float = 2000.0,
    tpot: float = 30.0,
    top_n: int = 5,
    score: str | None = None,
    database_mode: str | None = None,
    behaviour: str = "native",
    **settings,
) -> SearchResult:
    """The fewest GPUs that carry a load: exactly one of request_rate (requests per second) and concurrency (requests in flight).

    database_mode: None is "HYBRID": what was not measured is estimated. The other arguments are those of sweep().
    """
    return _core.recommend(
        model=model,
        system=system,
        request_rate=request_rate,
        concurrency=concurrency,
        max_gpus=max_gpus,
        backend=backend if backend is not None else "any",
        backend_version=backend_version,
        isl=isl,
        osl=osl,
        prefix=prefix,
        ttft=ttft,
        tpot=tpot,
        top_n=top_n,
        score=score,
        database_mode=database_mode,
        behaviour=behaviour,
        **settings,
    )


def sweep_grid(
    models: str | Iterable[str],
    systems: str | Iterable[str],
    backends: str | Iterable[str] = "trtllm",
    workloads: Iterable[tuple[int, int] | Mapping] = ((4000, 1000),),
    **settings,
) -> _grid.SweepGrid:
    """sweep() of every model on every system under every backend for every workload, as one table.

    workloads: pairs (isl, osl), or mappings of settings. settings: as for sweep(). Cells that fail are listed in `errors`.
    infercast.ray.sweep does the same on a Ray cluster.
    """
    return _grid.collect(map(_grid.run, _grid.cells(models, systems, backends, workloads, settings)))
