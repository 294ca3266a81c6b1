"""Method `robust`: the best worst single link failure, its bound and its price."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from solvers.failures.robust import NetworkEvaluator, RobustSearch, exhaustive
from solvers.failures.worst import single_links
from solvers.network.assembly import assemble
from solvers.network.space import open_space
from solvers.stop import Stop
from tests.support.network_cases import instance, run, solved
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError
from topoopt.core.network import TopologyProblem
from topoopt.verify.checker import ViolationLog
from topoopt.verify.network import checker
from topoopt.verify.network.bounds import failed_link_bound


def uniform(n: int) -> np.ndarray:
    """One unit between all pairs."""
    return np.ones((n, n)) - np.eye(n)


def worst_of(n: int, degree: int, heads: list[tuple[int, ...]], demand: np.ndarray) -> tuple[float, float] | None:
    """theta without failure, and after the worst one, of a directed network given by every server's heads."""
    arcs = np.array([(i, j) for i, row in enumerate(heads) for j in row], dtype=np.int64)
    try:
        topology = assemble(n, degree, LinkDirection.UNIDIRECTIONAL, [arcs], "")
    except InfeasibleError:
        return None
    evaluator = NetworkEvaluator(topology, demand)
    values = [evaluator.outcome(failure).value for failure in single_links(topology)]
    return None if None in values else (evaluator.nominal, max(value for value in values if value is not None))


def test_exhaustive_search_against_all_networks() -> None:
    """Four servers, skewed demand: all in-regular and out-regular directed networks of degree 2, routed one by one."""
    demand = uniform(4)
    demand[0, 1], demand[2, 3] = 3.0, 2.0
    choices = [[row for row in product(range(4), repeat=2) if i not in row and row[0] <= row[1]] for i in range(4)]
    best = np.inf
    for heads in product(*choices):
        if max(np.bincount([j for row in heads for j in row], minlength=4)) > 2:
            continue
        found = worst_of(4, 2, list(heads), demand)
        best = min(best, np.inf if found is None else found[1])
    problem = TopologyProblem("t", 4, 2, LinkDirection.UNIDIRECTIONAL, demand)
    found, complete = exhaustive(RobustSearch(open_space(problem)), None, Stop())
    assert complete
    assert found is not None
    assert found.worst == pytest.approx(best)
    assert failed_link_bound(4, 2, problem.links, demand).value <= best * (1 + 1e-9)


def test_uniform_five_is_proven_and_has_a_price(tmp_path: Path) -> None:
    """Degree 2: no network of theta 3 (the optimum without failures) is the one that stands failures best."""
    told = solved(tmp_path, "--method", "robust", kind="topology", servers=5, degree=2, links="unidirectional",
                  demand={"family": "uniform"})  # fmt: skip
    robust = told["robustness"]
    assert robust["claimed_bound"]["proved_by"] == "topology-enumeration"
    assert robust["worst_theta"] == pytest.approx(robust["claimed_bound"]["value"])
    assert robust["nominal_theta"] == pytest.approx(3.0)
    assert robust["nominal_worst_theta"] >= robust["worst_theta"]
    assert told["theta"] >= robust["nominal_theta"] * (1 - 1e-9)
    code, text = run("resilience", tmp_path / "out" / "solution.json", "--json")
    assert code == 0
    values = [each["value"] for each in json.loads(text)["links"]]
    assert max(values) == pytest.approx(robust["worst_theta"], rel=1e-6)


def test_a_limit_on_the_price_is_kept(tmp_path: Path) -> None:
    """Within 0 % of the optimum: theta stays, and the worst failure is no better than without the limit."""
    fields = {"kind": "topology", "servers": 5, "degree": 2, "links": "unidirectional", "demand": {"family": "uniform"}}
    free = solved(tmp_path, "--method", "robust", **fields)
    (tmp_path / "tight").mkdir()
    tight = solved(tmp_path / "tight", **fields, search={"robust": {"within_percent": 0}})
    assert tight["theta"] == pytest.approx(3.0)
    assert tight["method"] == "robust"
    assert tight["robustness"]["within_percent"] == 0
    assert tight["robustness"]["worst_theta"] >= free["robustness"]["worst_theta"] * (1 - 1e-9)
    assert tight["robustness"]["worst_theta"] <= tight["robustness"]["nominal_worst_theta"] * (1 + 1e-9)


def test_bidirectional_search_beyond_enumeration(tmp_path: Path) -> None:
    """Seven servers: not worse than the nominal topology, not below the bound, and checked."""
    told = solved(tmp_path, "--method", "robust", kind="topology", servers=7, degree=3, links="bidirectional",
                  demand={"family": "skew", "seed": 3})  # fmt: skip
    robust = told["robustness"]
    before = robust["nominal_worst_theta"]
    assert before is None or robust["worst_theta"] <= before * (1 + 1e-9)
    assert robust["bound"]["value"] <= robust["worst_theta"] * (1 + 1e-9)


