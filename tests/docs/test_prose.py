"""The pages are plain English, and the check sees what is not."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.support.paths import ROOT

LONG = "The plan " + "of a job of a cluster " * 8 + "ends."


@pytest.fixture
def prose(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that the build calls."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/hooks"))
    import prose

    return prose


def test_the_pages_are_in_order(prose: ModuleType) -> None:
    """But for those that are listed."""
    assert prose.issues() == []


@pytest.mark.parametrize(
    ("text", "issue"),
    [
        (LONG, "words a sentence in the mean"),
        (f"{LONG}\n\n{LONG}\n\n" + "It is so.\n\n" * 20, "have more than 35 words"),
        ("The links are set anew.", "the words 'set anew'"),
        ("A bound is proven.", "the term 'bound' is not linked"),
        ("The two ECMPs differ.", "the term 'ECMP' is not linked"),
        ("It takes 12.5 ms here.", "12.5 has no block"),
        ("It takes 1 204 s here.", "1 204 has no block"),
    ],
)
def test_what_is_wrong_is_found(text: str, issue: str, prose: ModuleType) -> None:
    assert any(issue in each for each in prose.issues_of("docs/kinds/x.md", text))


@pytest.mark.parametrize(
    "text",
    [
        "A [bound](../glossary.md#bound) is proven, and every bound holds.",
        "It takes 12.5 ms.\n\n```text\ntime 12.5 ms\n```",
        "It takes 12.5 ms: [speed](../results/speed.md).",
        "`bound` is a field, and 400 Gbit/s a rate.",
        "```text\n" + LONG + "\n```",
        "| " + LONG + " |",
    ],
)
def test_what_is_right_passes(text: str, prose: ModuleType) -> None:
    assert prose.issues_of("docs/kinds/x.md", text) == []


def test_sentences_end_where_they_end(prose: ModuleType) -> None:
    """Not at decimal points, at abbreviations or at the end of a line; items of a list are sentences."""
    text = "Theta is 2.5 here. See Smith et al. for\nmore `a. B` of it.\n\n- first of the list\n- second of the list\n"
    assert [prose.words_of(sentence) for sentence in prose.sentences(text)] == [4, 9, 4, 4]
