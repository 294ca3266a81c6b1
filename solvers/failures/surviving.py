"""Links, servers and planes can fail; arcs, hop counts and graphs survive a failure.

What survives of a topology after a failure: arcs with links left, hop counts, and graphs to route on.

Arc ids stay those of the whole topology. A dead arc points back to its own server, so that no shortest path takes it.
A server that no longer forwards (`relays`) still sends and receives: no path may pass through it, which is so when the
arcs into it are dead for every target but itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from solvers.network.assembly import Digraph, row_ptr
from topoopt.core.arrays import Bools, Int32s, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError, Problem
from topoopt.core.outcomes import Failure, LinkEnds
from topoopt.core.topology import Topology

SHOWN = 12


def links_of(topology: Topology) -> tuple[LinkEnds, ...]:
    """Every physical link, parallel ones repeated, sorted; of a fibre pair the smaller server first."""
    paired = topology.links is LinkDirection.BIDIRECTIONAL
    rows = zip(topology.arcs.tolist(), topology.multiplicity.tolist(), strict=True)
    return tuple(sorted((t, h) for (t, h), times in rows for _ in range(times) if not paired or t < h))


def single_links(topology: Topology) -> tuple[Failure, ...]:
    """Each link failing alone; parallel links are alike and count once."""
    return tuple(Failure(links=(link,)) for link in sorted(set(links_of(topology))))


def single_servers(topology: Topology) -> tuple[Failure, ...]:
    return tuple(Failure(servers=(server,)) for server in range(topology.hosts))


def single_planes(topology: Topology) -> tuple[Failure, ...]:
    """Each optical switch that has any arc, and each packet switch, failing alone."""
    lit = np.flatnonzero((topology.switches >= 0).any(axis=1))
    if topology.packet_switches:
        lit = np.arange(topology.packet_switches)
    return tuple(Failure(planes=(int(plane),)) for plane in lit)


def parts_of(topology: Topology, part: str) -> tuple[Failure, ...]:
    """All single failures of `links` (parallel ones repeated) or `servers`."""
    if part == "links":
        return tuple(Failure(links=(link,)) for link in links_of(topology))
    return single_servers(topology)


def joined(parts: Sequence[Failure]) -> Failure:
    return Failure(
        links=tuple(sorted(link for part in parts for link in part.links)),
        servers=tuple(sorted({server for part in parts for server in part.servers})),
        planes=tuple(sorted({plane for part in parts for plane in part.planes})),
    )


def every_set(topology: Topology, part: str, count: int) -> tuple[Failure, ...]:
    """All failures of `count` parts, equal ones (of parallel links) once."""
    sets = (joined(chosen) for chosen in combinations(parts_of(topology, part), count))
    return tuple(dict.fromkeys(sets))


def drawn(topology: Topology, part: str, count: int, samples: int, rng: np.random.Generator) -> tuple[Failure, ...]:
    """Sets of `count` different parts, independently and uniformly."""
    parts = parts_of(topology, part)
    return tuple(
        joined([parts[int(i)] for i in rng.choice(len(parts), size=count, replace=False)]) for _ in range(samples)
    )


def failure_problems(topology: Topology, failure: Failure) -> list[Problem]:
    """Links, servers and planes of a failure that do not exist."""
    problems = []
    n, planes = topology.servers, topology.packet_switches or len(topology.switches)
    there = Counter(links_of(topology))
    for link, times in Counter(failure.links).items():
        tail, head = link
        if max(link) >= n or min(link) < 0:
            problems.append(
                Problem("unknown server", path="--fail", value=f"{tail}-{head}", allowed=f"servers 0 to {n - 1}")
            )
        elif there[link] == 0:
            near = sorted({b if a == tail else a for a, b in there if tail in (a, b)} - {tail})
            shown = ", ".join(str(server) for server in near[:SHOWN]) + (" ..." if len(near) > SHOWN else "")
            allowed = f"server {tail} is linked to {shown or 'nobody'}"
            problems.append(Problem("no such link", path="--fail", value=f"{tail}-{head}", allowed=allowed))
        elif there[link] < times:
            allowed = f"at most {there[link]} times"
            problems.append(Problem("more than there are", path="--fail", value=f"{tail}-{head}", allowed=allowed))
    for server in failure.servers:
        if not 0 <= server < topology.hosts:
            allowed = f"0 to {topology.hosts - 1}"
            problems.append(Problem("unknown server", path="--fail", value=str(server), allowed=allowed))
    sort = "switch" if topology.packet_switches else "optical switch"
    for plane in failure.planes:
        if not 0 <= plane < planes:
            allowed = f"0 to {planes - 1}"
            problems.append(Problem(f"unknown {sort}", path="--fail", value=str(plane), allowed=allowed))
    return problems


def check_failure(topology: Topology, failure: Failure) -> None:
    """Refuse what does not exist.

    Raises:
        InputError: all of it.
    """
    problems = failure_problems(topology, failure)
    if problems:
        raise InputError(problems)


def check_count(topology: Topology, part: str, count: int) -> None:
    """Refuse more failures than there are parts.

    Raises:
        InputError: so it is.
    """
    there = len(parts_of(topology, part))
    # One server at least must be left; a job of none is none.
    most = there if part == "links" else max(there - 1, 0)
    if not 1 <= count <= most:
        raise InputError([Problem(f"more failures than {part}", path=f"--{part}", value=str(count),
                                  allowed=f"1 to {most}")])  # fmt: skip


def ends_of(text: str, topology: Topology) -> LinkEnds:
    """Ends of a link written `A-B`.

    Raises:
        InputError: written otherwise.
    """
    words = text.split("-")
    if len(words) != 2 or not all(word.strip().isdecimal() for word in words):
        raise InputError(
            [Problem("not a link", path="--fail", value=repr(text), allowed="A-B, two servers; server:N; switch:N")]
        )
    tail, head = (int(word) for word in words)
    if topology.links is LinkDirection.BIDIRECTIONAL:
        tail, head = min(tail, head), max(tail, head)
    return tail, head


def links_left(topology: Topology, failure: Failure) -> Int32s:
    """int32[m]: parallel links of each arc that survive; arcs of failed servers have none."""
    left = topology.multiplicity.astype(np.int32).copy()
    ids = topology.arc_ids()
    paired = topology.links is LinkDirection.BIDIRECTIONAL
    for tail, head in failure.links:
        left[ids[tail, head]] -= 1
        if paired:
            left[ids[head, tail]] -= 1
    for plane in failure.planes:
        if topology.packet_switches:
            left[(topology.arcs == topology.hosts + plane).any(axis=1)] = 0
            continue
        tails = np.flatnonzero(topology.switches[plane] >= 0)
        np.subtract.at(left, ids[tails, topology.switches[plane, tails]], 1)
    if failure.servers:
        gone = np.isin(topology.arcs, failure.servers).any(axis=1)
        left[gone] = 0
    return np.maximum(left, 0)


@dataclass(frozen=True, eq=False)
class Surviving:
    """A damaged topology.

    Attributes:
        topology: before the failure.
        left: int32[m], links left of each arc.
        relays: servers that send and receive but forward no longer.
    """

    topology: Topology
    left: Int32s
    relays: tuple[int, ...] = ()
    _graphs: dict[int, Digraph] = field(default_factory=dict)

    def graph(self, target: int) -> Digraph:
        """Arcs that may lead to a target; hops of -1 where nothing does."""
        key = target if target in self.relays else -1
        if key not in self._graphs:
            left = np.where(_usable(self, key), self.left, 0)
            tail = self.topology.arcs[:, 0].astype(np.int64)
            head = np.where(left > 0, self.topology.arcs[:, 1], self.topology.arcs[:, 0]).astype(np.int64)
            self._graphs[key] = Digraph(row_ptr(tail, self.topology.servers), tail, head, left.astype(np.float64))
        return self._graphs[key]

    def hops(self) -> Int32s:
        """int32[n, n]: fewest hops from i (row) to j, -1 where there is no way."""
        hops = self.graph(-1).hops_to.T.copy()
        for target in self.relays:
            hops[:, target] = self.graph(target).hops_to[target]
        return hops

    def without(self, arcs: Ints) -> Surviving:
        """The same with more arcs dead."""
        left = self.left.copy()
        left[arcs] = 0
        return Surviving(self.topology, left, self.relays)


def _usable(surviving: Surviving, target: int) -> Bools:
    alive = surviving.left > 0
    closed = [server for server in surviving.relays if server != target]
    if closed:
        alive &= ~np.isin(surviving.topology.arcs[:, 1], closed)
    return alive


def after(topology: Topology, failure: Failure) -> Surviving:
    """The topology without what failed; failed servers have no arcs left."""
    return Surviving(topology, links_left(topology, failure))


def not_forwarding(topology: Topology, failure: Failure) -> Surviving:
    """As `after`, but failed servers keep their arcs and merely forward nothing."""
    links_only = Failure(links=failure.links, planes=failure.planes)
    return Surviving(topology, links_left(topology, links_only), failure.servers)


def reach(surviving: Surviving, failed_servers: tuple[int, ...] = ()) -> tuple[int, int | None, float | None]:
    """Ordered pairs without a path, diameter, and mean hops (None if there are such pairs) of the servers that work."""
    works = np.arange(surviving.topology.servers) < surviving.topology.hosts
    works[list(failed_servers)] = False
    hops = surviving.hops()[np.ix_(works, works)]
    count = len(hops)
    lost = int((hops < 0).sum())
    if lost:
        return lost, None, None
    pairs = count * (count - 1)
    return 0, int(hops.max(initial=0)), float(hops.sum() / pairs) if pairs else 0.0
