"""Graphs of strategies in pods, and walks of their proofs, within the work of a check."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import PathMean, Split, StepPath
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pod_circuits import PodPlan
from topoopt.verify.dag_topology.boxes import Box, Boxes
from topoopt.verify.dag_topology.follow import follow
from topoopt.verify.dag_topology.means import Means
from topoopt.verify.dag_topology.tree import SLACK_ROUNDING, BeyondDepthError, TreeWalk
from topoopt.verify.laws.findings import ViolationLog, as_int
from topoopt.verify.llm_training.pods import derived_graph
from topoopt.verify.llm_training.work import BeyondWorkError, WorkBudget

WHOLE = 1e-7
"""What a number of circuits must be above the whole one before it: rounding of sums."""

MOST_STEPS = 1_000_000
"""Steps of a graph: some GB."""

MOST_ORDERED = 90_000
"""Steps of which each has a bit for each before it: a GB."""

STEP, FOLLOWED = 5.0, 0.2
"""Events that each step of a graph takes to write down, and to follow for each pair of pods."""

BITS = 6_400.0
"""Bits that are looked at in the time of an event."""


def ends(graph: DagTopologyProblem, counts: Sequence[int]) -> list[int]:
    """Circuits that end at each pod."""
    used = [0] * graph.pods
    for pair, count in zip(graph.pairs, counts, strict=True):
        for pod in pair:
            used[pod] += count
    return used


def held(findings: ViolationLog, graph: DagTopologyProblem, counts: Sequence[int], where: str) -> bool:
    """Whether there is a circuit for every pair, and a port for every end."""
    if len(counts) != len(graph.pairs) or any(as_int(count) is None or count < 1 for count in counts):
        findings.add("circuits", f"{where}: not a whole number of at least 1 for each pair that sends")
        return False
    over = [pod for pod, used in enumerate(ends(graph, counts)) if used > graph.ports[pod]]
    findings.add_each("ports", over, lambda pod: f"{where}: more circuits end at pod {pod} than it has ports")
    return not over


class PodWalks:
    """Walks of the proofs of all strategies, within so many events."""

    def __init__(self, problem: LlmTrainingProblem, plan: PodPlan, budget: WorkBudget) -> None:
        self._problem, self._plan, self.budget = problem, plan, budget
        self._graphs: dict[int, DagTopologyProblem] = {}

    def graph(self, place: int) -> DagTopologyProblem:
        """Of the strategy in this place of those tried; only that of the plan is kept.

        Raises:
            BeyondWorkError: it is too large.
        """
        if place in self._graphs:
            return self._graphs[place]
        strategy, settings = self._plan.tried[place].strategy, self._plan.settings
        self.budget.take(_graph_work(self._problem, strategy, settings.gpus))
        graph = derived_graph(self._problem, strategy, settings)
        self._graphs = {number: one for number, one in self._graphs.items() if number == self._plan.best}
        self._graphs[place] = graph
        return graph

    def crowded(self, place: int) -> bool:
        """Whether a pod exchanges with more others than it has ports."""
        graph = self.graph(place)
        return max(ends(graph, [1] * len(graph.pairs))) > self._plan.settings.ports

    def follow(self, graph: DagTopologyProblem, counts: Sequence[int]) -> float:
        """Seconds of an iteration over circuits.

        Raises:
            BeyondWorkError: it has too many steps.
        """
        self.budget.take(len(graph.after) * (1 + FOLLOWED * len(graph.pairs)))
        return max(follow(graph, counts)[1])

    def makespan(
        self,
        findings: ViolationLog,
        graph: DagTopologyProblem,
        where: str,
        bound_s: float,
        tree: Sequence[Split],
        paths: Sequence[StepPath],
        means: Sequence[PathMean],
    ) -> None:
        """No circuits do an iteration before a bound."""
        self._take_means(graph, paths, means)
        boxes, own = Boxes(graph, bound_s), Means(graph, paths, means)

        def late(box: Box) -> bool:
            return box.point and self.follow(graph, box.least) >= boxes.late

        def by_mean(number: int, box: Box) -> bool:
            return own.makespan(number, box) >= boxes.late

        self._walk(findings, f"{where}: {bound_s!r} s is not proven", graph, boxes, tree, late, by_mean)

    def circuits(self, findings: ViolationLog, graph: DagTopologyProblem, plan: PodPlan, limit: float) -> None:
        """No fewer circuits do an iteration within a limit."""
        proof, boxes = plan.proof, Boxes(graph, limit * (1 + SLACK_ROUNDING))
        self._take_means(graph, proof.paths, proof.means)
        means = Means(graph, proof.paths, proof.means)

        def enough(box: Box) -> bool:
            late = box.point and self.follow(graph, box.least) >= boxes.late
            return sum(box.least) >= proof.circuits_bound or late

        def needed(number: int, box: Box) -> bool:
            least = means.circuits(number, box, boxes.late)
            return least > proof.circuits_bound - 1 + WHOLE or means.makespan(number, box) >= boxes.late

        text = f"fewer than {proof.circuits_bound} circuits are not excluded"
        self._walk(findings, text, graph, boxes, proof.circuits_tree, enough, needed)

    def _walk(
        self, findings: ViolationLog, text: str, graph: DagTopologyProblem, boxes: Boxes, tree: Sequence[Split],
        closes: Callable[[Box], bool], by_mean: Callable[[int, Box], bool],
    ) -> None:  # fmt: skip
        walk = TreeWalk(len(graph.after), int(self.budget.left))
        try:
            walk(boxes, tree, closes, by_mean)
        except BeyondDepthError as error:
            raise BeyondWorkError(str(error)) from error
        except ValueError as error:
            findings.add("bound", f"{text}: {error}")
        self.budget.left = min(self.budget.left, walk.left)

    def _take_means(self, graph: DagTopologyProblem, paths: Sequence[StepPath], means: Sequence[PathMean]) -> None:
        """What it takes to look up paths, each step against all before it, and to add up means."""
        steps = len(graph.after)
        if means and steps > MOST_ORDERED:
            raise BeyondWorkError(f"the order of {steps} steps is more than this check looks at")
        groups = sum(len(group) for path in paths for group in path)
        weights = sum(len(mean.weights) for mean in means)
        self.budget.take(
            (steps if means else 0) * steps / BITS + groups * (1 + steps / BITS) + weights * len(graph.pairs)
        )


def _graph_work(problem: LlmTrainingProblem, strategy: ParallelStrategy, gpus: int) -> float:
    """Events that writing down the graph of an iteration takes; inf where it is too large for memory."""
    s = strategy
    parts, spread = s.gpus // s.pipeline // gpus, max(1, s.expert * s.expert_tensor // gpus)
    passes = 2.0 * (problem.batch.sequences // (s.data * s.micro_batch)) * s.pipeline * s.chunks * parts
    steps = passes * (2 + (spread if spread > 1 else 0) + (4 if s.zero == 3 else 0))
    return STEP * steps if steps <= MOST_STEPS else math.inf
