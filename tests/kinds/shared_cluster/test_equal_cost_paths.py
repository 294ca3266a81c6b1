"""Equal-cost paths of a fat-tree that jobs at once share: hashed, spread, sprayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import at_once_cases as cases
from topoopt.core.errors import InputError
from topoopt.kinds.files import read_instance
from topoopt.kinds.pipeline import solve

WAYS = ("hashed", "spread", "sprayed")
TREES = [{"name": way, "kind": "full-fat-tree", "paths": way} for way in WAYS]


def test_sprayed_over_all_paths_nothing_is_shared() -> None:
    """A tree of full bisection carries all that servers send if each pair takes its paths alike (Clos 1953).

    Jobs take what they take alone, as on an ideal switch but for the hops; by chance two flows take the same link.
    """
    jobs = {"at_once": [4], "repetitions": 4}
    solution = solve(cases.read(cases.instance(jobs, fabrics=[{"kind": "ideal-switch"}, *TREES])))
    assert solution.check.ok
    rows = {row.fabric: row for row in solution.figures.statistics}
    assert rows["sprayed"].over_alone == pytest.approx(1.0, rel=1e-9)
    assert 1.0 <= rows["sprayed"].over_first <= 1.03
    for draw in solution.figures.draws:
        switch, hashed, _, sprayed = draw.times_ms
        assert all(one <= other <= 1.03 * one for one, other in zip(switch, sprayed, strict=True))
        assert all(one <= other * 1.001 for one, other in zip(sprayed, hashed, strict=True))
    times = {
        way: [time for draw in solution.figures.draws for time in draw.times_ms[1 + k]] for k, way in enumerate(WAYS)
    }
    assert len({round(time, 9) for time in times["sprayed"]}) == 2  # those of the two classes, whoever is beside them
    assert len({round(time, 9) for time in times["hashed"]}) > 2


def test_where_there_is_nothing_to_choose_from(tmp_path: Path) -> None:
    """A switch has one path; a formula has no paths by target."""
    switch = {"kind": "ideal-switch", "paths": "sprayed"}
    with pytest.raises(InputError) as refusal:
        solve(read_instance(cases.write(tmp_path, cases.instance(fabrics=[switch]))))
    assert any("no equal-cost paths" in one.message for one in refusal.value.problems)
    tree = {"kind": "fat-tree", "paths": "spread"}
    with pytest.raises(InputError) as refusal:
        read_instance(cases.write(tmp_path, cases.instance(fabrics=[tree], contention="coinciding")))
    assert any("knows no such paths" in one.message for one in refusal.value.problems)
