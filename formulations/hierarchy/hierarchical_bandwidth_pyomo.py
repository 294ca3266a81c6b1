"""The program of `hierarchical_bandwidth` as a Pyomo model: to be read and compared with, on small instances."""

from __future__ import annotations

from typing import Any

import numpy as np

from formulations.hierarchy.hierarchical_program import BandwidthProgram
from formulations.hierarchy.hierarchical_timeline import Path
from topoopt.core.arrays import Floats


def build_pyomo(data: BandwidthProgram, tangents: list[Floats], paths: list[list[Path]]) -> Any:
    """Rows (1) to (6) in their own units for the given tangents and paths; the fixed cost is left out."""
    import pyomo.environ as pyo

    columns, jobs = range(len(data.names)), range(len(data.timelines))
    groups = [(w, g) for w in jobs for g in range(len(data.timelines[w].groups))]
    model = pyo.ConcreteModel("hierarchical bandwidth")
    model.bandwidth = pyo.Var(columns, bounds=lambda _, j: (float(data.lower[j]), _end(float(data.upper[j]))))
    model.reciprocal = pyo.Var(columns, bounds=(0.0, None))
    model.byte_time = pyo.Var(groups, bounds=(0.0, None))
    model.time = pyo.Var(jobs, bounds=(0.0, None))
    model.path, model.slowest, model.tangent, model.limit = (pyo.ConstraintList() for _ in range(4))
    for w in jobs:
        for path in paths[w]:
            moved = sum(float(size) * model.byte_time[w, g] for g, size in enumerate(path.sizes))
            constant = path.compute_ns * (model.reciprocal[0] if data.ratio else 1.0)
            model.path.add(model.time[w] - moved - constant >= 0.0)
        for g, j in np.argwhere(data.timelines[w].volumes > 0).tolist():
            volume = float(data.timelines[w].volumes[g, j])
            model.slowest.add(model.byte_time[w, g] >= volume * model.reciprocal[j + data.shift])
    for j in columns:
        for point in tangents[j].tolist():
            model.tangent.add(model.reciprocal[j] + model.bandwidth[j] / point**2 >= 2.0 / point)
    for row, low, high in zip(data.rows.tolist(), data.row_lower, data.row_upper, strict=True):
        total = sum(value * model.bandwidth[j] for j, value in enumerate(row))
        model.limit.add(pyo.inequality(_end(float(low)), total, _end(float(high))))
    fleet = sum(float(data.weights[w]) * model.time[w] for w in jobs)
    if data.worst_case:
        model.worst = pyo.Var(bounds=(0.0, None))
        model.worst_time = pyo.Constraint(
            jobs, rule=lambda block, w: block.worst >= float(data.weights[w]) * block.time[w]
        )
        fleet = model.worst
    if data.time_limit_ns is None:
        model.least = pyo.Objective(expr=fleet, sense=pyo.minimize)
        return model
    model.in_time = pyo.Constraint(expr=fleet <= data.time_limit_ns)
    cost = sum(float(price) * model.bandwidth[j] for j, price in enumerate(data.price))
    model.least = pyo.Objective(expr=cost, sense=pyo.minimize)
    return model


def _end(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
