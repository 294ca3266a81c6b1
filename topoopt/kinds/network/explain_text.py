"""The explanation of a network in sentences, and as plain data for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from topoopt.files.results import bound_document
from topoopt.kinds.network.explain import SAME, DegreeGain, Gain, NetworkExplanation, ServerCut, explain_network
from topoopt.kinds.pipeline import Explanation, Question
from topoopt.verify.network.checker import NetworkResult

SHOWN = 5


def explanation_lines(explanation: NetworkExplanation) -> list[str]:
    """The whole explanation, a sentence or two a line."""
    theta, figures = explanation.theta, explanation.solution.figures
    better = "" if theta >= figures.theta * (1 - SAME) else f" (routed again: the solution has {figures.theta:.6g})"
    lines = [
        f"theta {theta:.6g}, lambda {1 / theta:.6g}: the busiest links are asked for {theta:.6g} times what they carry"
        f"{better}.",
        *_bottleneck(explanation),
        *_gains(explanation),
        *([] if explanation.degree is None else _degree(explanation, explanation.degree)),
    ]
    if figures.problem.link_gbps is None:
        rated, unit = figures.topology.rates is not None, "units of one link's capacity"
        lines.append(f"Demand and capacity are in {'one unit' if rated else unit}.")
    if explanation.late:
        lines.append("The time limit left some of this unchecked.")
    return lines + [f"Note: {note}." for note in explanation.notes]


def server_list(servers: Iterable[int]) -> str:
    """Return servers in words: `server 3`, or `servers 0-3, 7`."""
    runs: list[list[int]] = []
    for server in sorted(servers):
        if runs and server == runs[-1][1] + 1:
            runs[-1][1] = server
        else:
            runs.append([server, server])
    words = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)
    return f"server{'' if len(runs) == 1 and runs[0][0] == runs[0][1] else 's'} {words}"


def _amount(explanation: NetworkExplanation, units: float) -> str:
    rate = explanation.solution.figures.problem.link_gbps
    return f"{units:.6g}" if rate is None else f"{units * rate:.6g} Gbit/s"


def _some(words: Sequence[str], total: int) -> str:
    return ", ".join(words) + (f" and {total - len(words)} more" if total > len(words) else "")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _bottleneck(explanation: NetworkExplanation) -> list[str]:
    bottleneck, topology = explanation.bottleneck, explanation.solution.figures.topology
    lines = []
    if bottleneck.cuts:
        lines.append(f"Bottleneck: {_cut(explanation, bottleneck.cuts[0])}, however it is routed.")
        others = [_cut(explanation, cut) for cut in bottleneck.cuts[1:SHOWN]]
        lines += [f"Just as tight: {other}." for other in others]
        if len(bottleneck.cuts) > SHOWN:
            lines.append(f"And {_counted(len(bottleneck.cuts) - SHOWN, 'more cut')} as tight.")
    elif bottleneck.hop_total is not None:
        count, total = int(topology.multiplicity.sum()), float(topology.capacity.sum())
        lines.append(
            f"Bottleneck: all {count} links alike. Demand times hops, {bottleneck.hop_total:.6g}, has to fit "
            f"a capacity of {total:.6g}: theta ≥ {bottleneck.bound:.6g}. Only shorter ways or more links help."
        )
    else:
        lines.append(
            f"Bottleneck: {_counted(len(bottleneck.arcs), 'arc')} with a price, dearest first: "
            f"{_arcs(explanation, bottleneck.arcs)}. No single set of servers was found behind it; the prices prove "
            f"theta ≥ {bottleneck.bound:.6g} on this topology, however it is routed."
        )
    pays = explanation.payments[:SHOWN]
    words = [f"{source} → {target} ({_amount(explanation, demand)})" for source, target, demand, _ in pays]
    count = len(explanation.payments)
    lines.append(f"{_counted(count, 'pair')} of servers cannot avoid it, those that weigh most: {_some(words, count)}.")
    idle = len(topology.arcs) - len(bottleneck.arcs)
    if idle:
        gap = explanation.theta - bottleneck.bound
        gains = "nothing" if gap <= SAME * explanation.theta else f"at most {gap / explanation.theta:.2%}"
        lines.append(f"More capacity on any of the other {_counted(idle, 'arc')} gains {gains}: their price is 0.")
    return lines


def _arcs(explanation: NetworkExplanation, positions: Sequence[int]) -> str:
    arcs = explanation.solution.figures.topology.arcs
    return _some([f"{arcs[a, 0]} → {arcs[a, 1]}" for a in positions[: 2 * SHOWN]], len(positions))


def _cut(explanation: NetworkExplanation, cut: ServerCut) -> str:
    inside = set(cut.senders)
    rest = [v for v in range(explanation.solution.figures.topology.servers) if v not in inside]
    if len(inside) == 1:
        name = f"what leaves {server_list(inside)}"
    elif len(rest) == 1:
        name = f"what enters {server_list(rest)}"
    else:
        name = f"the cut from {server_list(inside)} to {server_list(rest)}"
    return (
        f"{name} ({_counted(len(cut.arcs), 'arc')}: "
        f"{_arcs(explanation, cut.arcs)}), {_amount(explanation, cut.demand)} of demand over a capacity of "
        f"{_amount(explanation, float(cut.capacity))}: theta ≥ {cut.theta:.6g} on this topology"
    )


def _change(explanation: NetworkExplanation, gain: Gain) -> str:
    best = f"at best {gain.predicted:.6g} by the prices"
    if gain.theta is None:
        return f"theta {best}, not checked"
    lower = 1 - gain.theta / explanation.theta
    word = "no gain" if abs(lower) <= SAME else f"{lower:.2%} less" if lower > 0 else f"{-lower:.2%} more"
    open_gap = gain.bound is not None and gain.bound < gain.theta * (1 - 1e-3)
    least = f", at least {gain.bound:.6g}" if open_gap else ""
    return f"theta {best}; routed again {gain.theta:.6g}{least} ({word}), checked"


def _gains(explanation: NetworkExplanation) -> list[str]:
    positions, candidates, best_proven = explanation.links
    lines = []
    single, everywhere = explanation.single, explanation.everywhere
    count = float(everywhere.added)
    rate = explanation.solution.figures.problem.link_gbps
    added = f"{count:.6g} link{'' if count == 1 else 's'}{'' if rate is None else f' ({count * rate:.6g} Gbit/s)'}"
    rated = explanation.solution.figures.topology.rates is not None
    if rated:
        added = f"{count:.6g}" if rate is None else f"{count * rate:.6g} Gbit/s"
    if single is not None:
        tail, head = single.pairs[0]
        lines.append(f"{added} more capacity on {tail} → {head} alone: {_change(explanation, single)}.")
    where = "each arc with a price" if single is not None else f"{everywhere.pairs[0][0]} → {everywhere.pairs[0][1]}"
    lines.append(f"{added} more capacity on {where}: {_change(explanation, everywhere)}.")
    if positions:
        best = positions[0].theta
        if best_proven and best is not None and best >= explanation.theta * (1 - SAME):
            proven = f"none of the {candidates} gains anything, as the prices prove"
        elif best_proven:
            proven = f"no other of the {candidates} positions is better, as the prices prove"
        else:
            proven = f"of {candidates} positions; not proven best"
        lines.append(f"One more link{' of capacity 1' if rated else ''}, best positions ({proven}):")
        for gain in positions:
            sign = "<->" if len(gain.pairs) == 2 else "->"
            lines.append(f"  {gain.pairs[0][0]} {sign} {gain.pairs[0][1]}: {_change(explanation, gain)}")
    return lines


def _degree(explanation: NetworkExplanation, gain: DegreeGain) -> list[str]:
    server, sends, demanded = gain.node
    proved = explanation.solution.bound
    formulas = ", ".join(f"{bound.proved_by} {bound.value:.6g}" for bound in gain.bounds)
    met = explanation.theta - proved.value <= SAME * explanation.theta
    verdict = "met, so no topology is better" if met else f"{1 - proved.value / explanation.theta:.2%} below theta"
    verb = "sends" if sends else "receives"
    lines = [
        f"Every topology of degree {gain.degree}: theta ≥ {proved.value:.6g} by {proved.proved_by} ({verdict}). "
        f"By formulas: {formulas}; the node cut is server {server}, which {verb} {_amount(explanation, demanded)} over "
        f"{gain.degree} links."
    ]
    more = gain.more_bounds[0]
    text = f"One more interface per server: theta at best {more.value:.6g} ({more.proved_by})"
    if gain.theta is not None and gain.bound is not None:
        kind = "the optimum, " if gain.optimal else f"bound {gain.bound:.6g}, "
        text += f"; solved again {gain.theta:.6g} ({kind}{1 - gain.theta / explanation.theta:.2%} less), checked"
    lines.append(f"{text}{f'; {gain.note}' if gain.note else ''}.")
    return lines


def explain(solution: NetworkResult, question: Question) -> Explanation:
    """What limits a network, and what more links would gain.

    Raises:
        InputError: the solution is not one of this instance.
    """
    explanation = explain_network(solution, added=question.added_links, checks=question.checks, stop=question.stop)
    return Explanation(
        tuple(explanation_lines(explanation)), _document(explanation), tuple(explanation.notes), explanation.late
    )


def _document(explanation: NetworkExplanation) -> dict[str, Any]:
    solution, bottleneck = explanation.solution, explanation.bottleneck
    arcs, (positions, candidates, best_proven) = solution.figures.topology.arcs, explanation.links

    def priced(priced_arcs: tuple[int, ...]) -> list[dict[str, Any]]:
        return [
            {
                "tail": int(arcs[a, 0]),
                "head": int(arcs[a, 1]),
                "links": int(solution.figures.topology.multiplicity[a]),
                "price": float(bottleneck.lengths[a]),
            }
            for a in priced_arcs
        ]

    return {
        "theta": explanation.theta,
        "lambda": 1.0 / explanation.theta,
        "bound": bound_document(solution.bound),
        "link_gbps": solution.figures.problem.link_gbps,
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
            "pairs": len(explanation.payments),
            "demands": [
                dict(zip(("source", "target", "demand", "price"), payment, strict=True))
                for payment in explanation.payments[:100]
            ],
        },
        "more_capacity": {
            "everywhere": _gain(explanation, explanation.everywhere),
            "dearest_arc": None if explanation.single is None else _gain(explanation, explanation.single),
        },
        "one_more_link": {
            "candidates": candidates,
            "best_proven": best_proven,
            "positions": [_gain(explanation, gain) for gain in positions],
        },
        "one_more_interface": None if explanation.degree is None else _degree_document(explanation.degree),
    }


def _gain(explanation: NetworkExplanation, gain: Gain) -> dict[str, Any]:
    rate = explanation.solution.figures.problem.link_gbps
    return {
        "arcs": [list(pair) for pair in gain.pairs],
        "added_links": float(gain.added),
        "added_gbps": None if rate is None else float(gain.added) * rate,
        "predicted_theta": gain.predicted,
        "checked_theta": gain.theta,
        "checked_bound": gain.bound,
        "checked": gain.theta is not None,
    }


def _degree_document(gain: DegreeGain) -> dict[str, Any]:
    return {
        "degree": gain.degree + 1,
        "bounds_now": [bound_document(bound) for bound in gain.bounds],
        "bounds": [bound_document(bound) for bound in gain.more_bounds],
        "checked_theta": gain.theta,
        "checked_bound": gain.bound,
        "optimal": gain.optimal,
        "note": gain.note,
    }
