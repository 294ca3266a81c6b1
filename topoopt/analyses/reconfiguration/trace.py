"""Reconfiguration delays swept for a trace of demands: one network for all steps against links set anew.

A step takes its theta times its length, and a change of links the delay on top; the links for the first step are set
beforehand. Who sets links can set routes, so routing on links set anew is adapted to the step. Links for a step come
from a topology search for its demand alone; a step whose search finds nothing better keeps the one network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from solvers.network.routing import route
from solvers.network.search import search_topology
from solvers.network.worst_topology import search_budget
from solvers.stop import Stop
from topoopt.analyses.reconfiguration.break_even import At, break_even
from topoopt.core.comparison import DelayPoint, ReconfigurationSweep, Scheme
from topoopt.core.errors import CheckError, InfeasibleError, InputError, LimitError, Problem
from topoopt.core.network import NetworkProblem, RoutingMode, TopologyProblem
from topoopt.core.process import versions
from topoopt.core.proofs import StopReason, Tolerance, beats
from topoopt.core.topology import Topology
from topoopt.verify.network.bounds import quick_bound
from topoopt.verify.network.checker import NetworkResult

REROUTED = "rerouted"
EVERY_STEP = "every-step"
BEST_SEQUENCE = "best-sequence"
TRACE_SCHEMES = (REROUTED, EVERY_STEP, BEST_SEQUENCE)
"""What may be compared with the one network of a trace."""

MOST_ROUTINGS = 600
"""Steps times topologies routed for sequences; beyond, only the step's own topology and the one for all are."""

ACCURACY = 1e-4

SAME = 1e-6
"""Relative gain of theta that is worth no new links."""

EXACT = 1 + 1e-12
"""Break-even delays of formulas are found to this factor."""


@dataclass(frozen=True, eq=False)
class StepNetworks:
    """Topologies at hand, and theta of every step on them.

    Attributes:
        topologies: the one network first.
        place: int64[k], of the topology of each step.
        thetas: float64[k, topologies], routing adapted to the step; infinite where it was not routed.
    """

    topologies: tuple[Topology, ...]
    place: NDArray[np.int64]
    thetas: NDArray[np.float64]

    @property
    def rerouted(self) -> NDArray[np.float64]:
        """float64[k]: on the one network."""
        return self.thetas[:, 0]

    @property
    def own(self) -> NDArray[np.float64]:
        """float64[k]: each step on its own topology."""
        return self.thetas[np.arange(len(self.place)), self.place]

    @property
    def changes(self) -> int:
        """How often links change when every step is on its own topology."""
        return int(np.count_nonzero(self.place[1:] != self.place[:-1]))


def trace_sweep(
    problem: NetworkProblem,
    solution: NetworkResult,
    *,
    delays_ms: Sequence[float],
    schemes: Sequence[str] = TRACE_SCHEMES,
    seed: int = 0,
    stop: Stop | None = None,
) -> ReconfigurationSweep:
    """All steps of a trace at every delay: on the network of the solution, rerouted, and on links set anew.

    Raises:
        InputError: an unknown scheme, one demand only, or no length of a step.
        CheckError: a step beats its bound (a bug of ours).
    """
    step_ms = _step_ms(problem, schemes)
    stop = stop or Stop()
    delays = sorted(set(delays_ms))
    fixed = np.array(solution.figures.thetas)
    found = [_scheme("one-shot", "the network and routing of the solution, set once", _always(fixed, step_ms), delays)]
    notes = ["a step takes its theta times its length; the links for the first step are set beforehand"]
    networks = step_networks(problem, solution, seed, stop)
    if networks is None:
        notes.append("links of their own for every step: left out, the time is up")
    else:
        one_shot_ms, rerouted_ms = (float(theta.sum()) * step_ms for theta in (fixed, networks.rerouted))
        common = solution.figures.mode is RoutingMode.COMMON
        if networks.changes == 0:
            notes.append("no step wants other links than the one before")
        for name, (at, thetas, description) in _anew(networks, step_ms).items():
            if name not in schemes or (name == REROUTED and not common):
                continue
            scheme = replace(_scheme(name, description, at, delays), thetas=tuple(thetas.tolist()))
            against = break_even(at, scheme.points, rerouted_ms, EXACT) if common and name != REROUTED else None
            paid = break_even(at, scheme.points, one_shot_ms, EXACT)
            found.append(replace(scheme, break_even=paid, break_even_rerouted=against))
    return ReconfigurationSweep(
        name=problem.name,
        servers=solution.figures.topology.servers,
        degree=solution.figures.topology.degree,
        link_gbps=problem.link_gbps,
        schemes=(replace(found[0], thetas=solution.figures.thetas), *found[1:]),
        strategies=(),
        stopped_by=stop.reason() or StopReason.CONVERGED,
        seed=seed,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=tuple(notes),
    )


