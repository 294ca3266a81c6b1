"""Each method of `topoopt solve` on a co-optimisation instance is a line, and runs once for each sharing of links.

A mode of sharing that lets transfers go before AllReduces wants other strategies than one that serves in order of
arrival. So each mode has its part of the proposals, and of the time, and none starts from the plan of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from solvers.collective.options import too_many_servers
from solvers.job.alternate import Alternation
from solvers.job.loop import LoopResult, LoopSettings, OnIncumbent, Progress
from solvers.job.starts import ANNEALED_SERVERS, LARGE_SERVERS, effort_for
from solvers.processes import Gather
from solvers.stop import Stop, first_part
from topoopt.core.cluster import Cluster, LinkSharing
from topoopt.core.errors import InputError, Problem
from topoopt.core.result import AllReduceChoice, JobSearchSettings, RobustGoal
from topoopt.core.workload import Workload

SharedPlan = tuple[LoopResult, Cluster]
"""What a search ends with, and the cluster with links shared as it takes them."""

Search = Callable[[Cluster, int, Stop, OnIncumbent], LoopResult]
"""A search on a cluster with so many proposals."""


def best_order(
    cluster: Cluster,
    sharings: Sequence[LinkSharing],
    search: Search,
    *,
    budget: int,
    stop: Stop,
    on_incumbent: Callable[[Callable[[], SharedPlan]], None],
) -> SharedPlan:
    """The best plan over all ways to share links, of the first one where two are as good.

    Args:
        cluster: servers and links.
        sharings: at least one.
        search: does each.
        budget: proposals in all, of which each has as many.
        stop: when to end; each has its part of what is left.
        on_incumbent: offered the best so far.
    """
    best: SharedPlan | None = None
    for index, sharing in enumerate(sharings):
        if best is not None and stop.reason() is not None:
            break
        left, own = len(sharings) - index, replace(cluster, link_sharing=sharing)
        part = stop if left == 1 or stop.deadline is None else first_part(stop, 1.0 / left, float("inf"))
        share = budget // len(sharings) + (index < budget % len(sharings))
        before = best

        def offered(plan: Callable[[], LoopResult], before: SharedPlan | None = before, own: Cluster = own) -> None:
            on_incumbent(lambda: _better(before, (plan(), own)))

        best = _better(before, (search(own, share, part, offered), own))
    if best is None:
        raise ValueError("no way to share links")
    return best


def _better(before: SharedPlan | None, current: SharedPlan) -> SharedPlan:
    if before is None:
        return current
    first, second = before[0], current[0]
    made = first.proposals + second.proposals
    if second.iteration_time_ms >= first.iteration_time_ms:
        said = _note(current)
        kept = replace(first, proposals=made, stopped_by=second.stopped_by, notes=(*first.notes, said))
        return kept, before[1]
    later = [replace(point, proposals=first.proposals + point.proposals) for point in second.convergence]
    reached = min((point.best_ms for point in first.convergence), default=float("inf"))
    convergence = (*first.convergence, *(point for point in later if point.best_ms < reached))
    notes = (*second.notes, _note(before))
    kept = replace(second, initial_ms=first.initial_ms, proposals=made, convergence=convergence, notes=notes)
    return kept, current[1]


def _note(other: SharedPlan) -> str:
    result, cluster = other
    return f"links shared {cluster.link_sharing.value}: {result.iteration_time_ms:.6g} ms"


@dataclass(frozen=True)
class StrategyMethod:
    """Which halves of the alternating loop are searched, and which mathematical programs are asked."""

    summary: str
    search_strategy: bool
    search_topology: bool
    programs: tuple[str, ...] = ()


METHODS: Mapping[str, StrategyMethod] = {
    "alternating": StrategyMethod("strategy and topology in turn, as TopoOpt does", True, True),
    "fixed-topology": StrategyMethod("strategy search on the TotientPerms topology", True, False),
    "data-parallel": StrategyMethod("topology search for data parallelism, no strategy search", False, True),
    "topology-search": StrategyMethod(
        "as alternating, with a topology search for all traffic in each step", True, True, ("search",)
    ),
    "exact-topology": StrategyMethod(
        "as alternating, with the joint program of links, rings and routes", True, True, ("exact",)
    ),
    "robust": StrategyMethod("alternating, then the topology whose worst single link failure is best", True, True),
    "joint": StrategyMethod(
        "alternating, held against the joint optimum of a tiny job (5 servers at most)", True, True
    ),
}

DEFAULT_METHOD = "alternating"
"""What `auto` runs; on small clusters it then asks the programs of `AUTO_PROGRAMS` about the plan found."""

AUTO_PROGRAMS: Mapping[str, int] = {"exact": 8, "search": 8}
"""Programs, and servers up to which they pay: they gained a tenth on 8 servers, and nothing on DLRM, CANDLE and mixture
of experts on 16, where the portfolio's busiest link is within 2 % of the bound over all topologies."""

