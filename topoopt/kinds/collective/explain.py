"""What limits a collective, where its time goes, and what faster links across the limiting cut would gain."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from solvers.collective.limits import limiting
from solvers.collective.timing import step_loads_us
from topoopt.core.collective import CollectiveOp, CollectiveProblem
from topoopt.core.collective_solution import CollectiveProof, CollectiveSolution
from topoopt.core.errors import InputError, Problem
from topoopt.core.rated_network import RatedNetwork
from topoopt.kinds.collective.answer import answer
from topoopt.kinds.collective.words import limit_sentence, time_text
from topoopt.kinds.explanation import Explanation, Question
from topoopt.verify.collective.check import bandwidth_us, check_collective


@dataclass(frozen=True)
class WidenedCut:
    """Links that are made faster, and how long the bytes of any schedule then take at least."""

    links: tuple[str, ...]
    added_gbytes_per_s: float
    bytes_us: float


def explain(problem: CollectiveProblem | None, solution: CollectiveSolution, question: Question) -> Explanation:
    """Explain a schedule; capacity is added in links of the rate that the fastest one has.

    Raises:
        InputError: the solution is not one of this instance.
    """
    if problem is None:
        problem = asked(solution)
    elif wrong := check_collective(problem, solution).violations:
        raise InputError([Problem(f"not a solution of this instance: {wrong[0].message}")])
    network = problem.network
    least = float(bandwidth_us(problem, solution.proof))
    loads, latency = step_loads_us(problem, solution.schedule)
    bytes_us, latency_us = float(loads.max(axis=1, initial=0.0).sum()), float(latency.sum())
    links = limiting_links(problem, solution.proof)
    units = max(int(network.units.max() * float(question.added_links or 1)), 1)
    added = float(units * network.unit_gbytes_per_s)
    gains: list[WidenedCut] = []
    tried = [[arc] for arc in links[: question.checks]] + ([links] if len(links) > 1 else [])
    for arcs in tried:
        if not question.left_s():
            break
        wider = replace(problem, network=faster(network, arcs, units))
        proof = limiting(wider, question.stop)
        gains.append(WidenedCut(named(network, arcs), added, float(bandwidth_us(wider, proof))))
    words = [
        answer(solution),
        f"Of {time_text(solution.time_us)}, {time_text(latency_us)} are latencies of {solution.steps} steps and "
        f"{time_text(bytes_us)} bytes on the fullest link of each; no schedule moves the bytes in less than "
        f"{time_text(least)}.",
        f"{limit_sentence(solution)[:1].upper()}{limit_sentence(solution)[1:]}.",
        *(sentence(gain, least) for gain in gains),
    ]
    figures = {
        "latency_us": latency_us,
        "bytes_us": bytes_us,
        "least_bytes_us": least,
        "links_of_the_cut": list(named(network, links)),
        "faster": [
            {"links": list(gain.links), "added_gbytes_per_s": gain.added_gbytes_per_s, "least_bytes_us": gain.bytes_us}
            for gain in gains
        ],
    }
    return Explanation(tuple(words), figures, late=len(gains) < len(tried))


def asked(solution: CollectiveSolution) -> CollectiveProblem:
    """The instance that a solution states, without its limits."""
    ranks = solution.network.ranks.tolist()
    root = solution.root if solution.root < len(ranks) else 0
    return CollectiveProblem(
        solution.name,
        solution.network,
        solution.collective,
        solution.vector_bytes,
        root,
        solution.message_us,
        solution.multicast,
        solution.relaying,
    )


def limiting_links(problem: CollectiveProblem, proof: CollectiveProof) -> list[int]:
    """Arcs of the limiting cut; of lengths, those of the longest."""
    network = problem.network
    if proof.lengths is not None:
        order = np.argsort(-proof.lengths, kind="stable")
        return [int(arc) for arc in order if proof.lengths[arc] > 0]
    inside = np.zeros(network.nodes, dtype=np.bool_)
    inside[list(proof.cut)] = True
    if problem.collective in (CollectiveOp.REDUCE_SCATTER, CollectiveOp.REDUCE):
        inside = ~inside
    return np.flatnonzero(inside[network.arcs[:, 0]] & ~inside[network.arcs[:, 1]]).tolist()


def faster(network: RatedNetwork, arcs: list[int], units: int) -> RatedNetwork:
    """The network with some links faster by so many units."""
    more = network.units.copy()
    more[arcs] += units
    return replace(network, units=more)


def named(network: RatedNetwork, arcs: list[int]) -> tuple[str, ...]:
    """Links in words."""
    return tuple(f"{network.names[a]} → {network.names[b]}" for a, b in network.arcs[arcs].tolist())


def sentence(gain: WidenedCut, least: float) -> str:
    """What faster links gain."""
    where = gain.links[0] if len(gain.links) == 1 else f"each of the {len(gain.links)} limiting links"
    if gain.bytes_us >= least * (1 - 1e-9):
        return f"With {gain.added_gbytes_per_s:g} GB/s more on {where} nothing is gained: another cut is as narrow."
    part = 1 - gain.bytes_us / least
    return (
        f"With {gain.added_gbytes_per_s:g} GB/s more on {where}: {time_text(gain.bytes_us)} at least, {part:.1%} less."
    )
