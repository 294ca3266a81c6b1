"""The job on other fabrics: each built again, and the job simulated on it with the strategy that was found for it."""

from __future__ import annotations

from collections.abc import Iterable

from topoopt.core.job import CoOptimisation, FabricChoice
from topoopt.core.job_solution import Baseline, JobSolution
from topoopt.core.price_book import PriceBook
from topoopt.core.solution import Decides
from topoopt.core.verdict import Tolerance
from topoopt.verify.job.fabrics.asked import AskedFabric, asked_fabric
from topoopt.verify.job.fabrics.families import LAWS, fault_of, links_of
from topoopt.verify.job.fabrics.switched import fat_tree, ideal_switch, nic_gbps
from topoopt.verify.job.fabrics.wired import check_rings, wired_network
from topoopt.verify.job.parts import check_strategy
from topoopt.verify.job.simulation.budget import EventBudget
from topoopt.verify.job.simulation.iteration import simulated
from topoopt.verify.job.simulation.network import SimulatedNetwork
from topoopt.verify.job.simulation.tasks import TRANSFER, IterationTasks, task_count, tasks_of
from topoopt.verify.job.traffic import recompute_traffic
from topoopt.verify.laws.findings import ViolationLog, as_float, differs

TREES = ("fat-tree", "full-fat-tree", "oversubscribed-fat-tree")
RELATIVE = Tolerance.EVENTS.relative
HOPS_DRAWN = 8
"""A path is drawn for every pair, over at most about so many hops, each of which looks at all links of a server."""


def check_baselines(
    findings: ViolationLog,
    instance: CoOptimisation,
    solution: JobSolution,
    book: PriceBook | None,
    budget: EventBudget,
) -> None:
    """Every baseline is one the instance asks for, in its order, and takes the time that is stated.

    That no better strategy exists for a fabric is not said and not checked; a fabric of no clusters of this size is
    missing, with a note.
    """
    asked = {choice.name: choice for choice in instance.baselines.fabrics}
    names = [baseline.fabric for baseline in solution.baselines]
    for name in names:
        if name not in asked:
            findings.add("baseline", f"{name} is no fabric of the instance")
    if len(set(names)) < len(names) or [name for name in asked if name in names] != names:
        findings.add("baseline", f"the fabrics {names} are not in the order of the instance")
    for name in asked:
        if name not in names:
            findings.leave_out(f"baseline {name}", "the solution does not have it")
    for baseline in solution.baselines:
        if baseline.fabric in asked:
            _check(findings, instance, solution, baseline, asked[baseline.fabric], book, budget)


def _check(
    findings: ViolationLog,
    instance: CoOptimisation,
    solution: JobSolution,
    baseline: Baseline,
    choice: FabricChoice,
    book: PriceBook | None,
    budget: EventBudget,
) -> None:
    own = ViolationLog()
    parts = check_strategy(own, instance.cluster, instance.workload, baseline.strategy)
    for violation in own.violations():
        findings.add("baseline", f"{baseline.fabric}: {violation.message}")
    if parts is None or not own.clean:
        return
    name, traffic = f"baseline {baseline.fabric}", recompute_traffic(instance.cluster, instance.workload, parts)
    if not budget.holds(findings, name, task_count(parts, traffic), Decides.NOTHING):
        return
    tasks = tasks_of(instance.workload, parts, traffic)
    asked = asked_fabric(choice, instance.baselines)
    network = _network(findings, instance, solution, baseline, asked, book, tasks, budget)
    if network is None:
        return
    times = simulated(findings, name, tasks, network, budget)
    if times is None:
        return
    stated = as_float(baseline.iteration_time_ms)
    if differs(stated, times.total_ms, RELATIVE):
        findings.add("baseline", f"{baseline.fabric} takes {stated!r} ms, {times.total_ms!r} simulated")


def _network(
    findings: ViolationLog,
    instance: CoOptimisation,
    solution: JobSolution,
    baseline: Baseline,
    asked: AskedFabric,
    book: PriceBook | None,
    tasks: IterationTasks,
    budget: EventBudget,
) -> SimulatedNetwork | None:
    """The fabric built again; None where it is not, with the reason among the findings."""
    cluster, where = instance.cluster, f"baseline {baseline.fabric}"
    if asked.kind in LAWS:
        return _wired(findings, instance, solution, baseline, asked, budget)
    if baseline.graph is not None:
        findings.add("baseline", f"{baseline.fabric} is a fabric of switches, and the solution has its links")
    if asked.kind not in (*TREES, "ideal-switch"):
        findings.leave_out(where, f"the checker does not know the fabric {asked.kind}")
        return None
    gbps = nic_gbps(asked, cluster, book)
    if gbps is None:
        findings.leave_out(where, "its rate is that of equal cost, and the price book is not at hand")
        return None
    pairs, groups = _used(tasks)
    if asked.kind == "ideal-switch":
        return ideal_switch(cluster, gbps, pairs, groups)
    return fat_tree(asked, cluster, gbps, solution.seed, pairs, groups)


def _wired(
    findings: ViolationLog,
    instance: CoOptimisation,
    solution: JobSolution,
    baseline: Baseline,
    asked: AskedFabric,
    budget: EventBudget,
) -> SimulatedNetwork | None:
    cluster = instance.cluster
    links = None if baseline.graph is None else links_of(baseline.graph, cluster.servers)
    if baseline.graph is None or links is None:
        findings.add("baseline", f"{baseline.fabric} has no table of links")
        return None
    fault = fault_of(links, baseline.graph, asked, cluster)
    if fault:
        findings.add("baseline", f"{baseline.fabric}: {fault}")
    if not check_rings(findings, baseline.fabric, baseline.graph, cluster.servers) or fault:
        return None
    drawn = HOPS_DRAWN * cluster.servers**2 * cluster.degree
    if not budget.takes(findings, f"baseline {baseline.fabric}", drawn):
        return None
    return wired_network(cluster, links, baseline.graph, solution.seed)


def _used(tasks: IterationTasks) -> tuple[Iterable[tuple[int, int]], Iterable[tuple[int, ...]]]:
    """Pairs of transfers and groups of AllReduces, each once, in the order of the tasks."""
    pairs = {
        (lane, target): None
        for kind, lane, target in zip(tasks.kind, tasks.lane, tasks.target, strict=True)
        if kind == TRANSFER
    }
    return pairs, {members: None for members in tasks.members if members}
