"""Which nodes of a network the ranks and switches of a schedule are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.collective import ChunkProgram, Defect
from topoopt.core.rated_network import RatedNetwork


@dataclass(frozen=True, eq=False)
class Placed:
    """A program on a network.

    Attributes:
        program: as it is executed there.
        node: int64[ranks], node of every rank; None: they are too many.
        switch: node of every switch that the schedule names.
        defects, notes: what does not fit, what was assumed.
    """

    program: ChunkProgram
    node: Ints | None
    switch: dict[str, int]
    defects: tuple[Defect, ...]
    notes: tuple[str, ...]


def placed(program: ChunkProgram, network: RatedNetwork) -> Placed:
    """Ranks and switches by their names, else one after the other, else by their numbers.

    Names fit when all ranks are nodes of the network. Otherwise the k-th rank is the k-th compute node, and the k-th
    switch the k-th switch, if there are as many; and if not, numbers count.
    """
    ranks, nodes = network.ranks, {name: node for node, name in enumerate(network.names)}
    named = sorted({name for way in program.vias for name in way}, key=lambda name: (len(name), name))
    notes: list[str] = []
    switch: dict[str, int] = {}
    by_name = [nodes.get(name, -1) for name in program.ranks]
    by_number = [int(name) if name.isdecimal() and int(name) < network.nodes else -1 for name in program.ranks]
    if min(by_name) >= 0:
        chosen = by_name
        switch = {name: nodes.get(name, -1) for name in named}
    elif len(program.ranks) == len(ranks):
        chosen = ranks.tolist()
        own = np.flatnonzero(network.is_switch).tolist()
        if len(named) == len(own):
            switch = dict(zip(named, own, strict=True))
            if by_number != chosen:
                notes.append("ranks and switches of the file are those of the topology in the order of their numbers")
        elif named:
            notes.append("the switches of the file are not told apart: ways are those with fewest switches")
    elif min(by_number) >= 0:
        chosen = by_number
        switch = {name: int(name) if name.isdecimal() and int(name) < network.nodes else -1 for name in named}
    else:
        text = f"the schedule has {len(program.ranks)} ranks, the topology {len(ranks)} compute nodes"
        return Placed(program, None, {}, (Defect("ranks", text),), ())
    defects = _roles(program, network, chosen, switch)
    if named and not switch:
        program = _without_ways(program)
    return Placed(program, np.array(chosen, dtype=np.int64), switch, tuple(defects), tuple(notes))


def _without_ways(program: ChunkProgram) -> ChunkProgram:
    messages = program.messages
    return replace(program, messages=replace(messages, via=np.full(len(messages), -1, dtype=np.int32)), vias=())


def _roles(program: ChunkProgram, network: RatedNetwork, chosen: list[int], switch: dict[str, int]) -> list[Defect]:
    defects = []
    compute = set(network.ranks.tolist())
    n, k = len(compute), len(program.ranks)
    wrong = [name for name, node in zip(program.ranks, chosen, strict=True) if node not in compute]
    if wrong:
        defects.append(Defect("ranks", f"rank {wrong[0]} of the schedule is a switch of the topology"))
    computing = [name for name, node in switch.items() if node in compute]
    if computing:
        defects.append(Defect("ranks", f"node {computing[0]} is a rank of the topology, and a switch in the schedule"))
    missing = sorted(compute - set(chosen))
    if missing:
        names = ", ".join(network.names[node] for node in missing[:5])
        defects.append(
            Defect(
                "ranks",
                f"{k} of {n} ranks are sources and destinations, {k * (k - 1)} of {n * (n - 1)} pairs: not {names}"
                + (" ..." if len(missing) > 5 else ""),
            )
        )
    return defects
