"""Helpers of the compiled module: records as dicts and tables, arrays of shapes."""

from __future__ import annotations

import warnings

import numpy as np


def to_dict(record) -> dict:
    return {name: _plain(getattr(record, name)) for name in type(record).__match_args__}


def _plain(value):
    if hasattr(type(value), "__match_args__"):
        return to_dict(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def represent(record) -> str:
    fields = ", ".join(f"{name}={getattr(record, name)!r}" for name in type(record).__match_args__)
    return f"{type(record).__name__}({fields})"


def shapes(columns) -> tuple:
    """The columns as flat uint32 arrays of one length, and their common shape at the end."""
    arrays = []
    for column in columns:
        array = np.asarray(column)
        if array.dtype.kind not in "ui":
            raise TypeError(f"shapes must be integers, not {array.dtype}")
        if array.dtype != np.uint32:
            if array.size and (array.min() < 0 or array.max() > 0xFFFFFFFF):
                raise ValueError("shapes must lie in 0 to 2**32 - 1")
            array = array.astype(np.uint32)
        arrays.append(array)
    arrays = np.broadcast_arrays(*arrays)
    flat = [np.ascontiguousarray(array).reshape(-1) for array in arrays]
    return (*flat, arrays[0].shape)


def priced(flat, shape, failed: int, message: str):
    if failed:
        warnings.warn(f"{failed} of {flat.size} shapes have no answer, the first because: {message}", RuntimeWarning, stacklevel=3)
    return flat.reshape(shape)


def _pandas():
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas needs pandas: pip install 'infercast[pandas]'") from error
    return pandas


def _flat(prefix: str, record) -> dict:
    row = {}
    for name in type(record).__match_args__:
        value = getattr(record, name)
        if hasattr(type(value), "__match_args__"):
            row.update(_flat(f"{prefix}{name}_", value))
        else:
            row[prefix + name] = value
    return row


def forecast_row(forecast) -> dict:
    """A flat row: the figures, those of the workers, prefixed by their role where there are several kinds, of formula and run."""
    row = {}
    for name in type(forecast).__match_args__:
        if name not in ("workers", "phases", "notes", "formula", "serving"):
            row[name] = getattr(forecast, name)
    for worker in forecast.workers:
        prefix = "" if worker.role == "worker" else worker.role + "_"
        for name in type(worker).__match_args__:
            if name in ("role", "parallelism", "formats"):
                continue
            row[prefix + name] = getattr(worker, name)
        for name in type(worker.formats).__match_args__:
            row[f"{prefix}{name}_format"] = getattr(worker.formats, name)
    row.update(_flat("formula_", forecast.formula))
    if forecast.serving is not None:
        row.update(_flat("serving_", forecast.serving))
    return row


def forecast_frame(forecast):
    return _pandas().DataFrame([forecast_row(forecast)])


def search_rows(result) -> list[dict]:
    rows = []
    chosen = result.best
    others = [e for e in result.experiments if e.name != chosen.name]
    for experiment in [chosen, *others]:
        for rank, forecast in enumerate(experiment.best, start=1):
            rows.append({"experiment": experiment.name, "rank": rank, **forecast_row(forecast)})
    return rows


def search_frame(result):
    return _pandas().DataFrame(search_rows(result))