def _step_ms(problem: NetworkProblem, schemes: Sequence[str]) -> float:
    if not problem.several or problem.step_ms is None:
        key = "step_ms" if problem.several else "demands"
        text = "delays need the length of a step" if problem.several else "links are set once for one demand"
        raise InputError([Problem(text, path=key, allowed="several demands, with step_ms")])
    unknown = [name for name in schemes if name not in TRACE_SCHEMES]
    if unknown:
        allowed = ", ".join(TRACE_SCHEMES)
        raise InputError([Problem("unknown scheme", path="fabrics", value=name, allowed=allowed) for name in unknown])
    return problem.step_ms


def step_networks(problem: NetworkProblem, solution: NetworkResult, seed: int, stop: Stop) -> StepNetworks | None:
    """Topologies for every step; None when the time is up before every step has its own.

    Raises:
        CheckError: a step beats its bound (a bug of ours).
    """
    one, demands = solution.figures.topology, problem.demands
    topologies = [one]
    place = np.zeros(len(demands), dtype=np.int64)
    if solution.figures.mode is RoutingMode.COMMON:
        rerouted = np.array([route(one, demand).theta for demand in demands])
    else:
        rerouted = np.array(solution.figures.thetas)
    own = rerouted.copy()
    for k, demand in enumerate(demands):
        if stop.reason() is not None:
            return None
        alone = TopologyProblem(problem.name, one.servers, one.degree, one.links, demand)
        try:
            found = search_topology(alone, seed=seed, budget=search_budget(one.servers), stop=stop)
        except LimitError:
            continue
        value = route(found.topology, demand, accuracy=ACCURACY).theta
        if beats(value, quick_bound(alone).value, Tolerance.ROUNDING):
            raise CheckError(f"theta {value!r} of step {k} on links of its own is below its bound")
        if value < own[k] * (1 - SAME):
            own[k], place[k] = value, len(topologies)
            topologies.append(found.topology)
    thetas = np.full((len(demands), len(topologies)), np.inf)
    thetas[:, 0] = rerouted
    thetas[np.arange(len(demands)), place] = own
    if thetas.size <= MOST_ROUTINGS:
        _route_all(thetas, topologies, demands, stop)
    return StepNetworks(tuple(topologies), place, thetas)


def _route_all(
    thetas: NDArray[np.float64], topologies: Sequence[Topology], demands: NDArray[np.float64], stop: Stop
) -> None:
    """Fill in what is infinite, until the time is up; what no path joins stays."""
    for k, j in np.argwhere(np.isinf(thetas)).tolist():
        if stop.reason() is not None:
            return
        try:
            thetas[k, j] = route(topologies[j], demands[k], accuracy=ACCURACY).theta
        except InfeasibleError:
            continue


def _scheme(name: str, description: str, at: At, delays: Sequence[float]) -> Scheme:
    return Scheme(name, description, tuple(at(delay) for delay in delays))


def _always(thetas: NDArray[np.float64], step_ms: float) -> At:
    return lambda delay_ms: DelayPoint(delay_ms, float(thetas.sum()) * step_ms, "one network", 0, 0.0)


def _anew(
    networks: StepNetworks, step_ms: float
) -> dict[str, tuple[Callable[[float], DelayPoint], NDArray[np.float64], str]]:
    """Of every scheme: its time at a delay, theta of every step without any, and what it does."""
    changes, total = networks.changes, float(networks.own.sum()) * step_ms

    def every(delay_ms: float) -> DelayPoint:
        dark_ms = delay_ms * changes
        return DelayPoint(delay_ms, total + dark_ms, "links of its own for each step", changes, dark_ms)

    def best(delay_ms: float) -> DelayPoint:
        time, count = best_sequence(networks.thetas * step_ms, delay_ms)
        text = f"{count} changes of links" if count else "one network for all"
        return DelayPoint(delay_ms, time, text, count, count * delay_ms)

    least = networks.thetas.min(axis=1)
    return {
        REROUTED: (_always(networks.rerouted, step_ms), networks.rerouted, "links set once, routes for every step"),
        EVERY_STEP: (every, networks.own, "links and routes of its own for every step"),
        BEST_SEQUENCE: (best, least, "of the networks at hand the best for each step, links changed where it pays"),
    }


def best_sequence(times: NDArray[np.float64], delay: float) -> tuple[float, int]:
    """Least total time over sequences of topologies, and how often they change (dynamic program).

    The least time to be on topology j after step k is its time there plus the lesser of staying and coming from the
    best other one.

    Args:
        times: float64[k, topologies].
        delay: of a change, in the same unit.
    """
    best = times[0].copy()
    count = np.zeros(len(best), dtype=np.int64)
    for row in times[1:]:
        cheapest = int(np.argmin(best))
        moved = best[cheapest] + delay < best
        count = np.where(moved, count[cheapest] + 1, count)
        best = np.where(moved, best[cheapest] + delay, best) + row
    end = int(np.argmin(best))
    return float(best[end]), int(count[end])
