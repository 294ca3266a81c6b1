"""The report of a collective: no nodes of a tree over each other, the limiting cut, like steps in one row."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

from tests.support.paths import INSTANCES
from topoopt.kinds import kind_named
from topoopt.kinds.collective.page import label_side, page, tree_places
from topoopt.kinds.files import read_instance
from topoopt.kinds.pipeline import solve
from topoopt.page.networks import RADIUS, SIZE


def test_children_stand_under_their_parent() -> None:
    """A root with children 1 and 2, and 3, 4, 5 under 1: no two nodes of a row nearer than leaves are apart."""
    tree = {1: (0, 1), 2: (0, 1), 3: (1, 2), 4: (1, 2), 5: (1, 2)}
    spots = tree_places(0, 0, tree)
    for one, other in itertools.combinations(spots, 2):
        if spots[one][1] == spots[other][1]:
            assert abs(spots[one][0] - spots[other][0]) >= (spots[4][0] - spots[3][0]) * 0.99
    assert spots[1][0] == (spots[3][0] + spots[4][0] + spots[5][0]) / 3
    assert spots[0][1] < spots[1][1] == spots[2][1] < spots[3][1]


def test_page_of_two_boxes() -> None:
    """Two links leave the cut around a GPU of an A100 pair; the front is a section of its own where it is asked for."""
    problem = replace(read_instance(INSTANCES / "collectives/a100-2.yaml"), vector_bytes=1 << 24)
    solution = solve(problem)
    report = kind_named("collective").pages().report
    text = report(solution)
    assert len(re.findall(r'class="lk [^"]* cut"', text)) == 2
    assert "links of the limiting cut" in text
    assert "Best schedule by size" not in text
    (steps,) = (table for table in page(solution).tables() if table.key == "schedule_steps")
    assert steps.rows[0][0][0] == 0
    assert all(other[0][0] == one[0][1] + 1 for one, other in itertools.pairwise(steps.rows))
    assert steps.rows[-1][0][1] == solution.figures.steps - 1
    by_size = report(solve(replace(problem, objective="pareto")))
    assert "Best schedule by size" in by_size
    assert "Least time by the size of the vector" in by_size


def test_labels_grow_away_from_the_circle() -> None:
    """Those near its top and bottom are centred: within a fifth of the radius."""
    sides = {part: label_side(SIZE / 2 + part * RADIUS) for part in (-1.0, -0.5, -0.19, 0.0, 0.19, 0.21, 1.0)}
    assert sides == {
        -1.0: "leftward", -0.5: "leftward", -0.19: None, 0.0: None, 0.19: None, 0.21: "rightward", 1.0: "rightward",
    }  # fmt: skip
