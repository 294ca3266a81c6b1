"""Circuits between pods in a solution: graphs derived from the instance, figures, and bounds of all strategies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import fields

from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.dag_topology_solution import PathMean, Split, StepPath
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import POD_CIRCUITS, FabricOutcome
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.pod_circuits import PodPlan, PodVerdict, TriedStrategy
from topoopt.core.verdict import Tolerance
from topoopt.verify.dag_topology.boxes import Box, Boxes
from topoopt.verify.dag_topology.follow import follow, without_transfers
from topoopt.verify.dag_topology.means import Means
from topoopt.verify.dag_topology.tree import BeyondDepthError, TreeWalk
from topoopt.verify.laws.findings import ViolationLog, as_int, differs
from topoopt.verify.llm_training.divisions import row_in
from topoopt.verify.llm_training.pod_space import check_others, pod_seconds
from topoopt.verify.llm_training.pods import derived_graph
from topoopt.verify.llm_training.space import records_of

RELATIVE = Tolerance.EVENTS.relative
SLACK = 1e-9
"""Part of a bound that is rounding."""

WHOLE = 1e-7
"""What a number of circuits must be above the whole one before it: rounding of sums."""

LATER = 6e-9
"""Part of the time allowed by which a plan may be later: rounding."""

EVENTS = 400_000_000
"""Of the proofs of all strategies together; what takes more is left out, and said to be."""


def check_pods(
    findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution, one: FabricOutcome
) -> None:
    """All figures of circuits between pods, and every strategy that was tried."""
    plan, network = one.pods, one.plan.network
    if plan is None or problem.pods is None:
        findings.add("pods", "a plan of circuits between pods has them, and the instance says what pods are")
        return
    if any(getattr(network, part.name) for part in fields(network) if part.name != "fabric") or one.note or one.next:
        findings.add("pods", f"{POD_CIRCUITS} has no links between servers")
    findings.hold(
        "pods",
        ("settings", plan.settings, problem.pods),
        ("pods", plan.pods, problem.cluster.gpus // problem.pods.gpus),
        ("tried", one.tried, len(plan.tried)),
    )
    if max(plan.best, plan.first) >= len(plan.tried):
        findings.add("pods", "the strategy of the plan, or the first one, was not tried")
        return
    if plan.tried[plan.best].strategy != one.plan.strategy:
        findings.add("pods", "the strategy of the plan is not the best of those tried")
    if plan.tried[plan.first].strategy != solution.ranked[0].strategy:
        findings.add("pods", "the first strategy is not the fastest on an ideal switch")
    if findings.clean:
        _check_tried(findings, problem, plan)
        check_others(findings, problem, [each.strategy for each in plan.tried], plan.others_s)


def _check_tried(findings: ViolationLog, problem: LlmTrainingProblem, plan: PodPlan) -> None:
    """Graph after graph."""
    floors = pod_seconds(problem, records_of([row_in(problem, each.strategy) for each in plan.tried])).tolist()
    if any(later < earlier * (1 - SLACK) for earlier, later in itertools.pairwise(floors)):
        findings.add("pods", "strategies are not in the order of the bound that all have")
    walks = _Walks(EVENTS)
    for place, (each, floor) in enumerate(zip(plan.tried, floors, strict=True)):
        graph = derived_graph(problem, each.strategy, plan.settings)
        where = f"tried[{place}]"
        crowded = max(_ends(graph, [1] * len(graph.pairs))) > plan.settings.ports
        _check_verdict(findings, plan, each, where, floor, crowded=crowded)
        if crowded:
            continue
        if each.makespan_s is not None and _held(findings, graph, each.counts, where):
            took = max(follow(graph, each.counts)[1])
            if differs(each.makespan_s, took, RELATIVE):
                findings.add("figure", f"{where}: an iteration takes {took!r} s, not {each.makespan_s!r}")
        if place == plan.best:
            _check_plan(findings, graph, plan, walks)
        if each.bound_s > floor * (1 + SLACK):
            own = (each.tree, each.paths, each.means)
            proof = plan.proof
            tree = (proof.makespan_tree, proof.paths, proof.means) if place == plan.best else own
            walks.makespan(findings, graph, where, each.bound_s, *tree)


def _check_verdict(
    findings: ViolationLog, plan: PodPlan, each: TriedStrategy, where: str, floor: float, *, crowded: bool
) -> None:
    """What is said of a strategy, and the figures that go with it."""
    due = {PodVerdict.CROWDED: 0.0, PodVerdict.SLOWER: _least(plan), PodVerdict.LEFT: floor}
    if (each.verdict is PodVerdict.CROWDED) != crowded:
        findings.add("certificate", f"{where}: {each.verdict}, with ports for all others: {not crowded}")
    if each.verdict in due and differs(each.bound_s, due[each.verdict], SLACK):
        findings.add("certificate", f"{where}: {each.verdict} with a bound of {each.bound_s!r} s")
    has_circuits = each.verdict is PodVerdict.SEARCHED
    if has_circuits != (each.makespan_s is not None) or has_circuits != bool(each.counts):
        findings.add("figure", f"{where}: circuits or a time over them, and {each.verdict}")
    proven = each.verdict in (PodVerdict.SEARCHED, PodVerdict.SLOWER)
    if not proven and (each.tree or each.paths or each.means):
        findings.add("certificate", f"{where}: a proof of nothing")


def _least(plan: PodPlan) -> float:
    """Seconds over the fastest circuits of the plan's strategy."""
    return plan.tried[plan.best].makespan_s or plan.makespan_s


def _ends(graph: DagTopologyProblem, counts: Sequence[int]) -> list[int]:
    """Circuits that end at each pod."""
    used = [0] * graph.pods
    for pair, count in zip(graph.pairs, counts, strict=True):
        for pod in pair:
            used[pod] += count
    return used


