r"""Choice of a split for every operator that makes the longest path of an event graph least (mixed-integer program).

Decided: one split per operator. What a choice costs is given as quantities of single operators or of pairs of operators
joined by an edge (times, bytes over rate), and as laws between events: the head of a law comes no earlier than its tail
plus a constant plus a sum of quantities. The same program serves two models of an iteration, by its data:

* a lower bound on every strategy (`topoopt.verify.job.strategy_laws`): laws that hold on every placement and network;
* a bulk-synchronous estimate to start a search from (`solvers.job.strategy_program`): compute, traffic.

Sets        OPERATORS o; SPLITS[o]; PAIRS e = (u, v), the edges of the workload; EVENTS k = 0..K, LAWS a = (tail, head).
Parameters  w[q, s] value of quantity q of an operator for its split s, w[q, s, t] of one of a pair, ms;
            c[a] constant, n[a, q] coefficients of the laws, ms and 1;  room[o, s] share of all memory.
Variables   z[o, s] in {0, 1}: the split chosen;  p[e, s, t] >= 0: both splits of a pair (linearised product);
            y[q] value of a quantity;  x[k]: time of an event, x[0] = 0, ms (every event is
            the head of some law).

    minimise    x[K]
    (1) choose    sum_s z[o, s] = 1                                            for every operator
    (2) producer  sum_t p[e, s, t] = z[u, s]                                   for every pair, split s of u
    (3) consumer  sum_s p[e, s, t] = z[v, t]                                   for every pair, split t of v
    (4) measure   y[q] = sum_s w[q, s] z[o, s], or sum_st w[q, s, t] p[e, s, t]   for every quantity
    (5) law       x[head] - x[tail] - sum_q n[a, q] y[q] >= c[a]               for every law
    (6) memory    sum_os room[o, s] z[o, s] <= 1                               if memory is limited

For whole z, (2) and (3) leave p[e, s, t] = z[u, s] z[v, t] only. The relaxation (z in [0, 1]) is the local polytope of
the pairwise costs: its duals of (5), a unit flow of events, of (2) and (3), prices of splits at the ends of pairs, and
of (6) are a proof of its value that needs no solver to check (Wainwright and Jordan, 2008, chapter 8; weak duality).

Size: sum S_o + sum_e S_u S_v + |quantities| + K columns, sum_e (S_u + S_v) + |OPERATORS| + |quantities| + |LAWS| rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from formulations.parts.arrays import LpArrays
from formulations.parts.rows import Families
from topoopt.core.arrays import Bools, Floats, Ints

Values = Floats


@dataclass(frozen=True, eq=False)
class Quantity:
    """What a choice costs: float64[splits] of operator `index`, or float64[S_u, S_v] of pair `index`."""

    index: int
    values: Values

    @property
    def of_pair(self) -> bool:
        """Whether it belongs to a pair."""
        return self.values.ndim == 2


@dataclass(frozen=True)
class EventLaw:
    """x[head] >= x[tail] + constant + sum of coefficient * y[quantity]."""

    name: str
    tail: int
    head: int
    constant: float
    terms: tuple[tuple[int, float], ...]


@dataclass(frozen=True, eq=False)
class StrategyChoice:
    """Data of the program.

    Attributes:
        splits: number of splits per operator.
        pairs: (u, v), distinct.
        quantities: see above.
        laws: tails before heads.
        events: K + 1; event 0 is the start, the last one the end.
        room: float64[splits] per operator; None: memory is not limited.
        allowed: bool[splits] per operator, the splits that may be chosen; None: all.
    """

    splits: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    quantities: tuple[Quantity, ...]
    laws: tuple[EventLaw, ...]
    events: int
    room: tuple[Values, ...] | None = None
    allowed: tuple[Bools, ...] | None = None

    @property
    def split_start(self) -> Ints:
        """int64[operators + 1]: columns of z by operator."""
        return _starts(self.splits)

    @property
    def pair_start(self) -> Ints:
        """int64[pairs + 1]: columns of p by pair."""
        first = int(self.split_start[-1])
        return first + _starts([self.splits[u] * self.splits[v] for u, v in self.pairs])

    @property
    def rows_of_pairs(self) -> Ints:
        """int64[pairs + 1]: rows (2), then (3), by pair."""
        return len(self.splits) + _starts([self.splits[u] + self.splits[v] for u, v in self.pairs])


def _starts(lengths: Any) -> Ints:
    starts: Ints = np.concatenate(([0], np.cumsum(np.array(lengths, dtype=np.int64)))).astype(np.int64)
    return starts


def build_arrays(data: StrategyChoice) -> LpArrays:
    """Columns z by operator, p by pair (splits of u first), y, x[1..K]; rows (1), (2, 3) by pair, (4), (5), (6)."""
    split_names, pair_names, row_names = _names(data)
    made = Families()
    # no bounds on times: only then do the duals of (5) conserve their flow
    free = {"lower": -np.inf, "upper": np.inf}
    allowed = 1.0 if data.allowed is None else np.concatenate(data.allowed)
    z = made.columns(len(split_names), upper=allowed, integer=True, names=split_names)
    p = made.columns(len(pair_names), upper=1.0, names=pair_names)
    y = made.columns(len(data.quantities), **free, names=[f"y_{q}" for q in range(len(data.quantities))])
    last = data.events - 1
    x = made.columns(last, **free, cost=np.arange(last) == last - 1, names=[f"x_{k + 1}" for k in range(last)])
    operators = [z[start:end] for start, end in pairwise(data.split_start)]
    pairs = [p[start:end] for start, end in pairwise(data.pair_start - len(z))]
    for choose, own in zip(made.rows(len(operators), 1.0, 1.0, row_names[: len(operators)]), operators, strict=True):
        made.terms(choose, own, 1.0)
    coupled = made.rows(len(row_names) - len(operators), 0.0, 0.0, row_names[len(operators) :])
    at = 0
    for (u, v), both in zip(data.pairs, pairs, strict=True):
        first, second = data.splits[u], data.splits[v]
        producer, consumer = coupled[at : at + first], coupled[at + first : at + first + second]
        at += first + second
        grid = both.reshape(first, second)
        made.terms(producer[:, None], grid, 1.0)
        made.terms(producer, operators[u], -1.0)
        made.terms(consumer, grid, 1.0)
        made.terms(consumer, operators[v], -1.0)
    measures = made.rows(len(y), 0.0, 0.0, [f"measure_{q}" for q in range(len(y))])
    made.terms(measures, y, 1.0)
    for measure, quantity in zip(measures, data.quantities, strict=True):
        made.terms(measure, (pairs if quantity.of_pair else operators)[quantity.index], -quantity.values.ravel())
    constants = [law.constant for law in data.laws]
    laws = made.rows(len(constants), constants, np.inf, [f"law_{a}" for a in range(len(constants))])
    for row, law in zip(laws, data.laws, strict=True):
        ends = [(x[law.head - 1], 1.0)] + ([(x[law.tail - 1], -1.0)] if law.tail > 0 else [])
        made.terms(row, *zip(*ends, *((y[q], -coefficient) for q, coefficient in law.terms), strict=True))
    if data.room is not None:
        made.terms(made.rows(1, -np.inf, 1.0, ["memory"]), z, np.concatenate(data.room))
    return made.arrays()


def _names(data: StrategyChoice) -> tuple[list[str], list[str], list[str]]:
    """Of columns z, of columns p, of rows (1) to (3)."""
    splits = [f"z_{o}_{s}" for o, count in enumerate(data.splits) for s in range(count)]
    rows = [f"choose_{o}" for o in range(len(data.splits))]
    pairs = []
    for e, (u, v) in enumerate(data.pairs):
        pairs += [f"p_{e}_{s}_{t}" for s in range(data.splits[u]) for t in range(data.splits[v])]
        rows += [f"producer_{e}_{s}" for s in range(data.splits[u])]
        rows += [f"consumer_{e}_{t}" for t in range(data.splits[v])]
    return splits, pairs, rows


def chosen_splits(data: StrategyChoice, x: Values) -> tuple[int, ...]:
    """The split of every operator in a solution vector (of the relaxation: the largest share of each)."""
    start = data.split_start
    return tuple(int(np.argmax(x[start[o] : start[o + 1]])) for o in range(len(data.splits)))


def longest_path(data: StrategyChoice, splits: tuple[int, ...]) -> float:
    """x[K] of a choice: the longest path of its event graph, ms."""
    times = [0.0] * data.events
    amount = [
        float(
            quantity.values[tuple(splits[o] for o in data.pairs[quantity.index])]
            if quantity.of_pair
            else quantity.values[splits[quantity.index]]
        )
        for quantity in data.quantities
    ]
    for law in sorted(data.laws, key=lambda law: law.tail):
        cost = law.constant + sum(coefficient * amount[q] for q, coefficient in law.terms)
        times[law.head] = max(times[law.head], times[law.tail] + cost)
    return times[-1]


def build_pyomo(data: StrategyChoice) -> Any:
    """The same as a Pyomo model, to be read and to be compared with."""
    import pyomo.environ as pyo

    splits, pairs = data.splits, data.pairs
    model = pyo.ConcreteModel("strategy_choice")
    model.z = pyo.Var([(o, s) for o, count in enumerate(splits) for s in range(count)], domain=pyo.Binary)
    both = [(e, s, t) for e, (u, v) in enumerate(pairs) for s in range(splits[u]) for t in range(splits[v])]
    model.p = pyo.Var(both, bounds=(0, 1))
    model.y = pyo.Var(range(len(data.quantities)))
    model.x = pyo.Var(range(data.events))
    model.x[0].fix(0.0)
    model.end = pyo.Objective(expr=model.x[data.events - 1], sense=pyo.minimize)
    rule: Callable[..., Any] = pyo.Constraint

    model.choose = rule(range(len(splits)), rule=lambda m, o: sum(m.z[o, s] for s in range(splits[o])) == 1)
    model.producer = rule(
        [(e, s) for e, (u, _) in enumerate(pairs) for s in range(splits[u])],
        rule=lambda m, e, s: sum(m.p[e, s, t] for t in range(splits[pairs[e][1]])) == m.z[pairs[e][0], s],
    )
    model.consumer = rule(
        [(e, t) for e, (_, v) in enumerate(pairs) for t in range(splits[v])],
        rule=lambda m, e, t: sum(m.p[e, s, t] for s in range(splits[pairs[e][0]])) == m.z[pairs[e][1], t],
    )

    def measure(m: Any, q: int) -> Any:
        index, values = data.quantities[q].index, data.quantities[q].values
        if not data.quantities[q].of_pair:
            return m.y[q] == sum(float(values[s]) * m.z[index, s] for s in range(len(values)))
        first, second = values.shape
        return m.y[q] == sum(float(values[s, t]) * m.p[index, s, t] for s in range(first) for t in range(second))

    def law(m: Any, a: int) -> Any:
        this = data.laws[a]
        cost = this.constant + sum(coefficient * m.y[q] for q, coefficient in this.terms)
        return m.x[this.head] - m.x[this.tail] >= cost

    model.measure = rule(range(len(data.quantities)), rule=measure)
    model.law = rule(range(len(data.laws)), rule=law)
    if data.room is not None:
        used = sum(float(data.room[o][s]) * model.z[o, s] for o, count in enumerate(splits) for s in range(count))
        model.memory = rule(expr=used <= 1.0)
    if data.allowed is not None:
        for o, mask in enumerate(data.allowed):
            for s in np.flatnonzero(~mask).tolist():
                model.z[o, s].fix(0)
    return model
