"""The page of the checker has every field of the solution files with its meaning, and every promise has its tests."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import pytest

from tests.support.paths import ROOT
from topoopt.kinds import KINDS, kind_named

PAGE = (ROOT / "docs" / "checking.md").read_text()

CLEAR = {
    *("gbps", "source", "target", "strategy", "network", "schedules", "routes", "rings"),
    *("pipeline", "data", "expert"),
}
"""Names of fields that say what they are."""


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that makes the tables."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/hooks"))
    import checks

    return checks


def fields(schema: Any) -> set[str]:
    """Names of all keys of a JSON Schema."""
    if isinstance(schema, list):
        return {name for item in schema for name in fields(item)}
    if not isinstance(schema, dict):
        return set()
    own = schema.get("properties")
    found = set(own) if isinstance(own, dict) else set()
    return found | {name for item in schema.values() for name in fields(item)}


def named(table: str) -> set[str]:
    """Words in code style."""
    return set(re.findall(r"`([a-z0-9_]+)`", table))


def test_the_page_has_the_tables_of_every_kind() -> None:
    """A section a kind, with words of its own and what is generated."""
    sections = dict(re.findall(r"^### ([\w-]+)\n(.*?)(?=^### |\Z)", PAGE, re.MULTILINE | re.DOTALL))
    for kind in KINDS:
        assert f"<!-- generated: decisions {kind} -->" in sections[kind]
        assert len(re.sub(r"<!--.*?-->", "", sections[kind]).split()) >= 15, kind
    assert len(PAGE.splitlines()) <= 165


def test_what_all_kinds_have_is_listed(checks: ModuleType) -> None:
    head = fields(kind_named("allocation").files.solutions.json_schema()) - {"route_gbps"}  # its plan
    assert head <= named(checks.head_fields())


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_kind_is_listed(kind: str, checks: ModuleType) -> None:
    """In the table of the kind, or in that of all."""
    listed = named(checks.head_fields()) | named(checks.fields(kind))
    assert fields(kind_named(kind).files.solutions.json_schema()) - listed == set()


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_plan_has_a_meaning(kind: str, checks: ModuleType) -> None:
    """Its annotation or the docstring of its class says it, or a section of its own does."""
    silent = [
        (section.name, field.name)
        for section in checks.plan_sections(kind)
        for field in section.fields
        if not (checks.meaning_of(section, field) or field.sections or field.name in CLEAR)
    ]
    assert silent == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_constraint_is_listed(kind: str, checks: ModuleType) -> None:
    text = checks.constraints(kind)
    for checker in checks.CHECKERS[kind]:
        for code, constraint in checker.constraints:
            assert f"| `{code}` |" in text or not constraint.__doc__


def test_promises_name_tests_that_there_are() -> None:
    """A promise without its test, or one whose test is gone or renamed, is none."""
    rows = [line for line in (ROOT / "docs/promises.md").read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) >= 20
    for row in rows:
        _, promise, cell, _ = row.split("|")
        file = ""
        named = re.findall(r"`([\w/.]*)::(\w+)`", cell)
        assert named, promise
        for path, test in named:
            file = path or file
            assert f"def {test}(" in (ROOT / file).read_text(), (promise, file, test)
