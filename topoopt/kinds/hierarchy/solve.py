"""Hierarchical networks: what the one method finds, and the solution it amounts to."""

from __future__ import annotations

from dataclasses import dataclass, replace

from formulations.hierarchy.hierarchical_program import BandwidthProgram, plain_program
from solvers.hierarchy import BestDesign, FrontPoint, best_design, front
from topoopt.core.hierarchy import Design, HierarchicalObjective, HierarchicalProblem
from topoopt.core.hierarchy_solution import HierarchicalSolution, ParetoPoint
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.verdict import StopReason, Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.hierarchy.figures import figures_of, marginal_ns
from topoopt.kinds.hierarchy.proofs import certificate_of, proof_of
from topoopt.kinds.kind import Effort, Method, Solver, table
from topoopt.verify.hierarchy.arguments import has_catalogue, of_designs, of_point

UNITS = {
    HierarchicalObjective.TIME: "ns",
    HierarchicalObjective.TIME_TIMES_COST: "ns*USD",
    HierarchicalObjective.COST: "USD",
}


@dataclass(frozen=True)
class FoundDesign:
    """A design with bandwidths.

    Attributes:
        choice: the design, its bandwidths, their bound and proofs.
        plain: its program without tau.
        front: of time and cost.
        late: why the front ends early; None: it does not.
    """

    choice: BestDesign
    plain: BandwidthProgram
    front: tuple[ParetoPoint, ...]
    late: StopReason | None


def _best(problem: HierarchicalProblem, effort: Effort) -> FoundDesign:
    """The best design and its front.

    Raises:
        InputError: nothing limits a bandwidth, or cost may vanish.
        InfeasibleError: nothing satisfies the constraints; they are named.
        LimitError: the limit came before anything was found.
    """

    def design_kept(best: BestDesign) -> None:
        effort.keep(lambda: _left(problem, replace(best, stopped_by=_reason(effort)), (), effort))

    choice = best_design(problem, effort.stop, design_kept)

    def front_kept(points: tuple[ParetoPoint, ...]) -> None:
        effort.keep(lambda: _left(problem, choice, points, effort))

    front_kept(())
    plain = plain_program(problem.designs[choice.design], problem)
    points: list[ParetoPoint] = []
    if problem.pareto_points and effort.stop.reason() is None:
        for point in front(plain, problem.pareto_points, effort.stop):
            points.append(_point(plain, problem, problem.designs[choice.design], point))
            front_kept(tuple(points))
    late = effort.stop.reason() if len(points) < problem.pareto_points else None
    return FoundDesign(choice, plain, tuple(points), late)


def _reason(effort: Effort) -> StopReason:
    return effort.stop.reason() or StopReason.TIME


def _left(
    problem: HierarchicalProblem, choice: BestDesign, points: tuple[ParetoPoint, ...], effort: Effort
) -> FoundDesign:
    """What there is when the search is left."""
    plain = plain_program(problem.designs[choice.design], problem)
    late = _reason(effort) if len(points) < problem.pareto_points else None
    return FoundDesign(choice, plain, points, late)


def _point(plain: BandwidthProgram, problem: HierarchicalProblem, design: Design, point: FrontPoint) -> ParetoPoint:
    found = point.optimum
    proof = None if found.multipliers is None else certificate_of(point.program, found.multipliers)
    derivations = of_point(problem, design, point.limit_ns, found.objective, proof)
    bounds = [Bound(derive(), argument) for argument, derive in derivations.items()]
    if has_catalogue(design):
        bounds.append(Bound(found.bound, Argument.SPEED_BRANCHING))
    verdict = settle(found.objective, bounds, Tolerance.LINEAR_PROGRAM)
    return ParetoPoint(
        limit_ns=point.limit_ns,
        time_ns=plain.time_of(found.bandwidth),
        cost_usd=found.objective,
        bandwidth_gbytes_per_s=tuple(found.bandwidth.tolist()),
        cost_bound=verdict.bound,
        certificate=proof,
        claimed_bound=verdict.claimed_bound,
    )


def assemble(problem: HierarchicalProblem, found: FoundDesign, effort: Effort) -> HierarchicalSolution:
    """The solution that a design with bandwidths amounts to."""
    choice, plain = found.choice, found.plain
    design = problem.designs[choice.design]
    bandwidth = choice.optimum.bandwidth
    figures = figures_of(design, plain, bandwidth)
    value = {
        HierarchicalObjective.TIME: figures.time_ns,
        HierarchicalObjective.TIME_TIMES_COST: figures.time_ns * (figures.cost_usd or 0.0),
        HierarchicalObjective.COST: figures.cost_usd or 0.0,
    }[problem.objective]
    discrete = any(plain.speeds)
    proofs = tuple(proof_of(proof) for proof in choice.proofs)
    bounds = [Bound(derive(), argument) for argument, derive in of_designs(problem, proofs, value).items()]
    if any(has_catalogue(design) for design in problem.designs):
        bounds.append(Bound(choice.bound, Argument.SPEED_BRANCHING))
    verdict = settle(value, bounds, Tolerance.LINEAR_PROGRAM if discrete else Tolerance.TANGENTS)
    idle = [one.name for one, used in zip(design.network.dimensions, plain.loaded, strict=True) if not used]
    own = next((proof for proof in choice.proofs if proof.design == choice.design and not discrete), None)
    notes = [f"no traffic in dimension {name}: its bandwidth says nothing about time" for name in idle]
    if len(problem.designs) > 1:
        notes.append(f"{len(problem.designs)} designs, {choice.opened} opened, the others excluded by bounds")
    if found.late is not None:
        notes.append(f"the front of time and cost ends early: {found.late.value}")
    return HierarchicalSolution(
        name=problem.name,
        status=verdict.status,
        stopped_by=found.late or choice.stopped_by,
        objective=Objective(problem.objective.value, value, UNITS[problem.objective]),
        bound=verdict.bound,
        claimed_bound=verdict.claimed_bound,
        check=UNCHECKED,
        seed=effort.search.seed,
        method="branch and bound" if discrete else "tangents",
        design=choice.design,
        design_name=design.name,
        designs=len(problem.designs),
        dimensions=tuple(one.name for one in design.network.dimensions),
        blocks=tuple(one.block.value for one in design.network.dimensions),
        sizes=tuple(one.size for one in design.network.dimensions),
        bandwidth_gbytes_per_s=tuple(bandwidth.tolist()),
        cost_usd=figures.cost_usd,
        equal_cost_usd=figures.equal_cost_usd,
        fleet=problem.fleet,
        jobs=figures.jobs,
        collectives=figures.collectives,
        gain_ns=figures.gain_ns,
        marginal_ns=None if own is None else marginal_ns(own.program, own.multipliers, bandwidth),
        proofs=proofs,
        pareto=found.front,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*problem.notes, *notes),
    )


METHODS = table(Method("auto", "tangents; branch and bound over speeds and designs", _best))

SOLVER = Solver(methods=lambda _: METHODS, assemble=assemble, tables=lambda _: (("", METHODS),))
