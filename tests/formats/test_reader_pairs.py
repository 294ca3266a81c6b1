"""As `test_reader_fields`, of readers of tables, networks and configurations: two files for each field."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pair_cases import PAIR_CASES
from topoopt.core.errors import InputError
from topoopt.formats.table import READERS

STRANGE = "never_heard_of"


def _said(outcome: object) -> str:
    return str(outcome) if isinstance(outcome, InputError) else "\n".join(outcome[1])  # type: ignore[index]


@pytest.mark.parametrize("reader", PAIR_CASES)
def test_what_is_not_known_is_named(reader: str, tmp_path: Path) -> None:
    """At every level of a file."""
    case = PAIR_CASES[reader]
    for text in case.strange:
        assert STRANGE in _said(case.outcome(text, tmp_path)), text


@pytest.mark.parametrize("reader", PAIR_CASES)
def test_what_is_used_changes_what_is_read(reader: str, tmp_path: Path) -> None:
    """Two files that differ in one field are read as two things, or the second is refused; formal fields say so."""
    case, table = PAIR_CASES[reader], READERS[reader]
    used = {name for name, (use, _) in table.items() if use == "used"}
    assert used == {*case.pairs, *case.formal}
    assert {name for name in used if "formal" in table[name][1]} == set(case.formal)
    for name, (text, changed) in case.pairs.items():
        one, two = (case.outcome(each, tmp_path) for each in (text, changed))
        assert not isinstance(one, InputError), (name, str(one))
        if name in case.checked:
            assert isinstance(two, InputError), name
        else:
            assert not isinstance(two, InputError), (name, str(two))
            assert one[0] != two[0], name


@pytest.mark.parametrize("reader", [name for name, case in PAIR_CASES.items() if case.noted])
def test_what_is_noted_is_named(reader: str, tmp_path: Path) -> None:
    """All fields that are noted; a note names each, at its level."""
    case = PAIR_CASES[reader]
    outcomes = [case.outcome(text, tmp_path) for text in case.noted]
    assert not [str(outcome) for outcome in outcomes if isinstance(outcome, InputError)]
    said = "\n".join(map(_said, outcomes))
    for row, (use, _) in READERS[reader].items():
        name, _, level = row.removesuffix(")").partition(" (")
        if use == "noted" and row != "any other":
            lines = [line for line in said.splitlines() if line.startswith(f"{level} '")] if level else [said]
            assert any((repr(name) if level else name) in line for line in lines), row


def test_readers_that_note_fields_have_a_file_with_them() -> None:
    """So that none is left out above."""
    noting = {
        name
        for name in PAIR_CASES
        if any(use == "noted" and row != "any other" for row, (use, _) in READERS[name].items())
    }
    assert noting == {name for name, case in PAIR_CASES.items() if case.noted}
