r"""Rates of transfers that share links: one step of lexicographic (max-min fair) allocation, or the largest total.

Decided: the rate of every transfer on each of its routes. Routes are given, so the program is a packing one. Max-min
fairness needs a sequence of these programs: each raises all transfers that can still rise together, and its dual values
name some that cannot (Bertsekas and Gallager, Data Networks, section 6.5; for several routes Pioro and Medhi, Routing,
Flow and Capacity Design, chapter 8).

Sets        TRANSFERS t; ROUTES k, each of one transfer t(k); SHARED r: links, egress and ingress of servers.
Parameters  use[r, k] >= 0: part of route k's traffic that uses r;  capacity[r] > 0, Gbit/s;
            floor[t] >= 0: rate that is kept (guaranteed, or reached before), Gbit/s;  ceiling[t], Gbit/s, or infinite;
            gain[t] >= 0: how fast t rises with the level (0: does not rise);  worth[t] >= 0: of a unit of its rate.
Variables   rate[k] >= 0, Gbit/s;  level >= 0 (only if some gain is above 0).

    maximise    level + sum_t worth[t] sum_{k of t} rate[k]
    (1) fit         sum_k use[r, k] rate[k] <= capacity[r]                              for every r in use
    (2) keep        sum_{k of t} rate[k] - gain[t] level >= floor[t]                    for every t
    (3) limit       sum_{k of t} rate[k] <= ceiling[t]                                  where finite

Uses: max-min fair rates, gain = weight; above guarantees, floor = guarantee; least completion time of transfers that
start together, gain = size, where time = 1 / level; largest weighted total above guarantees, gain = 0 and
worth = weight. Dual: prices of (1) and (3) prove that nothing above is possible, see `PriceCertificate`.

Size: |ROUTES| + 1 columns, |SHARED| + 2 |TRANSFERS| rows at most. Against `path_split` (least largest load of given
demands) the rates are free here; with gain = demand and no limits level = 1 / theta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Families
from topoopt.core.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class BandwidthAllocation:
    """Data of the problem.

    Attributes:
        owner: int64[K], transfer of each route, 0..T-1; every transfer has one route at least.
        shared, route, use: the non-zero use[r, k], equally long arrays, each pair once.
        capacity: float64[R], finite.
        floor, ceiling, gain, worth: float64[T].
        transfer_names, shared_names: for people; None: numbers.
    """

    owner: Ints
    shared: Ints
    route: Ints
    use: Floats
    capacity: Floats
    floor: Floats
    ceiling: Floats
    gain: Floats
    worth: Floats
    transfer_names: tuple[str, ...] | None = None
    shared_names: tuple[str, ...] | None = None

    @property
    def transfers(self) -> int:
        """T."""
        return len(self.floor)

    def limited(self) -> Ints:
        """Transfers with a finite ceiling: rows (3), in this order."""
        return np.flatnonzero(np.isfinite(self.ceiling))

    def rises(self) -> bool:
        """Whether the program has a level."""
        return bool((self.gain > 0).any())


def build_arrays(data: BandwidthAllocation) -> LpArrays:
    """The linear program (minimising the negative); columns rate[k], then level; rows (1), (2), (3)."""
    limited, rising = data.limited(), np.flatnonzero(data.gain > 0)
    made = Families()
    rate = made.columns(len(data.owner), cost=-data.worth[data.owner], names=_rate_names(data))
    level = made.columns(int(data.rises()), cost=-1.0, names=["level"] * data.rises())
    names = _names(data.transfer_names, data.transfers)
    shared = _names(data.shared_names, len(data.capacity))
    fit = made.rows(len(data.capacity), -np.inf, data.capacity, [f"fit_{name}" for name in shared])
    keep = made.rows(data.transfers, data.floor, np.inf, [f"keep_{name}" for name in names])
    limit = np.zeros(data.transfers, dtype=np.int64)
    limit[limited] = made.rows(len(limited), -np.inf, data.ceiling[limited], [f"limit_{names[t]}" for t in limited])
    made.terms(fit[data.shared], rate[data.route], data.use)
    made.terms(keep[data.owner], rate, 1.0)
    made.terms(limit[data.owner], rate, 1.0, where=np.isfinite(data.ceiling)[data.owner])
    if data.rises():
        made.terms(keep[rising], level, -data.gain[rising])
    return made.arrays()


def _names(given: tuple[str, ...] | None, count: int) -> tuple[str, ...]:
    return given if given is not None else tuple(str(i) for i in range(count))


def _rate_names(data: BandwidthAllocation) -> list[str]:
    names = _names(data.transfer_names, data.transfers)
    choice = np.bincount(data.owner, minlength=data.transfers)
    first = np.concatenate(([0], np.cumsum(choice)))
    order = np.argsort(data.owner, kind="stable")
    within = np.empty(len(order), dtype=np.int64)
    within[order] = np.arange(len(order)) - first[data.owner[order]]
    return [
        f"rate_{names[t]}" if choice[t] == 1 else f"rate_{names[t]}_{k}"
        for t, k in zip(data.owner.tolist(), within.tolist(), strict=True)
    ]


def build_pyomo(data: BandwidthAllocation) -> Any:
    """The same as a Pyomo model, to be read and to be compared with; small instances only."""
    import pyomo.environ as pyo

    shares = range(len(data.capacity))
    label = [name.removeprefix("rate_") for name in _rate_names(data)]
    use = {(int(r), label[k]): float(u) for r, k, u in zip(data.shared, data.route, data.use, strict=True)}
    of = {t: [k for k, owner in zip(label, data.owner, strict=True) if owner == t] for t in range(data.transfers)}

    model = pyo.ConcreteModel("bandwidth allocation")
    model.routes = pyo.Set(initialize=label)
    model.shared = pyo.Set(initialize=[r for r in shares if any((r, k) in use for k in label)])
    model.transfers = pyo.Set(initialize=list(of))
    model.limited = pyo.Set(initialize=data.limited().tolist())
    model.rate = pyo.Var(model.routes, bounds=(0.0, None))
    model.level = pyo.Var(bounds=(0.0, None if data.rises() else 0.0))

    def fits(block: Any, r: int) -> Any:
        return sum(use[r, k] * block.rate[k] for k in label if (r, k) in use) <= float(data.capacity[r])

    def kept(block: Any, t: int) -> Any:
        return sum(block.rate[k] for k in of[t]) - float(data.gain[t]) * block.level >= float(data.floor[t])

    def within(block: Any, t: int) -> Any:
        return sum(block.rate[k] for k in of[t]) <= float(data.ceiling[t])

    model.fit = pyo.Constraint(model.shared, rule=fits)
    model.keep = pyo.Constraint(model.transfers, rule=kept)
    model.limit = pyo.Constraint(model.limited, rule=within)
    value = sum(float(data.worth[t]) * model.rate[k] for t in of for k in of[t])
    model.most = pyo.Objective(expr=model.level + value, sense=pyo.maximize)
    return model
