"""An iteration is followed rank by rank, or as a graph of passes and transfers between pods."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.hierarchy import Collective, CollectiveStep, ComputeStep, MessageStep, RankStep, RankTotals
from topoopt.core.llm_training import LayerKind, LlmTrainingProblem
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.core.parallelism import ParallelStrategy, PassKind, PipelineSchedule, Recompute
from topoopt.simulate.dag import NamedSteps
from topoopt.simulate.llm_training.costs import ELEMENT, GroupRates, blocks_of
from topoopt.simulate.llm_training.links import rank_coordinates
from topoopt.simulate.llm_training.step import StagePasses, optimizer_s, stage_times, strategy_orders
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.pipeline import PassOrders
from topoopt.workloads.language_models import passed_elements

TENSOR, CONTEXT, EXPERT, DATA, REPLICAS = "tensor", "context", "expert", "data", "expert-data"


@dataclass(frozen=True)
class GroupCall:
    """A collective in the group of a family that a rank is in.

    Attributes:
        exact_bytes: what the model comes to, which need not be whole.
    """

    family: str
    collective: Collective
    exact_bytes: float

    @property
    def size_bytes(self) -> int:
        """Whole ones, as messages have them."""
        return math.ceil(self.exact_bytes)


class TrainingPasses:
    """Costs of all passes of a strategy.

    Attributes:
        stages: seconds and weights of the stages of the model.
        exact_hop_bytes: that a rank sends to the next stage, of a micro-batch.
    """

    def __init__(self, problem: LlmTrainingProblem, strategy: ParallelStrategy) -> None:
        self._problem, self._strategy = problem, strategy
        rates = GroupRates.of(problem, columns_of([strategy], problem.model.layers))
        self.stages: StagePasses = stage_times(problem, strategy, rates)
        self._tokens = strategy.micro_batch * problem.batch.length // strategy.context
        self._activations = self._tokens * problem.model.hidden * ELEMENT
        shared = strategy.tensor if strategy.sequence else 1
        self.exact_hop_bytes = self._activations / shared

    @property
    def hop_bytes(self) -> int:
        """Whole bytes, as messages have them."""
        return math.ceil(self.exact_hop_bytes)

    def compute_us(self, kind: PassKind, stage: int) -> int:
        """Of a pass, transfers left out; whole microseconds, as traces have them."""
        return round(self.compute_s(kind, stage) * 1e6)

    def compute_s(self, kind: PassKind, stage: int) -> float:
        forward, inputs, weights, again = self.stages.passes[:, stage]
        inputs = inputs + again
        value = {
            PassKind.FORWARD: forward,
            PassKind.JOINED: forward,
            PassKind.BACKWARD: inputs + weights,
            PassKind.INPUTS: inputs,
            PassKind.WEIGHTS: weights,
        }[kind]
        return float(self._problem.cluster.slowdown * value)

    def optimizer_us(self) -> int:
        """The step, on the fullest rank; whole microseconds."""
        return round(self.optimizer_s() * 1e6)

    def optimizer_s(self) -> float:
        return float(self._problem.cluster.slowdown * optimizer_s(self._problem, self._strategy, self.stages))

    def exchanges(self, kind: PassKind, stage: int) -> tuple[GroupCall, ...]:
        """Of a pass, behind its computing; gradients of weights are computed by each rank alone."""
        if kind is PassKind.WEIGHTS:
            return ()
        ahead = kind in (PassKind.FORWARD, PassKind.JOINED)
        calls = [*self._tensor(stage, ahead), *self._context(stage, ahead), *self._expert(stage)]
        return tuple(call for call in calls if call.size_bytes)

    def _kinds(self, stage: int) -> Iterator[tuple[int, LayerKind]]:
        """Layers of a stage by kind."""
        return zip(self.stages.kinds[:, stage].tolist(), self._problem.model.kinds, strict=True)

    def _tensor(self, stage: int, ahead: bool) -> Iterator[GroupCall]:
        s, whole = self._strategy, self._activations
        layers = sum(count * blocks_of(kind) for count, kind in self._kinds(stage)) / 2
        again = 0.0 if ahead or s.recompute is not Recompute.FULL else layers
        if s.tensor == 1:
            return
        if not s.sequence:
            yield GroupCall(TENSOR, Collective.ALL_REDUCE, (2 * layers + 2 * again) * whole)
            return
        gathers = 2 * layers + 2 * again + (0 if ahead else 2 * layers)
        yield GroupCall(TENSOR, Collective.ALL_GATHER, gathers * whole / s.tensor)
        yield GroupCall(TENSOR, Collective.REDUCE_SCATTER, (2 * layers + again) * whole)

    def _context(self, stage: int, ahead: bool) -> Iterator[GroupCall]:
        s = self._strategy
        if s.context == 1:
            return
        t, elements = np.array([float(s.tensor)]), 0.0
        for count, kind in self._kinds(stage):
            of_token, of_sequence = passed_elements(kind.mixer, t)
            elements += count * float(self._tokens * of_token[0] + s.micro_batch * of_sequence[0])
        own = math.ceil(elements * ELEMENT)
        yield GroupCall(CONTEXT, Collective.ALL_GATHER, own)
        if not ahead:
            yield GroupCall(CONTEXT, Collective.REDUCE_SCATTER, own * s.context)

    def _expert(self, stage: int) -> Iterator[GroupCall]:
        s, h = self._strategy, self._problem.model.hidden
        payload = sum(
            count * self._activations / ELEMENT / s.tensor * kind.experts.per_token * ((kind.experts.latent or h) / h)
            for count, kind in self._kinds(stage)
            if kind.experts is not None
        )
        if not payload or s.expert == 1:
            return
        there = 1.0 if self._problem.formats.fp8_dispatch else ELEMENT
        yield GroupCall(EXPERT, Collective.ALL_TO_ALL, payload * there)
        yield GroupCall(EXPERT, Collective.ALL_TO_ALL, payload * ELEMENT)

    def gathering(self, stage: int) -> tuple[GroupCall, ...]:
        """Weights of a stage, which replicas share out."""
        calls = [
            GroupCall(family, Collective.ALL_GATHER, float(weights[stage] * ELEMENT / replicas))
            for family, weights, replicas in self._replicas()
            if self._strategy.zero and replicas > 1
        ]
        return tuple(call for call in calls if call.size_bytes)

    def reducing(self, stage: int) -> tuple[GroupCall, ...]:
        kind = Collective.REDUCE_SCATTER if self._strategy.zero else Collective.ALL_REDUCE
        size = self._problem.formats.gradient_bytes
        calls = [
            GroupCall(family, kind, float(weights[stage] * size))
            for family, weights, replicas in self._replicas()
            if replicas > 1
        ]
        return tuple(call for call in calls if call.size_bytes)

    def _replicas(self) -> Iterator[tuple[str, np.ndarray, int]]:
        s = self._strategy
        yield DATA, self.stages.dense_weights, s.replicas
        yield REPLICAS, self.stages.expert_weights, s.expert_replicas


ENDS = (PassKind.BACKWARD, PassKind.WEIGHTS)
"""Passes behind which the gradients of weights of a micro-batch are there."""


class TrainingProgram:
    """All that ranks do in one iteration (`topoopt.core.hierarchy.RankProgram`).

    Attributes:
        groups: ranks of the groups that the steps and totals made so far name, by number.
    """

    def __init__(self, problem: LlmTrainingProblem, strategy: ParallelStrategy) -> None:
        self.strategy, self.costs = strategy, TrainingPasses(problem, strategy)
        self._numbers: dict[tuple[str, int], int] = {}
        self.groups: dict[int, tuple[int, ...]] = {}
        self._blocking = not problem.overlap.pipeline
        at = rank_coordinates(strategy)
        self.stage_of = at[D.PIPELINE]
        t, c, d, p = (at[dimension] for dimension in (D.TENSOR, D.CONTEXT, D.DATA, D.PIPELINE))
        whole, of_stage = strategy.expert * strategy.expert_tensor, strategy.gpus // strategy.pipeline
        self._row = t + strategy.tensor * (c + strategy.context * d)
        self._keys = {
            TENSOR: c + strategy.context * (d + strategy.data * p),
            CONTEXT: t + strategy.tensor * (d + strategy.data * p),
            DATA: t + strategy.tensor * p,
            EXPERT: self._row // whole + of_stage // whole * p,
            REPLICAS: self._row % whole + whole * p,
        }
        self.orders: PassOrders = strategy_orders(problem, strategy)

    def _group(self, family: str, rank: int) -> int:
        keys = self._keys[family]
        key = family, int(keys[rank])
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers) + 1
            self.groups[self._numbers[key]] = tuple(np.flatnonzero(keys == keys[rank]).tolist())
        return self._numbers[key]

    def passes_of(self, rank: int) -> list[tuple[PassKind, int, int]]:
        own, start = int(self.stage_of[rank]), self.orders.start
        rows = self.orders.passes[int(start[own]) : int(start[own + 1])]
        return [(PassKind(kind), i, stage) for kind, i, stage in rows.tolist()]

    def neighbour(self, rank: int, stage: int) -> int | None:
        """The rank that holds a stage before or behind in the same replica; None: there is none, or itself."""
        if stage < 0:
            return None
        holder = self.orders.rank_of_stage[stage]
        peer = int(np.flatnonzero((self._row == self._row[rank]) & (self.stage_of == holder))[0])
        return None if peer == rank else peer

    def steps(self, rank: int) -> list[RankStep]:
        """Of a rank, in an order in which it can take them: one pass after the other, messages beside them."""
        steps: list[RankStep] = []
        last: tuple[int, ...] = ()
        passes, costs = self.passes_of(rank), self.costs

        def add(step: RankStep) -> None:
            nonlocal last
            last = (len(steps),)
            steps.append(step)

        def collectives(calls: Iterable[GroupCall]) -> None:
            for call in calls:
                number, name = self._group(call.family, rank), f"{call.family} {call.collective}"
                add(CollectiveStep(name, call.collective, number, call.size_bytes, last))

        in_all = self.strategy.zero >= 3
        final = {stage: at for at, (kind, _, stage) in enumerate(passes) if kind in ENDS}
        begun: set[int] = set()
        for at, (kind, i, stage) in enumerate(passes):
            ahead = kind in (PassKind.FORWARD, PassKind.JOINED)
            if kind is not PassKind.WEIGHTS and (in_all or stage not in begun):
                collectives(costs.gathering(stage))
            begun.add(stage)
            source, target = self._ends(rank, kind, stage)
            tag, came = (2 * i + ahead) * len(self.orders.rank_of_stage), tuple[int, ...]()
            if source is not None:
                came = (len(steps),)
                steps.append(MessageStep(False, source[0], tag + source[1], costs.hop_bytes, ()))
            name = f"{'forward' if ahead else kind.name.lower()} of micro-batch {i}, stage {stage}"
            add(ComputeStep(name, costs.compute_us(kind, stage), (*last, *came)))
            collectives(costs.exchanges(kind, stage))
            if target is not None:  # nothing waits for it, unless the rank does nothing else meanwhile
                steps.append(MessageStep(True, target[0], tag + stage, costs.hop_bytes, last))
                last = (len(steps) - 1,) if self._blocking else last
            if final[stage] == at or (in_all and kind in ENDS):
                collectives(costs.reducing(stage))
        add(ComputeStep("optimizer", costs.optimizer_us(), last))
        return steps

    def _ends(self, rank: int, kind: PassKind, stage: int) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        if kind is PassKind.WEIGHTS:
            return None, None
        before, after = int(self.orders.before[stage]), int(self.orders.after[stage])
        ends = (before, after) if kind in (PassKind.FORWARD, PassKind.JOINED) else (after, before)
        peers = [self.neighbour(rank, end) for end in ends]
        source, target = (None if peer is None else (peer, end) for peer, end in zip(peers, ends, strict=True))
        return source, target

    def totals(self, rank: int) -> RankTotals:
        """Of a rank, added up from the counts of its passes."""
        calls: Counter[tuple[Collective, int, int]] = Counter()
        sent: Counter[int] = Counter()
        received: Counter[int] = Counter()
        compute_us = self.costs.optimizer_us()
        stages: dict[int, Counter[PassKind]] = defaultdict(Counter)
        for kind, _, stage in self.passes_of(rank):
            stages[stage][kind] += 1
        count = 1 + sum(counts.total() for counts in stages.values())
        for stage, counts in stages.items():
            for call, times in self._called(stage, counts):
                calls[call.collective, self._group(call.family, rank), call.size_bytes] += times
            for kind, times in counts.items():
                compute_us += times * self.costs.compute_us(kind, stage)
                for end, total in zip(self._ends(rank, kind, stage), (received, sent), strict=True):
                    if end is not None:
                        total[end[0]] += times * self.costs.hop_bytes
                        count += times
        return RankTotals(rank, count + calls.total(), calls, sent, received, compute_us)

    def _called(self, stage: int, counts: Counter[PassKind]) -> Iterator[tuple[GroupCall, int]]:
        for kind, count in counts.items():
            yield from ((call, count) for call in self.costs.exchanges(kind, stage))
        in_all, weights = self.strategy.zero >= 3, counts[PassKind.WEIGHTS]
        gathered, reduced = counts.total() - weights, counts[PassKind.BACKWARD] + weights
        yield from ((call, gathered if in_all else 1) for call in self.costs.gathering(stage))
        yield from ((call, reduced if in_all else 1) for call in self.costs.reducing(stage))


def program_of(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> TrainingProgram:
    """What ranks do in one iteration of a strategy.

    Raises:
        InputError: its ranks are not told one by one.
    """
    problems = []
    if strategy.schedule is PipelineSchedule.DUALPIPE:
        text, value = "a stage on two ranks is not written", strategy.schedule.value
        problems.append(Problem(text, path="plan.strategy.schedule", value=value))
    if strategy.expert_tensor > 1:
        text, value = "experts that GPUs share are not written", str(strategy.expert_tensor)
        problems.append(Problem(text, path="plan.strategy.expert_tensor", value=value, allowed="1"))
    raise_any(problems)
    return TrainingProgram(problem, strategy)


AHEAD = (PassKind.FORWARD, PassKind.JOINED)


@dataclass(frozen=True)
class PodSetting:
    """Pods as the user wants them.

    Attributes:
        gpus: of a pod.
        ports: of a pod; None: the interfaces of its GPUs.
        circuit_gbps: of a circuit; None: that of an interface.
    """

    gpus: int
    ports: int | None = None
    circuit_gbps: float | None = None


def pod_graph(problem: LlmTrainingProblem, program: TrainingProgram, setting: PodSetting) -> DagTopologyProblem:
    """The circuits between pods that an iteration asks for.

    Raises:
        InputError: pods that split a tensor, context or expert group, or that do not divide a stage.
    """
    strategy, cluster = program.strategy, problem.cluster
    _refuse(strategy, setting)
    ports = setting.ports
    if ports is None:
        whole, rest = divmod(cluster.degree * setting.gpus, cluster.gpus_per_server)
        if rest or not whole:
            text = "not a whole number of interfaces for a pod"
            value = f"{setting.gpus} of {cluster.gpus_per_server} GPUs with {cluster.degree} interfaces"
            raise InputError(
                [Problem(text, path="--set pod_gpus", value=value, allowed="another size, or --set pod_ports")]
            )
        ports = whole
    graph = _PodGraph(problem, program, setting.gpus)
    graph.build()
    return graph.steps.problem(
        problem.name,
        (ports,) * (strategy.pipeline * graph.parts),
        setting.circuit_gbps or cluster.link_gbps,
        (
            f"{strategy.pipeline} stages in {graph.parts} pods of {setting.gpus} GPUs each; "
            "pod = stage x pods of a stage + place",
        ),
    )


def _refuse(strategy: ParallelStrategy, setting: PodSetting) -> None:
    """Groups that would be split, and pods that do not divide a stage."""
    gpus, of_stage, problems = setting.gpus, strategy.gpus // strategy.pipeline, []
    held = strategy.tensor * strategy.context
    if gpus % held:
        text = "a pod would split a tensor or context group"
        allowed = f"multiples of {held}: tensor {strategy.tensor} x context {strategy.context}"
        problems.append(Problem(text, path="--set pod_gpus", value=str(gpus), allowed=allowed))
    elif of_stage % gpus:
        text = "pods do not divide the GPUs of a stage"
        allowed = f"a divisor of {of_stage}: {strategy.gpus} GPUs in {strategy.pipeline} stages"
        problems.append(Problem(text, path="--set pod_gpus", value=str(gpus), allowed=allowed))
    experts = strategy.expert * strategy.expert_tensor
    if not problems and gpus % experts and experts % gpus:
        text = "pods would be filled by parts of expert groups"
        problems.append(
            Problem(text, path="--set pod_gpus", value=str(gpus), allowed=f"multiples or divisors of {experts}")
        )
    if not problems and strategy.gpus == gpus:
        text = "one pod holds the whole job: nothing goes over circuits"
        problems.append(Problem(text, path="--set pod_gpus", value=str(gpus), allowed=f"less than {strategy.gpus}"))
    raise_any(problems)


class _PodGraph:
    """Steps of all pods; what all parts of a stage do together is made with the first of them."""

    def __init__(self, problem: LlmTrainingProblem, program: TrainingProgram, gpus: int) -> None:
        self._problem, self._program, self._gpus = problem, program, gpus
        self._strategy, self._costs = program.strategy, program.costs
        self.parts = self._strategy.gpus // self._strategy.pipeline // gpus
        experts = self._strategy.expert * self._strategy.expert_tensor
        self._spread = max(1, experts // gpus)
        self.steps = NamedSteps()

    def build(self) -> None:
        done = [name for rank in range(self._strategy.pipeline) for name in self._rank(rank)]
        self.steps.task("optimizer", self._costs.optimizer_s(), done)

    def _rank(self, rank: int) -> list[str]:
        pods = [rank * self.parts + part for part in range(self.parts)]
        start, all_passes = self._program.orders.start, self._program.orders.passes
        passes = all_passes[int(start[rank]) : int(start[rank + 1])].tolist()
        final = {stage: at for at, (kind, _, stage) in enumerate(passes) if kind in ENDS}
        in_all, begun = self._strategy.zero >= 3, set[int]()
        last: list[list[str]] = [[] for _ in pods]
        reduced: list[str] = []
        for at, (number, batch, stage) in enumerate(passes):
            kind = PassKind(number)
            gathered: dict[int, list[str]] = {}
            if kind is not PassKind.WEIGHTS and (in_all or stage not in begun):
                after = [name for names_of_pod in last for name in names_of_pod] if in_all else []
                calls = self._costs.gathering(stage)
                gathered = self._collectives(f"weights {self._name(kind, batch, stage)}", pods, calls, after)
            begun.add(stage)
            for part, pod in enumerate(pods):
                came = self._arrivals(rank, kind, batch, stage, part)
                last[part] = self._pass(kind, batch, stage, pod, [*last[part], *came, *gathered.get(pod, ())])
            if kind is not PassKind.WEIGHTS:
                self._exchange(kind, batch, stage, pods, last)
                for part in range(self.parts):
                    self._send(rank, kind, batch, stage, part, last)
            if final[stage] == at or (in_all and kind in ENDS):
                ready = [name for names_of_pod in last for name in names_of_pod]
                name = f"gradients {stage}.{batch}" if in_all else f"gradients {stage}"
                collectives = self._collectives(name, pods, self._costs.reducing(stage), ready)
                reduced += [entry for names in collectives.values() for entry in names]
        return [*(name for names_of_pod in last for name in names_of_pod), *dict.fromkeys(reduced)]

    def _name(self, kind: PassKind, batch: int, stage: int) -> str:
        return f"{'forward' if kind in AHEAD else kind.name.lower()} {batch}.{stage}"

    def _pass(self, kind: PassKind, batch: int, stage: int, pod: int, after: list[str]) -> list[str]:
        stages, ahead = self._costs.stages, kind in AHEAD
        seconds = self._costs.compute_s(kind, stage)
        if kind is not PassKind.WEIGHTS:
            inside = [parts[0 if ahead else 1] for parts in (stages.tensor, stages.context)]
            inside += [stages.expert] if self._spread == 1 else []
            exposed = sum(float(part[stage]) for part in inside)
            seconds += self._problem.cluster.slowdown * exposed
        return [self.steps.task(f"{self._name(kind, batch, stage)} pod {pod}", seconds, after)]

    def _ends(self, kind: PassKind, stage: int) -> tuple[int, int]:
        """Stages that a pass hears from, and that it tells; -1: none."""
        orders = self._program.orders
        ends = int(orders.before[stage]), int(orders.after[stage])
        return ends if kind in AHEAD else ends[::-1]

    def _sent(self, kind: PassKind, batch: int, stage: int, part: int) -> str:
        return f"{'activations' if kind in AHEAD else 'errors'} {batch}.{stage} part {part}"

    def _arrivals(self, rank: int, kind: PassKind, batch: int, stage: int, part: int) -> list[str]:
        if kind is PassKind.WEIGHTS:
            return []
        source, _ = self._ends(kind, stage)
        if source < 0 or self._program.orders.rank_of_stage[source] == rank:
            return []
        return [self._sent(kind, batch, source, part)]

    def _send(self, rank: int, kind: PassKind, batch: int, stage: int, part: int, last: list[list[str]]) -> None:
        _, target = self._ends(kind, stage)
        if target < 0:
            return
        holder = int(self._program.orders.rank_of_stage[target])
        if holder == rank:
            return
        ends = rank * self.parts + part, holder * self.parts + part
        name = self._sent(kind, batch, stage, part)
        self.steps.transfer(name, *ends, float(self._costs.exact_hop_bytes * self._gpus), last[part])
        if not self._problem.overlap.pipeline:
            last[part] = [name]

    def _exchange(self, kind: PassKind, batch: int, stage: int, pods: list[int], last: list[list[str]]) -> None:
        """Tokens that go to experts of other pods and come back."""
        size = sum(c.exact_bytes for c in self._costs.exchanges(kind, stage) if c.collective is Collective.ALL_TO_ALL)
        if self._spread == 1 or not size:
            return
        came: list[list[str]] = [[] for _ in pods]
        to_each = size * self._gpus / self._spread
        for part, pod in enumerate(pods):
            first = part - part % self._spread
            for other in range(first, first + self._spread):
                if other != part:
                    name = f"tokens {self._name(kind, batch, stage)} {pod}-{pods[other]}"
                    came[other].append(self.steps.transfer(name, pod, pods[other], to_each, last[part]))
        for part, names in enumerate(came):
            last[part] = [*last[part], *names]

    def _collectives(
        self, name: str, pods: list[int], calls: Sequence[GroupCall], after: list[str]
    ) -> dict[int, list[str]]:
        """Rings of the pods that hold replicas; the names of the transfers that each pod waits for."""
        names_by_pod: dict[int, list[str]] = {pod: [] for pod in pods}
        strategy = self._strategy
        for call in calls:
            experts = strategy.expert * strategy.expert_tensor
            shares = experts if call.family == REPLICAS else strategy.tensor
            step = max(1, shares // self._gpus)
            held = call.exact_bytes * min(shares, self._gpus)
            replicas = strategy.gpus // strategy.pipeline // shares
            whole = held * (replicas if call.collective is Collective.ALL_GATHER else 1)
            passes = 2 if call.collective is Collective.ALL_REDUCE else 1
            for first in range(step):
                ring = pods[first::step]
                if len(ring) < 2:
                    continue
                sent = passes * whole * (len(ring) - 1) / len(ring)
                kind = "experts" if call.family == REPLICAS else "dense"
                names = self.steps.ring(f"{name} {kind} {first}", ring, float(sent), after)
                for pod in ring:
                    names_by_pod[pod] += names
        return names_by_pod
