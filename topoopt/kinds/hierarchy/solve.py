"""The one straight line from a hierarchical problem to a checked solution."""

from __future__ import annotations

from dataclasses import replace

from formulations.hierarchy.hierarchical_program import BandwidthProgram, plain_program
from solvers.hierarchy import BestDesign, best_design, front
from solvers.stop import Stop, stop_on_signals
from topoopt.core.errors import InputError, Problem
from topoopt.core.hierarchy import HierarchicalObjective, HierarchicalProblem
from topoopt.core.hierarchy_solution import HierarchicalSolution, ParetoPoint
from topoopt.core.search_settings import SearchSettings
from topoopt.core.solution import UNCHECKED, Bound, Objective
from topoopt.core.verdict import Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.hierarchy.figures import figures_of, marginal_ns
from topoopt.kinds.hierarchy.proofs import certificate_of, proof_of
from topoopt.verify.hierarchy.check import check_hierarchical

UNITS = {
    HierarchicalObjective.TIME: "ns",
    HierarchicalObjective.TIME_TIMES_COST: "ns*USD",
    HierarchicalObjective.COST: "USD",
}


def search_problems(method: str) -> list[Problem]:
    """What is wrong with the name of a method."""
    if method == "auto":
        return []
    return [Problem("unknown method", path="search.method", value=repr(method), allowed="auto")]


def solve_hierarchical(
    problem: HierarchicalProblem,
    *,
    seed: int | None = None,
    time_limit_s: float | None = None,
    method: str | None = None,
) -> HierarchicalSolution:
    """Choose design and bandwidths; evaluate, bound and check what comes out. Arguments left out: as the instance says.

    Ctrl-C and the time limit end the search with the best so far.

    Raises:
        InputError: unknown method; nothing limits a bandwidth, or cost may vanish.
        InfeasibleError: nothing satisfies the constraints; they are named.
        LimitError: the limit came before anything was found.
    """
    search = problem.search.but(seed=seed, time_limit_s=time_limit_s, method=method)
    problems = search_problems(search.method)
    if problems:
        raise InputError(problems)
    with stop_on_signals(search.time_limit_s) as stop:
        choice = best_design(problem, stop)
        plain = plain_program(problem.designs[choice.design], problem)
        points = _front(plain, problem, stop)
        late = stop.reason()
    solution = _assembled(problem, choice, plain, points, search)
    if late is not None and len(points) < problem.pareto_points:
        notes = (*solution.notes, f"the front of time and cost ends early: {late.value}")
        solution = replace(solution, notes=notes, stopped_by=late)
    return solution.judged(check_hierarchical(problem, solution))


def _front(plain: BandwidthProgram, problem: HierarchicalProblem, stop: Stop) -> tuple[ParetoPoint, ...]:
    if not problem.pareto_points or stop.reason() is not None:
        return ()
    return tuple(
        ParetoPoint(
            limit_ns=point.limit_ns,
            time_ns=plain.time_of(point.optimum.bandwidth),
            cost_usd=point.optimum.objective,
            bandwidth_gbytes_per_s=tuple(point.optimum.bandwidth.tolist()),
            cost_bound_usd=min(point.optimum.bound, point.optimum.objective),
            certificate=None
            if point.optimum.multipliers is None
            else certificate_of(point.program, point.optimum.multipliers),
        )
        for point in front(plain, problem.pareto_points, stop)
    )


def _assembled(
    problem: HierarchicalProblem,
    choice: BestDesign,
    plain: BandwidthProgram,
    points: tuple[ParetoPoint, ...],
    search: SearchSettings,
) -> HierarchicalSolution:
    design = problem.designs[choice.design]
    bandwidth = choice.optimum.bandwidth
    found = figures_of(design, plain, bandwidth)
    value = {
        HierarchicalObjective.TIME: found.time_ns,
        HierarchicalObjective.TIME_TIMES_COST: found.time_ns * (found.cost_usd or 0.0),
        HierarchicalObjective.COST: found.cost_usd or 0.0,
    }[problem.objective]
    discrete = any(plain.speeds)
    bound, status = settle(value, choice.bound, Tolerance.LINEAR_PROGRAM if discrete else Tolerance.TANGENTS)
    idle = [one.name for one, used in zip(design.network.dimensions, plain.loaded, strict=True) if not used]
    own = next((proof for proof in choice.proofs if proof.design == choice.design and not discrete), None)
    notes = [f"no traffic in dimension {name}: its bandwidth says nothing about time" for name in idle]
    if len(problem.designs) > 1:
        notes.append(f"{len(problem.designs)} designs, {choice.opened} opened, the others excluded by bounds")
    return HierarchicalSolution(
        name=problem.name,
        status=status,
        stopped_by=choice.stopped_by,
        objective=Objective(problem.objective.value, value, UNITS[problem.objective]),
        bound=Bound(bound, choice.proved_by),
        check=UNCHECKED,
        seed=search.seed,
        method="branch and bound" if discrete else "tangents",
        design=choice.design,
        design_name=design.name,
        designs=len(problem.designs),
        dimensions=tuple(one.name for one in design.network.dimensions),
        blocks=tuple(one.block.value for one in design.network.dimensions),
        sizes=tuple(one.size for one in design.network.dimensions),
        bandwidth_gbytes_per_s=tuple(bandwidth.tolist()),
        time_ns=found.time_ns,
        cost_usd=found.cost_usd,
        equal_time_ns=found.equal_time_ns,
        equal_cost_usd=found.equal_cost_usd,
        jobs=found.jobs,
        collectives=found.collectives,
        gain_ns=found.gain_ns,
        marginal_ns=None if own is None else marginal_ns(own.program, own.multipliers, bandwidth),
        proofs=tuple(proof_of(proof) for proof in choice.proofs),
        pareto=points,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*problem.notes, *notes),
    )
