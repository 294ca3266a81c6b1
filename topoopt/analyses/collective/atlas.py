"""The atlas: best known topologies for collectives of common sizes, each with its recipe."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from importlib.resources import files

from topoopt.analyses.collective.candidates import well_known
from topoopt.analyses.collective.scores import ScoredTopology, Wanted
from topoopt.core.cluster import LinkDirection

FILE = "atlas.csv"
HEADER = ("servers", "degree", "links", "steps", "bandwidth", "all_to_all", "recipe")

Atlas = Mapping[Wanted, Sequence[ScoredTopology]]


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
