"""The page of the checker names every field of the solution files, so that none is added in silence."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.paths import ROOT
from topoopt.kinds import kind_named

PAGE = (ROOT / "docs" / "checking.md").read_text()

SECTIONS = {
    "routing": "routing and topology",
    "topology": "routing and topology",
    "allocation": "allocation",
    "hierarchical-bandwidth": "hierarchical-bandwidth",
    "shared-cluster": "shared-cluster",
    "co-optimisation": "co-optimisation",
    "placement": "placement",
    "collective": "collective",
    "llm-training": "llm-training",
    "dag-topology": "dag-topology",
    "regional-circuits": "regional-circuits",
}
"""Of every kind its part of the page."""


NEXT = re.compile(r"^##", re.MULTILINE)


def named(section: str) -> set[str]:
    """Words in code style in a section of the figures."""
    figures = PAGE[PAGE.index("## Figures") :]
    text = figures.split(f"### {section}\n")[1]
    return set(re.findall(r"`([a-z0-9_]+)`", NEXT.split(text)[0]))


def fields(schema: Any) -> set[str]:
    """Names of all keys of a JSON Schema."""
    if isinstance(schema, list):
        return {name for item in schema for name in fields(item)}
    if not isinstance(schema, dict):
        return set()
    own = schema.get("properties")
    found = set(own) if isinstance(own, dict) else set()
    return found | {name for item in schema.values() for name in fields(item)}


def test_what_all_kinds_have_is_told() -> None:
    head = fields(kind_named("allocation").files.solutions.json_schema()) - {"route_gbps"}  # its plan
    assert head <= named("All kinds")


@pytest.mark.parametrize("kind", SECTIONS)
def test_every_field_of_a_kind_is_told(kind: str) -> None:
    """Recomputed, held against the instance, or on the list of free text."""
    known = named("All kinds") | named(SECTIONS[kind])
    assert fields(kind_named(kind).files.solutions.json_schema()) - known == set()


def test_promises_name_tests_that_there_are() -> None:
    """A promise without its test, or one whose test is gone or renamed, is none."""
    table = PAGE[PAGE.index("## What is promised") :]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 20
    for row in rows:
        _, promise, cell, _ = row.split("|")
        file = ""
        named = re.findall(r"`([\w/.]*)::(\w+)`", cell)
        assert named, promise
        for path, test in named:
            file = path or file
            assert f"def {test}(" in (ROOT / file).read_text(), (promise, file, test)
