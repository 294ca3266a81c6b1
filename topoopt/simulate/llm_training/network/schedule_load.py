"""What a family that reduces on schedules puts on the links: all its groups a step after the other, in step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.group_schedule import GroupSchedule
from topoopt.simulate.llm_training.network.buckets import Bucket
from topoopt.simulate.llm_training.network.groups import BlockGroups
from topoopt.simulate.llm_training.network.links import FamilyLoad, LinkGraph, Rails


class LinkSchedules:
    """Loads of schedules on the links of a graph, each schedule counted once."""

    def __init__(self, graph: LinkGraph, *, server_bytes_per_s: float, gpus_per_server: int) -> None:
        self._graph = graph
        self._link = {
            ends: place for place, ends in enumerate(zip(graph.tail.tolist(), graph.head.tolist(), strict=True))
        }
        owned = graph.rails is Rails.OWNED
        self._passed = (gpus_per_server - 1) / gpus_per_server / server_bytes_per_s if owned else 0.0
        self._known: dict[int, tuple[GroupSchedule, Floats]] = {}

    def load(
        self, classes: tuple[BlockGroups, ...], places: Ints, schedules: Sequence[GroupSchedule], bucket: Bucket
    ) -> FamilyLoad:
        """Of a family for every byte that each of its GPUs passes on, as if on rings.

        Args:
            classes: groups of the family.
            places: int64[n], server of each block.
            schedules: one of each group of servers.
            bucket: of one AllReduce.
        """
        graph, steps = self._graph, max(one.steps for one in schedules)
        made = {one.members: one for one in schedules}
        seconds = np.zeros((2, steps, len(graph.tail) + graph.servers))
        sent, ranks = np.zeros(graph.servers), classes[0].ranks
        for own in classes:
            for members, count in zip(np.sort(places[own.blocks], axis=1).tolist(), own.groups.tolist(), strict=True):
                one = made[tuple(members)]
                share = self._shares(one)
                seconds[:, : one.steps] += count * bucket.whole_bytes * share[:, :, : seconds.shape[2]]
                sent += count * bucket.whole_bytes * share[:, :, seconds.shape[2] :].sum(axis=(0, 1))
        if bucket.apart:
            phases = seconds.max(axis=2).sum(axis=1)
            taken, rounds = 2.0 * float(phases.max()), 2 * int((seconds.max(axis=2) > 0).sum(axis=1).max())
        else:
            taken, rounds = float(seconds.sum(axis=0).max(axis=1).sum()), steps
        hops = max(len(route) - 1 for one in schedules for route in one.schedule.routes)
        local = max(bucket.local_s(one.ranks, one.blocks.shape[1]) for one in classes)
        passed, of_links = bucket.passed(ranks), seconds.sum(axis=(0, 1))
        taken += (bucket.waits_s(rounds, hops) + local) * bucket.network
        return FamilyLoad(
            of_links / passed,
            float(sent.max()) / passed,
            hops,
            waits=max(taken - float(of_links.max()), 0.0) / passed,
            method=", ".join(sorted({one.method for one in schedules})),
            rounds=rounds,
        )

    def _shares(self, one: GroupSchedule) -> Floats:
        """float64[2, steps, L + 2n], for a byte of the vector of a group: seconds of links at their whole rate and of
        the networks inside servers, then bytes that servers begin; of what is summed, and of what is copied."""
        if id(one) in self._known:
            return self._known[id(one)][1]
        graph, sends, blocks = self._graph, one.schedule.sends, one.schedule.blocks
        links, n, whole = len(graph.tail), graph.servers, one.schedule.steps
        amount = blocks.units[sends.block] / blocks.total
        table = np.zeros((2, whole, links + 2 * n))
        for phase, chosen in enumerate((sends.reduce, ~sends.reduce)):
            self._lay(table[phase], one, chosen, amount)
        arriving = np.zeros((2, whole, n))
        for link, head in enumerate(graph.head.tolist()):
            arriving[:, :, head] += table[:, :, link]
        table[:, :, links : links + n] = (table[:, :, links + n :] + arriving) * self._passed
        table[:, :, :links] /= graph.bytes_per_s
        # Every piece does what whole blocks would, a step behind the one before.
        shares = np.zeros((2, one.steps, links + 2 * n))
        for late in range(one.pieces):
            shares[:, late : late + whole] += table / one.pieces
        self._known[id(one)] = (one, shares)
        return shares

    def _lay(self, table: Floats, one: GroupSchedule, chosen: Bools, amount: Floats) -> None:
        """Bytes of the messages chosen, on links and at the servers that begin them."""
        sends, routes = one.schedule.sends, one.schedule.routes
        links, n = len(self._graph.tail), self._graph.servers
        on_route = np.zeros((len(table), len(routes)))
        np.add.at(on_route, (sends.step[chosen], sends.route[chosen]), amount[chosen])
        for place, route in enumerate(routes):
            if on_route[:, place].any():
                for hop in pairwise(route):
                    table[:, self._link[hop]] += on_route[:, place]
                table[:, links + n + route[0]] += on_route[:, place]
