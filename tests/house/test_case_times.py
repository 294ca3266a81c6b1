"""The list of slow cases, and which cases a choice takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import conftest
from tests.support.case_times import chosen, read_times, write_times

SLOW = {"c": 9.0, "a": 5.0, "e": 4.0, "x": 3.0, "d": 1.0}


def test_the_list_is_read_back(tmp_path: Path) -> None:
    """The longest first, quick ones left out; lines of cases that were not measured stay."""
    path = tmp_path / "list.tsv"
    write_times({"a": 1.04, "b": 0.1, "c": 12.0}, path)
    assert list(read_times(path).items()) == [("c", 12.0), ("a", 1.0)]
    write_times({"a": 0.2, "d": 3.0}, path)
    assert list(read_times(path).items()) == [("c", 12.0), ("d", 3.0)]
    assert read_times(tmp_path / "none.tsv") == {}


def test_choices_share_out_all_cases() -> None:
    """Quick and slow ones are all; slices are slow ones, each in one of them; a line without a case says nothing."""
    names = ("a", "b", "c", "d", "e")
    assert chosen(names, SLOW, "quick") == {"b"}
    assert chosen(names, SLOW, "slow") == {"a", "c", "d", "e"}
    assert [chosen(names, SLOW, f"slow:{k}/2") for k in range(2)] == [{"c", "e"}, {"a", "d"}]


@pytest.mark.parametrize("choice", ["fast", "slow:2/2", "slow:1", "slow:x/3", "quick:0/2"])
def test_other_choices_are_refused(choice: str) -> None:
    """With what is allowed."""
    with pytest.raises(ValueError, match="allowed: quick, slow, slow:K/N"):
        chosen((), SLOW, choice)


def test_a_slow_case_that_is_marked_quick_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs with the quick ones, and in no slice of the slow ones."""
    monkeypatch.setattr(conftest, "read_times", lambda: SLOW)

    def kept(choice: str) -> list[str]:
        marks = {"a": object()}
        items = [
            SimpleNamespace(nodeid=name, get_closest_marker=lambda _, name=name: marks.get(name)) for name in "abc"
        ]
        hook = SimpleNamespace(pytest_deselected=lambda items: None)
        conftest.pytest_collection_modifyitems(SimpleNamespace(getoption=lambda _: choice, hook=hook), items)
        return [item.nodeid for item in items]

    assert kept("quick") == ["a", "b"]
    assert kept("slow") == ["c"]
