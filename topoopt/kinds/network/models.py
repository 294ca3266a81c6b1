"""Plans of kinds routing and topology from models that a user may have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from formulations.network import concurrent_flow, joint_topology
from solvers.network.exact.space import open_space
from solvers.network.routing.network import network_of
from solvers.network.routing.proof import RoutingProof
from topoopt.core.arrays import Floats
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem
from topoopt.core.network import AdaptedRouting, NetworkProblem, RoutingProblem, SourceFlow, TopologyProblem
from topoopt.core.network_solution import FoundNetwork
from topoopt.core.proofs import Argument, Bound
from topoopt.core.reachability import strongly_connected
from topoopt.core.topology import Topology
from topoopt.core.verdict import StopReason
from topoopt.kinds.kind import Effort
from topoopt.kinds.network.heuristics import routed_topology
from topoopt.kinds.network.methods import routed
from topoopt.kinds.plan_model import ModelProof, PlanModel

MODEL = "model"
"""Name of the method."""


def _joint_model(problem: TopologyProblem) -> Any:
    """Links and routes; lambda is not cut off from below: with constraints of others it may be small."""
    from formulations.network import joint_topology_pyomo  # with Pyomo, which takes a second to load

    data = joint_topology.data_of(problem, symmetry=False)
    return joint_topology_pyomo.build_pyomo(replace(data, lower=0.0))


def _joint_plan(problem: TopologyProblem, model: Any, effort: Effort, proof: ModelProof) -> FoundNetwork:
    """Links and flows of a solved joint model.

    Raises:
        InfeasibleError: links that do not join all servers, as an objective other than throughput may leave them.
        LimitError: the same, where the limit came before the solver was done.
    """
    n = problem.servers
    counts = np.zeros((n, n), dtype=np.int64)
    for (i, j), variable in model.x.items():
        counts[i, j] = round(variable.value)
    units = np.repeat(np.argwhere(counts > 0), counts[counts > 0], axis=0)
    throughput = float(model.throughput.value)
    if throughput <= 0.0 or not strongly_connected(n, units.astype(np.int32)):
        if proof.stopped_by is not StopReason.CONVERGED:
            raise LimitError("the limit came before the solver found a plan that carries any demand")
        raise InfeasibleError("the solution of the model joins too few servers to carry the demand: throughput is 0")
    topology = Topology.of_arcs(n, units, degree=problem.degree, links=problem.links, origin=MODEL)
    found = routed_topology(open_space(problem), topology, MODEL, effort.stop)
    arcs = [(int(i), int(j)) for i, j in topology.arcs]
    flow = np.array([[_value(model.f, (s, i, j)) / throughput for i, j in arcs] for s in range(n)], dtype=np.float64)
    claims = () if proof.bound is None else (_claim(1.0 / proof.bound, proof),)
    return _with_flow(problem, found, flow, claims, proof)


def _flow_model(problem: RoutingProblem) -> Any:
    """Routes over the links given.

    Raises:
        InputError: a limit of hops, which the model cannot state.
    """
    if problem.max_hops is not None:
        text, value = "this formulation knows no hop limit", str(problem.max_hops)
        raise InputError([Problem(text, path="max_hops", value=value, allowed="left out")])
    return concurrent_flow.build_pyomo(concurrent_flow.data_of(problem))


def _flow_plan(problem: RoutingProblem, model: Any, effort: Effort, proof: ModelProof) -> FoundNetwork:
    """Flows of a solved model of routes."""
    found = routed(problem, effort, "auto")
    servers, arcs = range(problem.topology.servers), range(len(problem.topology.arcs))
    flow = np.array([[_value(model.flow, (s, a)) for a in arcs] for s in servers], dtype=np.float64)
    return _with_flow(problem, found, flow, (), proof)


def _value(variables: Any, index: Any) -> float:
    """Of a variable; 0 where there is none, or it stands in no row."""
    value = variables[index].value if index in variables else None
    return 0.0 if value is None else max(0.0, float(value))


def _claim(theta: float, proof: ModelProof) -> Bound:
    return Bound(theta, Argument.OWN_MODEL if proof.restricted else Argument.TOPOLOGY_BRANCHING)


def _with_flow(
    problem: NetworkProblem, found: FoundNetwork, flow: Floats, claims: tuple[Bound, ...], proof: ModelProof
) -> FoundNetwork:
    """The flows of the model, made to deliver the demand to rounding, in the place of those that were found; the
    certificate stays: it bounds every routing over these links."""
    network, topology = found.network, found.network.topology
    exact = RoutingProof(network_of(topology, problem.demand), 1e-6)
    exact.offer_rough_flow(flow, np.ones(len(topology.arcs)))
    assert exact.flow is not None
    certificates = network.routing.certificates if isinstance(network.routing, AdaptedRouting) else ()
    routing = AdaptedRouting((SourceFlow(exact.flow),), certificates)
    return replace(
        found,
        network=replace(network, routing=routing),
        bounds=(*found.bounds, *claims),
        stopped_by=proof.stopped_by,
        notes=(*found.notes, *proof.notes),
    )


def models_of(problem: NetworkProblem) -> Mapping[str, PlanModel]:
    """Formulations whose solutions are plans of a problem with one demand; none for several."""
    if problem.several:
        return {}
    if isinstance(problem, RoutingProblem):
        return {"concurrent_flow": PlanModel(_flow_model, _flow_plan)}
    return {"joint_topology": PlanModel(_joint_model, _joint_plan)}
