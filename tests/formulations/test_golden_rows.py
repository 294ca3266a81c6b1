"""Every numbered constraint family of every formulation as LP text, row by row.

How the files in `golden/` came about: written by hand, before anything was built, from the algebra in the docstrings
of the formulations and the tiny data in `formulation_cases.py` (three servers, four for the one rule that needs them):
take each index of the family in turn, put the sums in full, variables in the order of the columns, all on the left.
Ranged rows are two rows (`.low`, `.high`); a row without terms is written `0 <first column>`; names that begin with an
e get a `_` before it, as the format asks. Where a file and the algebra disagree, the file is wrong; where a file and
our text disagree, the builder is.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from formulations import table
from formulations.programs import model_text
from tests.support.formulation_cases import PROGRAMS, rows_of

GOLDEN = Path(__file__).parent / "golden"
OPTION = {
    "pair": "/pairs",
    "kept": "/kept",
    "changed": "/kept",
    "link": "/hops",
    "walk": "/hops",
    "walk_first": "/hops",
    "walk_last": "/hops",
    "source_distance": "/cuts",
    "distance": "/cuts",
    "root": "/bfs",
    "row_order": "/bfs",
    "parent": "/bfs",
    "prefix": "/bfs-4",
    "somewhere": "/free",
    "forward": "/gpipe",
    "backward": "/gpipe",
    "load_compute": "/overlapped",
    "load_communication": "/overlapped",
    "switch": "/splits",
    "copy": "/multicast",
    "inside": "/inside",
    "signal": "/signal",
}
"""Which options of a formulation bring a family in."""

FILES = sorted(path.name.removesuffix(".lp") for path in GOLDEN.glob("*.lp"))


@pytest.mark.parametrize("name", FILES)
def test_rows_are_the_algebra(name: str) -> None:
    """The rows of the family, word for word, no more and no fewer."""
    formulation, family = name.split(".")
    chosen = formulation + OPTION.get(family, "")
    program = PROGRAMS[chosen if chosen in PROGRAMS else formulation][0]()
    expected = rows_of((GOLDEN / f"{name}.lp").read_text(), family)
    assert rows_of(model_text(program, "lp"), family) == expected
    assert expected


def test_every_family_has_a_file() -> None:
    """Each row of each program belongs to a family with a golden file, and each formulation of the table has some."""
    families = {
        f"{name.split('/')[0]}.{re.sub(r'(_[0-9]+)+$', '', row)}"
        for name, (build, _) in PROGRAMS.items()
        for row in build().row_names or ()
    }
    assert families == set(FILES)
    assert {name.split(".")[0] for name in FILES} == set(table.FORMULATIONS)
