"""Circuits of a step on every rail: the ports of a stage laid out for each thing that they serve, and phases of these.

Both ends of a circuit must want it before it is set; a circuit that ports serve before and behind a boundary stays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence

from topoopt.core.arrays import NS_PER_S
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.switching import (
    CircuitGroup,
    PortSplit,
    PortUse,
    RailCircuit,
    RailJob,
    RailPhase,
    RailTimetable,
    StagePorts,
    SwitchedStep,
)
from topoopt.simulate.llm_training.network.links import rank_coordinates

Lane = tuple[PortUse, int]
Layout = dict[Lane, tuple[int, ...]]
"""Ports of a lane: one, or the one to the next server or stage and the one from the last."""

Wanted = list[tuple[int, frozenset[PortSplit]]]
"""Stages of a group, and splits of their ports in which they want it."""


def layout(job: RailJob, rank: int, split: PortSplit, before: Sequence[Layout]) -> Layout:
    """Ports of a GPU by lane; a lane stands where it stood before, if it can."""
    found: Layout = {}
    free, lanes = set(range(job.ports)), []
    for use in PortUse:
        if unit := job.needs(rank, use) if split.of(use) else 0:
            lanes += [((use, lane), unit) for lane in range(split.of(use) // unit)]
    for lane, _ in lanes:
        stood = next((one[lane] for one in reversed(before) if lane in one and free.issuperset(one[lane])), None)
        if stood is not None:
            found[lane] = stood
            free.difference_update(stood)
    for lane, unit in lanes:
        if lane not in found:
            found[lane] = tuple(sorted(free)[:unit])
            free.difference_update(found[lane])
    return found


def layouts(job: RailJob, rank: int, one: StagePorts) -> dict[PortSplit, Layout]:
    """Of all splits of a stage."""
    found: dict[PortSplit, Layout] = {}
    for split in (one.pipeline, one.inside, one.data):
        if split not in found:
            found[split] = layout(job, rank, split, list(found.values()))
    return found


class RailServers:
    """Servers of the groups of a strategy, rail by rail."""

    def __init__(self, strategy: ParallelStrategy, gpus_per_server: int) -> None:
        self.g, self.servers = gpus_per_server, strategy.gpus // gpus_per_server
        at, s = rank_coordinates(strategy), strategy
        t, c, d, p = (at[one].tolist() for one in (D.TENSOR, D.CONTEXT, D.DATA, D.PIPELINE))
        self.rings: dict[tuple[PortUse, int], dict[tuple[int, int], list[int]]] = defaultdict(lambda: defaultdict(list))
        self.rows: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        for rank in range(s.gpus):
            server, rail = divmod(rank, gpus_per_server)
            place = t[rank] + s.tensor * (c[rank] + s.context * d[rank])
            self.rings[PortUse.DATA, p[rank]][rail, t[rank]].append(server)
            self.rings[PortUse.EXPERT, p[rank]][rail, place // (s.expert * s.expert_tensor)].append(server)
            self.rows[rail, place][p[rank]] = server

    def ring(self, use: PortUse, stage: int, ports: Sequence[int], count: int) -> Iterator[RailCircuit]:
        """Round the servers of each group of a stage, or between two by one port each.

        Args:
            count: ports of a GPU.
        """
        for (rail, _), servers in self.rings[use, stage].items():
            if len(servers) == 2:
                yield _circuit(rail, servers[0] * count + ports[0], servers[1] * count + ports[0])
            elif len(servers) > 2:
                for here, there in zip(servers, servers[1:] + servers[:1], strict=True):
                    yield _circuit(rail, here * count + ports[0], there * count + ports[-1])

    def between(self, stages: tuple[int, int], ports: tuple[int, int], count: int) -> Iterator[RailCircuit]:
        """From the servers of a stage to those of the next in the same replica."""
        for (rail, _), row in self.rows.items():
            here, there = (row[stage] * count + port for stage, port in zip(stages, ports, strict=True))
            yield _circuit(rail, here, there)


def _circuit(rail: int, port: int, peer: int) -> RailCircuit:
    return RailCircuit(rail, min(port, peer), max(port, peer))


def rail_timetable(job: RailJob, strategy: ParallelStrategy, gpus_per_server: int, step: SwitchedStep) -> RailTimetable:
    """Phases of a step with its events."""
    laid = [layouts(job, rank, one) for rank, one in enumerate(step.plan)]
    wanted = _wanted(job, laid, RailServers(strategy, gpus_per_server))
    step_ns, delay_ns = round(step.step_s * NS_PER_S), round(step.delay_s * NS_PER_S)
    times = [_times(step, rank, step_ns) for rank in range(job.ranks)]
    begins = {0, *(at for one in times for at, _ in one)}
    begins |= {(at + delay_ns) % step_ns for at in begins}
    cuts = sorted(begins)
    served = [[_served(one, only.pipeline, at) for at in cuts] for one, only in zip(times, step.plan, strict=True)]
    states = []
    for want in wanted.values():
        both = [all(served[rank][k] in splits for rank, splits in want) for k in range(len(cuts))]
        states.append(_states(both, cuts, step_ns, delay_ns))
    kept = [k for k, one in enumerate(states) if "lit" in one]
    groups, ends = list(wanted), [*cuts[1:], step_ns]
    phases = (
        RailPhase(
            begin,
            end,
            tuple(number for number, k in enumerate(kept) if states[k][place] == "lit"),
            tuple(number for number, k in enumerate(kept) if states[k][place] == "dark"),
        )
        for place, (begin, end) in enumerate(zip(cuts, ends, strict=True))
    )
    chosen = tuple(groups[k] for k in kept)
    servers = strategy.gpus // gpus_per_server
    return RailTimetable(gpus_per_server, servers, job.ports, step_ns, delay_ns, chosen, tuple(_joined(phases)))


def _wanted(job: RailJob, laid: Sequence[dict[PortSplit, Layout]], servers: RailServers) -> dict[CircuitGroup, Wanted]:
    """Groups of circuits with the splits in which their ends want them."""
    found: dict[CircuitGroup, dict[int, set[PortSplit]]] = defaultdict(lambda: defaultdict(set))

    def want(group: CircuitGroup, splits: dict[int, PortSplit]) -> None:
        for rank, split in splits.items():
            found[group][rank].add(split)

    for rank, states in enumerate(laid):
        for split, one in states.items():
            for (use, _), ports in one.items():
                if use is not PortUse.PIPELINE and (made := tuple(sorted(servers.ring(use, rank, ports, job.ports)))):
                    want(CircuitGroup(use, (rank,), made), {rank: split})
    for here, there in _pairs(job):
        for split, one in laid[here].items():
            for other, two in laid[there].items():
                for lane in sorted(set(one) & set(two)):
                    if lane[0] is PortUse.PIPELINE:
                        ends = one[lane][0], two[lane][-1]
                        made = tuple(sorted(servers.between((here, there), ends, job.ports)))
                        want(CircuitGroup(PortUse.PIPELINE, (here, there), made), {here: split, there: other})
    return {group: [(rank, frozenset(one)) for rank, one in ranks.items()] for group, ranks in sorted(found.items())}


def _pairs(job: RailJob) -> list[tuple[int, int]]:
    """Stages that are joined: chunks go back from the last to the first."""
    found = [(rank, rank + 1) for rank in range(job.ranks - 1)]
    return [*found, (job.ranks - 1, 0)] if job.chunks > 1 and job.ranks > 2 else found


def _times(step: SwitchedStep, rank: int, step_ns: int) -> list[tuple[int, PortSplit]]:
    """When ports of a stage are set anew, and what they serve then; those of the step before stand at the end."""
    found = []
    for one in step.events:
        if one.rank == rank and one.what == "switch":
            assert one.after is not None
            found.append((round(one.begin_s * NS_PER_S) % step_ns, one.after))
    return sorted(found, key=lambda row: row[0])


def _served(times: list[tuple[int, PortSplit]], only: PortSplit, at: int) -> PortSplit:
    """What the ports of a stage serve, or are set for, from a time on."""
    return times[bisect_right(times, at, key=lambda row: row[0]) - 1][1] if times else only


def _states(want: list[bool], cuts: list[int], step_ns: int, delay_ns: int) -> list[str]:
    """Of a group in each phase: lit, dark while it is set, or cut; the phases stand in a circle."""
    if all(want):
        return ["lit"] * len(want)
    found, since = ["cut"] * len(want), 0
    for place in (*range(len(want)), *range(len(want))):
        if want[place]:
            since = since if want[place - 1] else cuts[place]
            found[place] = "lit" if (cuts[place] - since) % step_ns >= delay_ns else "dark"
    return found


def _joined(phases: Iterator[RailPhase]) -> Iterator[RailPhase]:
    """Phases that differ in nothing are one."""
    last: RailPhase | None = None
    for one in phases:
        if last is not None and (last.lit, last.dark) == (one.lit, one.dark):
            last = RailPhase(last.begin_ns, one.end_ns, one.lit, one.dark)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last
