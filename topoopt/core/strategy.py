"""A parallelization strategy: for every operator a split and a placement on a coset of Z_n.

An operator in P parts at `offset` o occupies servers o + i n/P, i = 0..P-1 (strided placement, as in FlexNet), so P
divides n and every AllReduce group is a coset of a subgroup of Z_n.
"""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.shown import Shown
from topoopt.core.workload import Workload


@dataclass(frozen=True)
class Placement:
    """Index of the chosen split, and offset (0 <= offset < n / parts)."""

    split: int
    offset: int


@dataclass(frozen=True, repr=False)
class Strategy(Shown):
    """One placement per operator, in workload order."""

    placements: tuple[Placement, ...]

    def servers(self, workload: Workload, operator: int, n: int) -> tuple[int, ...]:
        """Servers of an operator's parts, by part index."""
        placement = self.placements[operator]
        parts = workload.operators[operator].splits[placement.split].parts
        return tuple(placement.offset + part * (n // parts) for part in range(parts))

    def server_memory_bytes(self, workload: Workload, n: int) -> list[int]:
        """Memory that each server needs."""
        needed = [0] * n
        for index, (operator, placement) in enumerate(zip(workload.operators, self.placements, strict=True)):
            for server in self.servers(workload, index, n):
                needed[server] += operator.splits[placement.split].server_memory_bytes
        return needed


@dataclass(frozen=True, repr=False)
class StrategyCase(Shown):
    """Multipliers that prove a bound for the strategies of one case.

    Attributes:
        laws: (name of a law, weight of it), weights above 0; a law that is not named has weight 0.
        memory: price of the memory of all servers, ms.
        prices: per pair of operators joined by edges, the price of each state of the producer and of the consumer, ms.
    """

    laws: tuple[tuple[str, float], ...]
    memory: float
    prices: tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]


@dataclass(frozen=True, repr=False)
class StrategyCut(Shown):
    """Strategies divided in two by the state of one operator: `inside` for those in `states`, else `outside`.

    `inside` and `outside` are positions of nodes in the certificate, after that of the cut.
    """

    operator: int
    states: tuple[int, ...]
    inside: int
    outside: int


@dataclass(frozen=True, repr=False)
class StrategyCertificate(Shown):
    """Proof of a bound over all strategies: a tree of cuts whose leaves are cases, the root first.

    Attributes:
        nodes: the tree.
        classes: of servers by their number modulo it. The state of an operator is a usable split with, for each, the
            residues that its offset has modulo the gcd of its stride and the classes, ascending.
        fixed: operator whose offset is taken to be even, where the two classes may be exchanged; None: none.
    """

    nodes: tuple[StrategyCut | StrategyCase, ...]
    classes: int = 1
    fixed: int | None = None


def strided_groups(n: int) -> tuple[tuple[int, ...], ...]:
    """All cosets of subgroups of Z_n with at least two members: for each divisor k >= 2 ascending, offsets ascending.

    Coset (k, o) has members o + i n/k. There are sum over k of n/k of them.
    """
    return tuple(
        tuple(range(offset, n, n // size)) for size in range(2, n + 1) if n % size == 0 for offset in range(n // size)
    )
