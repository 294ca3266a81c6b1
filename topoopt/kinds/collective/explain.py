"""What limits a collective, where its time goes, and what faster links across the limiting cut would gain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from solvers.collective.best_rates import limiting
from solvers.collective.schedules import step_loads_us
from topoopt.core.collective import CollectiveProblem, CollectiveResult
from topoopt.core.errors import InputError, Problem
from topoopt.core.proofs import Argument
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import Certificate
from topoopt.kinds.collective.figures import crossing_links, cut_of, limit_sentence, time_text
from topoopt.kinds.collective.page import answer
from topoopt.kinds.pipeline import Explanation, Question
from topoopt.verify.checker import FULL
from topoopt.verify.collective import CHECKER, bandwidth_us


def explain(result: CollectiveResult, question: Question) -> Explanation:
    """Explain a schedule; capacity is added in links of the rate that the fastest link has.

    Raises:
        InputError: there is no instance, or the result is not one of it.
    """
    problem = result.problem
    if problem is None:
        raise InputError([Problem("needed for the links", path="instance", allowed="the instance that was solved")])
    if violations := CHECKER(problem, result, FULL).violations:
        raise InputError([Problem(f"not a solution of this instance: {violations[0].message}")])
    network, schedule = problem.network, result.plan.schedule
    least = float(bandwidth_us(problem, result.certificates))
    loads, latency = step_loads_us(problem, schedule)
    bytes_us, latency_us = float(loads.max(axis=1, initial=0.0).sum()), float(latency.sum())
    links = limiting_links(problem, result.certificates)
    units = max(int(network.units.max() * float(question.added_links or 1)), 1)
    added = float(units * network.unit_gbytes_per_s)
    gains: list[tuple[list[str], float]] = []  # faster links, least us of the bytes of any schedule then
    candidates = [[arc] for arc in links[: question.checks]] + ([links] if len(links) > 1 else [])
    for arcs in candidates:
        if not question.left_s():
            break
        wider = replace(problem, network=faster(network, arcs, units))
        gains.append((_link_names(network, arcs), float(bandwidth_us(wider, limiting(wider, question.stop)))))
    limit = limit_sentence(problem, result.certificates)
    sentences = [
        answer(result),
        f"Of {time_text(result.figures.time_us)}, {time_text(latency_us)} are latencies of {schedule.steps} steps and "
        f"{time_text(bytes_us)} bytes on the fullest link of each; no schedule moves the bytes in less than "
        f"{time_text(least)}.",
        f"{limit[:1].upper()}{limit[1:]}.",
        *(_sentence(*gain, added, least) for gain in gains),
    ]
    figures = {
        "latency_us": latency_us,
        "bytes_us": bytes_us,
        "least_bytes_us": least,
        "links_of_the_cut": _link_names(network, links),
        "faster": [
            {"links": names, "added_gbytes_per_s": added, "least_bytes_us": least_us} for names, least_us in gains
        ],
    }
    return Explanation(tuple(sentences), figures, late=len(gains) < len(candidates))


def limiting_links(problem: CollectiveProblem, certificates: Sequence[Certificate]) -> list[int]:
    """Return the arcs of the limiting cut; of lengths, the arcs of positive length, the longest first."""
    for certificate in certificates:
        if certificate.argument is Argument.PAIR_LENGTHS or problem.groups:
            lengths = certificate["lengths"]
            order = np.argsort(-lengths, kind="stable")
            return [int(arc) for arc in order if lengths[arc] > 0]
    return crossing_links(problem, cut_of(certificates))


def faster(network: RatedNetwork, arcs: list[int], units: int) -> RatedNetwork:
    """Return the network with some links faster by so many units."""
    more = network.units.copy()
    more[arcs] += units
    return replace(network, units=more)


def _link_names(network: RatedNetwork, arcs: list[int]) -> list[str]:
    return [f"{network.names[a]} → {network.names[b]}" for a, b in network.arcs[arcs].tolist()]


def _sentence(links: list[str], bytes_us: float, added: float, least: float) -> str:
    where = links[0] if len(links) == 1 else f"each of the {len(links)} limiting links"
    if bytes_us >= least * (1 - 1e-9):
        return f"With {added:g} GB/s more on {where} nothing is gained: another cut is as narrow."
    return f"With {added:g} GB/s more on {where}: {time_text(bytes_us)} at least, {1 - bytes_us / least:.1%} less."
