"""Schedules that AllReduces of a group of servers may run on: over the links between members, and over all links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solvers.collective.allreduce_options import AllReduceOption, allreduce_options
from solvers.stop import Stop
from topoopt.core.collective import CollectiveSchedule
from topoopt.core.errors import Problem
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.search_settings import AllReduceChoice

MOST_SERVERS = {AllReduceChoice.TREES: 64, AllReduceChoice.BFB: 256, AllReduceChoice.BEST: 256}
"""Servers up to which schedules are made: packing trees takes some ten seconds a topology at 64 servers."""

TREES_IN_BEST = 32
"""Servers up to which trees are tried where the best is asked for: packing them takes a second a topology there."""


@dataclass(frozen=True, eq=False)
class GroupOption:
    """A schedule of a group, and whether servers outside it pass messages on."""

    option: AllReduceOption
    forwarding: bool

    @property
    def family(self) -> tuple[str, bool]:
        """How it was made."""
        return self.option.method, self.forwarding


class GroupOptions:
    """Schedules of groups, made once for all whose links are of one form."""

    def __init__(self, choice: AllReduceChoice, *, message_us: float, stop: Stop) -> None:
        """What is asked for.

        Args:
            choice: kinds of schedules.
            message_us: of each message, besides its bytes and the latencies of its links.
            stop: asked before trees are made, unless only they are asked for.
        """
        self.choice, self.message_us, self.stop = choice, message_us, stop
        self._inner: dict[bytes, tuple[AllReduceOption, ...]] = {}

    def of(self, network: RatedNetwork) -> tuple[GroupOption, ...]:
        """All schedules of a group: its members are the ranks, other servers pass on, as switches do."""
        members, most = network.ranks.tolist(), network.nodes
        if len(members) == most:
            return tuple(GroupOption(option, False) for option in self._made(network, self.choice, most))
        inner, found = inner_network(network), list[GroupOption]()
        if inner.unreachable() is None:
            key = b"".join(part.tobytes() for part in (inner.arcs, inner.units, inner.latency_us))
            if key not in self._inner:
                self._inner[key] = self._made(inner, self.choice, most)
            found += [GroupOption(renumbered(option, members), False) for option in self._inner[key]]
        if not found:
            found += [GroupOption(option, True) for option in self._made(network, self.choice, most)]
        elif self.choice is AllReduceChoice.BEST:
            # Trees over all links take long to make, and get in each other's way.
            found += [GroupOption(option, True) for option in self._made(network, AllReduceChoice.BFB, most)]
        return tuple(found)

    def _made(self, network: RatedNetwork, choice: AllReduceChoice, most: int) -> tuple[AllReduceOption, ...]:
        trees = most <= TREES_IN_BEST
        return allreduce_options(network, choice, message_us=self.message_us, stop=self.stop, with_trees=trees)


def inner_network(network: RatedNetwork) -> RatedNetwork:
    """The ranks and the links between them alone, numbered in their order."""
    place = np.cumsum(~network.is_switch) - 1
    kept = ~network.is_switch[network.arcs].any(axis=1)
    return replace(
        network,
        is_switch=np.zeros(len(network.ranks), dtype=np.bool_),
        arcs=place[network.arcs[kept]].astype(np.int32),
        units=network.units[kept],
        latency_us=network.latency_us[kept],
        names=tuple(network.names[rank] for rank in network.ranks),
    )


def renumbered(option: AllReduceOption, members: Sequence[int]) -> AllReduceOption:
    """The option of a network of ranks alone, its nodes given the numbers of the members."""
    number, schedule = np.array(members, dtype=np.int32), option.schedule
    blocks = replace(schedule.blocks, owner=number[schedule.blocks.owner])
    sends = replace(schedule.sends, tail=number[schedule.sends.tail], head=number[schedule.sends.head])
    routes = tuple(tuple(members[node] for node in route) for route in schedule.routes)
    return replace(option, schedule=CollectiveSchedule(blocks, sends, routes))


def too_many_servers(choice: AllReduceChoice, servers: int) -> list[Problem]:
    """Why no schedules are made, if that is so."""
    most = MOST_SERVERS.get(choice)
    if most is None or servers <= most:
        return []
    text = f"too many servers for search.allreduce: {choice.value}"
    return [Problem(text, path="cluster.servers", value=str(servers), allowed=f"at most {most}")]
