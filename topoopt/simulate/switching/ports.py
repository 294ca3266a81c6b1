"""Which splits of the ports of a stage there are, and what exchanges take with them."""

from __future__ import annotations

from itertools import product

from topoopt.core.switching import PortSplit, PortUse, RailExchange, RailJob, StagePorts

BOTH_WAYS = 2.0
"""Directions of a ring: bytes that may take either end go half by each."""


def ring_share(servers: int, ports: int, share: float) -> float:
    """Rate of a ring of servers over that of a GPU, its bytes passed on both ways round.

    Two servers are one pair: each port a circuit. A GPU sends no faster than its interfaces do.
    """
    if servers < 2:
        return 1.0
    lanes = ports if servers == 2 else BOTH_WAYS * (ports // 2)
    return min(1.0, lanes * share)


def exchange_share(servers: int, ports: int, share: float) -> float:
    """The same of an exchange of tokens: what goes to each of the other servers is passed on along the shorter way.

    With V bytes of a GPU to the k - 1 others in equal parts, an arc of the ring carries V floor(k^2 / 4) / (2 (k - 1)).
    """
    if servers < 2:
        return 1.0
    if servers == 2:
        return min(1.0, ports * share)
    crowd = (servers * servers // 4) / (BOTH_WAYS * (servers - 1))
    return min(1.0, ports // 2 * share / crowd)


def hop_share(neighbours: int, ports: int, share: float) -> float:
    """The same of the way to a neighbouring stage: ports are shared out evenly."""
    return min(1.0, ports // neighbours * share) if neighbours else 1.0


def exchange_s(one: RailExchange, computing_s: float, share: float, *, back: bool) -> float:
    """Seconds of a pass with what it exchanges."""
    moving = max(one.crossing_s[back] / share, one.within_s) + one.fixed_s
    return max(computing_s, moving) if one.hidden else computing_s + moving


def splits(job: RailJob, rank: int, use: PortUse) -> tuple[PortSplit, ...]:
    """All ways to give the ports of a stage while this is exchanged; no port is spare that any use could have.

    Ports go to a use in pairs where it needs two: of a ring, or one to each neighbour.
    """
    units = {one: job.needs(rank, one) for one in PortUse if one in job.uses and job.needs(rank, one)}
    counts = product(*(range(0, job.ports + 1, unit) for unit in units.values()))
    fitting = [PortSplit(**{one.value: n for one, n in zip(units, row, strict=True)}) for row in counts]
    fitting = [one for one in fitting if one.total <= job.ports and one.of(use)]
    return tuple(one for one in fitting if all(one.total + unit > job.ports for unit in units.values()))


def plans_of(job: RailJob, rank: int) -> tuple[StagePorts, ...]:
    """All plans of a stage: a split for each thing that it exchanges, those that switch least first."""
    found = set()
    between = splits(job, rank, PortUse.PIPELINE) if job.ranks > 1 else (None,)
    inside = splits(job, rank, job.inside) if job.inside is not None else (None,)
    behind = splits(job, rank, PortUse.DATA) if job.reduces else (None,)
    for row in product(between, inside, behind):
        stated = [one for one in row if one is not None] or [PortSplit()]
        first = row[0] or row[1] or stated[0]
        second = row[1] or first
        found.add(StagePorts(first, second, row[2] or second))
    return tuple(sorted(found, key=lambda one: (len({one.pipeline, one.inside, one.data}), one)))
