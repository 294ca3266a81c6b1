"""The program of `step_schedule` as a Pyomo model, to be read and to be compared with; small instances only."""

from __future__ import annotations

from typing import Any

import numpy as np

from formulations.collective.pyomo_parts import network_model
from topoopt.core.arrays import Floats, Ints
from topoopt.core.rated_network import RatedNetwork


def build_pyomo(network: RatedNetwork, owners: Ints, rate: Floats, steps: int, *, multicast: bool = False) -> Any:
    """Build the model; arguments as of the array builder."""
    import pyomo.environ as pyo

    model, arcs, ranks = network_model(network)
    switches = np.flatnonzero(network.is_switch).tolist()
    chunks, times = range(len(owners)), range(steps)
    speed = dict(zip(arcs, rate.tolist(), strict=True))
    most = {arc: len(ranks) - 1 if arc[1] in switches and not multicast else 1 for arc in arcs}

    def known(_: Any, c: int, v: int, t: int) -> tuple[float, float]:
        has = v == owners[c] or (t == steps and v in ranks)
        return float(has), float(has or (t > 0 and v in ranks))

    model.sent = pyo.Var(
        chunks, arcs, times, domain=pyo.Integers, bounds=lambda _, c, i, j, t: (0.0, float(most[i, j]))
    )
    model.has = pyo.Var(chunks, range(network.nodes), range(steps + 1), domain=pyo.Integers, bounds=known)
    model.busiest = pyo.Var(times, domain=pyo.NonNegativeReals)

    @model.Constraint(arcs, times)  # type: ignore[untyped-decorator]
    def full(block: Any, i: int, j: int, t: int) -> Any:
        return sum(block.sent[c, i, j, t] for c in chunks) - speed[i, j] * block.busiest[t] <= 0.0

    @model.Constraint(chunks, [arc for arc in arcs if arc[0] in ranks], times)  # type: ignore[untyped-decorator]
    def there(block: Any, c: int, i: int, j: int, t: int) -> Any:
        return block.sent[c, i, j, t] - most[i, j] * block.has[c, i, t] <= 0.0

    @model.Constraint(chunks, range(network.nodes), times)  # type: ignore[untyped-decorator]
    def gain(block: Any, c: int, v: int, t: int) -> Any:
        come = sum(block.sent[c, i, j, t] for i, j in arcs if j == v)
        return block.has[c, v, t + 1] - block.has[c, v, t] - come <= 0.0

    def come(block: Any, c: int, w: int, t: int) -> Any:
        return sum(block.sent[c, i, j, t] for i, j in arcs if j == w)

    def passed(block: Any, c: int, w: int, t: int) -> Any:
        return sum(block.sent[c, i, j, t] for i, j in arcs if i == w) - come(block, c, w, t) == 0.0

    def copied(block: Any, c: int, w: int, j: int, t: int) -> Any:
        return block.sent[c, w, j, t] - come(block, c, w, t) <= 0.0

    if multicast:
        model.copy_rows = pyo.Constraint(chunks, [arc for arc in arcs if arc[0] in switches], times, rule=copied)
    else:
        model.pass_rows = pyo.Constraint(chunks, switches, times, rule=passed)
    model.least = pyo.Objective(expr=sum(model.busiest[t] for t in times), sense=pyo.minimize)
    return model
