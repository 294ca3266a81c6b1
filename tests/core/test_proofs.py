"""The closed list of arguments: each has a phrase and a row in the docs, and is derived again or claimed."""

from __future__ import annotations

import json
import re

import pytest
from pydantic import ValidationError

from tests.support.paths import ROOT
from topoopt.core.proofs import CLAIMED, PHRASES, Argument, Bound
from topoopt.files.codec import adapter
from topoopt.files.results import bound_document
from topoopt.kinds import kind_named

ROW = re.compile(r"^\| `([a-z-]+)` \| (claimed: )?", re.MULTILINE)
"""A row of a table of the docs: argument, and whether it is only claimed."""


def test_every_argument_has_a_phrase_of_its_own() -> None:
    assert set(PHRASES) == set(Argument)
    assert len(set(PHRASES.values())) == len(Argument)


def test_the_docs_list_every_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row each; those that are claimed say so, and no other does."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/hooks"))
    import checks

    assert "<!-- generated: arguments -->" in (ROOT / "docs" / "checking.md").read_text()
    rows = ROW.findall(checks.arguments())
    assert sorted(slug for slug, _ in rows) == sorted(Argument)
    assert {slug for slug, claimed in rows if claimed} == CLAIMED


def test_a_bound_says_whether_it_is_verified() -> None:
    for argument in Argument:
        bound = Bound(1.0, argument)
        assert bound.verified == (argument not in CLAIMED)
        assert bound.proved_by.endswith("not verified") != bound.verified
        assert bound_document(bound) == {"value": 1.0, "proved_by": argument.value, "verified": bound.verified}


@pytest.mark.parametrize(
    "changed",
    [
        {"argument": "a better proof"},
        {"argument": ""},
        {"argument": "node cut"},  # the phrase for people is no name
        {"iterations": 0},
        {"note": "trust me"},
    ],
)
def test_a_file_with_any_other_argument_is_refused(changed: dict[str, object]) -> None:
    document = {"value": 3.0, "argument": "node-cut", "derived": True}
    assert adapter(Bound).validate_json(json.dumps(document)) == Bound(3.0, Argument.NODE_CUT)
    shape = kind_named("allocation").files.solutions.shape
    with pytest.raises(ValidationError, match="bound"):
        adapter(shape).validate_json(json.dumps({"bound": {**document, **changed}}))
    assert not Bound(3.0, Argument.TOPOLOGY_BRANCHING).verified  # claimed, whatever a file says of it
