"""From a layout to come to moves in order: which jobs must go first, and which have to pause together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import networkx as nx

from topoopt.core.optical_layer import Shard
from topoopt.core.shard_moves import Move, MovePlan, RunningJob
from topoopt.core.status import Status

NOTHING_CHEAPER = "no move costs less than none"


def needed_moves(running: Sequence[RunningJob], targets: Mapping[str, Shard], waiting: Shard) -> dict[str, Shard]:
    """Targets but those of jobs that can stay after all, as nobody takes their servers; costly ones stay first."""
    kept = dict(targets)
    jobs = {job.name: job for job in running}
    for name in sorted(targets, key=lambda name: -jobs[name].move_cost_server_s):
        others = [shard for other, shard in kept.items() if other != name]
        taken = set(waiting.servers).union(*(shard.servers for shard in others))
        if taken.isdisjoint(jobs[name].shard.servers):
            del kept[name]
    return kept


def ordered_steps(running: Sequence[RunningJob], targets: Mapping[str, Shard]) -> tuple[tuple[Move, ...], ...]:
    """Moves in an order that can be executed; jobs that wait for each other in a circle pause together."""
    jobs = {job.name: job for job in running}
    holder = {server: name for name in targets for server in jobs[name].shard.servers}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(targets)
    for name, shard in targets.items():
        leaving = {holder[server] for server in shard.servers if server in holder} - {name}
        graph.add_edges_from((other, name) for other in sorted(leaving))
    circles = nx.condensation(graph)
    place = {name: number for number, name in enumerate(targets)}
    order = nx.lexicographical_topological_sort(
        circles, key=lambda circle: min(place[name] for name in circles.nodes[circle]["members"])
    )
    return tuple(
        tuple(
            Move(name, jobs[name].shard, targets[name])
            for name in sorted(circles.nodes[circle]["members"], key=place.__getitem__)
        )
        for circle in order
    )


def move_plan(
    running: Sequence[RunningJob],
    targets: Mapping[str, Shard],
    waiting: Shard,
    bound_server_s: float = 0.0,
    proved_by: str = NOTHING_CHEAPER,
) -> MovePlan:
    """The plan of a layout, its cost and delay worked out."""
    jobs = {job.name: job for job in running}
    steps = ordered_steps(running, needed_moves(running, targets, waiting))
    cost = sum(jobs[move.name].move_cost_server_s for step in steps for move in step)
    delay = sum(max(jobs[move.name].pause_s for move in step) for step in steps)
    bound = min(bound_server_s, cost)
    met = cost <= bound + 1e-6 * max(1.0, cost)
    return MovePlan(waiting, steps, cost, delay, bound, proved_by, Status.OPTIMAL if met else Status.FEASIBLE)
