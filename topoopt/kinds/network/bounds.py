"""Bounds on theta over all topologies by formulas, with the multipliers that compiled searches find for them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solvers.network.search import relay_blocks, two_layer
from solvers.network.search.relay_blocks import relay_prices
from solvers.network.search.relay_cases import relay_cases
from solvers.network.search.two_layer import TwoLayerDuals, two_layer_multipliers
from solvers.stop import Stop
from topoopt.core.network import RelayPrices, TopologyProblem, TwoLayerMultipliers
from topoopt.core.proofs import Argument, Bound
from topoopt.core.relay_cases import LinkCounts, RelayCases
from topoopt.verify.network.bounds import LEFT, quick_bound, two_layer_bound
from topoopt.verify.network.topology_bounds import evaluate_relay, hops_beyond

TWO_LAYER_SERVERS = 160
"""Above this the n^3 arrays of the two-layer bound are too large."""

RELAY_SERVERS = 64
"""Up to here the checker shows what links around a server are worth in seconds; at 128 it gives up on some."""


class FormulaBound(NamedTuple):
    """The best of all formulas.

    Attributes:
        bound: on theta over all topologies.
        multipliers: what a two-layer bound was evaluated with; None for others.
        relay: what a bound by relay blocks rests on; None for others.
        cases: the same, where it goes by cases.
    """

    bound: Bound
    multipliers: TwoLayerMultipliers | None = None
    relay: RelayPrices | None = None
    cases: RelayCases | None = None


def formula_bound(problem: TopologyProblem, *, cases: int = 1, stop: Stop | None = None) -> FormulaBound:
    """The best of all formulas, and what it rests on.

    The two-layer bound takes some ten seconds at 128 servers, and is left out where it does not fit or `stop` leaves
    no time for it. Where it beats the quick formulas, relay blocks start from it up to RELAY_SERVERS (some 80 s at 64);
    what they prove is stated only once the checker has shown it.

    Args:
        problem: for one demand.
        cases: in which relay blocks are looked at, at most; each takes as long again.
        stop: ends what takes long.
    """
    quick = quick_bound(problem)
    duals = _duals(problem, stop=stop)
    if duals is None:
        return FormulaBound(quick)
    multipliers = TwoLayerMultipliers(duals.weight, duals.first_link)
    proven = two_layer_bound(problem, multipliers, duals.iterations)
    if proven.value <= quick.value:
        return FormulaBound(quick)
    n, d, demand = problem.servers, problem.degree, problem.demand
    if n > RELAY_SERVERS:
        return FormulaBound(proven, multipliers)
    further = hops_beyond(n, d, demand) * LEFT  # its prices are searched anew by whoever checks
    iterations = relay_blocks.default_iterations(n)

    def shown(prices: RelayPrices) -> bool:
        return evaluate_relay(n, d, demand, prices) >= prices.theta

    used = np.zeros((d, n, n))
    relay = relay_prices(d, demand, duals, proven.value, further, iterations, shown=shown, stop=stop, used=used)
    if relay is None:
        return FormulaBound(proven, multipliers)

    def shown_there(prices: RelayPrices, counts: LinkCounts) -> bool:
        return evaluate_relay(n, d, demand, prices, counts) >= prices.theta

    found = relay_cases(d, demand, duals, relay, used, further, cases, shown=shown_there, stop=stop)
    if found is not None:
        return FormulaBound(Bound(min(each.theta for each in found.prices), Argument.RELAY_CASES), cases=found)
    return FormulaBound(Bound(relay.theta, Argument.RELAY_BLOCKS), relay=relay)


def multipliers_of(problem: TopologyProblem, bound: Bound) -> TwoLayerMultipliers | None:
    """The multipliers behind a stated bound, found again; None for a bound that has none."""
    if bound.argument is not Argument.TWO_LAYER or bound.iterations is None or problem.several:
        return None
    return best_multipliers(problem, most=bound.iterations)


def best_multipliers(problem: TopologyProblem, *, most: int | None = None) -> TwoLayerMultipliers | None:
    """Multipliers for the two-layer bound; None where it does not fit.

    Args:
        problem: its size, degree and demand are looked at.
        most: iterations; no more than help are ever made.
    """
    duals = _duals(problem, most=most)
    return None if duals is None else TwoLayerMultipliers(duals.weight, duals.first_link)


def _duals(problem: TopologyProblem, *, most: int | None = None, stop: Stop | None = None) -> TwoLayerDuals | None:
    help_up_to = two_layer.default_iterations(problem.servers)
    iterations = help_up_to if most is None else min(most, help_up_to)
    if not 3 <= problem.servers <= TWO_LAYER_SERVERS:
        return None
    found = two_layer_multipliers(problem.degree, problem.demand, iterations, stop=stop)
    return found if found.iterations else None
