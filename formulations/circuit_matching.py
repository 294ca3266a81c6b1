r"""Circuits of an optical switch for one all-to-all, the rest over electrical interfaces, least time.

Which pairs of servers have how many circuits is decided together with the time by which all is carried. The number of
circuits of a pair is chosen from a list, so that the product of circuits and time is linear. A pair with circuits uses
these alone; with splitting, circuits carry what they can and electrical interfaces the rest. The electrical network
behind the interfaces is never full.

Reference: the problem of Liao et al., MixNet, SIGCOMM 2025 (arXiv:2501.03905), who deal circuits out greedily.

Sets: SERVERS i; PAIRS p = (i, j), i < j, that send; DIRECTIONS (i, j) and (j, i) of each; COUNTS k = 0..min(ports).
Parameters: demand[i,j], bytes; circuit, bytes a second of one; electrical, bytes a second of the interfaces of a
    server; ports[i]; split.
Variables: time >= 0; count[p,k] in {0,1}, whether p has k circuits; carried[i,j,k] >= 0, bytes over k circuits.
minimise time
1. one[p]:          sum_k count[p,k] = 1
2. ports[i]:        sum_{p at i} sum_k k count[p,k] <= ports[i]
3. chosen[i,j,k]:   carried[i,j,k] <= demand[i,j] count[p,k], with equality without splitting, k >= 1
4. served[i,j,k]:   carried[i,j,k] <= circuit k time, k >= 1
5. leaving[i]:      sum_j (demand[i,j] - sum_k carried[i,j,k]) <= electrical time
6. reaching[j]:     sum_i (demand[i,j] - sum_k carried[i,j,k]) <= electrical time

Size: P K binaries, 2 P K other columns; 4 P K rows.
Relation: the method `matching` looks for circuits at a fixed time, where far fewer columns are left, and proves that no
    circuits are done before; this program is its reference.

configurations
--------------
Durations of configurations of parallel optical switches, and which of all configurations are used.

With permutations $P_k$ on switches $h_k$ given, the least makespan is a linear program:

$$
\min T \quad \text{s.t.} \quad \sum_k a_k P_k \ge D, \qquad
\sum_{k : h_k = h} (\delta + a_k) \le T \;\; \forall h, \qquad a \ge 0 .
$$

For few servers all permutations stand on all switches, and $z_k \in \{0, 1\}$ says which are used:
$a_k \le A_k z_k$, and a switch takes $\sum_k (\delta z_k + a_k)$. Each pair needs a configuration besides,
$\sum_k P_k z_k \ge [D > 0]$. Every pair has slacks of great cost, so that each case has multipliers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from formulations.programs import Families, LpArrays, Rows
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.regional_circuits import RegionalCircuitsProblem

TIE = 1e-6
"""Cost of a unit of duration beside the makespan: durations are no longer than they need to be."""

SLACK = 1e3
"""Cost of a pair that is not served, in makespans over its demand."""


def duration_arrays(demand: Floats, delay: float, switches: int, switch: Ints, targets: Ints) -> LpArrays:
    """Return the program of durations, whose columns are these and the makespan.

    Args:
        demand: float64[n, n].
        delay: in the unit of the demand, as all durations are.
        switches: s.
        switch: int64[K], of each configuration.
        targets: int64[K, n], of each configuration the server that each server sends to.
    """
    program = Families()
    count, servers = targets.shape
    duration = program.columns(count, cost=TIE)
    makespan = program.columns(1, cost=1.0)
    sent = demand > 0
    rows = np.full(demand.shape, -1)
    rows[sent] = program.rows(int(sent.sum()), demand[sent], np.inf)
    served = rows[np.arange(servers), targets]
    program.terms(served, duration[:, None], 1.0, served >= 0)
    loads = program.rows(switches, -np.inf, -delay * np.bincount(switch, minlength=switches))
    program.terms(loads[switch], duration, 1.0)
    program.terms(loads, makespan[0], -1.0)
    return program.arrays()


def all_targets(demand: Floats) -> Ints:
    """Return int64[P, n], the permutations that serve a pair; the first of those that serve the same pairs."""
    rows: dict[tuple[bool, ...], tuple[int, ...]] = {}
    servers = np.arange(len(demand))
    for targets in permutations(range(len(demand))):
        serves = np.zeros(demand.shape, dtype=bool)
        serves[servers, targets] = demand[servers, targets] > 0
        if serves.any():
            rows.setdefault(tuple(serves.ravel().tolist()), targets)
    return np.array([*rows.values()], dtype=np.int64)


def configuration_arrays(demand: Floats, delay: float, switches: int, target: float, *, integral: bool) -> LpArrays:
    """Return the program of all configurations of few servers.

    Columns are the makespan, durations and uses of all permutations by switch, and slacks of lengths and counts. Rows
    are the lengths and the counts of all pairs, the loads of all switches, and the limits of durations.

    Args:
        demand, delay, switches: as above.
        target: a makespan that plans which matter do not exceed.
        integral: whether uses are whole.
    """
    program = Families()
    permutation = all_targets(demand)
    sent = demand > 0
    pairs, count = int(sent.sum()), len(permutation)
    amounts = demand[sent]
    makespan = program.columns(1, cost=1.0)
    duration = program.columns((switches, count))
    used = program.columns((switches, count), upper=1.0, integer=integral)
    slack = SLACK * target / float(amounts.min())
    short, absent = program.columns(pairs, cost=slack), program.columns(pairs, cost=slack, upper=1.0)
    index = np.full(demand.shape, -1)
    index[sent] = np.arange(pairs)
    served = index[np.arange(len(demand)), permutation]  # [permutation, server]
    length, counted = program.rows(pairs, amounts, np.inf), program.rows(pairs, 1.0, np.inf)
    for rows, columns, slacks in ((length, duration, short), (counted, used, absent)):
        program.terms(rows[served], columns[:, :, None], 1.0, served >= 0)
        program.terms(rows, slacks, 1.0)
    loads = program.rows(switches, 0.0, np.inf)
    program.terms(loads, makespan[0], 1.0)
    program.terms(loads[:, None], duration, -1.0)
    program.terms(loads[:, None], used, -delay)
    longest = np.where(served >= 0, demand[np.arange(len(demand)), permutation], 0.0).max(axis=1)
    limits = program.rows((switches, count), 0.0, np.inf)
    program.terms(limits, duration, -1.0)
    program.terms(limits, used, np.minimum(longest, max(target - delay, 0.0)))
    return program.arrays()


INF = float("inf")
Pair = tuple[int, int]


@dataclass(frozen=True)
class CircuitMatching:
    """Data of the program.

    Attributes:
        demand: bytes by direction (i, j), those above 0.
        ports: of each server.
        circuit, electrical: bytes a second.
        split: circuits and electrical interfaces together.
    """

    demand: Mapping[Pair, float]
    ports: tuple[int, ...]
    circuit: float
    electrical: float
    split: bool

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return tuple(sorted({(min(direction), max(direction)) for direction in self.demand}))

    def counts(self, pair: Pair) -> range:
        """Circuits that a pair may have, at least one."""
        return range(1, min(self.ports[pair[0]], self.ports[pair[1]]) + 1)


def build_arrays(data: CircuitMatching) -> LpArrays:
    """The program, its columns and rows named as in the text."""
    rows = Rows()
    rows.column("time")
    for pair in data.pairs:
        for k in (0, *data.counts(pair)):
            rows.column("count", *pair, k, upper=1.0, integer=True)
    for direction in data.demand:
        for k in data.counts((min(direction), max(direction))):
            rows.column("carried", *direction, k)
    time = rows.at("time")
    for pair in data.pairs:
        terms = [(rows.at("count", *pair, k), 1.0) for k in (0, *data.counts(pair))]
        rows.row(f"one_{pair[0]}_{pair[1]}", 1.0, 1.0, terms)
    for server, ports in enumerate(data.ports):
        terms = [
            (rows.at("count", *pair, k), float(k)) for pair in data.pairs if server in pair for k in data.counts(pair)
        ]
        if terms:
            rows.row(f"ports_{server}", -INF, ports, terms)
    for direction, amount in data.demand.items():
        pair = (min(direction), max(direction))
        for k in data.counts(pair):
            name, carried = f"{direction[0]}_{direction[1]}_{k}", rows.at("carried", *direction, k)
            least = -INF if data.split else 0.0
            rows.row(f"chosen_{name}", least, 0.0, [(carried, 1.0), (rows.at("count", *pair, k), -amount)])
            rows.row(f"served_{name}", -INF, 0.0, [(carried, 1.0), (time, -data.circuit * k)])
    for side, name in enumerate(("leaving", "reaching")):
        for server in range(len(data.ports)):
            directions = [direction for direction in data.demand if direction[side] == server]
            if directions:
                terms = [
                    (rows.at("carried", *direction, k), 1.0)
                    for direction in directions
                    for k in data.counts((min(direction), max(direction)))
                ]
                total = sum(data.demand[direction] for direction in directions)
                rows.row(f"{name}_{server}", total, INF, [*terms, (time, data.electrical)])
    return rows.program({("time",): 1.0})


def matching_of(problem: RegionalCircuitsProblem, step: int) -> CircuitMatching:
    """The data of a step.

    Raises:
        InputError: no such step.
    """
    if step >= len(problem.demands):
        allowed = f"0 to {len(problem.demands) - 1}"
        raise InputError([Problem("no such step", path="--option step", value=str(step), allowed=allowed)])
    demand = problem.demands[step]
    directions = sorted(direction for i, j in problem.pairs for direction in ((i, j), (j, i)))
    return CircuitMatching(
        demand={direction: float(demand[direction]) for direction in directions if demand[direction] > 0},
        ports=problem.ports,
        circuit=problem.circuit_rate,
        electrical=problem.electrical_rate,
        split=problem.split,
    )


def from_regional_circuits(problem: RegionalCircuitsProblem, options: Mapping[str, float]) -> LpArrays:
    return build_arrays(matching_of(problem, int(options["step"])))
