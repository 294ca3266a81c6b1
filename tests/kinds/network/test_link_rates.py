"""Links with capacities of their own: solved, checked, explained and exported; values by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topoopt
from tests.support.chakra_files import shared
from tests.support.cli_cases import run
from tests.support.network_files import ROUTING, load, refused, with_
from topoopt.core.errors import InputError
from topoopt.files.graph_files import read_graph
from topoopt.kinds.files import read_instance

PAIR = [[0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
RING = "source,target,{name}\n0,1,{fast}\n1,2,{slow}\n2,3,{fast}\n3,0,{fast}\n"


def ring(folder: Path, name: str = "capacity", fast: str = "10", slow: str = "1", **changes: Any) -> dict[str, Any]:
    """A ring of four whose link 1-2 is ten times slower; 1 from 0 to 3 and from 1 to 2.

    Of 1 -> 2 the part x goes straight: x = (1 + 1 - x) / 10 of it is best, so theta is 2 / 11.
    """
    (folder / "ring.csv").write_text(RING.format(name=name, fast=fast, slow=slow))
    topology = {"file": "ring.csv", "directed": False}
    return with_(ROUTING, topology=topology, demand={"matrix": PAIR}, **changes)


@pytest.mark.parametrize(
    ("name", "fast", "slow", "theta"),
    [
        ("capacity", "10", "1", 2 / 11),
        ("bandwidth_gbps", "10", "1", 2 / 11),
        ("LinkSpeedRaw", "1e10", "1000000000", 2 / 11),
        ("capacity", "0.1", "0.01", 200 / 11),
        ("multiplicity", "10", "1", 2 / 11),
    ],
)
@pytest.mark.parametrize("method", ["auto", "softmin", "pdlp", "frank-wolfe"])
def test_two_elevenths(tmp_path: Path, name: str, fast: str, slow: str, theta: float, method: str) -> None:
    """Every sort of method, and the checker, take the capacities."""
    problem = load(tmp_path, ring(tmp_path, name, fast, slow))
    solution = topoopt.solve(problem, method=method)
    assert solution.check.ok, solution.check.violations
    assert solution.objective.value == pytest.approx(theta, rel=1e-2 if method != "auto" else 1e-9)
    assert solution.bound.value <= theta * (1 + 1e-9)


def test_floats_without_a_common_unit(tmp_path: Path) -> None:
    """A chain carries what its thinnest link does."""
    (tmp_path / "chain.csv").write_text(
        "source,target,capacity\n0,1,1.033634774231754\n1,2,0.1687976577642258\n2,3,3.5719973907827627\n"
    )
    demand = [[0, 0, 0, 1], [0] * 4, [0] * 4, [0] * 4]
    solution = topoopt.solve(load(tmp_path, with_(ROUTING, topology={"file": "chain.csv"}, demand={"matrix": demand})))
    assert solution.objective.value == pytest.approx(1 / 0.1687976577642258, rel=1e-9)
    assert solution.check.ok
    assert solution.status.value == "optimal"


def test_capacities_of_listed_links(tmp_path: Path) -> None:
    """One for each row; rows beside each other add up."""
    topology = {"links": [[0, 1], [0, 1], [1, 0]], "capacities": [0.5, 2.25, 1.0]}
    document = with_(ROUTING, topology=topology, demand={"matrix": [[0, 11], [1, 0]]})
    problem = load(tmp_path, document)
    assert problem.topology.rates.tolist() == [2.75, 1.0]
    assert problem.topology.multiplicity.tolist() == [2, 1]
    assert topoopt.solve(problem).objective.value == pytest.approx(4)
    document["topology"]["capacities"] = [1.0]
    assert "wrong number of capacities" in refused(tmp_path, document)


def test_two_demands_and_common_routing(tmp_path: Path) -> None:
    """The worst of two demands is the larger one, alone on its ring: 2 / 11 again."""
    document = {
        **ring(tmp_path),
        "demand": None,
        "demands": [{"matrix": PAIR}, {"matrix": (np.array(PAIR) / 2).tolist()}],
    }
    for routing in ("common", "adapted"):
        solution = topoopt.solve(load(tmp_path, {**document, "routing": routing}))
        assert solution.check.ok
        assert solution.objective.value == pytest.approx(2 / 11, rel=1e-5)


def test_units_of_the_demand(tmp_path: Path) -> None:
    """Rates in Gbit/s leave no room for another rate of a link; others need one for a demand in Gbit/s."""
    gbps = {"matrix": (np.array(PAIR) * 3.0).tolist(), "unit": "gbps"}
    problem = load(tmp_path, ring(tmp_path, "bandwidth_gbps") | {"demand": gbps})
    assert problem.link_gbps == 1.0
    assert topoopt.solve(problem).objective.value == pytest.approx(6 / 11)
    assert "rates of their own in Gbit/s" in refused(tmp_path, ring(tmp_path, "bandwidth_gbps", link_gbps=100.0))
    document = ring(tmp_path) | {"demand": gbps}
    assert "link_gbps" in refused(tmp_path, document)
    assert topoopt.solve(load(tmp_path, {**document, "link_gbps": 3.0})).objective.value == pytest.approx(2 / 11)


def test_identity_and_files(tmp_path: Path) -> None:
    """Other capacities are another instance, for which a solution is rejected."""
    problem = load(tmp_path, ring(tmp_path))
    other = load(tmp_path, ring(tmp_path, slow="2"))
    assert problem.sha256 != other.sha256
    solution = topoopt.solve(problem)
    topoopt.write_solution(solution, tmp_path / "s.json")
    again = topoopt.read_solution(tmp_path / "s.json")
    assert topoopt.check(problem, again).ok
    assert "instance-sha256" in str(topoopt.check(other, again).violations)
    wide = replace(problem.topology, rates=2 * problem.topology.rates)
    assert "objective" in str(topoopt.check(replace(problem, topology=wide), again).violations)


def test_by_command(tmp_path: Path) -> None:
    """Notes are printed, the export holds the rates, failures of such links are refused by name."""
    (tmp_path / "i.json").write_text(json.dumps(ring(tmp_path)))
    note = "capacities of links are 'capacity' of ring.csv, in the unit of the demand"
    assert note in run("validate", tmp_path / "i.json").stdout
    assert run("validate", tmp_path / "i.json", "--json").json["files"][0]["notes"] == [note]
    solved = run("solve", tmp_path / "i.json", "--output", tmp_path / "out", "--json")
    assert note in solved.json["notes"]
    file = tmp_path / "out" / "solution.json"
    assert run("check", tmp_path / "i.json", file).code == 0
    assert "2 of demand over a capacity of 11: theta" in run("explain", file).stdout
    assert run("export", file, "--to", "graphml", "-o", tmp_path / "x.graphml").code == 0
    written = {link[:2]: link.rate for link in read_graph(tmp_path / "x.graphml").links}
    assert written[1, 2] == 1
    assert written[2, 3] == 10
    failed = run("resilience", file)
    assert failed.code == 2
    assert "rates of their own" in failed.stderr + failed.stdout


@pytest.mark.parametrize(
    ("file", "theta"),
    [
        ("false_claims/readers/c4.yaml", 0.016),  # all that leaves 0, 2, over 125
        ("false_claims/readers/g1.yaml", 0.4),  # all that leaves 1, 2, over 4 + 1
        ("public_cases/16-capacity-by-another-name/ring4.yaml", 2 / 11),
        ("public_cases/16-capacity-by-another-name/floats.yaml", 1 / 0.1687976577642258),
        ("public_cases/15-max-flow-with-a-loop/multiplicity.yaml", 1 / 32),
        ("public_cases/15-max-flow-with-a-loop/loop-free.yaml", 1 / 32),
        ("public_cases/34-repetita-ninety-percent/abilene.yaml", 0.8999992465),
        ("public_cases/34-repetita-ninety-percent/nsfnet.yaml", 0.8960492228),
        ("public_cases/34-repetita-ninety-percent/attmpls.yaml", 0.8999914286),
        ("public_cases/35-sndlib/abilene-sndlib.yaml", 60.4114919355),
        ("public_cases/35-sndlib/polska.yaml", 1681.6666666667),
    ],
)
def test_published_values(file: str, theta: float) -> None:
    solution = topoopt.solve(read_instance(shared(file)))
    assert solution.check.ok
    assert solution.status.value == "optimal"
    assert solution.objective.value == pytest.approx(theta, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("g2", ("'graph' cannot be read",)),
        ("g3", ("'Multiplicity' is not known", "capacity and rate")),
        ("l6", ("both links and edges", "'hyperedges' cannot be read", "links without a proper capacity: 1 -> 2")),
        ("r7", ("'latency' cannot be read",)),
    ],
)
def test_what_was_dropped_is_refused_by_name(name: str, words: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as caught:
        read_instance(shared(f"false_claims/readers/{name}.yaml"))
    assert all(word in str(caught.value) for word in words)
