"""Circuits between pods in a solution: graphs derived from the instance, figures, and bounds of all strategies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields

from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import POD_CIRCUITS, FabricOutcome
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.pod_circuits import PodPlan, PodVerdict, TriedStrategy
from topoopt.core.solution import Decides
from topoopt.core.verdict import Tolerance
from topoopt.verify.dag_topology.follow import without_transfers
from topoopt.verify.dag_topology.padding import padding
from topoopt.verify.laws.findings import ViolationLog, differs
from topoopt.verify.llm_training.divisions import row_in
from topoopt.verify.llm_training.pod_space import check_others, pod_seconds
from topoopt.verify.llm_training.pod_walks import PodWalks, ends, held
from topoopt.verify.llm_training.space import records_of
from topoopt.verify.llm_training.work import WorkBudget, bounding_work, within_work

RELATIVE = Tolerance.EVENTS.relative
SLACK = 1e-9
"""Part of a bound that is rounding."""


def check_pods(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    solution: LlmTrainingSolution,
    one: FabricOutcome,
    budget: WorkBudget,
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
    _check_padding(findings, plan)
    if not findings.clean:
        return
    walks = PodWalks(problem, plan, budget)
    within_work(findings, "circuits of the plan", lambda: _check_plan(findings, plan, walks), Decides.VALUE)
    within_work(findings, "strategies in pods", lambda: _check_tried(findings, problem, plan, walks), Decides.BOUND)
    strategies = [each.strategy for each in plan.tried]
    within_work(
        findings, "others_s", lambda: check_others(findings, problem, strategies, plan.others_s, budget), Decides.BOUND
    )
    within_work(findings, "proof.circuits_bound", lambda: _check_fewest(findings, plan, walks))


def _check_padding(findings: ViolationLog, plan: PodPlan) -> None:
    """Nothing stands there that no strategy needs: sizes only, before any work."""
    proof = plan.proof
    trees = {"makespan_tree": proof.makespan_tree, "circuits_tree": proof.circuits_tree}
    needless = list(padding(trees, proof.paths, proof.means))
    for place, each in enumerate(plan.tried):
        own = padding({"tree": each.tree}, each.paths, each.means)
        needless += [f"tried[{place}]: {text}" for text in own]
    best = plan.tried[plan.best]
    if best.tree or best.paths or best.means:
        needless.append(f"tried[{plan.best}] has a proof, where the plan has that of its strategy")
    made = sum(each.verdict in (PodVerdict.SEARCHED, PodVerdict.SLOWER) for each in plan.tried)
    if made > plan.settings.strategies + 1:
        needless.append(f"{made} strategies have circuits, {plan.settings.strategies} and the first one are asked for")
    findings.add_each("certificate", range(len(needless)), needless.__getitem__)


def _check_tried(findings: ViolationLog, problem: LlmTrainingProblem, plan: PodPlan, walks: PodWalks) -> None:
    """Graph after graph."""
    records = records_of([row_in(problem, each.strategy) for each in plan.tried])
    walks.budget.take(bounding_work(records))
    floors = pod_seconds(problem, records).tolist()
    if any(later < earlier * (1 - SLACK) for earlier, later in itertools.pairwise(floors)):
        findings.add("pods", "strategies are not in the order of the bound that all have")
    for place, (each, floor) in enumerate(zip(plan.tried, floors, strict=True)):
        where = f"tried[{place}]"
        if place not in (plan.best, plan.first) and floor > _least(plan) * (1 + SLACK):
            findings.add("certificate", f"{where}: the bound that all have says enough")
        proven = each.bound_s > floor * (1 + SLACK)
        if not proven and (each.tree or each.paths or each.means):
            findings.add("certificate", f"{where}: a proof of no more than the bound that all have")
        crowded = each.verdict is not PodVerdict.LEFT and walks.crowded(place)
        _check_verdict(findings, plan, each, where, floor, crowded=crowded)
        if crowded or each.verdict is PodVerdict.LEFT:
            continue
        graph = walks.graph(place)
        if each.makespan_s is not None and held(findings, graph, each.counts, where):
            took = walks.follow(graph, each.counts)
            if differs(each.makespan_s, took, RELATIVE):
                findings.add("figure", f"{where}: an iteration takes {took!r} s, not {each.makespan_s!r}")
        if proven:
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


def _check_plan(findings: ViolationLog, plan: PodPlan, walks: PodWalks) -> None:
    """Circuits of the plan, and what goes over them."""
    best = plan.tried[plan.best]
    if best.verdict is not PodVerdict.SEARCHED or best.makespan_s is None:
        findings.add("pods", "the strategy of the plan has no circuits that were searched")
        return
    graph, counts = walks.graph(plan.best), [link.count for link in plan.links]
    if tuple((link.one, link.other) for link in plan.links) != graph.pairs:
        findings.add("circuits", "not once every pair of pods that something is sent between, in ascending order")
        return
    stated = {"links": counts, "volume_counts": plan.volume_counts, f"tried[{plan.best}]": best.counts}
    sound = [held(findings, graph, own, name) for name, own in stated.items()]
    if not all(sound):
        return
    took, fastest = walks.follow(graph, counts), walks.follow(graph, best.counts)
    for name, figure, value in (
        ("makespan_s", plan.makespan_s, took),
        ("compute_s", plan.compute_s, without_transfers(graph)),
        ("volume_s", plan.volume_s, walks.follow(graph, plan.volume_counts)),
    ):
        if differs(figure, value, RELATIVE):
            findings.add("figure", f"{name} comes to {value!r} s, not {figure!r}")
    if took > _limit(plan, fastest) * (1 + RELATIVE):
        findings.add("slack", f"an iteration takes {took!r} s, {fastest!r} over the fastest circuits")
    others = [each.makespan_s for each in plan.tried if each.makespan_s is not None]
    if min(others) < fastest * (1 - RELATIVE):
        findings.add("pods", f"a strategy that was tried takes {min(others)!r} s, that of the plan {fastest!r}")
    _check_sent(findings, graph, plan)


def _limit(plan: PodPlan, fastest_s: float) -> float:
    """Seconds within which no fewer circuits do an iteration."""
    return fastest_s * (1 + plan.settings.slack_percent / 100)


def _check_fewest(findings: ViolationLog, plan: PodPlan, walks: PodWalks) -> None:
    """No fewer circuits do it."""
    if not 0 <= plan.proof.circuits_bound <= plan.circuits_total:
        findings.add("bound", f"{plan.circuits_total} circuits are fewer than are said to be needed")
    if findings.clean:
        graph = walks.graph(plan.best)
        limit = _limit(plan, walks.follow(graph, plan.tried[plan.best].counts))
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
    free = [most - used for most, used in zip(graph.ports, ends(graph, counts), strict=True)]
    while room := [k for k, (a, b) in enumerate(graph.pairs) if free[a] > 0 and free[b] > 0]:
        largest = max(volume[k] / counts[k] for k in room)
        equal = [k for k in room if volume[k] / counts[k] >= largest * (1 - SLACK) and counts[k] < stated[k]]
        if not equal:
            return False
        counts[equal[0]] += 1
        for pod in graph.pairs[equal[0]]:
            free[pod] -= 1
    return counts == list(stated)
