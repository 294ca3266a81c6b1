"""Small schedules by mixed-integer programming: best in the number of steps and chunks that is asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from formulations.collective.step_schedule import build
from solvers.backends import SOLVERS, SolverLimits
from solvers.collective.schedules import Row, of_rows
from solvers.stop import Stop
from topoopt.core.arrays import Ints
from topoopt.core.collective import CollectiveSchedule, Path
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.verdict import StopReason

MOST_COLUMNS = 40_000
"""Variables up to which a program is solved."""


@dataclass(frozen=True)
class SteppedSchedule:
    """What was found.

    Attributes:
        schedule: an AllGather, or a broadcast; None if none was found.
        stopped_by: CONVERGED where nothing better exists in so many steps and chunks, by the word of the solver.
    """

    schedule: CollectiveSchedule | None
    stopped_by: StopReason


def columns(network: RatedNetwork, owners: int, steps: int) -> int:
    """Variables of the program."""
    return owners * (len(network.arcs) * steps + network.nodes * (steps + 1)) + steps


def stepped_schedule(
    network: RatedNetwork, owners: list[int], steps: int, stop: Stop, seed: int, *, multicast: bool = False
) -> SteppedSchedule:
    """Solve for so many steps; one chunk an entry of `owners`; with `multicast` switches copy."""
    rate = network.units / float(network.units.max())
    program = build(network, np.array(owners), rate, steps, multicast=multicast)
    result = SOLVERS["highs"](program.arrays, SolverLimits(time_s=stop.remaining_s(), seed=seed))
    if result.raw_x is None:
        return SteppedSchedule(None, result.stopped_by)
    sent = np.round(result.raw_x[program.sent]).astype(np.int64)
    rows: list[Row] = []
    routes: dict[Path, int] = {}
    for chunk, owner in enumerate(owners):
        there = {owner}
        for step in range(steps):
            new: set[int] = set()
            for path in (copied if multicast else messages)(network, sent[chunk, :, step]):
                if path[-1] not in there | new:
                    new.add(path[-1])
                    rows.append((chunk, path[0], path[-1], step, routes.setdefault(path, len(routes)), False))
            there |= new
    return SteppedSchedule(of_rows([1] * len(owners), owners, rows, tuple(routes)), result.stopped_by)


def messages(network: RatedNetwork, copies: Ints) -> list[Path]:
    """The ways of one chunk in one step, through switches: copies in and out of a switch are matched as they come."""
    left: dict[int, list[int]] = {}
    for tail, head in np.repeat(network.arcs, copies, axis=0).tolist():
        left.setdefault(tail, []).append(head)
    found = []
    for rank in network.ranks.tolist():
        while left.get(rank):
            path = [rank, left[rank].pop()]
            while network.is_switch[path[-1]] and left.get(path[-1]):
                path.append(left[path[-1]].pop())
            if not network.is_switch[path[-1]]:
                found.append(tuple(path))
    return found


def copied(network: RatedNetwork, copies: Ints) -> list[Path]:
    """The ways of one chunk in one step where switches copy what comes to all links that it leaves over."""
    out: dict[int, list[int]] = {}
    for tail, head in network.arcs[copies > 0].tolist():
        out.setdefault(tail, []).append(head)
    found: list[Path] = []
    for rank in network.ranks.tolist():
        frontier: list[Path] = [(rank,)]
        seen = {rank}
        for path in frontier:
            if len(path) > 1 and not network.is_switch[path[-1]]:
                found.append(path)
                continue
            for head in out.get(path[-1], ()):
                if head not in seen:
                    seen.add(head)
                    frontier.append((*path, head))
    return found
