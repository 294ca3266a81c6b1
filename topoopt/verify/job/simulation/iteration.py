"""An iteration of the plan simulated again, and every figure of the solution that follows from it."""

from __future__ import annotations

from topoopt.core.job import CoOptimisation
from topoopt.core.job_solution import JobSolution, Span
from topoopt.core.solution import Decides
from topoopt.core.verdict import Tolerance
from topoopt.verify.job.plan import Inspection
from topoopt.verify.job.simulation.bars import check_bars, expected_bars, same_times, span_of
from topoopt.verify.job.simulation.budget import EventBudget
from topoopt.verify.job.simulation.flows import events_of, flows_of
from topoopt.verify.job.simulation.network import SimulatedNetwork, plan_network
from topoopt.verify.job.simulation.rounds import Times, simulate_rounds
from topoopt.verify.job.simulation.tasks import IterationTasks, task_count, tasks_of
from topoopt.verify.laws.findings import ViolationLog, as_float, differs

RELATIVE = Tolerance.EVENTS.relative
FIGURES = "iteration time, timeline, critical path"


def check_iteration(
    findings: ViolationLog,
    instance: CoOptimisation,
    solution: JobSolution,
    seen: Inspection,
    budget: EventBudget,
) -> None:
    """Simulate the plan of a solution, which keeps all laws, and hold the evaluation against it."""
    if seen.parts is None or seen.traffic is None:
        return
    # Each task is an event, and so is each hop of a transfer; of thousands of servers these take gigabytes.
    crossed = 0 if seen.hops is None else seen.hops.crossings(seen.traffic.transfers)
    if not budget.holds(findings, FIGURES, task_count(seen.parts, seen.traffic) + crossed, Decides.VALUE):
        return
    tasks = tasks_of(instance.workload, seen.parts, seen.traffic)
    network = plan_network(instance.cluster, solution.plan, seen.schedules)
    times = simulated(findings, FIGURES, tasks, network, budget, Decides.VALUE)
    if times is None:
        return
    evaluation, total = solution.evaluation, times.total_ms
    slack = RELATIVE * total
    if differs(as_float(solution.objective.value), total, RELATIVE):
        findings.add("iteration-time", f"the iteration takes {solution.objective.value!r} ms, {total!r} simulated")
    names = [operator.name for operator in instance.workload.operators]
    path = [span_of(tasks, times, names, task) for task in critical_tasks(times)]
    _check_path(findings, evaluation.critical_path, path, slack)
    bars, crowded = expected_bars(tasks, times, names)
    missing = evaluation.timeline_servers_left_out
    check_bars(findings, evaluation.timeline, missing, bars, path, slack, crowded=crowded)


def simulated(
    findings: ViolationLog,
    figures: str,
    tasks: IterationTasks,
    network: SimulatedNetwork,
    budget: EventBudget,
    decides: Decides = Decides.NOTHING,
) -> Times | None:
    """When all tasks run on a network; None, and noted as left out, if that is more than the budget.

    Raises:
        LookupError, ValueError: the network lacks a path or a ring, or tasks wait in a circle.
    """
    if not budget.takes(findings, figures, events_of(tasks, network), decides):
        return None
    flows = flows_of(tasks, network)
    return simulate_rounds(tasks, flows, network, lambda done: budget.tell(f"simulating {figures}", done, len(tasks)))


def critical_tasks(times: Times) -> list[int]:
    """What the iteration waited for, first to last: of the tasks that end last the first one, and back by causes."""
    if not times.end:
        return []
    path = [times.end.index(times.total_ms)]
    while times.cause[path[-1]] >= 0:
        path.append(times.cause[path[-1]])
    return path[::-1]


def _check_path(findings: ViolationLog, stated: tuple[Span, ...], path: list[Span], slack: float) -> None:
    if len(stated) != len(path):
        findings.add("critical-path", f"the critical path has {len(stated)} steps, {len(path)} simulated")
        return
    for place, (step, due) in enumerate(zip(stated, path, strict=True)):
        same = (step.lane, step.kind, step.label) == (due.lane, due.kind, due.label)
        if not (same and same_times(step, due, slack)):
            findings.add("critical-path", f"step {place} is {step}, {due} simulated")