def test_bound_on_failures_by_hand() -> None:
    """Uniform demand of 6 servers, degree 2: the busiest server keeps one link for 5 units; degree 1 keeps none."""
    bound = failed_link_bound(6, 2, LinkDirection.UNIDIRECTIONAL, uniform(6))
    assert bound.value >= 5.0
    assert np.isinf(failed_link_bound(6, 1, LinkDirection.UNIDIRECTIONAL, uniform(6)).value)


def test_one_link_a_server_is_infeasible(tmp_path: Path) -> None:
    """A directed ring loses demand whichever link fails."""
    path = instance(tmp_path, kind="topology", servers=4, degree=1, links="unidirectional",
                    demand={"family": "uniform"})  # fmt: skip
    code, text = run("solve", path, "--output", tmp_path / "out", "--method", "robust", "--json")
    assert code == 2  # without a goal, the method does not cover it
    assert "no path" in json.loads(text)["error"]
    path = instance(tmp_path, kind="topology", servers=4, degree=1, links="unidirectional",
                    demand={"family": "uniform"}, search={"robust": {"failures": "single-link"}})  # fmt: skip
    code, text = run("solve", "--force", path, "--output", tmp_path / "out", "--json")
    assert code == 3
    assert "no path" in json.loads(text)["error"]


def test_refusals(tmp_path: Path) -> None:
    """A method that ignores the goal, an unknown sort of failure, a negative price."""
    fields = {"kind": "topology", "servers": 5, "degree": 2, "links": "unidirectional", "demand": {"family": "uniform"}}
    for search, words in (
        ({"robust": {}, "method": "milp"}, "does not look at search.robust"),
        ({"robust": {"failures": "meteor"}}, "search.robust.failures"),
        ({"robust": {"within_percent": -1}}, "search.robust.within_percent"),
    ):
        path = instance(tmp_path, **fields, search=search)
        code, text = run("solve", path, "--output", tmp_path / "out", "--json")
        assert code == 2
        assert words in json.loads(text)["error"]
    routing = instance(tmp_path, kind="routing", topology={"family": "ring", "servers": 4}, search={"robust": {}},
                       demand={"family": "uniform"})  # fmt: skip
    assert run("validate", routing)[0] == 2


def test_the_checker_names_false_robustness(tmp_path: Path) -> None:
    """A worst theta beside its routings, no routings, a routing less, traffic lost, a nominal theta below the bound."""
    fields = {"kind": "topology", "servers": 5, "degree": 2, "links": "unidirectional", "demand": {"family": "uniform"}}
    solved(tmp_path, "--method", "robust", **fields)
    path = tmp_path / "out" / "solution.json"
    document = json.loads(path.read_text())
    robust = document["plan"]["robust"]
    lost = json.loads(json.dumps(robust))
    lost["failures"][0]["values"][0] *= 0.5
    for changes in (
        {"worst_theta": 1.0},
        {"worst_link": [0, 1]},
        {"failures": []},
        {"failures": robust["failures"][1:]},
        {"failures": lost["failures"]},
        {"failures": [], "worst_theta": 1.0, "worst_link": [0, 1]},
        {"failures": [], "worst_theta": 9.0, "worst_link": [0, 0]},
        {"nominal_theta": 0.5},
        {"nominal_worst_theta": 0.5},
        {"enumerated_theta": 99.0},
    ):
        plan = {**document["plan"], "robust": {**robust, **changes}}
        path.write_text(json.dumps({**document, "plan": plan}))
        code, text = run("check", tmp_path / "case.json", path)
        assert code == 6
        assert "robustness" in text


def test_a_failure_never_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the worst failure theta is below that without one, and below what is proven of every topology."""
    monkeypatch.setattr(checker, "network_of", lambda problem, plan: None)
    monkeypatch.setattr(checker, "_worst_failure", lambda *given: 1.0)
    problem = TopologyProblem("case", 5, 2, LinkDirection.UNIDIRECTIONAL, np.ones((5, 5)) - np.eye(5))
    robust: Any = SimpleNamespace(enumerated_theta=None, nominal_theta=2.0, nominal_worst_theta=None)
    result: Any = SimpleNamespace(
        objective=SimpleNamespace(value=2.0), bound=SimpleNamespace(value=1.5), plan=None, certificates=()
    )
    log = ViolationLog()
    checker._check_robust(log, problem, result, robust)
    without, proven = (str(violation) for violation in log.violations())
    assert "below theta without failure, 2.0" in without
    assert "below what is proven" in proven
