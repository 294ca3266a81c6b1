"""The one straight line from a network problem to a checked solution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solvers.network.constructions.switches import assign_switches
from solvers.stop import stop_on_signals
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.network import RoutingProblem
from topoopt.core.network_solution import NetworkSolution
from topoopt.core.search_settings import SearchSettings
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.topology import Topology
from topoopt.core.verdict import Tolerance, capped, settle
from topoopt.core.versions import versions
from topoopt.kinds.network.methods import ROUTING_METHODS, TOPOLOGY_METHODS
from topoopt.kinds.network.outcome import Effort, NetworkProblem, Outcome
from topoopt.simulate.hops import hop_matrix
from topoopt.verify.network.check import check_network


def methods_of(problem: NetworkProblem) -> tuple[str, ...]:
    """Names of the methods for a problem, `auto` first."""
    table = ROUTING_METHODS if isinstance(problem, RoutingProblem) else TOPOLOGY_METHODS
    return ("auto", *(name for name in table if name != "auto"))


def search_problems(problem: NetworkProblem, method: str) -> list[Problem]:
    """What is wrong with the name of a method."""
    names = methods_of(problem)
    if method in names:
        if problem.search.robust is None or method in ("auto", "robust"):
            return []
        text = "this method does not look at search.robust"
        return [Problem(text, path="search.method", value=repr(method), allowed="auto, robust")]
    return [Problem("unknown method", path="search.method", value=repr(method), allowed=", ".join(names))]


def solve_network(
    problem: NetworkProblem,
    *,
    seed: int | None = None,
    time_limit_s: float | None = None,
    method: str | None = None,
) -> NetworkSolution:
    """Route the demand, or choose the links as well; evaluate, bound and check what comes out.

    Arguments left out are taken from the instance. Ctrl-C ends the search, and the best so far is what comes out.

    Raises:
        InputError: unknown method, or one that does not cover the problem.
        InfeasibleError: nothing satisfies the constraints.
        LimitError: the limit came before anything was found.
        KeyboardInterrupt: an interrupt did.
    """
    search = problem.search.but(seed=seed, time_limit_s=time_limit_s, method=method)
    problems = search_problems(problem, search.method)
    if problems:
        raise InputError(problems)
    with stop_on_signals(search.time_limit_s) as stop:
        effort = Effort(search.seed, stop)
        try:
            if isinstance(problem, RoutingProblem):
                outcome = ROUTING_METHODS[search.method].run(problem, effort)
            else:
                outcome = TOPOLOGY_METHODS[search.method].run(problem, effort)
        except LimitError:
            if stop.interrupted.is_set():
                raise KeyboardInterrupt from None  # there is nothing to keep
            raise
    return assemble(problem, outcome, search)


def largest_utilisation(topology: Topology, flow: NDArray[np.float64]) -> float:
    """theta of a flow float64[n, m]."""
    return float((flow.sum(axis=0) / topology.multiplicity).max())


def assemble(problem: NetworkProblem, outcome: Outcome, search: SearchSettings) -> NetworkSolution:
    """The solution an outcome amounts to, all figures recomputed, with the verdict of the checker."""
    topology = outcome.topology
    if not isinstance(problem, RoutingProblem) and not (topology.switches >= 0).any():
        switches = assign_switches(topology.servers, topology.degree, topology.arcs, topology.multiplicity)
        topology = replace(topology, switches=switches)
    objective = _objective(problem, topology, outcome.flow.flow)
    value = objective.value
    bound, status = settle(value, outcome.bound.value, Tolerance.LINEAR_PROGRAM)
    diameter, mean_hops = _hops(topology)
    solution = NetworkSolution(
        name=problem.name,
        kind=problem.kind,
        status=status,
        stopped_by=outcome.stopped_by,
        objective=objective,
        bound=replace(outcome.bound, value=bound),
        routing_bound=capped(outcome.routing_bound, value),
        check=UNCHECKED,
        seed=search.seed,
        method=outcome.method,
        topology=topology,
        flow=outcome.flow,
        certificate=outcome.certificate,
        diameter=diameter,
        mean_hops=mean_hops,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*problem.notes, *outcome.notes),
        enumeration=outcome.enumeration,
        link_gbps=problem.link_gbps,
        robustness=outcome.robustness,
    )
    return solution.judged(check_network(problem, solution, outcome.multipliers))


def _objective(problem: NetworkProblem, topology: Topology, flow: NDArray[np.float64]) -> Objective:
    """theta, or the completion time where hops have a price."""
    theta = largest_utilisation(topology, flow)
    if not isinstance(problem, RoutingProblem) or problem.hop_price == 0.0:
        return Objective("theta", theta, "link capacity")
    hops = float(flow.sum()) / float(problem.demand.sum())
    return Objective("completion-time", theta + problem.hop_price * hops, "time of a unit of demand on a link")


def _hops(topology: Topology) -> tuple[int | None, float | None]:
    """Diameter and mean hops, None where some server cannot reach another."""
    hops = hop_matrix(topology)
    n = topology.servers
    if (hops < 0).any():
        return None, None
    return int(hops.max()), float(hops.sum() / (n * (n - 1)))
