"""The search for the plan of a job: by a method, for every way in which its links may be shared."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.job.baselines import FabricSearch
from solvers.job.link_orders import SharedPlan, best_order
from solvers.job.loop import Keep, LoopResult
from solvers.job.methods import default_budget, run_method
from solvers.stop import Stop
from topoopt.core.cluster import Cluster
from topoopt.core.job import CoOptimisation
from topoopt.kinds.job.fabric_comparison import fabric_search
from topoopt.kinds.kind import Effort

COMPARED_SERVERS = 1024
"""Servers up to which `solve` holds a plan against other fabrics: their routes of all pairs take gigabytes beyond."""


@dataclass(frozen=True)
class FoundPlan:
    """What a search of strategy and topology ends with.

    Attributes:
        result: the plan, and how it was come by.
        asked: how other fabrics are searched; None: not at all.
        cluster: with links shared as in the plan.
    """

    result: LoopResult
    asked: FabricSearch | None
    cluster: Cluster


def found_plan(name: str, instance: CoOptimisation, effort: Effort) -> FoundPlan:
    """Strategy, topology and routes by one method.

    Raises:
        InfeasibleError: no plan satisfies the constraints.
        InputError: the job is too large for the method.
    """
    cluster, workload, search = instance.cluster, instance.workload, effort.search
    proposals = default_budget(cluster, workload) if search.budget is None else search.budget
    done = 0

    def progress(phase: str, made: int, best_ms: float) -> None:
        nonlocal done
        done += made
        effort.tell(f"{phase}: best {best_ms:.3f} ms", done, proposals)

    effort.tell("start", 0, proposals)
    alone = effort.options.objective_only
    compared = not alone and cluster.servers <= COMPARED_SERVERS
    asked = fabric_search(instance, proposals // 20, search.seed, effort.options.book) if compared else None

    def searched(on: Cluster, budget: int, stop: Stop, keep: Keep) -> LoopResult:
        return run_method(
            name,
            on,
            workload,
            budget=budget,
            seed=search.seed,
            stop=stop,
            progress=progress,
            robust=search.robust,
            allreduce=search.allreduce,
            keep=keep,
            jobs=effort.options.jobs,
            crew=effort.options.crew,
        )

    def made(best: SharedPlan) -> FoundPlan:
        return FoundPlan(best.result, asked, best.cluster)

    best = best_order(
        cluster,
        instance.sharings,
        searched,
        budget=proposals,
        stop=effort.stop,
        keep=lambda best: effort.keep(lambda: made(best())),
    )
    return made(best)
