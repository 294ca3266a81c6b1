"""Circuits of all steps: which to keep and when to set them anew, by shortest path over the topologies worth having."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from solvers.regional_circuits.greedy import in_turn, largest_first
from solvers.regional_circuits.matching import Matched, Proof, matched, proven, relaxed_bound
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Floats, Ints
from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.regional_circuits_solution import StepsProof
from topoopt.core.verdict import StopReason
from topoopt.simulate.regional.transfer_time import RegionTraffic

MOST_RUNS = 60
"""Runs of several steps that are matched and proven together."""

SEARCH_SHARE = 0.5
"""Of the time left, for circuits of one run; the rest is for its proof."""

MOST_S = 60.0
"""Seconds for each run where there is no limit."""

Run = tuple[int, int]
"""First and last step."""


@dataclass(frozen=True, eq=False)
class FoundRegional:
    """Circuits of every step and what is proven.

    Attributes:
        circuits: int64[K, P].
        proofs: by runs of steps.
        stopped_by: why the search ended.
    """

    circuits: Ints
    proofs: tuple[StepsProof, ...]
    stopped_by: StopReason


def traffic_of(problem: RegionalCircuitsProblem, run: Run) -> RegionTraffic:
    """Of the steps of a run, added."""
    return RegionTraffic.of(problem, problem.demands[run[0] : run[1] + 1].sum(axis=0))


def runs_of(problem: RegionalCircuitsProblem) -> list[Run]:
    """Every step, then runs of steps worth keeping circuits for: all of them, then the shortest."""
    steps = len(problem.demands)
    runs = [(step, step) for step in range(steps)]
    if not any(problem.stalls_s):
        return runs
    longer = [(first, first + length - 1) for length in range(2, steps) for first in range(steps - length + 1)]
    return [*runs, *([(0, steps - 1), *longer][:MOST_RUNS] if steps > 1 else [])]


def best_circuits(
    problem: RegionalCircuitsProblem,
    stop: Stop,
    tell: Callable[[str, int, int], None],
    keep: Callable[[Callable[[], FoundRegional]], None],
) -> FoundRegional:
    """The best for each run with its proof; then those of them that all steps together take least with.

    `keep` is given what the runs so far amount to, after each.
    """
    known: list[Ints] = [in_turn(traffic_of(problem, (0, len(problem.demands) - 1)))]
    proofs, runs = [], runs_of(problem)
    for place, run in enumerate(runs):
        tell("circuits", place, len(runs))
        traffic = traffic_of(problem, run)
        if run[0] == run[1]:
            known.append(largest_first(traffic))
        if stop.reason() is not None and run != (0, 0):
            continue
        left = max(1, sum(other[0] == other[1] for other in runs[place:]))  # single steps go before
        best, proof = matched(traffic, first_part(stop, SEARCH_SHARE / left, MOST_S))
        proof = proven(traffic, best, proof, first_part(stop, 1.0 / left, MOST_S))
        known.append(best.circuits)
        proofs.append(stated(run, best, proof))
        keep(partial(_together, problem, tuple(known), tuple(proofs), stop))
    return _together(problem, tuple(known), tuple(proofs), stop)


def _together(
    problem: RegionalCircuitsProblem, known: tuple[Ints, ...], proofs: tuple[StepsProof, ...], stop: Stop
) -> FoundRegional:
    return FoundRegional(shortest(problem, known), proofs, stop.reason() or StopReason.CONVERGED)


def greedy_circuits(
    problem: RegionalCircuitsProblem, stop: Stop, deal: Callable[[RegionTraffic], Ints], *, kept: bool
) -> FoundRegional:
    """Circuits dealt out by a rule, anew for every step or once for all; proofs by the relaxation alone."""
    last = len(problem.demands) - 1
    rows, proofs = [], []
    whole = deal(traffic_of(problem, (0, last)))
    for step in range(last + 1):
        traffic = traffic_of(problem, (step, step))
        rows.append(whole if kept else deal(traffic))
        best = Matched(traffic.seconds(rows[-1]), rows[-1])
        proofs.append(stated((step, step), best, relaxed_bound(traffic, best, stop)))
    return FoundRegional(np.array(rows), tuple(proofs), stop.reason() or StopReason.CONVERGED)


def kept_circuits(problem: RegionalCircuitsProblem, stop: Stop) -> FoundRegional:
    """The circuits that carry all steps together first, for all of them."""
    last = len(problem.demands) - 1
    best, _ = matched(traffic_of(problem, (0, last)), first_part(stop, SEARCH_SHARE, MOST_S))
    found = greedy_circuits(problem, stop, lambda _: best.circuits, kept=True)
    return FoundRegional(found.circuits, found.proofs, found.stopped_by)


def stated(run: Run, best: Matched, proof: Proof) -> StepsProof:
    """A proof in plain numbers."""
    seconds = min(proof.seconds, best.seconds)
    return StepsProof(run[0], run[1], seconds, proof.tree, proof.multipliers)


def shortest(problem: RegionalCircuitsProblem, known: tuple[Ints, ...]) -> Ints:
    """int64[K, P]: the cheapest sequence of known topologies, stalls included."""
    choices = np.unique(np.array(known), axis=0)
    steps = [traffic_of(problem, (step, step)) for step in range(len(problem.demands))]
    cost: Floats = np.array([[step.seconds(row) for row in choices] for step in steps])
    total, came = cost[0].copy(), np.zeros(cost.shape, dtype=np.int64)
    for step in range(1, len(steps)):
        cheapest = int(np.argmin(total))
        anew = total[cheapest] + problem.stalls_s[step]
        came[step] = np.where(total <= anew, np.arange(len(choices)), cheapest)
        total = np.minimum(total, anew) + cost[step]
    chosen = [int(np.argmin(total))]
    for step in range(len(steps) - 1, 0, -1):
        chosen.append(int(came[step, chosen[-1]]))
    return np.asarray(choices[chosen[::-1]])
