"""Jobs whose pods forward, small enough to try all circuits and routes, and a simulator of exact fractions for them.

It shares no code with the product: rates are those of the definition of max-min fairness (the narrowest arc first),
worked out anew for all that is under way whenever anything begins or ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tests.support.dag_jobs import Named, problem, some
from topoopt.core.dag_topology import DagTopologyProblem

Pair = tuple[int, int]
Ways = dict[Pair, tuple[int, ...]]


def forwarded_job(rng: np.random.Generator) -> DagTopologyProblem:
    """Three or four pods with one to three ports, transfers of at most four directions, tasks between them."""
    pods = int(rng.integers(3, 5))
    ends = list(itertools.permutations(range(pods), 2))
    directions = [ends[k] for k in rng.choice(len(ends), int(rng.integers(2, 5)), replace=False)]
    steps: Named = {}
    for k in range(int(rng.integers(2, 6))):
        source, target = directions[int(rng.integers(len(directions)))]
        steps[f"m{k}"] = ((source, target, float(rng.integers(1, 7))), some(rng, list(steps)))
        if rng.random() < 0.5:
            steps[f"c{k}"] = (float(rng.integers(0, 4)), some(rng, list(steps)))
    ports = tuple(int(count) for count in rng.integers(1, 4 if pods == 3 else 3, pods))
    job = problem(steps, pods, ports)
    return replace(job, max_hops=int(rng.integers(2, pods)))


def all_circuits(job: DagTopologyProblem) -> Iterator[dict[Pair, int]]:
    """All that the ports allow, none of a pair too."""
    pairs = list(itertools.combinations(range(job.pods), 2))
    for counts in itertools.product(*(range(min(job.ports[a], job.ports[b]) + 1) for a, b in pairs)):
        chosen = dict(zip(pairs, counts, strict=True))
        if all(
            sum(count for pair, count in chosen.items() if pod in pair) <= job.ports[pod] for pod in range(job.pods)
        ):
            yield {pair: count for pair, count in chosen.items() if count}


def all_ways(job: DagTopologyProblem, circuits: dict[Pair, int]) -> Iterator[Ways]:
    """Every choice of a way without circles, over circuits, for each direction."""
    directions = sorted({(m.source, m.target) for m in job.transfers})
    options = []
    for source, target in directions:
        between = [pod for pod in range(job.pods) if pod not in (source, target)]
        ways = [
            (source, *middle, target)
            for count in range(job.max_hops)
            for middle in itertools.permutations(between, count)
        ]
        options.append([way for way in ways if all((min(a), max(a)) in circuits for a in itertools.pairwise(way))])
    for chosen in itertools.product(*options):
        yield dict(zip(directions, chosen, strict=True))


def exact_times(
    job: DagTopologyProblem, circuits: dict[Pair, int], ways: Ways
) -> tuple[list[Fraction], list[Fraction]]:
    """(begin, end) of every step."""
    names = len(job.transfers) + len(job.tasks)
    begin: dict[int, Fraction] = {}
    end: dict[int, Fraction] = {}
    left: dict[int, Fraction] = {}
    now = Fraction(0)
    while len(end) < names:
        for step, before in enumerate(job.after):
            if step not in begin and all(one in end for one in before):
                begin[step] = now
                is_transfer = step < len(job.transfers)
                work = job.transfers[step].volume if is_transfer else job.tasks[step - len(job.transfers)].duration
                left[step] = Fraction(work)
        flows = {s: ways[job.transfers[s].source, job.transfers[s].target] for s in left if s < len(job.transfers)}
        speed = {step: Fraction(1) for step in left} | max_min(flows, circuits)
        passed = min(left[step] / speed[step] for step in left)
        now += passed
        for step in list(left):
            left[step] -= passed * speed[step]
            if left[step] == 0:
                end[step] = now
                del left[step]
    return [begin[k] for k in range(names)], [end[k] for k in range(names)]


def max_min(flows: dict[int, tuple[int, ...]], circuits: dict[Pair, int]) -> dict[int, Fraction]:
    """Rates by the definition: again and again the arc that leaves those open on it least settles theirs."""
    spare = {arc: Fraction(circuits[min(arc), max(arc)]) for way in flows.values() for arc in itertools.pairwise(way)}
    rates: dict[int, Fraction] = {}
    while len(rates) < len(flows):
        share = {}
        for arc, room in spare.items():
            crowd = [one for one, way in flows.items() if one not in rates and arc in itertools.pairwise(way)]
            if crowd:
                share[arc] = (room / len(crowd), crowd)
        rate, settled = min(share.values())
        for one in settled:
            rates[one] = rate
            for arc in itertools.pairwise(flows[one]):
                spare[arc] -= rate
    return rates
