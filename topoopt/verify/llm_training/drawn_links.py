"""Links that are drawn: those of an expander, made again from the seed.

An expander of d interfaces is d // 2 random cycles through all servers, links both ways; an odd interface joins the
servers in random pairs. With numpy's `default_rng(seed)` each cycle is a random order of the servers; one that has a
link of an earlier cycle is drawn again, up to 50 times in all. The pairs are neighbours in one more random order.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.solution import Decides
from topoopt.verify.laws.draws import leave_out_draws, same_numpy
from topoopt.verify.laws.findings import ViolationLog

EXPANDER = "expander"
ATTEMPTS = 50


def check_drawn_links(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    """The links of every expander are those of the seed; the objective is the time on the first fabric."""
    for place, outcome in enumerate(solution.fabrics):
        network = outcome.plan.network
        if network.fabric != EXPANDER:
            continue
        due = expander_links(problem.cluster.servers, problem.cluster.degree, solution.seed)
        if Counter({(tail, head): parallel for tail, head, parallel in network.links}) == due:
            continue
        if same_numpy(solution):
            findings.add("fabrics", f"{EXPANDER} has other links than those drawn from seed {solution.seed}")
        else:
            decides = Decides.NOTHING if place else Decides.VALUE
            leave_out_draws(findings, solution, f"links of {EXPANDER}", decides)


def expander_links(servers: int, degree: int, seed: int) -> Counter[tuple[int, int]]:
    """Links from each server to each other."""
    draw = np.random.default_rng(seed)
    found: Counter[tuple[int, int]] = Counter()
    for _ in range(degree // 2):
        for _ in range(ATTEMPTS):
            order = draw.permutation(servers).tolist()
            steps = list(itertools.pairwise([*order, order[0]]))
            if not any(found[step] for step in steps):
                break
        found.update(steps)
        found.update((head, tail) for tail, head in steps)
    if degree % 2:
        order = draw.permutation(servers).tolist()
        pairs = list(zip(order[::2], order[1::2], strict=False))
        found.update(pairs)
        found.update((b, a) for a, b in pairs)
    return +found
