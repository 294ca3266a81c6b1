"""Mutations of documents reach every place, and leave the rest alone."""

from __future__ import annotations

from tests.support.mutations import at, mutations, scaled

DOCUMENT = {"a": 2, "b": [1.0, {"c": "high", "d": None}], "e": {"f": True, "g": []}}


def test_every_place_is_changed_and_nothing_else() -> None:
    """Numbers, names, flags, nulls, lists and keys; the original stays as it is."""
    before = repr(DOCUMENT)
    found = list(mutations(DOCUMENT, {"high": ("low",)}))
    assert repr(DOCUMENT) == before
    places = {"a", "b", "b.0", "b.1", "b.1.c", "b.1.d", "e", "e.f", "e.g"}
    assert {change.where for change in found} == places
    changed = {(change.where, change.how): change.document for change in found}
    assert changed["b.0", "x1.5"]["b"][0] == 1.5
    assert changed["b.1.c", "now 'low'"]["b"][1] == {"c": "low", "d": None}
    assert changed["b.1.c", "now 'low'"]["e"] == DOCUMENT["e"]
    assert changed["e.f", "turned"]["e"]["f"] is False
    assert "f" not in changed["e.f", "key dropped"]["e"]
    assert changed["b", "entry dropped"]["b"] in ([1.0], [{"c": "high", "d": None}])
    assert all(at(change.document, ("a",)) == 2 for change in found if change.where != "a")


def test_no_change_is_the_same() -> None:
    """A document that equals the original would be accepted rightly."""
    assert all(change.document != DOCUMENT for change in mutations(DOCUMENT, {}))


def test_long_lists_are_looked_into_here_and_there() -> None:
    """First, last and three others; another seed draws others."""
    document = {"rows": list(range(10, 1000))}
    looked = [{change.path[1] for change in mutations(document, {}, seed) if len(change.path) > 1} for seed in (0, 1)]
    assert all(len(one) == 5 and {0, 989} <= one for one in looked)
    assert looked[0] != looked[1]


def test_scaling_follows_stars() -> None:
    """Every number below the paths, in lists and mappings."""
    assert scaled(DOCUMENT, 2.0, "b.*", "nothing.here") == {**DOCUMENT, "b": [2.0, {"c": "high", "d": None}]}
    assert scaled({"x": [{"y": 1.0}, {"y": 3.0, "z": 1.0}]}, 0.5, "x.*.y")["x"][1] == {"y": 1.5, "z": 1.0}
