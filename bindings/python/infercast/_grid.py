"""Sweeps over grids of models, systems, backends and workloads: cells, their results, one table."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from infercast import _core, _records
from infercast.errors import InfercastError

AXES = ("model", "system", "backend", "isl", "osl")


@dataclass(frozen=True)
class SweepGrid:
    """The rows of all cells, in the order of the grid, and the cells that failed.

    rows: flat dicts; the first columns (model, system, backend, isl, osl) tell the cell as it was asked for.
    errors: dicts with those columns and `kind` and `message`.
    """

    rows: list[dict]
    errors: list[dict]

    def to_pandas(self):
        """The rows as a DataFrame. Needs pandas."""
        return _records._pandas().DataFrame(self.rows)


def cells(models, systems, backends, workloads, settings: Mapping) -> list[dict]:
    """The settings of each cell. A workload is (isl, osl) or a mapping of settings."""
    out = []
    for model, system, backend, workload in itertools.product(_list(models), _list(systems), _list(backends), list(workloads)):
        if not isinstance(workload, Mapping):
            isl, osl = workload
            workload = {"isl": isl, "osl": osl}
        out.append({**settings, "model": model, "system": system, "backend": backend, **workload})
    return out


def run(cell: dict) -> tuple[list[dict], dict | None]:
    """Rows of one cell, or its error."""
    label = {axis: cell.get(axis) for axis in AXES}
    try:
        found = _core.sweep(**cell)
    except InfercastError as error:
        return [], {**label, "kind": error.kind, "message": str(error)}
    rows = []
    for row in _records.search_rows(found):
        rows.append({**label, **{k: v for k, v in row.items() if k not in label}})
    return rows, None


def collect(results: Iterable[tuple[list[dict], dict | None]]) -> SweepGrid:
    rows: list[dict] = []
    errors: list[dict] = []
    for found, error in results:
        rows.extend(found)
        if error is not None:
            errors.append(error)
    return SweepGrid(rows, errors)


def _list(value) -> list:
    return [value] if value is None or isinstance(value, str) else list(value)
