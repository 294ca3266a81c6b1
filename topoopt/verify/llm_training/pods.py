"""The graph of an iteration between pods, written down again from the instance: steps, sizes, what they wait for.

What a graph says is compared step by step, by name. A rank's part of the model stands in pods r m to r m + m - 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from topoopt.core.dag_topology import DagTask, DagTopologyProblem, DagTransfer
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pipeline import PipelineSchedule
from topoopt.core.pod_settings import PodSettings
from topoopt.verify.laws.findings import CheckFindings, ViolationLog, differs
from topoopt.verify.llm_training.greedy_rounds import planned_order
from topoopt.verify.llm_training.pass_orders import Pass, rank_order
from topoopt.verify.llm_training.pod_figures import stage_figures

SIZES = 1e-9
"""Part of a volume or a time that is rounding."""

WORDS = {"F": "forward", "J": "forward", "B": "backward", "I": "inputs", "W": "weights"}
THERE = ("F", "J")


@dataclass(frozen=True)
class PodStep:
    """A step: a transfer from pod to pod, or a task, whose ends are -1.

    Attributes:
        source, target: pods.
        size: bytes or seconds.
        after: names of what it waits for.
    """

    source: int
    target: int
    size: float
    after: frozenset[str]


def check_pod_graph(
    problem: LlmTrainingProblem, strategy: ParallelStrategy, gpus: int, graph: DagTopologyProblem
) -> CheckFindings:
    """What in the graph of an iteration is not as the instance has it.

    Args:
        strategy: with the layers of its chunks.
        gpus: of a pod.
        graph: between pods of so many.
    """
    findings = ViolationLog()
    findings.guard("pods", "the graph", lambda: _check(findings, problem, strategy, gpus, graph))
    return findings.findings()


def derived_graph(problem: LlmTrainingProblem, strategy: ParallelStrategy, pods: PodSettings) -> DagTopologyProblem:
    """The graph of an iteration; steps are numbered by their names, transfers first."""
    steps = _Iteration(problem, strategy, pods.gpus).steps()
    moves = sorted(name for name, one in steps.items() if one.source >= 0)
    works = sorted(name for name, one in steps.items() if one.source < 0)
    number = {name: place for place, name in enumerate([*moves, *works])}

    def waits(name: str) -> tuple[int, ...]:
        return tuple(sorted(number[before] for before in steps[name].after))

    count = strategy.gpus // pods.gpus
    return DagTopologyProblem(
        name=problem.name,
        pods=count,
        ports=(pods.ports,) * count,
        rate=pods.circuit_gbps * 1e9 / 8,
        transfers=tuple(
            DagTransfer(name, steps[name].source, steps[name].target, steps[name].size, waits(name)) for name in moves
        ),
        tasks=tuple(DagTask(name, steps[name].size, waits(name)) for name in works),
        slack_percent=pods.slack_percent,
    )


def _check(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    gpus: int,
    graph: DagTopologyProblem,
) -> None:
    held, experts = strategy.tensor * strategy.context, strategy.expert * strategy.expert_tensor
    if gpus % held or strategy.gpus // strategy.pipeline % gpus or (gpus % experts and experts % gpus):
        findings.add("pods", f"pods of {gpus} GPUs split groups, or do not divide a stage")
        return
    pods = strategy.gpus // gpus
    findings.hold("pods", ("pods", graph.pods, pods), ("ports", len(set(graph.ports)), 1))
    due = _Iteration(problem, strategy, gpus).steps()
    names, transfers = graph.names, len(graph.transfers)
    stated = {
        name: PodStep(move.source, move.target, move.volume, frozenset(names[k] for k in move.after))
        for name, move in zip(names, graph.transfers, strict=False)
    }
    for name, task in zip(names[transfers:], graph.tasks, strict=True):
        stated[name] = PodStep(-1, -1, task.duration, frozenset(names[k] for k in task.after))
    lost, more = sorted(due.keys() - stated.keys()), sorted(stated.keys() - due.keys())
    findings.add_each("pods", range(len(lost)), lambda k: f"the graph lacks {lost[k]!r}")
    findings.add_each("pods", range(len(more)), lambda k: f"{more[k]!r} is none of the iteration")
    wrong = [name for name in sorted(due.keys() & stated.keys()) if not _same(stated[name], due[name])]
    findings.add_each("pods", range(len(wrong)), lambda k: f"{wrong[k]!r} is {stated[wrong[k]]}, not {due[wrong[k]]}")


def _same(one: PodStep, due: PodStep) -> bool:
    if (one.source, one.target, one.after) != (due.source, due.target, due.after):
        return False
    return not differs(one.size, due.size, SIZES)


@dataclass
class _Iteration:
    """Steps of all pods."""

    problem: LlmTrainingProblem
    strategy: ParallelStrategy
    gpus: int
    found: dict[str, PodStep] = field(default_factory=dict)

    def steps(self) -> dict[str, PodStep]:
        """By name."""
        s = self.strategy
        self.parts = s.gpus // s.pipeline // self.gpus
        self.spread = max(1, s.expert * s.expert_tensor // self.gpus)
        self.figures = stage_figures(self.problem, s, experts_inside=self.spread == 1)
        count = self.problem.batch.sequences // (s.data * s.micro_batch)
        if s.schedule is PipelineSchedule.ZB_2P:
            orders = planned_order(self.figures.whole, self.figures.hop_s, count)
        else:
            orders = [rank_order(s.schedule, rank, s.pipeline, s.chunks, count) for rank in range(s.pipeline)]
        self.home = {stage: rank for rank, order in enumerate(orders) for _, _, stage in order}
        ends = [name for rank, order in enumerate(orders) for name in self._rank(rank, order)]
        own = [0.0] * s.pipeline
        for stage, rank in self.home.items():
            own[rank] += self.figures.step_s[stage]
        self.found["optimizer"] = PodStep(-1, -1, max(own) + self.figures.fixed_s, frozenset(ends))
        return self.found

    def _rank(self, rank: int, order: list[Pass]) -> list[str]:
        """A rank's passes in each of its pods; what ends last."""
        pods = range(rank * self.parts, (rank + 1) * self.parts)
        behind: dict[int, set[str]] = {pod: set() for pod in pods}
        closing = {stage: at for at, (kind, _, stage) in enumerate(order) if kind in ("B", "W")}
        in_all, met, reduced = self.strategy.zero == 3, set[int](), set[str]()
        for at, (kind, i, stage) in enumerate(order):
            word = f"{WORDS[kind]} {i}.{stage}"
            if kind != "W" and (in_all or stage not in met):
                waits = set[str]().union(*behind.values()) if in_all else set[str]()
                for pod, names in self._rings(
                    f"weights {word}", pods, self._held(self.figures.gathered, stage), waits
                ).items():
                    behind[pod] = behind[pod] | names
            met.add(stage)
            seconds = self.figures.seconds
            parts = {"F": "F", "J": "F", "B": "IW", "I": "I", "W": "W"}[kind]
            for pod in pods:
                name = f"{word} pod {pod}"
                after = behind[pod] | self._came(rank, kind, i, stage, pod - pods[0])
                self.found[name] = PodStep(-1, -1, sum(seconds[part][stage] for part in parts), frozenset(after))
                behind[pod] = {name}
            if kind != "W":
                self._exchange(word, stage, pods, behind)
                self._tell(rank, kind, i, stage, behind)
            if kind in ("B", "W") and (in_all or closing[stage] == at):
                name = f"gradients {stage}.{i}" if in_all else f"gradients {stage}"
                waits = set[str]().union(*behind.values())
                rings = self._rings(name, pods, self._held(self.figures.reduced, stage), waits)
                reduced.update(*rings.values())
        return sorted(reduced.union(*behind.values()))

    def _came(self, rank: int, kind: str, i: int, stage: int, part: int) -> set[str]:
        """What a pass needs from another rank."""
        source = stage - 1 if kind in THERE else stage + 1
        if kind == "W" or source not in self.home or self.home[source] == rank:
            return set()
        return {f"{'activations' if kind in THERE else 'errors'} {i}.{source} part {part}"}

    def _tell(self, rank: int, kind: str, i: int, stage: int, behind: dict[int, set[str]]) -> None:
        """What a pass sends to another rank."""
        target = stage + 1 if kind in THERE else stage - 1
        holder = self.home.get(target, rank)
        if holder == rank:
            return
        for part, pod in enumerate(list(behind)):
            name = f"{'activations' if kind in THERE else 'errors'} {i}.{stage} part {part}"
            volume = self.figures.hop_bytes * self.gpus
            self.found[name] = PodStep(pod, holder * self.parts + part, volume, frozenset(behind[pod]))
            if not self.problem.overlap.pipeline:
                behind[pod] = {name}

    def _exchange(self, word: str, stage: int, pods: range, behind: dict[int, set[str]]) -> None:
        """Tokens between the pods that share out the experts of a layer."""
        volume = self.figures.tokens[stage] * self.gpus / self.spread
        if self.spread == 1 or not volume:
            return
        came: dict[int, set[str]] = {pod: set() for pod in pods}
        for one in pods:
            for other in pods:
                if one != other and (one - pods[0]) // self.spread == (other - pods[0]) // self.spread:
                    name = f"tokens {word} {one}-{other}"
                    self.found[name] = PodStep(one, other, volume, frozenset(behind[one]))
                    came[other].add(name)
        for pod in pods:
            behind[pod] = behind[pod] | came[pod]

    def _held(self, sizes: tuple[Sequence[float], Sequence[float]], stage: int) -> list[tuple[str, float]]:
        """What pods hold of (dense weights, experts); replicas inside a pod hold the same."""
        s = self.strategy
        shares = s.tensor, s.expert * s.expert_tensor
        pairs = zip(("dense", "experts"), sizes, shares, strict=True)
        return [(kind, size[stage] * min(share, self.gpus)) for kind, size, share in pairs if size[stage]]

    def _rings(
        self, name: str, pods: range, sizes: Iterable[tuple[str, float]], after: set[str]
    ) -> dict[int, set[str]]:
        """Rings of the pods that hold the same; what each pod waits for."""
        found: dict[int, set[str]] = {pod: set() for pod in pods}
        for kind, size in sizes:
            apart = self.spread if kind == "experts" else 1
            for first in range(apart):
                ring = pods[first::apart]
                n = len(ring)
                if n < 2:
                    continue
                begun = f"{name} {kind} {first} ready"
                self.found[begun] = PodStep(-1, -1, 0.0, frozenset(after))
                volume = size * (n - 1) / n / (1 if n == 2 else 2)
                names = set()
                for k, pod in enumerate(ring):
                    for other in {ring[(k + 1) % n], ring[k - 1]}:
                        step = f"{name} {kind} {first} {pod}-{other}"
                        self.found[step] = PodStep(pod, other, volume, frozenset([begun]))
                        names.add(step)
                for pod in ring:
                    found[pod] |= names
        return found
