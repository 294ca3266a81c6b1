"""What servers of an explicit iteration exchange: inside the passes, before the first ones and behind the last ones."""

from __future__ import annotations

import numpy as np

from topoopt.core.llm_training_plan import TrafficFamily as F
from topoopt.core.pipeline import PassKind
from topoopt.simulate.llm_training.network.explicit_servers import ExplicitServers
from topoopt.simulate.llm_training.network.layer_sync import layer_sync
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.traffic import data_bytes, layer_traffic

FORWARD, WEIGHTS = int(PassKind.FORWARD), int(PassKind.WEIGHTS)


class PassExchanges:
    """What servers of a stage exchange behind the computing of a pass."""

    def __init__(self, build: ExplicitServers) -> None:
        problem, strategy = build.problem, build.strategy
        self._build = build
        columns = columns_of([strategy], problem.model.layers)
        self._traffic = layer_traffic(
            problem.model, problem.formats, columns, problem.batch.length, problem.cluster.gpus_per_server
        )

    def after(self, kind: int, stage: int, computed: dict[int, int], part: float) -> dict[int, int]:
        """The tasks that end a part of the pass on each server."""
        if kind == WEIGHTS:
            return computed
        build, traffic = self._build, self._traffic
        overlap, back = build.problem.overlap, kind != FORWARD
        layers = part * float(build.stages.dense[stage] + build.stages.routed[stage])
        tensor = float(traffic.tensor[1][0] + traffic.tensor[2][0]) if back else float(traffic.tensor[0][0])
        ends = self._ring(F.TENSOR, layers * (1.0 - overlap.tensor) * tensor, computed)
        ends = self._ring(F.CONTEXT, layers * float(traffic.context[1 if back else 0][0]), ends)
        crossing = part * float(build.stages.routed[stage]) * (1.0 - overlap.expert) * float(traffic.expert_crossing[0])
        return self._exchange(crossing, ends, part * float(build.stages.expert[0][stage]))

    def _ring(self, family: F, each: float, computed: dict[int, int]) -> dict[int, int]:
        groups = self._build.of_server.get(family)
        if groups is None or each <= 0:
            return computed
        ends = dict(computed)
        for group in {groups[server] for server in computed if groups[server] is not None}:
            assert group is not None
            after = [computed[server] for server in group.members]
            task = self._build.tasks.collective(group.place, len(group.members), group.groups * each, after)
            ends.update(dict.fromkeys(group.members, task))
        return ends

    def _exchange(self, crossing: float, computed: dict[int, int], inside: float) -> dict[int, int]:
        groups, tasks = self._build.of_server.get(F.EXPERT), self._build.tasks
        if groups is None or crossing <= 0:
            return {server: tasks.wait(inside, [end]) for server, end in computed.items()} if inside else computed
        ends = {}
        for group in {groups[server] for server in computed if groups[server] is not None}:
            assert group is not None
            k = len(group.members)
            each = group.groups * group.ranks / k / (k - 1) * crossing
            sent = [tasks.transfer(a, b, each, [computed[a]]) for a in group.members for b in group.members if a != b]
            after = [*sent, *(tasks.wait(inside, [computed[a]]) for a in group.members)]
            ends.update(dict.fromkeys(group.members, tasks.wait(0.0, after)))
        return {**computed, **ends}


class ReplicaSync:
    """Gathering of weights before the first forward passes, reduction of gradients behind the last backward ones."""

    def __init__(self, build: ExplicitServers) -> None:
        self._build = build
        strategy, stages, problem = build.strategy, build.stages, build.problem
        self._inside = layer_sync(problem, strategy, stages, build.rates)
        replicas, of_experts = np.array([float(strategy.replicas)]), np.array([float(strategy.expert_replicas)])
        zero, size = np.array([float(strategy.zero)]), problem.formats.gradient_bytes
        layers = self._inside.layers
        self._bytes = {
            F.DATA: [part / layers for part in data_bytes(stages.dense_weights, replicas, zero, size, np.ones(1))],
            F.EXPERT_DATA: [
                part / layers for part in data_bytes(stages.expert_weights, of_experts, zero, size, np.ones(1))
            ],
        }
        self._channel: dict[int, int] = {}
        self._weights: dict[tuple[int, int], list[int]] = {}
        if strategy.zero:
            for stage in range(len(layers)):
                self._gather(stage)

    def _gather(self, stage: int) -> None:
        own = np.flatnonzero(self._build.stage_of == stage % self._build.strategy.pipeline).tolist()
        for _ in range(int(self._inside.layers[stage])):
            ends = self._collect(own, stage, 1, {server: [] for server in own})
            for server in own:
                self._weights.setdefault((server, stage), []).append(ends[server])

    def _collect(self, own: list[int], stage: int, which: int, ready: dict[int, list[int]]) -> dict[int, int]:
        """One layer: all families one after the other, behind what the servers exchanged before."""
        build = self._build
        seconds = (self._inside.reduced, self._inside.gathered)[which][stage]
        for server in own:
            before = [self._channel[server]] if server in self._channel else []
            self._channel[server] = build.tasks.wait(float(seconds), [*ready[server], *before])
        for family in (F.DATA, F.EXPERT_DATA):
            groups, each = build.of_server.get(family), float(self._bytes[family][which][stage])
            if groups is None or each <= 0:
                continue
            for group in {groups[server] for server in own if groups[server] is not None}:
                assert group is not None
                after = [self._channel[server] for server in group.members]
                task = build.tasks.collective(group.place, len(group.members), group.groups * each, after)
                self._channel.update(dict.fromkeys(group.members, task))
        return {server: self._channel[server] for server in own}

    def pieces(self, stage: int, *, first: bool, last: bool) -> int:
        """Parts that a pass is cut into: layers, where weights come or gradients go layer by layer."""
        return int(self._inside.layers[stage]) if last or (first and self._build.strategy.zero) else 1

    def weights(self, server: int, stage: int, layer: int) -> list[int]:
        """What the first forward pass over a layer waits for."""
        gathered = self._weights.get((server, stage), [])
        if not gathered:
            return []
        return [gathered[layer] if self._build.problem.overlap.data else self._channel[server]]

    def reduce(self, stage: int, ready: dict[int, int]) -> None:
        """One layer of a stage behind its last backward pass."""
        self._collect(list(ready), stage, 0, {server: [task] for server, task in ready.items()})
