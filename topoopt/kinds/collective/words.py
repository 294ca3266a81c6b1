"""What limits a collective, and what is to know of a schedule, in words and rows; for terminal and report alike."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.collective import CollectiveOp
from topoopt.core.collective_solution import CollectiveSolution, bytes_per_unit
from topoopt.core.rated_network import RatedNetwork
from topoopt.drawing.format import byte_size, counted

LISTED = 12
"""Nodes that are named."""


def named(network: RatedNetwork, nodes: Iterable[int]) -> str:
    """Names of nodes, many in short."""
    names = [network.names[node] for node in nodes]
    more = len(names) - LISTED
    return ", ".join(names[:LISTED]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True)
class CutFacts:
    """A cut: ranks inside and outside, and the rate of the links from the first to the second, GB/s."""

    inside: tuple[int, ...]
    outside: tuple[int, ...]
    rate: Fraction

    def sentence(self, network: RatedNetwork) -> str:
        """The cut in words: the smaller side is named."""
        rate = f"{float(self.rate):.6g} GB/s"
        if len(self.outside) <= len(self.inside):
            who = f"rank {named(network, self.outside)}" if len(self.outside) == 1 else named(network, self.outside)
            return f"only {rate} enter {who}, which {counted(len(self.inside), 'other rank')} must reach"
        who = f"rank {named(network, self.inside)}" if len(self.inside) == 1 else named(network, self.inside)
        return f"only {rate} leave {who}, for {counted(len(self.outside), 'other rank')}"


def cut_facts(network: RatedNetwork, nodes: Iterable[int]) -> CutFacts:
    """Ranks on both sides of a set of nodes, and the rate out of it."""
    side = np.zeros(network.nodes, dtype=np.bool_)
    side[list(nodes)] = True
    crossing = side[network.arcs[:, 0]] & ~side[network.arcs[:, 1]]
    ranks = network.ranks
    return CutFacts(
        tuple(ranks[side[ranks]].tolist()),
        tuple(ranks[~side[ranks]].tolist()),
        int(network.units[crossing].sum()) * network.unit_gbytes_per_s,
    )


def limit_sentence(solution: CollectiveSolution) -> str:
    """What keeps any schedule from more."""
    network, proof = solution.network, solution.proof
    if proof.lengths is not None:
        return "the rates of the links are spent on the ways of all pairs: lengths of links in the proof"
    if solution.collective in (CollectiveOp.REDUCE_SCATTER, CollectiveOp.REDUCE):
        facts = cut_facts(network.transposed(), proof.cut)
        return facts.sentence(network).replace(" enter ", " leave ", 1) if facts.outside else ""
    return cut_facts(network, proof.cut).sentence(network)


def link_busy(solution: CollectiveSolution) -> Floats:
    """float64[m], part of the time that each link is in use."""
    network, schedule = solution.network, solution.schedule
    number = {(tail, head): place for place, (tail, head) in enumerate(network.arcs.tolist())}
    sends, load = schedule.sends, np.zeros(len(network.arcs))
    if solution.multicast:
        passed: set[tuple[int, int, int, int]] = set()
        rows = (sends.step, sends.block, sends.tail, sends.route)
        for step, block, tail, route in zip(*(row.tolist() for row in rows), strict=True):
            passed |= {(step, block, tail, number[hop]) for hop in itertools.pairwise(schedule.routes[route])}
        for _, block, _, arc in passed:
            load[arc] += schedule.blocks.units[block]
    else:
        carried = np.zeros(len(schedule.routes))
        np.add.at(carried, sends.route, schedule.blocks.units[sends.block])
        for amount, route in zip(carried.tolist(), schedule.routes, strict=True):
            for hop in itertools.pairwise(route):
                load[number[hop]] += amount
    unit = bytes_per_unit(solution.collective, solution.vector_bytes, network, schedule.blocks.total)
    return np.asarray(load * unit / (network.gbytes_per_s * 1e3) / solution.time_us, dtype=np.float64)


def time_text(microseconds: float) -> str:
    """A time in us, ms or s."""
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= size:
            return f"{microseconds / size:.6g} {unit}"
    return f"{microseconds:.6g} us"


def front_rows(solution: CollectiveSolution) -> list[tuple[str, str, str]]:
    """Of what is best by size: from which size, method and steps, time in words."""
    return [
        (
            byte_size(point.from_bytes),
            f"{point.method}, {counted(point.steps, 'step')}" + (f", {point.pieces} pieces" * (point.pieces > 1)),
            f"{point.latency_us:.6g} us + {point.us_per_mbyte:.6g} us/MB",
        )
        for point in solution.front
    ]
