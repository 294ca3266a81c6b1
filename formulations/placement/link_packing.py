"""Rates of pairs of servers split over their physical links.

Link l of a server and link l of another are on the same plane (network, or bridge of the hosts); a pair sends over the
planes both have.

Sets: SERVERS s, t; LINKS l; PAIRS (s, t) with rate[s,t] > 0.
Parameters: rate[s,t], capacity[s,l], Gbit/s.
Variables: share[s,t,l] >= 0, Gbit/s; scale in [0, 1]; used[s,t,l] in {0, 1} (only with `scale` given).
1. carry[s,t]:   sum_l share[s,t,l] = rate[s,t] scale
2. out[s,l]:     sum_t share[s,t,l] <= capacity[s,l]
3. into[t,l]:    sum_s share[s,t,l] <= capacity[t,l]
4. switch[s,t,l]: share[s,t,l] <= min(capacity[s,l], capacity[t,l], rate[s,t]) used[s,t,l]
maximise scale, then with that scale minimise sum used: few pairs on several links.

Size: at most 2 |PAIRS| |LINKS| + 1 columns. If the links of all servers have the same proportions, scale is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Rows
from topoopt.core.arrays import Floats

Share = tuple[int, int, int]


def shares(rate: Floats, capacity: Floats) -> list[Share]:
    """(s, t, l) in the order of the columns: planes that both servers of a sending pair have."""
    return [
        (int(s), int(t), link)
        for s, t in np.argwhere(rate > 0)
        for link in range(capacity.shape[1])
        if min(capacity[s, link], capacity[t, link]) > 0
    ]


def build_arrays(rate: Floats, capacity: Floats, scale: float | None = None) -> LpArrays:
    """The program; columns: share in the order of `shares`, then scale, then used.

    Parameters
    ----------
    rate : float64[servers, servers]; capacity: float64[servers, links], 0 where a server has no such link.
    scale : of the rates, for the second objective; None: the first one.
    """
    rows = Rows()
    table = shares(rate, capacity)
    for share in table:
        rows.column("share", *share)
    rows.column("scale", lower=scale or 0.0, upper=1.0 if scale is None else scale)
    for s, t in np.argwhere(rate > 0).tolist():
        over = [(rows.at("share", *share), 1.0) for share in table if share[:2] == (s, t)]
        rows.row(f"carry_{s}_{t}", 0.0, 0.0, [*over, (rows.at("scale"), -float(rate[s, t]))])
    for name, end in (("out", 0), ("into", 1)):
        for s in range(len(rate)):
            for link in range(capacity.shape[1]):
                over = [(rows.at("share", *share), 1.0) for share in table if (share[end], share[2]) == (s, link)]
                if over:
                    rows.row(f"{name}_{s}_{link}", -np.inf, float(capacity[s, link]), over)
    if scale is not None:
        for s, t, link in table:
            most = float(min(capacity[s, link], capacity[t, link], rate[s, t]))
            rows.column("used", s, t, link, upper=1.0, integer=True)
            terms = [(rows.at("share", s, t, link), 1.0), (rows.at("used", s, t, link), -most)]
            rows.row(f"switch_{s}_{t}_{link}", -np.inf, 0.0, terms)
    if scale is None:
        return rows.program({("scale",): -1.0})
    return rows.program({("used", *share): 1.0 for share in table})


def build_pyomo(rate: Floats, capacity: Floats, scale: float | None = None) -> Any:
    """The same as a Pyomo ConcreteModel, to be read."""
    import pyomo.environ as pyo

    model = pyo.ConcreteModel("link_packing")
    table = shares(rate, capacity)
    pairs = [(int(s), int(t)) for s, t in np.argwhere(rate > 0)]
    model.share = pyo.Var(table, bounds=(0.0, None))
    model.scale = pyo.Var(bounds=(scale or 0.0, 1.0 if scale is None else scale))

    @model.Constraint(pairs)  # type: ignore[untyped-decorator]
    def carry(m: Any, s: int, t: int) -> Any:
        return sum(m.share[share] for share in table if share[:2] == (s, t)) - float(rate[s, t]) * m.scale == 0.0

    for name, end in (("out", 0), ("into", 1)):
        ports = sorted({(share[end], share[2]) for share in table})

        def port(m: Any, s: int, link: int, end: int = end) -> Any:
            return sum(m.share[share] for share in table if (share[end], share[2]) == (s, link)) <= float(
                capacity[s, link]
            )

        model.add_component(name, pyo.Constraint(ports, rule=port))
    if scale is None:
        model.objective = pyo.Objective(expr=-model.scale)
        return model
    model.used = pyo.Var(table, domain=pyo.Binary)

    @model.Constraint(table)  # type: ignore[untyped-decorator]
    def switch(m: Any, s: int, t: int, link: int) -> Any:
        most = float(min(capacity[s, link], capacity[t, link], rate[s, t]))
        return m.share[s, t, link] - most * m.used[s, t, link] <= 0.0

    model.objective = pyo.Objective(expr=sum(model.used[share] for share in table))
    return model
