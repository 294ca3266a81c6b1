"""The smallest, the largest and the oddest instances of kind collective: solved and checked, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kinds.collective.test_collective import instance
from tests.support.cli_cases import run
from topoopt.core.errors import InputError
from topoopt.kinds.files import read_instance
from topoopt.kinds.pipeline import solve

PAIR = {"links": [[0, 1, 10]], "directed": False}


# Of 1 MB half crosses each of two links of 10 GB/s: 50 us, and a message of 1 us over a link of 1 us. No loop counts,
# links beside each other add up. A ring of five takes 32 us a MB and two steps of 2 us.
@pytest.mark.parametrize(
    ("changes", "time_us"),
    [
        ({"topology": PAIR}, 52.0),
        ({"topology": PAIR, "collective": "reduce-scatter"}, 52.0),
        ({"topology": PAIR, "collective": "all-to-all"}, 2 + 1e6 / 2 / 10e3),
        ({"topology": PAIR, "collective": "broadcast"}, 102.0),
        ({"topology": PAIR, "collective": "reduce", "root": 1}, 102.0),
        ({"topology": {"links": [[0, 0, 10], [0, 1, 5], [1, 0, 10]]}}, 102.0),
        ({"topology": {"links": [[0, 1, 4], [0, 1, 6], [1, 0, 10]]}}, 52.0),
        ({"bytes": 10**18}, 3.2e13 + 4),
        ({"bytes": "1B"}, 4 + 3.2e-5),
        ({"topology": {"links": [[0, 1, 1e-6], [1, 0, 1e6]]}}, 0.5e9 + 2),
    ],
    ids=lambda value: str(value)[:60],
)
def test_by_hand(changes: dict[str, Any], time_us: float, tmp_path: Path) -> None:
    solution = solve(read_instance(instance(tmp_path, **changes)))
    assert solution.check.ok, solution.check.violations
    assert solution.figures.time_us == pytest.approx(time_us, rel=1e-9)
    assert solution.bound.value <= time_us * (1 + 1e-9)


@pytest.mark.parametrize("servers", [2, 3, 7, 13])
@pytest.mark.parametrize("links", ["bidirectional", "unidirectional"])
def test_small_and_prime_rings(servers: int, links: str, tmp_path: Path) -> None:
    """An AllReduce over every ring is checked, and takes no less than 2 (N-1)/N of the vector over the links in."""
    file = instance(tmp_path, collective="allreduce", topology={"family": "ring", "servers": servers, "links": links})
    solution = solve(read_instance(file))
    assert solution.check.ok, solution.check.violations
    into = 1 if links == "unidirectional" or servers == 2 else 2
    assert solution.figures.time_us >= 2 * (servers - 1) / servers * 1e6 / into / 1e3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topology": {"links": [[0, 0, 10]]}}, "fewer than two nodes that compute"),
        ({"topology": {"links": [[0, 1, 1], [1, 0, 1]], "switches": [1]}}, "fewer than two nodes that compute"),
        ({"topology": {"links": [[0, 1, 1], [1, 0, 1], [2, 3, 1], [3, 2, 1]]}}, "no way from 0 to 2"),
        ({"bytes": 0}, "not a size"),
        ({"bytes": 1e-9}, "a whole number"),
        ({"bytes": "0.5B"}, "not a size"),
        ({"bytes": 10**18 + 1}, "not a size"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_instance(instance(tmp_path, **changes))


def test_no_time_at_all_keeps_a_schedule(tmp_path: Path) -> None:
    """With a limit of 0 s the first family is tried and told, with the exit code of a limit."""
    file = instance(tmp_path, collective="allreduce", topology={"preset": "dgx-a100", "boxes": 2})
    result = run("solve", file, "--time-limit", "0", "--output", tmp_path / "out", "--json")
    assert result.code == 4
    assert result.json["status"] == "feasible"


# A torus 4 x 4 of links of 1 GB/s, by all cuts: a row alone uses all four links of a member through the others.
def test_members_and_groups_of_a_file(tmp_path: Path) -> None:
    torus = {"topology": {"family": "torus", "dims": [4, 4]}, "objective": "throughput", "latency_us": {}}
    for members in ([0, 1, 2, 3], [0, 5, 10, 15]):
        solution = solve(read_instance(instance(tmp_path, **torus, members=members)))
        assert solution.objective.value == pytest.approx(16 / 3)
    rows = [[4 * row + column for column in range(4)] for row in range(4)]
    solution = solve(read_instance(instance(tmp_path, **torus, groups=rows)))
    assert solution.objective.value == pytest.approx(8 / 3)
    assert solution.check.ok, solution.check.violations
    # On one switch everyone's link is its own: two thirds of three vectors come in over it, three quarters of two.
    star = {
        **torus,
        "topology": {"directed": False, "nodes": 8, "switches": [7], "links": [[n, 7, 1] for n in range(7)]},
    }
    file = instance(tmp_path, **star, groups=[[0, 1, 2], [3, 4, 5, 6]], shares=[3, 2])
    document = run("solve", file, "--output", tmp_path / "out", "--json").json
    assert document["status"] == "optimal"
    assert [group["algbw_gbytes_per_s"] for group in document["groups"]] == pytest.approx([3 / 2, 1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"members": [0, 0]}, "not a group of ranks"),
        ({"members": [0, 9]}, "not a group of ranks"),
        ({"groups": [[0, 1], [1, 2]]}, "share a rank"),
        ({"groups": [[0, 1], [2, 3]], "shares": [1]}, "one for each of 2 groups"),
        ({"shares": [1]}, "not the shares of groups"),
        ({"groups": [[0, 1], [2, 3]], "members": [0, 1]}, "does not go with groups"),
        ({"groups": [[0, 1], [2, 3]], "relaying": False}, "does not go with groups"),
    ],
)
def test_groups_that_are_none_are_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_instance(instance(tmp_path, **changes))
