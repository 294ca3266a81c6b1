"""Arguments behind bounds of network problems, each with how it is derived again; no other is believed.

Whoever adds an argument adds a line to a table here, and a row to `docs/checking.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from topoopt.core.block_tree import BlockTree
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.network import (
    CommonRouting,
    LayerPrices,
    NetworkProblem,
    RelayPrices,
    RoutingProblem,
    TopologyProblem,
    TwoLayerMultipliers,
    single,
)
from topoopt.core.network_solution import NetworkSolution
from topoopt.core.proofs import Argument, Bound
from topoopt.core.relay_cases import RelayCases
from topoopt.core.verdict import Tolerance
from topoopt.verify.laws.bounds import Derivations
from topoopt.verify.network.block_tree import blocks_bound
from topoopt.verify.network.bounds import SEARCHED, formulas
from topoopt.verify.network.link_tree import tree_bound
from topoopt.verify.network.regular_networks import enumeration_bound
from topoopt.verify.network.routings import proven_bound
from topoopt.verify.network.topology_bounds import evaluate_cases, evaluate_layered, evaluate_relay, two_layer_from
from topoopt.verify.network.topology_bounds.failed_link import failed_link_bounds

TOPOLOGY_CLAIMS = frozenset({Argument.TOPOLOGY_BRANCHING, Argument.TOPOLOGY_ENUMERATION, Argument.OWN_MODEL})


def less_of(argument: Argument) -> Tolerance:
    """How much less a bound may state than is derived: a little where its multipliers are searched anew."""
    return Tolerance.FORMULA if argument in SEARCHED else Tolerance.ROUNDING


def claims_of(problem: NetworkProblem) -> frozenset[Argument]:
    """Arguments that a solution may claim."""
    return frozenset() if isinstance(problem, RoutingProblem) or problem.several else TOPOLOGY_CLAIMS


def of_routing(problem: RoutingProblem, solution: NetworkSolution) -> Derivations:
    """Of the objective on the topology given: duality with the lengths or prices in the file."""
    routing = solution.network.routing
    argument = Argument.ARC_PRICES if isinstance(routing, CommonRouting) else Argument.ARC_LENGTHS
    return {
        argument: partial(
            proven_bound, solution.topology, problem.demands, routing, problem.max_hops, problem.hop_price
        )
    }


def of_topology(
    problem: TopologyProblem,
    solution: NetworkSolution,
    known: Sequence[Bound],
    multipliers: TwoLayerMultipliers | None,
) -> Derivations:
    """Of theta over every topology allowed; what bounds one of several demands bounds the worst.

    Args:
        known: `every_formula` of the problem.
        multipliers: of the two-layer bound, if it is claimed.
    """
    of_any = {
        Argument.NODE_CUT: partial(_largest, known, Argument.NODE_CUT),
        Argument.PEER_CUT: partial(_largest, known, Argument.PEER_CUT),
        Argument.LAYERED_MOORE: partial(_layered, problem, known, solution.network.layer_prices),
    }
    if problem.several:
        return of_any
    return {
        **of_any,
        Argument.TWO_LAYER: partial(_two_layer, problem, multipliers),
        Argument.RELAY_BLOCKS: partial(_relay, problem, solution.network.relay_prices),
        Argument.RELAY_CASES: partial(_cases, problem, solution.network.relay_cases),
        Argument.LISTED_NETWORKS: partial(_listed, problem, solution),
        Argument.LINK_TREE: partial(_branched, problem, solution),
        Argument.LINK_BLOCKS: partial(_blocks, problem, solution.network.blocks),
    }


def of_failed_link(problem: TopologyProblem) -> Derivations:
    """Of theta after the worst single link failure."""
    found = failed_link_bounds(problem.servers, problem.degree, problem.links, problem.demand)
    return {bound.argument: partial(float, bound.value) for bound in found}


def every_formula(problem: TopologyProblem) -> list[Bound]:
    """All that need no multipliers, of every demand."""
    return [bound for k in range(len(problem.demands)) for bound in formulas(single(problem, k))]


def _largest(known: Sequence[Bound], argument: Argument) -> float:
    found = [bound.value for bound in known if bound.argument is argument]
    if not found:
        raise InputError("it does not hold for this problem")
    return max(found)


def _layered(problem: TopologyProblem, known: Sequence[Bound], prices: LayerPrices | None) -> float:
    """By the prices in the file; without any by those that are searched anew."""
    if prices is None or problem.several:
        return _largest(known, Argument.LAYERED_MOORE)
    if not prices.alpha.size:  # no layer has prices
        prices = LayerPrices(np.zeros((0, problem.servers)), np.zeros((0, problem.servers)))
    return evaluate_layered(problem.servers, problem.degree, problem.demand, prices, problem.links)


def _two_layer(problem: TopologyProblem, multipliers: TwoLayerMultipliers | None) -> float:
    if multipliers is None:
        raise InputError("its multipliers are missing")
    return two_layer_from(problem.servers, problem.degree, problem.demand, multipliers)[0]


def _relay(problem: TopologyProblem, prices: RelayPrices | None) -> float:
    """By the prices in the file; the most around each server is shown by branch and bound."""
    if prices is None:
        raise InputError("it needs its prices")
    return evaluate_relay(problem.servers, problem.degree, problem.demand, prices)


def _cases(problem: TopologyProblem, cases: RelayCases | None) -> float:
    """By the prices of every case in the file."""
    if cases is None:
        raise InputError("it needs its cases")
    return evaluate_cases(problem.servers, problem.degree, problem.demand, cases)


def _branched(problem: TopologyProblem, solution: NetworkSolution) -> float:
    """The tree is walked again, and the lengths in the file are held against every leaf."""
    if solution.network.tree is None:
        raise InputError("it needs the lengths of the leaves")
    return tree_bound(problem, solution.network.tree, solution.bound.value)


def _blocks(problem: TopologyProblem, proof: BlockTree | None) -> float:
    """Every node is looked at again with its prices in the file."""
    if proof is None:
        raise InputError("it needs the prices of its nodes")
    return blocks_bound(problem, proof)


def _listed(problem: TopologyProblem, solution: NetworkSolution) -> float:
    """The networks are listed again, and what the lengths prove of each is looked at."""
    demand, bound, proof = problem.demand, solution.bound.value, solution.network.enumeration
    unit = float(demand[0, 1])
    plain = unit > 0 and bool((demand[~np.eye(len(demand), dtype=np.bool_)] == unit).all())
    if proof is None or not plain or problem.links is not LinkDirection.UNIDIRECTIONAL:
        raise InputError("it needs its networks, uniform demand and unidirectional links")
    return unit * enumeration_bound(problem.servers, problem.degree, proof, bound / unit)
