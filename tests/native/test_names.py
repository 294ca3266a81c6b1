"""Two units never give different things the same name: the linker would take either for both, in silence."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from tests.support.paths import ROOT

SOURCES = ROOT / "topoopt" / "native" / "src"
INCLUDE = re.compile(r'^#include "(\w+\.hpp)"', re.MULTILINE)


def headers_of(file: Path) -> set[str]:
    """Headers that a file includes, and those that these include."""
    found: set[str] = set()
    for name in INCLUDE.findall(file.read_text(encoding="utf-8")):
        found |= {name} | headers_of(SOURCES / name)
    return found


def test_what_one_unit_includes_is_in_its_namespace() -> None:
    """Only what several units share stands in `topoopt` itself."""
    units: dict[str, set[str]] = defaultdict(set)
    for unit in SOURCES.glob("*.cpp"):
        for name in headers_of(unit):
            units[name].add(unit.stem)
    assert set(units) == {path.name for path in SOURCES.glob("*.hpp")}
    for name, of in units.items():
        if len(of) == 1 and name != "bfs.hpp":
            text = (SOURCES / name).read_text(encoding="utf-8")
            assert f"namespace topoopt::{next(iter(of))} {{" in text, name
