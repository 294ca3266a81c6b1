"""Servers of an iteration that is followed task by task: their stages, groups, rings and hops, and the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from solvers.llm_training.evaluation import EvaluatedNetwork
from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.workload import GroupRings, PathTable, Ring, TaskGraph, TaskKind
from topoopt.simulate.llm_training.links import BlockGroups, FamilyGroups, PlacedNetwork
from topoopt.simulate.llm_training.step import group_rates, stage_times
from topoopt.simulate.llm_training.strategies import columns_of, hop_bytes

MS = 1e3


@dataclass
class TaskList:
    """Tasks and what each waits for."""

    kind: list[int] = field(default_factory=list)
    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    group: list[int] = field(default_factory=list)
    duration: list[float] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    def _add(self, kind: int, after: Sequence[int], *, ends: tuple[int, int, int], seconds: float, size: float) -> int:
        self.kind.append(kind)
        for column, value in zip((self.source, self.target, self.group), ends, strict=True):
            column.append(value)
        self.duration.append(seconds * MS)
        self.size.append(round(size))
        place = len(self.kind) - 1
        self.edges += [(one, place) for one in after]
        return place

    def compute(self, server: int, seconds: float, after: Sequence[int]) -> int:
        """A server computes."""
        return self._add(TaskKind.FORWARD, after, ends=(server, -1, -1), seconds=seconds, size=0)

    def wait(self, seconds: float, after: Sequence[int]) -> int:
        """Time passes."""
        return self._add(TaskKind.ALLREDUCE, after, ends=(-1, -1, -1), seconds=seconds, size=0)

    def transfer(self, source: int, target: int, size: float, after: Sequence[int]) -> int:
        """Bytes from one server to another."""
        return self._add(TaskKind.TRANSFER, after, ends=(source, target, -1), seconds=0.0, size=size)

    def collective(self, group: int, members: int, ring_bytes: float, after: Sequence[int]) -> int:
        """Each of the members of a group sends so many bytes to the next one on its rings."""
        payload = ring_bytes * members / (2.0 * (members - 1))
        return self._add(TaskKind.ALLREDUCE, after, ends=(-1, -1, group), seconds=0.0, size=payload)

    def graph(self, servers: int, groups: tuple[tuple[int, ...], ...]) -> TaskGraph:
        """All of them.

        Args:
            groups: members of the groups of collectives.
        """
        tasks = len(self.kind)
        edges = np.array(sorted(self.edges), dtype=np.int64).reshape(-1, 2)
        counts = np.bincount(edges[:, 0], minlength=tasks)
        return TaskGraph(
            servers=servers,
            kind=np.array(self.kind, dtype=np.int8),
            source=np.array(self.source, dtype=np.int32),
            target=np.array(self.target, dtype=np.int32),
            group=np.array(self.group, dtype=np.int32),
            duration_ms=np.array(self.duration),
            bytes=np.array(self.size, dtype=np.int64),
            operator=np.full(tasks, -1, dtype=np.int32),
            successor_ptr=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
            successor=edges[:, 1].astype(np.int32),
            groups=groups,
        )


FREE = 1e18
"""Bytes a second of what the graph sends itself."""


@dataclass(frozen=True)
class ServerGroup:
    """A group of servers: place in the graph's table, members, groups of ranks on them, ranks of each."""

    place: int
    members: tuple[int, ...]
    groups: float
    ranks: int


class ExplicitServers:
    """What is known of every server; `tasks` grows."""

    def __init__(
        self,
        problem: LlmTrainingProblem,
        strategy: ParallelStrategy,
        network: PlacedNetwork,
        groups: FamilyGroups,
        placed: EvaluatedNetwork,
    ) -> None:
        self.problem, self.strategy, self.network = problem, strategy, network
        self.tasks = TaskList()
        self.rings: list[GroupRings] = []
        self.of_server: dict[F, list[ServerGroup | None]] = {}
        for family, classes in groups.collectives.items():
            self.of_server[family] = self._groups(family, classes)
        places = network.places
        self.ahead: list[list[tuple[int, float]]] = [[] for _ in places]
        self.behind: list[list[tuple[int, float]]] = [[] for _ in places]
        hops = groups.hops
        for a, b, ranks in zip(places[hops.source], places[hops.target], hops.amount, strict=True):
            self.ahead[a].append((int(b), float(ranks)))
            self.behind[b].append((int(a), float(ranks)))
        self.rates = group_rates(dict.fromkeys(placed.loads, FREE), placed.loads, placed.rates)
        self.stages = stage_times(problem, strategy, self.rates)
        self.stage_of = np.empty(len(places), dtype=np.int64)
        per_stage = len(places) // strategy.pipeline
        self.stage_of[places] = np.arange(len(places)) // per_stage

    def _groups(self, family: F, classes: tuple[BlockGroups, ...]) -> list[ServerGroup | None]:
        network = self.network
        found: list[ServerGroup | None] = [None] * len(network.places)
        for which, one in enumerate(classes):
            for row, (blocks, count) in enumerate(zip(network.places[one.blocks], one.groups, strict=True)):
                members = tuple(sorted(blocks.tolist()))
                place = -1
                if family is not F.EXPERT:
                    orders = [tuple(order) for order in network.orders[family][which][row].tolist()]
                    place = len(self.rings)
                    self.rings.append(GroupRings(members, ring_ways(network.routes, orders)))
                for server in members:
                    assert found[server] is None  # one group of a family each
                    found[server] = ServerGroup(place, members, float(count), one.ranks)
        return found

    def hop_bytes(self) -> float:
        """Bytes that a rank sends to the next stage."""
        columns = columns_of([self.strategy], self.problem.model.layers)
        return float(hop_bytes(self.problem, columns)[0])

    def compute_costs(self, *, split: bool) -> list[Floats]:
        """Seconds of the passes of each kind, without tokens to experts."""
        costs = replace(self.stages, expert=np.zeros(1)).costs(blocking=False)
        whole = costs.inputs_s + costs.weights_s
        return [costs.forward_s, whole, costs.inputs_s if split else whole, costs.weights_s]


def ring_ways(routes: PathTable, orders: list[tuple[int, ...]]) -> tuple[Ring, ...]:
    """The rings, each as often as pairs have ways, which it then goes in turn."""
    keys = routes.source.astype(np.int64) * routes.nodes_total + routes.target
    found = []
    for order in orders:
        pairs = [
            int(np.searchsorted(keys, a * routes.nodes_total + b)) for a, b in zip(order, _next(order), strict=True)
        ]
        spans = [(int(routes.pair_ptr[pair]), int(routes.pair_ptr[pair + 1])) for pair in pairs]
        turns = max(end - begin for begin, end in spans)
        for turn in range(turns):
            chosen = [
                begin + int(np.searchsorted(np.cumsum(routes.share[begin:end]), (turn + 0.5) / turns))
                for begin, end in spans
            ]
            found.append(Ring(order, 1.0 / (turns * len(orders)), tuple(routes.path(path) for path in chosen)))
    return tuple(found)


def _next(order: tuple[int, ...]) -> tuple[int, ...]:
    return order[1:] + order[:1]
