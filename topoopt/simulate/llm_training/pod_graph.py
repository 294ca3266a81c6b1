"""One iteration of a training strategy as a graph of passes and transfers between pods.

A pod holds as many GPUs of one stage of the pipeline as the user says: whole tensor and context groups, which exchange
inside it. Pod r m + j holds the j-th part of pipeline rank r, of m parts. What a part sends to the stages before and
behind goes to part j of them. Replicas reduce inside their pods first, then round a ring of the pods of their stage;
experts that one pod does not hold are reached by transfers between pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InputError, Problem
from topoopt.core.hierarchy import Collective
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy, PassKind
from topoopt.simulate.dag.named_steps import NamedSteps
from topoopt.simulate.llm_training.ranks import ENDS, REPLICAS, GroupCall, TrainingProgram

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
            raise InputError([Problem(text, path="--pod-gpus", value=value, allowed="another size, or --pod-ports")])
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
        problems.append(Problem(text, path="--pod-gpus", value=str(gpus), allowed=allowed))
    elif of_stage % gpus:
        text = "pods do not divide the GPUs of a stage"
        allowed = f"a divisor of {of_stage}: {strategy.gpus} GPUs in {strategy.pipeline} stages"
        problems.append(Problem(text, path="--pod-gpus", value=str(gpus), allowed=allowed))
    experts = strategy.expert * strategy.expert_tensor
    if not problems and gpus % experts and experts % gpus:
        text = "pods would be filled by parts of expert groups"
        problems.append(
            Problem(text, path="--pod-gpus", value=str(gpus), allowed=f"multiples or divisors of {experts}")
        )
    if not problems and strategy.gpus == gpus:
        text = "one pod holds the whole job: nothing goes over circuits"
        problems.append(Problem(text, path="--pod-gpus", value=str(gpus), allowed=f"less than {strategy.gpus}"))
    if problems:
        raise InputError(problems)


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
        """All passes, then the step of the optimizer, which waits for all gradients."""
        done = [name for rank in range(self._strategy.pipeline) for name in self._rank(rank)]
        self.steps.task("optimizer", self._costs.optimizer_s(), done)

    def _rank(self, rank: int) -> list[str]:
        """Passes of a pipeline rank in all its pods; names of what ends last."""
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
                after = [name for each in last for name in each] if in_all else []
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
                ready = [name for each in last for name in each]
                name = f"gradients {stage}.{batch}" if in_all else f"gradients {stage}"
                found = self._collectives(name, pods, self._costs.reducing(stage), ready)
                reduced += [one for names in found.values() for one in names]
        return [*(name for each in last for name in each), *dict.fromkeys(reduced)]

    def _name(self, kind: PassKind, batch: int, stage: int) -> str:
        return f"{'forward' if kind in AHEAD else kind.name.lower()} {batch}.{stage}"

    def _pass(self, kind: PassKind, batch: int, stage: int, pod: int, after: list[str]) -> list[str]:
        """Computing, with what GPUs of the pod exchange and do not hide."""
        stages, ahead = self._costs.stages, kind in AHEAD
        seconds = self._costs.compute_s(kind, stage)
        if kind is not PassKind.WEIGHTS:
            inside = [stages.tensor, stages.context, *([stages.expert] if self._spread == 1 else [])]
            exposed = sum(float(each[0 if ahead else 1][stage]) for each in inside)
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
        found: dict[int, list[str]] = {pod: [] for pod in pods}
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
                    found[pod] += names
        return found
