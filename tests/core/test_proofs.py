"""The closed list of arguments: each has a phrase and a row in the docs, and is derived again or claimed."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from tests.support.paths import ROOT
from topoopt.core.proofs import CLAIMED, PHRASES, Argument, Bound
from topoopt.files.solution_head import BoundFile, bound_document

ROW = re.compile(r"^\| `([a-z-]+)` \| (claimed: )?", re.MULTILINE)
"""A row of a table of the docs: argument, and whether it is only claimed."""


def test_every_argument_has_a_phrase_of_its_own() -> None:
    assert set(PHRASES) == set(Argument)
    assert len(set(PHRASES.values())) == len(Argument)


def test_the_docs_tell_of_every_argument_how_it_is_derived_again() -> None:
    """One row each; those that are claimed say so, and no other does."""
    text = (ROOT / "docs" / "checking.md").read_text()
    rows = ROW.findall(text[: text.index("## Figures")])
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
        {"proved_by": "a better proof"},
        {"proved_by": ""},
        {"proved_by": "node cut"},  # the phrase for people is no name
        {"proved_by": "topology-branching"},  # claimed, yet called verified
        {"iterations": 0},
        {"note": "trust me"},
    ],
)
def test_a_file_with_any_other_argument_is_refused(changed: dict[str, object]) -> None:
    document = {"value": 3.0, "proved_by": "node-cut", "verified": True}
    assert BoundFile.model_validate(document).build() == Bound(3.0, Argument.NODE_CUT)
    with pytest.raises(ValidationError):
        BoundFile.model_validate({**document, **changed})
