"""Make the atlas of `topoopt collective find` better: python -m tests.support.make_atlas FILE [LINKS_PER_SIZE]."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from solvers.stop import Stop
from topoopt.analyses.collective.search import (
    HEADER,
    Atlas,
    ScoredTopology,
    Wanted,
    atlas,
    search_topologies,
    smaller_optima,
)
from topoopt.core.cluster import LinkDirection
from topoopt.files.atomic import csv_text

DEGREES = range(2, 9)
SIZES = (
    *range(3, 65),
    *(72, 80, 81, 90, 96, 100, 108, 112, 120, 125, 128, 144, 160, 180, 192, 200, 216, 240, 243, 256, 288, 320, 324),
    *(360, 384, 400, 432, 448, 480, 500, 512, 576, 600, 625, 640, 648, 720, 729, 768, 800, 864, 896, 900, 960, 1000),
    1024,
)
"""All up to 64 servers, and those that racks, powers and products make."""


def atlas_text(atlas: Atlas) -> str:
    """As a table."""
    rows = [
        (
            wanted.servers,
            wanted.degree,
            wanted.links.value,
            one.steps,
            one.bandwidth,
            f"{one.all_to_all:.9g}",
            json.dumps(one.recipe, separators=(",", ":")),
        )
        for wanted in sorted(atlas, key=lambda wanted: (wanted.servers, wanted.degree, wanted.links.value))
        for one in atlas[wanted]
    ]
    return csv_text(HEADER, rows)


def rebuilt(
    sizes: Iterable[int],
    degrees: Sequence[int],
    stop: Stop,
    *,
    known: Atlas,
    visits: int,
    seed: int,
    tell: Callable[[str], None],
) -> dict[Wanted, list[ScoredTopology]]:
    """An atlas made anew, small sizes first; sizes of which so few links connect too few servers are left out.

    Args:
        known: what is known already; of these sizes only what is on the front stays.
        visits: links followed in the search of each size, degree and kind of links.
        seed: of the searches.
        tell: told what comes next.
    """
    made: dict[Wanted, list[ScoredTopology]] = {wanted: list(entries) for wanted, entries in known.items()}
    smaller = smaller_optima(made)
    for n in sorted(sizes):
        for degree in degrees:
            if degree >= n:
                continue
            for links in LinkDirection:
                if stop.reason() is not None:
                    return made
                wanted = Wanted(n, degree, links)
                tell(f"{n} servers, degree {degree}, {links}")
                before = made.get(wanted, ())
                made[wanted] = search_topologies(wanted, smaller, stop, published=before, visits=visits, seed=seed)
    return made


def main() -> None:
    """Improve upon what is known, and write the table."""
    visits = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
    made = rebuilt(SIZES, DEGREES, Stop(), known=atlas(), visits=visits, seed=0, tell=print)
    Path(sys.argv[1]).write_text(atlas_text(made))


if __name__ == "__main__":
    main()
