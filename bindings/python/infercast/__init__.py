"""Infercast: forecasts how fast a large language model will be served, without a GPU.

    engine = infercast.Engine.compile(model="Qwen/Qwen3-32B", system="h200_sxm", tp_size=2)
    engine.decode(32, 4096)      # milliseconds
    infercast.sweep(model="Qwen/Qwen3-32B", system="h200_sxm", total_gpus=8).to_pandas()

Units everywhere: milliseconds, tokens, GiB = 2**30 bytes, watts. Settings have the names of the command line's long options
with underscores; None means the default. Errors are subclasses of infercast.InfercastError, one for each kind.
"""

from infercast._api import estimate, recommend, sweep, sweep_grid
from infercast._core import (
    Distribution,
    Engine,
    EngineSpec,
    FirstTokenParts,
    Forecast,
    FormulaFigures,
    ForwardPassMetrics,
    Interval,
    MemoryEstimate,
    MixedCost,
    NumberFormats,
    OnlineDiagnostics,
    OnlineModel,
    OperatorCost,
    Parallelism,
    PhaseCost,
    SearchExperiment,
    SearchResult,
    ServingForecast,
    StaticCost,
    StepCost,
    WorkerForecast,
    models,
    option_names,
    parse_metrics,
    systems,
    versions,
)
from infercast._core import version as _version
from infercast._grid import SweepGrid
from infercast.errors import InfercastError

__version__ = _version()

__all__ = [
    "Distribution",
    "Engine",
    "EngineSpec",
    "FirstTokenParts",
    "Forecast",
    "FormulaFigures",
    "ForwardPassMetrics",
    "InfercastError",
    "Interval",
    "MemoryEstimate",
    "MixedCost",
    "NumberFormats",
    "OnlineDiagnostics",
    "OnlineModel",
    "OperatorCost",
    "Parallelism",
    "PhaseCost",
    "SearchExperiment",
    "SearchResult",
    "ServingForecast",
    "StaticCost",
    "StepCost",
    "SweepGrid",
    "WorkerForecast",
    "estimate",
    "models",
    "option_names",
    "parse_metrics",
    "recommend",
    "sweep",
    "sweep_grid",
    "systems",
    "versions",
]
