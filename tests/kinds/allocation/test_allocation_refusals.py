"""Allocations that cannot be: clashing guarantees, methods that do not apply, problems without sense."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.allocation_cases import along, line, network, problem, shortest
from topoopt.core.errors import InfeasibleError, InputError, LimitError
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve


def test_clashing_guarantees_are_named() -> None:
    """The three that clash and their link are named, the one that has nothing to do with it is not."""
    net = line(3)
    wanted = [
        shortest(net, "a", 0, 1, min_gbps=40.0),
        shortest(net, "b", 0, 1, min_gbps=40.0),
        shortest(net, "c", 0, 2, min_gbps=40.0),
        shortest(net, "d", 1, 2, min_gbps=50.0),
    ]
    case = problem(net, wanted, goal="min-guarantee")
    with pytest.raises(InfeasibleError) as caught:
        solve(case)
    message = str(caught.value)
    assert all(name in message for name in ("a (40", "b (40", "c (40", "link 0 → 1 (100"))
    assert "d (50" not in message
    assert "link 1 -> 2" not in message


def test_clashing_guarantees_over_all_choices() -> None:
    """Two paths of 100 carry no 250; both links are named."""
    net = network(4, [(0, 1), (1, 3), (0, 2), (2, 3)])
    wanted = along(net, "free", (0, 1, 3), (0, 2, 3), min_gbps=250.0)
    with pytest.raises(InfeasibleError, match="the guaranteed rate of free"):
        solve(problem(net, [wanted], goal="min-guarantee"))


def test_what_methods_do_not_cover() -> None:
    """Water-filling refuses a choice of routes and sums; names of methods are checked; no time finds nothing."""
    net = network(3, [(0, 1), (1, 2), (0, 2)])
    choice = problem(net, [along(net, "a", (0, 2), (0, 1, 2))])
    with pytest.raises(InputError, match="needs one route"):
        solve(choice, SolveOptions(method="water-filling"))
    total = problem(net, [along(net, "a", (0, 2))], goal="min-guarantee", surplus="sum")
    with pytest.raises(InputError, match="largest sum"):
        solve(total, SolveOptions(method="water-filling"))
    with pytest.raises(InputError, match="unknown method"):
        solve(choice, SolveOptions(method="best"))
    for case in (choice, total, problem(net, [along(net, "a", (0, 2))])):
        with pytest.raises(LimitError):
            solve(case, SolveOptions(time_limit_s=0.0))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weight": 2.0}, "plays no part"),
        ({"min_gbps": 2.0}, "plays no part"),
        ({"weight": float("nan")}, "out of range"),
        ({"max_gbps": -1.0}, "out of range"),
        ({"size_bytes": -5.0}, "out of range"),
        ({"destination": 0}, "itself"),
        ({"source": 7}, "unknown server"),
        ({"routes": ()}, "no route"),
    ],
)
def test_unsound_problems_are_refused(changes: dict[str, object], words: str) -> None:
    """The library says what is wrong with a problem built by hand."""
    net = line(3)
    transfer = replace(shortest(net, "a", 0, 2), **changes)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words):
        solve(problem(net, [transfer]))


def test_problems_without_sense_are_refused() -> None:
    """No transfers, a path to somewhere else, links without capacity, two transfers of one name."""
    net = line(3)
    good = shortest(net, "a", 0, 2)
    with pytest.raises(InputError, match="no transfer"):
        solve(problem(net, []))
    with pytest.raises(InputError, match="does not lead"):
        solve(problem(net, [replace(good, destination=1)]))
    with pytest.raises(InputError, match="capacity"):
        solve(problem(net, [good], 0.0))
    with pytest.raises(InputError, match="another transfer"):
        solve(problem(net, [good, good]))
    with pytest.raises(InputError, match="no path"):
        shortest(net, "back", 2, 0)
