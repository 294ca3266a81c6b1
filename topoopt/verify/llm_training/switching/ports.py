"""Splits of the ports of a stage, and rates on them, again."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from topoopt.core.switching import PortSplit, PortUse, RailJob, StagePorts


@dataclass(frozen=True)
class PortRates:
    """Of a stage, parts of the rate of a GPU: to a neighbour, round a ring, of what passes exchange."""

    hop: float
    ring: float
    inside: float


WHOLE = PortRates(1.0, 1.0, 1.0)


def carried(job: RailJob, rank: int) -> dict[PortUse, int]:
    """Fewest ports for each thing that a stage exchanges over the rail: ports come in such numbers."""
    found = {}
    if job.ranks > 1:
        found[PortUse.PIPELINE] = 1 if job.ranks == 2 or (job.chunks == 1 and rank in (0, job.ranks - 1)) else 2
    if job.data_servers > 1 and (job.reduces or job.inside is PortUse.DATA):
        found[PortUse.DATA] = min(job.data_servers - 1, 2)
    if job.inside is PortUse.EXPERT:
        found[PortUse.EXPERT] = min(job.expert_servers - 1, 2)
    return found


def ring(servers: int, ports: int, share: float) -> float:
    """What goes both ways round: two directions for each pair of ports; of two servers each port joins them."""
    if servers == 2:
        return min(1.0, ports * share)
    return min(1.0, ports // 2 * 2 * share)


def crowded_ring(servers: int, ports: int, share: float) -> float:
    """The same for bytes that go to all others alike, over an arc of the shorter way round."""
    if servers == 2:
        return min(1.0, ports * share)
    both_ways = sum(min(step, servers - step) for step in range(1, servers)) / (servers - 1)
    return min(1.0, ports // 2 * 2 * share / both_ways)


def rates_of(job: RailJob, rank: int, one: StagePorts) -> PortRates:
    """On a plan of ports."""
    neighbours = carried(job, rank).get(PortUse.PIPELINE, 0)
    hop = min(1.0, one.pipeline.pipeline // neighbours * job.circuit_share) if neighbours else 1.0
    reduced = ring(job.data_servers, one.data.data, job.circuit_share) if job.reduces else 1.0
    if job.inside is PortUse.EXPERT:
        inside = crowded_ring(job.expert_servers, one.inside.expert, job.circuit_share)
    elif job.inside is PortUse.DATA:
        inside = ring(job.data_servers, one.inside.data, job.circuit_share)
    else:
        inside = 1.0
    return PortRates(hop, reduced, inside)


def fault(job: RailJob, rank: int, one: StagePorts) -> str | None:
    """Why a plan of ports cannot be."""
    units = carried(job, rank)
    for split in (one.pipeline, one.inside, one.data):
        if split.total > job.ports:
            return f"{split.total} circuits end at {job.ports} ports"
        for use in PortUse:
            if split.of(use) and (use not in units or split.of(use) % units[use]):
                return f"{split.of(use)} ports serve {use.value}, which takes multiples of {units.get(use, 0)}"
    for split, use, needed in (
        (one.pipeline, PortUse.PIPELINE, job.ranks > 1),
        (one.inside, job.inside or PortUse.PIPELINE, job.inside is not None),
        (one.data, PortUse.DATA, job.reduces),
    ):
        if needed and not split.of(use):
            return f"no port serves {use.value}"
    if (job.inside is None or job.ranks == 1) and one.inside != one.pipeline:
        return "ports change inside passes that exchange nothing, or between passes that send nothing"
    if job.inside is None and job.ranks == 1 and job.reduces and one.pipeline != one.data:
        return "ports change where nothing but gradients is exchanged"
    return None


def all_plans(job: RailJob, rank: int) -> list[StagePorts]:
    """Every plan of a stage, but for those that leave a port to no use."""
    units = carried(job, rank)
    counts = [range(0, job.ports + 1, units[use]) if use in units else (0,) for use in PortUse]
    splits = [PortSplit(*row) for row in itertools.product(*counts) if sum(row) <= job.ports]
    splits = [one for one in splits if all(one.total + unit > job.ports for unit in units.values())]
    apart = job.inside is not None and job.ranks > 1
    rows = itertools.product(splits, splits if apart else [None], splits if job.reduces else [None])
    plans = {StagePorts(one, second or one, third or second or one) for one, second, third in rows}
    return [one for one in plans if fault(job, rank, one) is None]


def undominated(job: RailJob, rank: int) -> list[StagePorts]:
    """The plans of a stage that can be fastest: of two that set ports at the same places the one of higher rates."""
    best: dict[tuple[bool, ...], list[tuple[PortRates, StagePorts]]] = {}
    for one in all_plans(job, rank):
        last = one.pipeline if rank and job.inside is not None else one.inside
        begin = one.data if job.reduces else last
        sets = (begin != one.pipeline, begin != one.inside, one.inside != one.pipeline, last != one.data)
        rates = rates_of(job, rank, one)
        rows = best.setdefault(sets, [])
        if not any(_no_slower(other, rates) for other, _ in rows):
            best[sets] = [row for row in rows if not _no_slower(rates, row[0])] + [(rates, one)]
    return [one for rows in best.values() for _, one in rows]


def _no_slower(one: PortRates, other: PortRates) -> bool:
    return one.hop >= other.hop and one.ring >= other.ring and one.inside >= other.inside
