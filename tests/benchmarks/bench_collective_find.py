"""Speed of the searches for topologies that suit collectives; goals of one core."""

from __future__ import annotations

from fractions import Fraction

from solvers.collective.breadth_first import search_cayley
from solvers.stop import Stop
from tests.benchmarks.figures import Figure, best_of
from topoopt.analyses.collective.search import Wanted, find_front
from topoopt.core.cluster import LinkDirection

SERVERS, DEGREE = 1024, 4
VISITS = 20_000_000


def collective_find_figures() -> list[Figure]:
    """1024 servers with four links: searches for known steps at the least bandwidth factor, and the atlas."""
    figures = []
    for links, steps in ((LinkDirection.UNIDIRECTIONAL, 7), (LinkDirection.BIDIRECTIONAL, 8)):

        def search(links: LinkDirection = links, steps: int = steps) -> object:
            found = search_cayley(SERVERS, DEGREE, links, Stop(), visits=VISITS, most_steps=12, seed=0)
            assert any(one.steps <= steps and one.bandwidth == Fraction(1023, 1024) for one in found)
            return found

        figures.append(Figure(f"Cayley search, {links}: {steps} steps at 1023/1024", best_of(search, 2), "s", 60.0))
    wanted = Wanted(SERVERS, DEGREE, LinkDirection.UNIDIRECTIONAL)
    answer = best_of(lambda: find_front(wanted, Stop(), visits=None, seed=0), 3) * 1e3
    figures.append(Figure("front of the atlas", answer, "ms", 100.0))
    return figures
