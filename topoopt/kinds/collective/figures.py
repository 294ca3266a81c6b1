"""Figures that follow from the plan of a collective; each is computed when it is first read, and none is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solvers.collective.options import sized
from solvers.collective.schedules import LinkUses, link_loads, us_of_unit
from topoopt.core.arrays import Floats
from topoopt.core.collective import (
    BestBySize,
    CollectiveOp,
    CollectivePlan,
    CollectiveProblem,
    CollectiveSchedule,
    bus_factor,
    bytes_per_unit,
)
from topoopt.core.proofs import Argument
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import Certificate, Columns, Objective
from topoopt.page.text import counted

NAMED_NODES = 12
"""Nodes of a side of a cut that are named."""

BACKWARD = (CollectiveOp.REDUCE_SCATTER, CollectiveOp.REDUCE)
"""Collectives whose cut counts the links into the set."""


@dataclass(frozen=True, eq=False)
class CollectiveFigures:
    """What follows from the schedule of a collective: times, bandwidths, and the use of links."""

    problem: CollectiveProblem
    plan: CollectivePlan

    @property
    def schedule(self) -> CollectiveSchedule:
        """Blocks, sends and routes of the plan."""
        return self.plan.schedule

    @cached_property
    def loads(self) -> tuple[Floats, Floats]:
        """What every step puts on every link, units, and its latency, us (`LinkUses.step_loads`)."""
        return LinkUses.of(self.problem, self.schedule).step_loads()

    @cached_property
    def _step_us(self) -> Floats:
        """float64[steps], latency of the slowest message and bytes of the fullest link of each step."""
        units, latency = self.loads
        fullest: Floats = (units * us_of_unit(self.problem, self.schedule)).max(axis=1, initial=0.0)
        return fullest + latency

    @property
    def steps(self) -> int:
        """How many synchronous rounds the schedule has."""
        return self.schedule.steps

    @property
    def time_us(self) -> float:
        """All steps one after the other, a barrier between them."""
        return float(self._step_us.sum())

    @cached_property
    def step_ends_us(self) -> list[float]:
        """When each step ends, which takes its slowest latency and the time of its fullest link."""
        ends: list[float] = np.cumsum(self._step_us).tolist()
        return ends

    @cached_property
    def makespan_us(self) -> float:
        """Without barriers: a message goes when its block is there and its links are free."""
        return LinkUses.of(self.problem, self.schedule).makespan_us()

    @property
    def busy_us(self) -> float:
        """Bytes of the link that carries most, over its rate."""
        return float((self.loads[0].sum(axis=0) * us_of_unit(self.problem, self.schedule)).max(initial=0.0))

    @property
    def algbw_gbytes_per_s(self) -> float:
        """Bytes of the vector over the time."""
        return self.problem.vector_bytes / self.time_us / 1e3

    @property
    def busbw_gbytes_per_s(self) -> float:
        """The same times what a rank must send and receive of the vector at least; of the first process group."""
        return float(self.group_rates[0][1])

    @property
    def group_rates(self) -> list[tuple[float, float]]:
        """Bytes of the vector of every process group over the time; and as benchmarks state it, GB/s."""
        problem, rate = self.problem, self.algbw_gbytes_per_s
        return [
            (rate * vector, rate * vector * bus_factor(problem.collective, len(own)))
            for own, vector in zip(problem.members, problem.vectors, strict=True)
        ]

    @cached_property
    def objective(self) -> Objective:
        """What the objective of the problem makes of the schedule."""
        if self.problem.objective == "latency":
            return Objective("steps", float(self.steps), "steps")
        if self.problem.objective == "throughput":
            return Objective("algbw", self.problem.vector_bytes / self.busy_us / 1e3, "GB/s")
        return Objective("time", self.time_us, "us")

    @cached_property
    def front(self) -> tuple[BestBySize, ...]:
        """With objective `pareto` the best schedules, from small to large vectors."""
        return sized(self.plan.front)

    @property
    def bytes_per_unit(self) -> float:
        """Bytes of a unit of the blocks."""
        return bytes_per_unit(self.problem, self.schedule.blocks.total)

    @cached_property
    def link_use(self) -> Floats:
        """float64[m], part of the time that each link is in use."""
        network = self.problem.network
        load = link_loads(network, self.schedule, self.loads[0].sum(axis=0))
        moved_us = load * self.bytes_per_unit / (network.gbytes_per_s * 1e3)
        return np.asarray(moved_us / self.time_us, dtype=np.float64)

    def columns(self) -> dict[str, Columns]:
        """Return tables of links, and of sends with the bytes of each."""
        network, sends, blocks = self.problem.network, self.schedule.sends, self.schedule.blocks
        links: Columns = {
            "tail": network.arcs[:, 0],
            "head": network.arcs[:, 1],
            "gbytes_per_s": network.gbytes_per_s,
            "latency_us": network.latency_us,
        }
        rows: Columns = {
            "step": sends.step,
            "block": sends.block,
            "tail": sends.tail,
            "head": sends.head,
            "reduce": sends.reduce,
            "bytes": blocks.units[sends.block] * self.bytes_per_unit,
            "route": [list(self.schedule.routes[route]) for route in sends.route],
        }
        return {"links": links, "sends": rows}


# What limits any schedule, by its certificates.


def named(network: RatedNetwork, nodes: Iterable[int]) -> str:
    """List the names of nodes, of many only the first."""
    names = [network.names[node] for node in nodes]
    more = len(names) - NAMED_NODES
    return ", ".join(names[:NAMED_NODES]) + (f" and {more} more" if more > 0 else "")


def rate_sentence(network: RatedNetwork, nodes: Iterable[int], enter: str = "enter") -> str:
    """Describe the rate out of a set of nodes; the side with fewer ranks is named."""
    side = np.zeros(network.nodes, dtype=np.bool_)
    side[list(nodes)] = True
    crossing = side[network.arcs[:, 0]] & ~side[network.arcs[:, 1]]
    inside, outside = network.ranks[side[network.ranks]].tolist(), network.ranks[~side[network.ranks]].tolist()
    rate = f"{float(int(network.units[crossing].sum()) * network.unit_gbytes_per_s):.6g} GB/s"
    smaller = outside if len(outside) <= len(inside) else inside
    who = f"rank {named(network, smaller)}" if len(smaller) == 1 else named(network, smaller)
    if smaller is outside:
        return f"only {rate} {enter} {who}, which {counted(len(inside), 'other rank')} must reach"
    return f"only {rate} leave {who}, for {counted(len(outside), 'other rank')}"


def cut_of(certificates: Sequence[Certificate]) -> list[int]:
    """Return the nodes of the limiting cut; none where lengths of links limit the rate."""
    cuts = [row for row in certificates if row.argument is Argument.NETWORK_CUT]
    return cuts[-1]["nodes"].tolist() if cuts else []


def cut_sentence(problem: CollectiveProblem, nodes: Iterable[int]) -> str:
    """Describe what a cut keeps any schedule from."""
    network = problem.network
    if problem.collective not in BACKWARD:
        return rate_sentence(network, nodes)
    side = np.zeros(network.nodes, dtype=np.bool_)
    side[list(nodes)] = True
    return "" if side[network.ranks].all() else rate_sentence(network.transposed(), nodes, "leave")


def limit_sentence(problem: CollectiveProblem, certificates: Sequence[Certificate]) -> str:
    """Describe what keeps any schedule from a higher rate."""
    if any(row.argument is Argument.PAIR_LENGTHS for row in certificates):
        return "the rates of the links are spent on the ways of all pairs: lengths of links in the proof"
    if problem.groups:
        return "the rates of the links are spent on the trees of all process groups: lengths of links in the proof"
    return cut_sentence(problem, cut_of(certificates))


def crossing_links(problem: CollectiveProblem, nodes: Sequence[int]) -> list[int]:
    """Return the arcs out of a cut, or into it where what is reduced must enter it."""
    network = problem.network
    inside = np.zeros(network.nodes, dtype=np.bool_)
    inside[list(nodes)] = True
    if problem.collective in BACKWARD:
        inside = ~inside
    return np.flatnonzero(inside[network.arcs[:, 0]] & ~inside[network.arcs[:, 1]]).tolist()


def ranks_text(problem: CollectiveProblem) -> str:
    """Say how many ranks take part, in how many process groups."""
    if not problem.groups:
        return counted(len(problem.network.ranks), "rank")
    sizes = sorted(set(map(len, problem.groups)))
    ranks = counted(sizes[0], "rank") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} ranks"
    return f"{counted(len(problem.groups), 'process group')} of {ranks}"


def time_text(microseconds: float) -> str:
    """Write a time in us, ms or s."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= size:
            return f"{microseconds / size:.6g} {unit}"
    return f"{microseconds:.6g} us"
