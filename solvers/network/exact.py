"""Exact methods choose topology and routing together, behind one signature; HiGHS solves the program where no other
method fits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from formulations.joint_topology import (
    JointTopology,
    find_symmetry,
    joint_topology_arrays,
    link_counts,
    start_values,
)
from formulations.programs import Families, LpArrays
from solvers.backends.backend import SolverLimits
from solvers.network.enumeration import covers, solve_circulant, solve_enumerate
from solvers.network.local import LOCAL_MOST_S, LOCAL_SHARE, best_lift, first_network, local_search, refuse_large
from solvers.network.space import (
    OPTIMALITY,
    Counts,
    ExactLimits,
    ExactMethod,
    Routed,
    Space,
    TopologyResult,
    as_topology,
    finish,
    hop_distances,
    infeasible_hops,
    layer_sizes,
    open_space,
    routed,
    source_distances,
    total_distance,
)
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Bools, Floats
from topoopt.core.data import called_later
from topoopt.core.errors import InfeasibleError, LimitError, TopooptError
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import Argument, Bound, Status, StopReason

if TYPE_CHECKING:
    from solvers.network.tree import TreeOutcome

OPTIONS = {"mip_rel_gap": 1e-7, "mip_abs_gap": 1e-8, "mip_feasibility_tolerance": 1e-9}
NEGLIGIBLE = 1e-8
"""Part of the bound on theta that the entries left out of the program may have together."""

GUARDED = 300
"""Columns from which on a program may take longer than seconds (7 servers)."""


def solve_milp(problem: TopologyProblem, limits: ExactLimits) -> TopologyResult:
    """Exact by mixed-integer programming; any constraints; no program is solved if the local search meets a bound.

    What HiGHS calls optimal is proven again by branch and bound of our own, where that is quick, as nobody else can
    check the word of HiGHS.

    Raises:
        InputError, InfeasibleError, LimitError: see `ExactMethod`; InputError for more servers than fit into memory.
    """
    from solvers.network.branching import bound_of, branch_and_bound
    from solvers.network.tree import too_many_choices

    space = open_space(problem)
    refuse_large(space)
    first = first_network(space, limits)
    if first is not None and first[1].theta <= space.bound.value * (1 + OPTIMALITY):
        return finish(space, *first, space.bound, StopReason.CONVERGED, "milp", 0)
    result = by_program(space, first, limits)
    if result.stopped_by is not StopReason.CONVERGED or result.bound.verified or too_many_choices(space):
        return result
    incumbent = result.plan.topology.adjacency()
    tree = branch_and_bound(space, (incumbent, routed(space, incumbent)), limits.stop, limits.seed)
    if tree.proof is None:
        return result
    counts = incumbent if tree.counts is None else tree.counts
    best = counts, routed(space, counts)
    return finish(space, *best, bound_of(tree), StopReason.CONVERGED, "milp", 1 + tree.work, proof=tree.proof)


def by_program(space: Space, first: tuple[Counts, Routed] | None, limits: ExactLimits) -> TopologyResult:
    """What HiGHS finds and claims, if that is better than a network known.

    Raises:
        InfeasibleError, LimitError: see `ExactMethod`.
    """
    outcome = branch(space, first, limits.stop, limits.seed)
    candidates = [] if first is None else [first]
    if outcome.counts is not None and space.fits(outcome.counts):
        candidates.append((outcome.counts, routed(space, outcome.counts)))
    if not candidates:
        if np.isinf(outcome.bound):
            raise InfeasibleError(_why_infeasible(space, limits))
        raise LimitError("the time limit came before any topology was found")
    best = min(candidates, key=lambda pair: pair[1].theta)
    if np.isinf(outcome.bound):  # contradicts the network at hand: the solver's word counts for nothing
        return finish(space, *best, space.bound, StopReason.ERROR, "milp", 1)
    proven = Bound(outcome.bound, Argument.TOPOLOGY_BRANCHING)
    return finish(space, *best, proven, outcome.stopped_by, "milp", 1)


def joint_data(space: Space, scale: float = 1.0) -> JointTopology:
    """The program of a problem with demand divided by `scale`; with all cuts that hold for it."""
    problem = space.problem
    within = layer_sizes(problem.servers, problem.degree, problem.links)
    demand = space.demand / scale
    bound = space.bound.value / scale
    return JointTopology(
        servers=problem.servers,
        degree=problem.degree,
        bidirectional=space.bidirectional,
        demand=demand,
        allowed=space.allowed,
        most_links=space.most_links,
        kept=space.kept,
        max_changed=problem.max_changed,
        max_hops=problem.max_hops,
        lower=(1 - 1e-6) / float(demand.sum()),
        upper=1.0 / bound if bound > 0 else np.inf,
        distance=source_distances(demand, within),
        total_distance=total_distance(demand, within) * (1 - 1e-12),
        symmetry=find_symmetry(space.demand, space.allowed, space.kept),
    )


def branch(space: Space, incumbent: tuple[Counts, Routed] | None, stop: Stop, seed: int) -> TreeOutcome:
    """HiGHS on the array program; demand is scaled so that lambda is at most 1.

    Programs that may take long run in a process that can be stopped.
    """
    from solvers.backends.table import solve_guarded, solver_named
    from solvers.network.tree import TreeOutcome

    if (reason := stop.reason()) is not None:
        return TreeOutcome(None, space.bound.value, None, reason, 0)
    scale = space.bound.value
    data = joint_data(replace(space, demand=without_negligible(space.demand, NEGLIGIBLE * scale)), scale)
    program = joint_topology_arrays(data)
    start = None
    if incumbent is not None:
        columns, values = start_values(data, incumbent[0])
        start = np.full(program.columns, np.nan)
        start[columns] = values
    while True:
        limits = SolverLimits(time_s=stop.remaining_s(), seed=seed % 2**31)
        if program.columns < GUARDED:
            result = solver_named("highs")(program, limits, OPTIONS, start)
        else:
            result = solve_guarded("highs", program, limits, OPTIONS, start, stop=stop)
        if result.status is Status.INFEASIBLE:
            return TreeOutcome(None, np.inf, None, StopReason.CONVERGED, 1)
        counts = None if result.x is None else link_counts(data, result.x)
        apart = None if counts is None else cut_off(space, counts)
        if apart is None or result.stopped_by is not StopReason.CONVERGED:
            break
        program = joined(program, data, apart)
    best = data.upper if result.bound is None else max(-result.bound, 1e-300)
    early = result.stopped_by in (StopReason.TIME, StopReason.INTERRUPTED, StopReason.ERROR)
    reason = result.stopped_by if early else StopReason.CONVERGED
    return TreeOutcome(counts, scale / best, None, reason, 1)


def without_negligible(demand: Floats, total: float) -> Floats:
    """The demand without its least entries, of at most `total` together.

    No link of any network carries more than `total` of them, so theta falls by no more; programs with numbers that far
    apart are solved wrongly.
    """
    order = np.argsort(demand, axis=None, kind="stable")
    kept = demand.ravel().copy()
    kept[order[np.cumsum(kept[order]) <= total]] = 0.0
    return kept.reshape(demand.shape)


def cut_off(space: Space, counts: Counts) -> Bools | None:
    """bool[n]: servers that one of them reaches, where it has demand for another; None: every demand has a path."""
    lost = np.argwhere((space.demand > 0) & np.isinf(hop_distances(counts)))
    return np.isfinite(hop_distances(counts)[lost[0, 0]]) if len(lost) else None


def joined(program: LpArrays, data: JointTopology, apart: Bools) -> LpArrays:
    """The program with a link at least out of these servers, which every network has that carries all demand."""
    made = Families.extending(program)
    leaving = [1 + column for column, (i, j) in enumerate(data.arcs) if apart[i] and not apart[j]]
    row = made.rows(1, 1.0, np.inf, ("joined",) if program.row_names else ())
    made.terms(row, np.array(leaving, dtype=np.int64), 1.0)
    return made.arrays()


def smallest_hops(space: Space, seed: int, stop: Stop) -> int | None:
    """Smallest diameter of the networks a short search without the hop limit meets; None if it meets none."""
    problem = space.problem
    open_problem = TopologyProblem(
        problem.name,
        problem.servers,
        problem.degree,
        problem.links,
        np.ones_like(space.demand) - np.eye(problem.servers),
        forbidden=problem.forbidden,
        kept=problem.kept,
        max_changed=problem.max_changed,
        parallel_links=problem.parallel_links,
    )
    try:
        result = local_search(open_space(open_problem), seed, stop)
    except TopooptError:
        return None
    return None if result is None else int(hop_distances(result[0]).max())


def _why_infeasible(space: Space, limits: ExactLimits) -> str:
    if space.problem.max_hops is not None:
        nearest = smallest_hops(space, limits.seed, first_part(Stop(), 1.0, 2.0))
        return infeasible_hops(space.problem, "proven by HiGHS, not certified", nearest)
    return "no allowed topology carries every demand (proven by HiGHS, not certified)"


TREE_SHARE = 0.5
"""Of the time left, what branch and bound with a proof has before HiGHS is asked."""


def solve_exact(problem: TopologyProblem, limits: ExactLimits) -> TopologyResult:
    """Bounds and a short search first; then whichever exact method suits the problem.

    Raises:
        InputError, InfeasibleError, LimitError: see `ExactMethod`.
    """
    space = open_space(problem)
    if covers(space):
        return _uniform(space, limits)
    refuse_large(space)
    first = first_network(space, limits)
    if first is not None and first[1].theta <= space.bound.value * (1 + OPTIMALITY):
        return finish(space, *first, space.bound, StopReason.CONVERGED, "bounds", 0)
    from solvers.network.branching import branch_and_bound, concluded
    from solvers.network.tree import too_many_choices

    if not too_many_choices(space):
        outcome = branch_and_bound(space, first, first_part(limits.stop, TREE_SHARE, inf), limits.seed)
        if outcome.bound > 0 or limits.stop.reason() is not None:
            return concluded(space, first, outcome)
        if outcome.counts is not None:
            first = outcome.counts, routed(space, outcome.counts)
    return by_program(space, first, limits)


def _uniform(space: Space, limits: ExactLimits) -> TopologyResult:
    """Enumeration up to renaming, unless one of the networks that look alike everywhere meets a bound."""
    if limits.incumbent is None:
        # Work limits end this search long before the clock does, so that results stay reproducible.
        early = first_part(limits.stop, LOCAL_SHARE, LOCAL_MOST_S)
        lift = best_lift(space, np.random.default_rng(limits.seed), early)
        if lift is not None:
            incumbent = routed(space, lift[0])
            if incumbent.theta <= space.bound.value * (1 + OPTIMALITY):
                return finish(space, lift[0], incumbent, space.bound, StopReason.CONVERGED, "bounds", 0)
            limits = replace(limits, incumbent=as_topology(space, lift[0], "local search"))
    return solve_enumerate(space.problem, limits)


METHODS: Mapping[str, ExactMethod] = {
    "exact": solve_exact,
    "milp": solve_milp,
    "enumerate": solve_enumerate,
    "branch-and-bound": called_later("solvers.network.branching", "solve_branching"),
    "circulant": solve_circulant,
}