FINALISTS, AUTO_FINALISTS = 4, 2
"""Candidates the programs are asked about when a method names them, and by `auto`."""

TASKS_PER_BUDGET = 150_000_000
"""Default budget: about this many tasks are simulated in all (tens of seconds on one core)."""


def default_budget(cluster: Cluster, workload: Workload) -> int:
    """Proposals that take tens of seconds, from the size of the job alone, so that results stay reproducible."""
    compute_tasks = sum(2 * min(cluster.servers, max(s.parts for s in op.splits)) for op in workload.operators)
    edges = sum(len(operator.inputs) for operator in workload.operators) * cluster.servers
    tasks = max(1, compute_tasks + 2 * edges)
    if cluster.servers > LARGE_SERVERS:
        return max(64_000 // cluster.servers, min(60_000, TASKS_PER_BUDGET // (4 * tasks)))
    return max(500, min(60_000, TASKS_PER_BUDGET // tasks))


def allreduce_problems(search: JobSearchSettings, cluster: Cluster) -> list[Problem]:
    """What no schedules are made for: methods that know rings only, and too many servers."""
    choice = search.allreduce
    problems: list[Problem] = []
    if choice is AllReduceChoice.RINGS:
        return problems
    method = "robust" if search.method == "auto" and search.robust is not None else search.method
    if method in ("robust", "joint"):
        text = f"method {method} knows AllReduces on rings only"
        problems.append(Problem(text, path="search.allreduce", value=choice.value, allowed="rings"))
    return problems + too_many_servers(choice, cluster.servers)


def run_method(
    name: str,
    cluster: Cluster,
    workload: Workload,
    *,
    budget: int,
    seed: int,
    stop: Stop,
    progress: Progress | None = None,
    robust: RobustGoal | None = None,
    allreduce: AllReduceChoice = AllReduceChoice.RINGS,
    on_incumbent: OnIncumbent | None = None,
    jobs: int = 1,
    crew: Gather | None = None,
) -> LoopResult:
    """Run a method of the table; `auto` is `robust` where that goal is given.

    Args:
        allreduce: what AllReduces run on; rings alone for `joint` and `robust`.
        on_incumbent: offered the best so far of the alternating loop.
        jobs: processes that share its independent parts; the result is that of one.
        crew: who does them instead; None: such processes. Method `joint` does all itself.

    Raises:
        KeyError: unknown method (the reader of instances refuses it before).
        InfeasibleError: no plan satisfies the constraints.
        InputError: the job is too large for the method.
    """
    if name == "auto" and robust is not None:
        name = "robust"
    problems = allreduce_problems(JobSearchSettings(name, robust=robust, allreduce=allreduce), cluster)
    if problems:
        raise InputError(problems)
    method = METHODS[DEFAULT_METHOD if name == "auto" else name]
    programs = method.programs
    if name == "auto":
        programs = tuple(entry for entry, most in AUTO_PROGRAMS.items() if cluster.servers <= most)
    settings = LoopSettings(
        budget=budget,
        topologies=effort_for(cluster.servers).topologies,
        beam=LoopSettings.beam if cluster.servers <= ANNEALED_SERVERS else 1,  # beyond, nothing is annealed
        search_strategy=method.search_strategy,
        search_topology=method.search_topology,
        programs=programs,
        finalists=FINALISTS if method.programs else AUTO_FINALISTS,
        allreduce=allreduce,
    )
    if name == "joint":
        from solvers.job.joint import run_joint

        return run_joint(cluster, workload, settings, seed=seed, stop=stop, progress=progress, jobs=jobs)
    loop = Alternation(
        cluster,
        workload,
        settings,
        seed=seed,
        stop=stop,
        progress=progress,
        on_incumbent=on_incumbent,
        jobs=jobs,
        crew=crew,
    )
    result = loop.run()
    if name == "robust":
        from solvers.failures.robust import RobustDesign

        design = RobustDesign(
            cluster, workload, result, robust or RobustGoal(), topologies=settings.topologies, seed=seed, stop=stop
        )
        return design.run()
    if not method.programs:
        return result
    from solvers.job.program_topologies import PROGRAMS

    lines = [PROGRAMS[entry] for entry in method.programs]
    notes = [f"{summary}: left out above {most} servers" for summary, most, _ in lines if cluster.servers > most]
    return replace(result, notes=(*result.notes, *notes))
