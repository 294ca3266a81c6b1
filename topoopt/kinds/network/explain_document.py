"""The explanation of a network in words and figures, as every kind gives one."""

from __future__ import annotations

from typing import Any

from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.network_solution import NetworkSolution
from topoopt.files.solution_head import bound_document
from topoopt.kinds.explanation import Explanation, Question
from topoopt.kinds.network.explain import NetworkExplanation, explain_network
from topoopt.kinds.network.explain_degree import DegreeGain
from topoopt.kinds.network.explain_gains import Gain
from topoopt.kinds.network.explain_text import explanation_lines


def explain(
    problem: RoutingProblem | TopologyProblem | None, solution: NetworkSolution, question: Question
) -> Explanation:
    """What limits a network, and what more links would gain; without an instance its demand is read off the routing.

    Raises:
        InputError: the solution is not one of this instance.
    """
    found = explain_network(solution, problem, added=question.added_links, checks=question.checks, stop=question.stop)
    return Explanation(tuple(explanation_lines(found)), _document(found), tuple(found.notes), found.late)


def _document(found: NetworkExplanation) -> dict[str, Any]:
    solution, bottleneck = found.solution, found.bottleneck
    arcs = solution.topology.arcs

    def priced(positions: tuple[int, ...]) -> list[dict[str, Any]]:
        return [
            {
                "tail": int(arcs[a, 0]),
                "head": int(arcs[a, 1]),
                "links": int(solution.topology.multiplicity[a]),
                "price": float(bottleneck.lengths[a]),
            }
            for a in positions
        ]

    return {
        "theta": found.theta,
        "lambda": 1.0 / found.theta,
        "bound": bound_document(solution.bound),
        "link_gbps": solution.link_gbps,
        "bottleneck": {
            "routing_bound": bottleneck.bound,
            "arcs": priced(bottleneck.arcs),
            "cuts": [
                {
                    "senders": list(cut.senders),
                    "demand": cut.demand,
                    "capacity": cut.capacity,
                    "theta": cut.theta,
                    "arcs": priced(cut.arcs),
                }
                for cut in bottleneck.cuts
            ],
            "hop_total": bottleneck.hop_total,
            "pairs": len(found.payments),
            "demands": [vars(payment) for payment in found.payments[:100]],
        },
        "more_capacity": {
            "everywhere": _gain(found, found.everywhere),
            "dearest_arc": None if found.single is None else _gain(found, found.single),
        },
        "one_more_link": {
            "candidates": found.links.candidates,
            "best_proven": found.links.best_proven,
            "positions": [_gain(found, gain) for gain in found.links.gains],
        },
        "one_more_interface": None if found.degree is None else _degree(found.degree),
    }


def _gain(found: NetworkExplanation, gain: Gain) -> dict[str, Any]:
    rate = found.solution.link_gbps
    return {
        "arcs": [list(pair) for pair in gain.pairs],
        "added_links": float(gain.added),
        "added_gbps": None if rate is None else float(gain.added) * rate,
        "predicted_theta": gain.predicted,
        "checked_theta": gain.theta,
        "checked_bound": gain.bound,
        "checked": gain.theta is not None,
    }


def _degree(found: DegreeGain) -> dict[str, Any]:
    return {
        "degree": found.degree + 1,
        "bounds_now": [bound_document(bound) for bound in found.bounds],
        "bounds": [bound_document(bound) for bound in found.more_bounds],
        "checked_theta": found.theta,
        "checked_bound": found.bound,
        "optimal": found.optimal,
        "note": found.note,
    }
