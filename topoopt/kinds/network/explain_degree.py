"""What limits every topology of a degree, and what one more interface per server would gain."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from topoopt.core.errors import CheckError, InfeasibleError, InputError, LimitError
from topoopt.core.network import LengthCertificate, TopologyProblem
from topoopt.core.proofs import Argument, Bound
from topoopt.core.topology import Topology
from topoopt.core.verdict import Status, StopReason
from topoopt.kinds.explanation import options_within
from topoopt.kinds.network.bounds import best_multipliers
from topoopt.kinds.network.explain_gains import ExplainEffort
from topoopt.kinds.pipeline import solve
from topoopt.verify.network.topology_bounds import dual_cut, evaluate_cut_mixture, node_cut_bound, topology_bounds

EXACT_SERVERS = 8
"""Up to here the best topology of one more interface is searched for by the exact methods; beyond, only bounded."""

TWO_LAYER_SERVERS = 64
"""Up to here the two-layer bound is evaluated (about two seconds)."""


@dataclass(frozen=True)
class DegreeGain:
    """Bounds on theta over all topologies, by argument, for the degree and for one interface more.

    Attributes:
        degree: d of the problem.
        bounds: formulas at degree d, largest first.
        node: the server whose own demand makes the node cut, whether it sends, and that demand.
        more_bounds: formulas at degree d + 1, and this topology's dual cut, largest first.
        theta, bound: of the best topology found at degree d + 1; None if not searched.
        optimal: whether that one is proven.
        note: why it was not searched, or not to the end; empty otherwise.
    """

    degree: int
    bounds: tuple[Bound, ...]
    node: tuple[int, bool, float]
    more_bounds: tuple[Bound, ...]
    theta: float | None = None
    bound: float | None = None
    optimal: bool = False
    note: str = ""


def degree_gain(
    problem: TopologyProblem, topology: Topology, lengths: LengthCertificate, effort: ExplainEffort
) -> DegreeGain:
    """Bounds by formulas now and with one more interface per server, and the exact answer where it is quick."""
    n, d, demand = problem.servers, problem.degree, problem.demand
    bounds, more = _formulas(problem), _formulas(replace(problem, degree=d + 1))
    try:
        cut = dual_cut(topology, demand, lengths)
        more.append(Bound(evaluate_cut_mixture(n, d + 1, (cut,), np.ones(1)), Argument.DUAL_CUT))
    except InputError:  # servers that nothing joins: the lengths say nothing of other topologies
        pass
    senders = node_cut_bound(n, d, demand)[1].senders
    sends = len(senders) == 1
    server = senders[0] if sends else next(v for v in range(n) if v not in senders)
    asked = float(demand[server].sum() if sends else demand[:, server].sum())
    found = DegreeGain(
        degree=d,
        bounds=tuple(sorted(bounds, key=lambda bound: -bound.value)),
        node=(server, sends, asked),
        more_bounds=tuple(sorted(more, key=lambda bound: -bound.value)),
    )
    if n > EXACT_SERVERS:
        return replace(found, note=f"more than {EXACT_SERVERS} servers: a bound only, not searched")
    return _searched(problem, found, effort)


def _formulas(problem: TopologyProblem) -> list[Bound]:
    multipliers = best_multipliers(problem) if problem.servers <= TWO_LAYER_SERVERS else None
    return list(topology_bounds(problem.servers, problem.degree, problem.demand, multipliers, problem.links))


def _searched(problem: TopologyProblem, known: DegreeGain, effort: ExplainEffort) -> DegreeGain:
    left = effort.left_s()
    if left == 0.0:
        return replace(known, note="time limit: not searched")
    try:
        found = solve(replace(problem, degree=problem.degree + 1), options_within(effort.stop, "exact"))
    except (InputError, InfeasibleError, LimitError) as error:
        effort.late = effort.late or isinstance(error, LimitError)
        return replace(known, note=f"not searched: {error}")
    if not found.check.ok:
        raise CheckError("the checker rejects the topology of one more interface: " + "; ".join(found.check.violations))
    optimal = found.status is Status.OPTIMAL
    effort.late = effort.late or found.stopped_by is StopReason.TIME
    note = "" if optimal else "the search did not end: the best found, and a bound"
    return replace(known, theta=found.theta, bound=found.bound.value, optimal=optimal, note=note)
