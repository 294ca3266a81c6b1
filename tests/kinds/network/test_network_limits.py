"""Hop limits, completion time, time limits and proven enumerations of network problems, from file to checked file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solvers.stop import Stop
from tests.support.network_cases import instance, run, solved
from topoopt.core.cluster import LinkDirection
from topoopt.core.network import TopologyProblem
from topoopt.core.proofs import Argument
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.network import check as check_solution
from topoopt.kinds.network.search import best_multipliers, formula_bound, multipliers_of
from topoopt.kinds.pipeline import solve
from topoopt.verify.checker import FULL
from topoopt.verify.network.bounds import two_layer_bound
from topoopt.verify.network.checker import check_network
from topoopt.workloads.demands import demand_matrix

DETOUR: dict[str, Any] = {
    "kind": "routing",
    "topology": {"links": [[0, 1], [0, 2], [1, 0], [2, 1]]},
    "demand": {"matrix": [[0, 2, 0], [0, 0, 0], [0, 0, 0]]},
}
RING: dict[str, Any] = {"kind": "routing", "topology": {"family": "ring", "servers": 5, "links": "bidirectional"}}


def damaged(folder: Path, change: Any) -> dict[str, Any]:
    """What `check` says of the solution just written, after a change to its document; exit code 6."""
    file = folder / "out" / "solution.json"
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))
    code, text = run("check", folder / "case.json", file, "--json")
    assert code == 6, text
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_a_hop_limit_from_file_to_checked_file(tmp_path: Path) -> None:
    """Five servers in a ring reach all others within 2 hops, so the limit costs nothing; the file shows the hops."""
    fields = {**RING, "demand": {"family": "uniform"}, "max_hops": 2}
    document = solved(tmp_path, **fields)
    # each server sends 2 x 1 hop and 2 x 2 hops over 2 links
    assert document["theta"] == pytest.approx(3.0)
    assert document["status"] == "optimal"
    stored = json.loads((tmp_path / "out" / "solution.json").read_text())
    by_hop = stored["plan"]["flows"][0]["by_hop"]
    assert by_hop["shape"][0] == 2

    def swap(solution: dict[str, Any]) -> None:
        hops = solution["plan"]["flows"][0]["by_hop"]
        first = sum(hops["used"][:5])
        hops["used"] = hops["used"][5:] + hops["used"][:5]
        for name in ("columns", "values"):
            hops[name] = hops[name][first:] + hops[name][:first]

    def drop(solution: dict[str, Any]) -> None:
        solution["plan"]["flows"][0]["by_hop"] = None

    assert "max-hops" in {each["code"] for each in damaged(tmp_path, swap)["violations"]}
    assert "max-hops" in {each["code"] for each in damaged(tmp_path, drop)["violations"]}


def test_a_limit_that_no_path_meets(tmp_path: Path) -> None:
    """Exit code 3, the pairs and the smallest limit that works by name."""
    fields = {**RING, "demand": {"family": "uniform"}, "max_hops": 1}
    code, text = run("solve", instance(tmp_path, **fields), "--output", tmp_path / "out", "--json")
    document = json.loads(text)
    assert (code, document["status"]) == (3, "infeasible")
    assert "0 -> 2 (2 hops)" in document["error"]
    assert "smallest limit that works is 2 hops" in document["error"]


@pytest.mark.parametrize(("price", "value", "theta"), [(1.0, 2.5, 1.0), (4.0, 6.0, 2.0)])
def test_completion_time_by_hand(tmp_path: Path, price: float, value: float, theta: float) -> None:
    """Cheap hops: half the demand takes the detour, 1 + 1.5 price; dear ones: all goes direct, 2 + price."""
    document = solved(tmp_path, **DETOUR, objective="completion-time", hop_price=price)
    assert document["objective"]["name"] == "completion-time"
    assert document["objective"]["value"] == pytest.approx(value)
    assert document["bound"]["value"] == pytest.approx(value)
    assert document["theta"] == pytest.approx(theta)
    assert document["lambda"] == pytest.approx(1 / theta)

    def better(solution: dict[str, Any]) -> None:
        solution["objective"]["value"] *= 0.9

    assert "objective" in {each["code"] for each in damaged(tmp_path, better)["violations"]}


def test_both_limits_together(tmp_path: Path) -> None:
    """With one hop allowed all goes direct whatever hops cost: 2 + 1."""
    document = solved(tmp_path, **DETOUR, objective="completion-time", hop_price=1.0, max_hops=1)
    assert document["objective"]["value"] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"objective": "completion-time"}, "completion time needs it"),
        ({"hop_price": 1.0}, "only beside objective completion-time"),
        ({"objective": "latency"}, "completion-time"),
        ({"objective": "completion-time", "hop_price": 0}, "hop_price"),
        ({"max_hops": 0}, "max_hops"),
    ],
)
def test_fields_that_make_no_sense(tmp_path: Path, fields: dict[str, Any], words: str) -> None:
    """Refused with exit code 2, and the word that helps."""
    code, text = run("solve", instance(tmp_path, **DETOUR, **fields), "--output", tmp_path / "out", "--json")
    assert code == 2
    assert words in json.loads(text)["error"]


ROUTERS = ("auto", "simplex", "ipx", "pdlp", "frank-wolfe", "softmin")
FINDERS = ("auto", "exact", "milp", "portfolio", "totient", "matching", "kautz", "random", "circulant")


@pytest.mark.parametrize("method", ROUTERS)
def test_no_time_at_all_for_a_routing(tmp_path: Path, method: str) -> None:
    """At 0 seconds there is a routing that passes the check: exit code 4, or 0 where it happens to be optimal."""
    fields = {"kind": "routing", "topology": {"family": "torus", "dims": [4, 4]}, "demand": {"family": "skew"}}
    path = instance(tmp_path, **fields)
    code, text = run("solve", path, "--output", tmp_path / "out", "--json", "--time-limit", "0", "--method", method)
    document = json.loads(text)
    assert code in (0, 4)
    assert (document["stopped_by"] == "time") == (code == 4)
    assert document["check"]["ok"]
    assert run("check", path, tmp_path / "out" / "solution.json")[0] == 0


@pytest.mark.parametrize("method", FINDERS)
def test_no_time_at_all_for_a_topology(tmp_path: Path, method: str) -> None:
    """The same for topologies; a method that has nothing ends with 5 and writes nothing."""
    fields = {"kind": "topology", "servers": 12, "degree": 3, "links": "unidirectional", "demand": {"family": "skew"}}
    path = instance(tmp_path, **fields)
    code, text = run("solve", path, "--output", tmp_path / "out", "--json", "--time-limit", "0", "--method", method)
    document = json.loads(text)
    assert code in (0, 4, 5), document
    if code == 5:
        assert not (tmp_path / "out" / "solution.json").exists()
    else:
        assert document["check"]["ok"]
        assert document["gap"] > 0 or code == 0
        assert run("check", path, tmp_path / "out" / "solution.json")[0] == 0


def test_too_many_servers_for_the_exact_methods(tmp_path: Path) -> None:
    """Refused at once, with the size that fits."""
    fields = {"kind": "topology", "servers": 128, "degree": 4, "links": "unidirectional", "demand": {"family": "skew"}}
    for method in ("milp", "exact"):
        code, text = run("solve", instance(tmp_path, **fields), "--output", tmp_path, "--json", "--method", method)
        assert code == 2
        assert "too many servers" in json.loads(text)["error"]


@pytest.mark.parametrize("n", [8, 9])
def test_enumerations_are_proven_again(tmp_path: Path, n: int) -> None:
    """The file carries the networks and their lengths; without one of them it is rejected."""
    demand = {"family": "uniform", "scale": 0.5}
    document = solved(tmp_path, kind="topology", servers=n, degree=2, links="unidirectional", demand=demand)
    assert document["status"] == "optimal"
    assert document["bound"]["proved_by"] == "listed-networks"

    def fewer(solution: dict[str, Any]) -> None:
        arrays = solution["certificates"][-1]["arrays"]
        arrays["heads"], arrays["lengths"] = arrays["heads"][: -2 * n], arrays["lengths"][: -2 * n]

    def none(solution: dict[str, Any]) -> None:
        solution["certificates"].pop()

    assert "not covered" in str(damaged(tmp_path, fewer)["violations"])
    assert "bound" in {each["code"] for each in damaged(tmp_path, none)["violations"]}


def test_a_bound_cut_short_is_found_again() -> None:
    """How many iterations there was time for stands in its proof; with none, a quick formula is left."""
    demand = demand_matrix("balanced-skew", 16, seed=1)
    problem = TopologyProblem("case", 16, 4, LinkDirection.UNIDIRECTIONAL, demand)
    multipliers = best_multipliers(problem)
    assert multipliers is not None
    whole = two_layer_bound(problem, multipliers, 800)
    assert whole.value == pytest.approx(5.039, abs=1e-3)  # published figure of this seed
    again = multipliers_of(problem, whole)
    assert again is not None
    assert (again.first_link == multipliers.first_link).all()
    part = multipliers_of(problem, replace(whole, iterations=150))
    assert part is not None
    assert two_layer_bound(problem, part, 150).value <= whole.value
    most = multipliers_of(problem, replace(whole, iterations=10**6))  # no file makes the checker search for hours
    assert most is not None
    assert (most.first_link == multipliers.first_link).all()
    late, proofs = formula_bound(problem, stop=Stop(deadline=0.0))
    assert proofs == ()
    assert np.isfinite(late.value)


def test_a_two_layer_bound_without_its_multipliers_is_rejected() -> None:
    """The checker searches nothing itself: with them it confirms the bound, and refuses one that they do not prove."""
    demand = demand_matrix("balanced-skew", 12, seed=1)
    problem = TopologyProblem("case", 12, 3, LinkDirection.UNIDIRECTIONAL, demand)
    solution = solve(problem, SolveOptions(method="kautz"))
    multipliers = best_multipliers(problem)
    assert multipliers is not None
    bound = two_layer_bound(problem, multipliers, 800)
    claimed = replace(solution, bound=bound)
    with_them = (*claimed.certificates, multipliers.certificate())
    assert not check_network(problem, replace(claimed, certificates=with_them), FULL).violations
    assert not check_solution(problem, claimed, FULL).violations
    assert {each.code for each in check_network(problem, claimed, FULL).violations} == {"bound"}
    for argument in Argument:
        raised = replace(bound, value=bound.value * 1.001, argument=argument)
        more = replace(claimed, bound=raised, certificates=with_them)
        assert {each.code for each in check_network(problem, more, FULL).violations} == {"bound"}


def test_prices_of_relays_are_proven_again(tmp_path: Path) -> None:
    """The file carries them; a bound above what they prove, and prices that do not prove it, are rejected."""
    demand = {"family": "balanced-skew", "seed": 1}
    document = solved(tmp_path, kind="topology", servers=11, degree=3, links="unidirectional", demand=demand)
    assert document["bound"]["proved_by"] == "relay-blocks"
    assert document["check"]["ok"]
    file = tmp_path / "out" / "solution.json"
    kept = file.read_text()

    def relay(solution: dict[str, Any]) -> dict[str, list[float]]:
        arrays: dict[str, list[float]] = solution["certificates"][-1]["arrays"]
        return arrays

    def more(solution: dict[str, Any]) -> None:
        solution["bound"]["value"] *= 1.001

    def both(solution: dict[str, Any]) -> None:
        more(solution)
        relay(solution)["theta"][0] *= 1.001

    def less(solution: dict[str, Any]) -> None:
        relay(solution)["most"][4] *= 0.999

    def cheaper(solution: dict[str, Any]) -> None:
        relay(solution)["price"][2 * 11 + 5] *= 0.9

    def none(solution: dict[str, Any]) -> None:
        solution["certificates"].pop()

    for change in (more, both, less, cheaper, none):
        file.write_text(kept)
        assert "bound" in {each["code"] for each in damaged(tmp_path, change)["violations"]}, change.__name__
