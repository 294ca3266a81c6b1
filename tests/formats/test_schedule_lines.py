"""Columns of numbers in many lines agree with a pattern that is matched line by line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topoopt.formats.schedules import LineError, number_table

PATTERN = re.compile(r"(\d{1,9}) to (\d{1,9})(?: with ([0-9.e-]{1,30}))?(?: at (\d{1,9}))\s*")
NUMBER = st.integers(0, 10**9 - 1).map(str) | st.sampled_from(["0", "007", "1234567890", "", "x", "\u0663"])
PART = st.sampled_from(["", " with 0.5", " with 3.0000000000000004e-1", " with nothing"])
LINES = st.lists(st.tuples(NUMBER, NUMBER, PART, NUMBER, st.sampled_from(["", " ", "\n", "\0", "\n1 to 2 at 3"])))


@given(LINES)
def test_numbers_are_those_of_every_line_by_itself(parts: list[tuple[str, ...]]) -> None:
    """Also where a line is of no such form, has too many digits, a letter of another alphabet, or a break in it."""
    lines = [f"{one} to {other}{part} at {last}{end}" for one, other, part, last, end in parts]
    found = [re.compile(PATTERN.pattern, re.ASCII).fullmatch(line) for line in lines]
    if None in found:
        with pytest.raises(LineError) as error:
            number_table(lines, PATTERN, (1, 2, 4))
        assert error.value.index in {place for place, one in enumerate(found) if one is None}
        return
    expected = [[int(one[group]) for group in (1, 2, 4)] for one in found if one is not None]
    assert number_table(lines, PATTERN, (1, 2, 4)).tolist() == expected


def test_a_line_without_any_number_is_named() -> None:
    with pytest.raises(LineError) as error:
        number_table(["1 to 2 at 3", "from nowhere"], PATTERN, (1, 2, 4))
    assert error.value.index == 1


def test_lines_beyond_those_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three lines at once: numbers of all stand in order, and a wrong line is named by its place among all."""
    monkeypatch.setattr("topoopt.formats.schedules.AT_ONCE", 3)
    lines = [f"{one} to {2 * one} at {10**one}" for one in range(9)]
    assert number_table(lines, PATTERN, (1, 2, 4)).tolist() == [[one, 2 * one, 10**one] for one in range(9)]
    with pytest.raises(LineError) as error:
        number_table([*lines, "nothing"], PATTERN, (1, 2, 4))
    assert error.value.index == 9
