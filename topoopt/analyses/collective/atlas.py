"""The atlas: best known topologies for collectives of common sizes, each with its recipe, and how it is made anew."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files

from solvers.stop import Stop
from topoopt.analyses.collective.candidates import found_topologies, well_known
from topoopt.analyses.collective.scores import ScoredTopology, Wanted
from topoopt.core.cluster import LinkDirection
from topoopt.files.table_and_plot import csv_text

FILE = "atlas.csv"
HEADER = ("servers", "degree", "links", "steps", "bandwidth", "all_to_all", "recipe")
DEGREES = range(2, 9)
SIZES = (
    *range(3, 65),
    *(72, 80, 81, 90, 96, 100, 108, 112, 120, 125, 128, 144, 160, 180, 192, 200, 216, 240, 243, 256, 288, 320, 324),
    *(360, 384, 400, 432, 448, 480, 500, 512, 576, 600, 625, 640, 648, 720, 729, 768, 800, 864, 896, 900, 960, 1000),
    1024,
)
"""All up to 64 servers, and those that racks, powers and products make."""

Atlas = Mapping[Wanted, Sequence[ScoredTopology]]


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


def parsed_atlas(text: str) -> dict[Wanted, list[ScoredTopology]]:
    """From a table."""
    found: dict[Wanted, list[ScoredTopology]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        wanted = Wanted(int(row["servers"]), int(row["degree"]), LinkDirection(row["links"]))
        one = ScoredTopology(
            json.loads(row["recipe"]), int(row["steps"]), Fraction(row["bandwidth"]), float(row["all_to_all"])
        )
        found.setdefault(wanted, []).append(one)
    return found


@lru_cache(maxsize=1)
def atlas() -> Atlas:
    """The one that is shipped."""
    return parsed_atlas((files(__package__) / FILE).read_text("utf-8"))


def known_smaller(known: Atlas) -> Callable[[Wanted], Sequence[ScoredTopology]]:
    """What an atlas says of a size, or what well-known topologies give where it says nothing."""
    made: dict[Wanted, Sequence[ScoredTopology]] = {}

    def smaller(wanted: Wanted) -> Sequence[ScoredTopology]:
        if wanted in known:
            return known[wanted]
        if wanted not in made:
            made[wanted] = well_known(wanted)
        return made[wanted]

    return smaller


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
    smaller = known_smaller(made)
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
                made[wanted] = found_topologies(wanted, smaller, stop, known=before, visits=visits, seed=seed)
    return made
