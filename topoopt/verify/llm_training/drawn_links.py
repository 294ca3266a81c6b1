"""Links that are drawn: those of an expander, made again from the seed.

An expander of d interfaces is d // 2 random cycles through all servers, links both ways; an odd interface joins the
servers in random pairs. Drawn from the seed (`core.draws`), each cycle is a random order of the servers; one that has a
link of an earlier cycle is drawn again, up to 50 times in all. The pairs are neighbours in one more random order.
"""

from __future__ import annotations

import itertools
from collections import Counter

from topoopt.core.draws import Draws
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.verify.laws.findings import ViolationLog

EXPANDER = "expander"
ATTEMPTS = 50


def check_drawn_links(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    """The links of every expander are those of the seed."""
    for outcome in solution.fabrics:
        network = outcome.plan.network
        if network.fabric != EXPANDER:
            continue
        due = expander_links(problem.cluster.servers, problem.cluster.degree, solution.seed)
        if Counter({(tail, head): parallel for tail, head, parallel in network.links}) == due:
            continue
        findings.add("fabrics", f"{EXPANDER} has other links than those drawn from seed {solution.seed}")


def expander_links(servers: int, degree: int, seed: int) -> Counter[tuple[int, int]]:
    """Links from each server to each other."""
    draws = Draws(seed)
    found: Counter[tuple[int, int]] = Counter()
    for _ in range(degree // 2):
        for _ in range(ATTEMPTS):
            order = draws.permutation(servers).tolist()
            steps = list(itertools.pairwise([*order, order[0]]))
            if not any(found[step] for step in steps):
                break
        found.update(steps)
        found.update((head, tail) for tail, head in steps)
    if degree % 2:
        order = draws.permutation(servers).tolist()
        pairs = list(zip(order[::2], order[1::2], strict=False))
        found.update(pairs)
        found.update((b, a) for a, b in pairs)
    return +found