def _held(findings: ViolationLog, graph: DagTopologyProblem, counts: Sequence[int], where: str) -> bool:
    """Whether there is a circuit for every pair, and a port for every end."""
    if len(counts) != len(graph.pairs) or any(as_int(count) is None or count < 1 for count in counts):
        findings.add("circuits", f"{where}: not a whole number of at least 1 for each pair that sends")
        return False
    over = [pod for pod, used in enumerate(_ends(graph, counts)) if used > graph.ports[pod]]
    findings.add_each("ports", over, lambda pod: f"{where}: more circuits end at pod {pod} than it has ports")
    return not over


def _check_plan(findings: ViolationLog, graph: DagTopologyProblem, plan: PodPlan, walks: _Walks) -> None:
    """Circuits of the plan, what goes over them, and that no fewer do."""
    best = plan.tried[plan.best]
    if best.verdict is not PodVerdict.SEARCHED or best.makespan_s is None:
        findings.add("pods", "the strategy of the plan has no circuits that were searched")
        return
    counts = [link.count for link in plan.links]
    if tuple((link.one, link.other) for link in plan.links) != graph.pairs:
        findings.add("circuits", "not once every pair of pods that something is sent between, in ascending order")
        return
    if not (_held(findings, graph, counts, "links") and _held(findings, graph, plan.volume_counts, "volume_counts")):
        return
    took, fastest = max(follow(graph, counts)[1]), max(follow(graph, best.counts)[1])
    for name, stated, value in (
        ("makespan_s", plan.makespan_s, took),
        ("compute_s", plan.compute_s, without_transfers(graph)),
        ("volume_s", plan.volume_s, max(follow(graph, plan.volume_counts)[1])),
    ):
        if differs(stated, value, RELATIVE):
            findings.add("figure", f"{name} comes to {value!r} s, not {stated!r}")
    limit = fastest * (1 + plan.settings.slack_percent / 100)
    if took > limit * (1 + RELATIVE):
        findings.add("slack", f"an iteration takes {took!r} s, {fastest!r} over the fastest circuits")
    others = [each.makespan_s for each in plan.tried if each.makespan_s is not None]
    if min(others) < fastest * (1 - RELATIVE):
        findings.add("pods", f"a strategy that was tried takes {min(others)!r} s, that of the plan {fastest!r}")
    _check_sent(findings, graph, plan)
    if not 0 <= plan.proof.circuits_bound <= plan.circuits_total:
        findings.add("bound", f"{plan.circuits_total} circuits are fewer than are said to be needed")
    walks.circuits(findings, graph, plan, limit)


def _check_sent(findings: ViolationLog, graph: DagTopologyProblem, plan: PodPlan) -> None:
    """Bytes of each pair, and circuits by them alone."""
    sent = {pair: [0.0, 0.0] for pair in graph.pairs}
    for move in graph.transfers:
        ends = min(move.source, move.target), max(move.source, move.target)
        sent[ends][move.source > move.target] += move.volume
    for link in plan.links:
        for stated, value in zip((link.there_bytes, link.back_bytes), sent[link.one, link.other], strict=True):
            if abs(stated - value) > SLACK * max(1.0, value):
                findings.add("figure", f"{value!r} bytes go between {link.one} and {link.other}, not {stated!r}")
    if not _dealt_by_volume(graph, [sum(sent[pair]) for pair in graph.pairs], plan.volume_counts):
        findings.add("circuits", "volume_counts: not each circuit for the pair with most bytes for each that it has")


def _dealt_by_volume(graph: DagTopologyProblem, volume: Sequence[float], stated: Sequence[int]) -> bool:
    """Whether circuits are dealt out one by one to whoever has most bytes for each; of equal pairs to any."""
    counts = [1] * len(stated)
    free = [most - used for most, used in zip(graph.ports, _ends(graph, counts), strict=True)]
    while room := [k for k, (a, b) in enumerate(graph.pairs) if free[a] > 0 and free[b] > 0]:
        largest = max(volume[k] / counts[k] for k in room)
        equal = [k for k in room if volume[k] / counts[k] >= largest * (1 - SLACK) and counts[k] < stated[k]]
        if not equal:
            return False
        counts[equal[0]] += 1
        for pod in graph.pairs[equal[0]]:
            free[pod] -= 1
    return counts == list(stated)


class _Walks:
    """Walks of the proofs of all strategies, within so many events."""

    def __init__(self, events: int) -> None:
        self._left = events

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
        boxes, own = Boxes(graph, bound_s), Means(graph, paths, means)

        def late(box: Box) -> bool:
            return box.point and max(follow(graph, box.least)[1]) >= boxes.late

        def by_mean(number: int, box: Box) -> bool:
            return own.makespan(number, box) >= boxes.late

        self._walk(findings, f"{where}: {bound_s!r} s is not proven", graph, boxes, tree, late, by_mean)

    def circuits(self, findings: ViolationLog, graph: DagTopologyProblem, plan: PodPlan, limit: float) -> None:
        """No fewer circuits do an iteration within a limit."""
        proof, boxes = plan.proof, Boxes(graph, limit * (1 + LATER))
        means = Means(graph, proof.paths, proof.means)

        def enough(box: Box) -> bool:
            late = box.point and max(follow(graph, box.least)[1]) >= boxes.late
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
        walk = TreeWalk(len(graph.after), self._left)
        try:
            walk(boxes, tree, closes, by_mean)
        except BeyondDepthError as error:
            findings.leave_out("proofs of strategies in pods", str(error))
        except ValueError as error:
            findings.add("bound", f"{text}: {error}")
        self._left = walk.left
