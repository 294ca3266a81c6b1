"""Circuits of an optical switch for one all-to-all, the rest over electrical interfaces, least time.

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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from formulations.programs import LpArrays, Rows
from topoopt.core.errors import InputError, Problem
from topoopt.core.regional_circuits import RegionalCircuitsProblem

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
