"""The node paths that a plan uses between servers, and shortest ones for pairs it has no traffic between."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, replace

from topoopt.core.plan import Plan
from topoopt.core.topology import Topology
from topoopt.formats.exporter import refuse

UNPLANNED = "unplanned"
ANSWERS = "answers"
MODEL_PARALLEL = "model-parallel"


@dataclass(frozen=True)
class PlannedPath:
    """One path of an ordered pair of servers.

    Attributes:
        source, target: the pair.
        index: of the path among those of the pair.
        nodes: of the path, both ends included.
        share: of the model-parallel bytes of the pair, 0 if only AllReduces use it.
        used_by: `model-parallel`, `ring GROUP.RING`, `schedule NUMBER`; `unplanned` or `answers` alone.
    """

    source: int
    target: int
    index: int
    nodes: tuple[int, ...]
    share: float
    used_by: tuple[str, ...]


def planned_paths(plan: Plan) -> tuple[PlannedPath, ...]:
    """Paths of routes, rings and schedules, by pair; a pair without any gets a shortest path.

    Raises:
        InputError: some pair is not connected.
    """
    shares: dict[tuple[int, ...], float] = defaultdict(float)
    uses: dict[tuple[int, ...], list[str]] = defaultdict(list)
    routes = plan.routes
    for pair in range(len(routes.source)):
        for path in range(int(routes.pair_ptr[pair]), int(routes.pair_ptr[pair + 1])):
            nodes = routes.path(path)
            shares[nodes] += float(routes.share[path])
            if MODEL_PARALLEL not in uses[nodes]:
                uses[nodes].append(MODEL_PARALLEL)
    for number, group in enumerate(plan.rings):
        for position, ring in enumerate(group.rings):
            for nodes in ring.paths:
                if len(nodes) > 1:
                    uses[nodes].append(f"ring {number}.{position}")
    for number, one in enumerate(plan.schedules):
        for nodes in one.schedule.routes:
            uses[nodes].append(f"schedule {number}")
    by_pair: dict[tuple[int, int], list[tuple[int, ...]]] = defaultdict(list)
    for nodes in uses:
        by_pair[nodes[0], nodes[-1]].append(nodes)
    n = plan.topology.servers
    for source in range(n):
        missing = [target for target in range(n) if target != source and (source, target) not in by_pair]
        if missing:
            before = _tree(plan.topology, source)
            for target in missing:
                nodes = _along(before, source, target)
                by_pair[source, target].append(nodes)
                uses[nodes].append(UNPLANNED)
    return tuple(
        PlannedPath(*pair, index, nodes, shares.get(nodes, 0.0), tuple(uses[nodes]))
        for pair, paths in sorted(by_pair.items())
        for index, nodes in enumerate(sorted(paths, key=lambda nodes: (-shares.get(nodes, 0.0), len(nodes), nodes)))
    )


def with_answers(paths: tuple[PlannedPath, ...]) -> tuple[PlannedPath, ...]:
    """The same, and as many paths back as forth: what is missing repeats those there are.

    What is sent on path k of a pair is answered on path k of the opposite pair (acknowledgements, for one).
    """
    by_pair: dict[tuple[int, int], list[PlannedPath]] = defaultdict(list)
    for path in paths:
        by_pair[path.source, path.target].append(path)
    for (source, target), own in by_pair.items():
        given = len(own)
        for index in range(given, len(by_pair[target, source])):
            own.append(replace(own[index % given], index=index, share=0.0, used_by=(ANSWERS,)))
    return tuple(path for _, own in sorted(by_pair.items()) for path in own)


def _tree(topology: Topology, source: int) -> dict[int, int]:
    """Node before each one on a shortest path from the source; lower numbers first."""
    out: dict[int, list[int]] = defaultdict(list)
    for tail, head in topology.arcs.tolist():
        out[tail].append(head)
    before = {source: source}
    queue = deque([source])
    while queue:
        here = queue.popleft()
        for head in out[here]:
            if head not in before:
                before[head] = here
                queue.append(head)
    return before


def _along(before: dict[int, int], source: int, target: int) -> tuple[int, ...]:
    if target not in before:
        raise refuse(f"server {target} cannot be reached from server {source}", path="plan.topology")
    nodes = [target]
    while nodes[-1] != source:
        nodes.append(before[nodes[-1]])
    return tuple(reversed(nodes))
