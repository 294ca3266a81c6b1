"""A model of an instance, changed by its user and solved by any solver, gives a checked plan; its bounds hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest

import topoopt
from formulations.table import FORMULATIONS
from solvers.backends.table import FOREIGN, any_solver, place_of
from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from topoopt.core.proofs import Argument, Status
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.own_model import OwnModel
from topoopt.kinds.pipeline import solve

DEMAND = np.array([[0, 3, 1, 0], [1, 0, 2, 1], [0, 1, 0, 4], [2, 0, 1, 0]], dtype=np.float64)
"""Of four servers, no two of which may be exchanged."""


def topology(**fields: Any) -> Any:
    """The problem of an instance of kind `topology`."""
    return topoopt.problem_of(topoopt.TopologyInstance(**fields))


def routing(**fields: Any) -> Any:
    """The problem of an instance of kind `routing`."""
    return topoopt.problem_of(topoopt.RoutingInstance(**fields))


def _problem(**more: Any) -> Any:
    return topology(servers=4, degree=2, links="unidirectional", demand=DEMAND, **more)


@pytest.mark.parametrize("solver", ["highs", "pyomo", "pyomo:highs"])
def test_a_model_as_it_is_gives_the_optimum(solver: str) -> None:
    """That of our exact method, with the same proof by our checker, whichever solver is asked."""
    exact = topoopt.solve(_problem(), method="exact")
    solved = topoopt.solve_model(topoopt.model(_problem()), solver=solver)
    assert solved.solution.check.ok
    assert solved.solution.objective.value == pytest.approx(exact.objective.value, rel=1e-6)
    assert solved.answer.status is Status.OPTIMAL
    assert 1 / solved.answer.objective == pytest.approx(exact.objective.value, rel=1e-6)
    assert not solved.answer.changes.added
    assert not solved.answer.changes.loosened


@pytest.mark.parametrize("solver", ["highs", "pyomo:highs"])
@pytest.mark.parametrize("way", ["constraint", "fixed", "bound"])
def test_a_constraint_added_is_that_of_an_instance_that_has_it(solver: str, way: str) -> None:
    """Links ruled out in the model, against links forbidden in the instance and found by another method; uniform
    demand, for which rules that break symmetry would rule out every plan without the link from 0 to 1."""
    closed = ((0, 1), (2, 3))
    plain = {"servers": 4, "degree": 2, "links": "unidirectional", "demand": np.ones((4, 4)) - np.eye(4)}
    expected = topoopt.solve(topology(**plain, forbidden=closed), method="exact")
    model = topoopt.model(topology(**plain))
    for i, j in closed:
        if way == "fixed":
            model.x[i, j].fix(0)
        elif way == "bound":
            model.x[i, j].setub(0)
        else:
            setattr(model, f"closed_{i}_{j}", pyo.Constraint(expr=model.x[i, j] == 0))
    solved = topoopt.solve_model(model, solver=solver)
    assert solved.solution.objective.value == pytest.approx(expected.objective.value, rel=1e-6)
    assert solved.solution.check.ok
    assert len(solved.answer.changes.added) == 2
    assert not solved.answer.changes.loosened
    assert not solved.answer.changes.objective
    arcs = {(int(i), int(j)) for i, j in solved.solution.figures.topology.arcs}
    assert not arcs & set(closed)


def test_bounds_with_constraints_added() -> None:
    """The bound that is stated holds for all plans, so that it stays that of the instance; what the solver proves of
    plans that meet the constraints is claimed, and names them."""
    free = topoopt.solve_model(topoopt.model(_problem())).solution
    model = topoopt.model(_problem())
    model.own = pyo.Constraint(expr=sum(model.x[i, j] for i, j in model.ARCS) <= 5)
    solved = topoopt.solve_model(model)
    worse = solved.solution
    assert worse.objective.value > free.objective.value * 1.01
    assert worse.bound.value == pytest.approx(free.bound.value)
    assert worse.status is Status.FEASIBLE
    assert worse.claimed_bound is not None
    assert worse.claimed_bound.argument is Argument.OWN_MODEL
    assert worse.claimed_bound.value == pytest.approx(worse.objective.value, rel=1e-5)
    assert any("own" in note and "added" in note for note in worse.notes)
    assert topoopt.check(_problem(), worse).ok


def test_another_objective() -> None:
    """Fewest links that carry the demand at all: a directed ring, so four; what is proven says nothing of theta,
    which is 6 on a ring of four (1 + 2 + 3 hops of each server's traffic)."""
    problem = topology(servers=4, degree=2, links="unidirectional", demand=np.ones((4, 4)) - np.eye(4))
    model = topoopt.model(problem)
    model.objective.deactivate()
    model.fewest = pyo.Objective(expr=10 + sum(model.x[i, j] for i, j in model.ARCS), sense=pyo.minimize)
    model.enough = pyo.Constraint(expr=model.throughput >= 1 / 6)
    solved = topoopt.solve_model(model)
    assert solved.answer.objective == pytest.approx(14)
    assert solved.answer.bound == pytest.approx(14)
    assert solved.answer.changes.objective
    assert solved.solution.objective.value == pytest.approx(6)
    assert solved.solution.claimed_bound is None
    assert solved.solution.status is Status.FEASIBLE
    assert solved.solution.check.ok
    assert any("another objective" in note for note in solved.solution.notes)


def test_a_constraint_taken_out_is_seen() -> None:
    """The plan is held against the instance all the same: more links than interfaces are refused."""
    model = topoopt.model(_problem())
    model.out_degree.deactivate()
    model.in_degree.deactivate()
    with pytest.raises(topoopt.InputError, match="interfaces"):
        topoopt.solve_model(model)
    model = topoopt.model(_problem())
    model.out_degree[3].deactivate()
    own = OwnModel(model, "highs")
    assert own.solved(None, 0).changes.loosened == ("out_degree[3]",)


def test_routes_of_ones_own() -> None:
    """A link that must stay empty, against the same routing problem without it; flows are those of the model."""
    links = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (2, 0), (1, 3), (3, 1)]
    whole = routing(topology=topoopt.Topology.from_edges(links, links="unidirectional"), demand=DEMAND)
    fewer = [link for link in links if link != (0, 2)]
    expected = topoopt.solve(
        routing(topology=topoopt.Topology.from_edges(fewer, links="unidirectional"), demand=DEMAND)
    )
    model = topoopt.model(whole)
    arcs = [tuple(arc) for arc in whole.topology.arcs.tolist()]
    model.empty = pyo.Constraint(expr=sum(model.flow[s, arcs.index((0, 2))] for s in range(4)) == 0)
    solved = topoopt.solve_model(model, solver="pyomo:highs")
    assert solved.solution.objective.value == pytest.approx(expected.objective.value, rel=1e-6)
    load = solved.solution.plan.flows[0].flow.sum(axis=0)
    assert load[arcs.index((0, 2))] == pytest.approx(0, abs=1e-9)
    assert solved.solution.check.ok
    assert solved.solution.bound.value <= topoopt.solve(whole).objective.value * (1 + 1e-6)


def test_nothing_satisfies_the_model() -> None:
    """With the constraints that are added; the message says so."""
    model = topoopt.model(_problem())
    model.own = pyo.Constraint(expr=model.x[0, 1] >= 3)
    with pytest.raises(topoopt.InfeasibleError, match="constraints added"):
        topoopt.solve_model(model)


def test_what_is_not_linear_is_refused() -> None:
    """As is a model of somebody else."""
    model = topoopt.model(_problem())
    model.own = pyo.Constraint(expr=model.x[0, 1] * model.x[1, 2] <= 1)
    with pytest.raises(topoopt.InputError, match="linear"):
        topoopt.solve_model(model)
    with pytest.raises(topoopt.InputError, match=r"topoopt\.model"):
        topoopt.solve_model(pyo.ConcreteModel())


@pytest.mark.parametrize(
    ("file", "formulation"),
    [
        ("networks/uniform-5-2.yaml", "hop_lp"),
        ("networks/parking-lot-5.yaml", "bandwidth_allocation"),
        ("collectives/ring-5.yaml", "all_to_all_rate"),
        ("placement/towers-3.yaml", "favourite_children"),
    ],
)
def test_every_formulation_has_a_model(file: str, formulation: str) -> None:
    """Its optimum is that of the file `topoopt dump-model` writes, solved by another solver; no plan comes of it."""
    problem = topoopt.read_instance(INSTANCES / file)
    solved = topoopt.solve_model(topoopt.model(problem, formulation), solver="pyomo:highs")
    program = FORMULATIONS[formulation].build(
        problem, {name: option.default for name, option in FORMULATIONS[formulation].options.items()}
    )
    assert solved.solution is None
    assert solved.answer.objective == pytest.approx(any_solver("highs")(program).objective, rel=1e-6)


@pytest.mark.parametrize("solver", list(FOREIGN))
def test_solvers_that_are_installed_agree(solver: str) -> None:
    """CBC, Gurobi and the others: wherever one is, it is tried; elsewhere the message says so."""
    if place_of(solver) is None:
        with pytest.raises(topoopt.InputError, match="not found"):
            topoopt.solve_model(topoopt.model(_problem()), solver=solver)
        pytest.skip(f"{solver} is not installed")
    test_a_model_as_it_is_gives_the_optimum(solver)


def test_the_time_limit_holds() -> None:
    """No time at all: nothing is found, and that is said."""
    own = OwnModel(topoopt.model(_problem()), "highs")
    with pytest.raises(topoopt.LimitError):
        solve(_problem(), SolveOptions(time_limit_s=0.0, chosen=own.method()))


HOOK = """import pyomo.environ as pyo

def change(model, problem):
    model.far = pyo.Constraint(expr=model.x[0, 1] + model.x[0, 2] <= 0)
    model.x[3, 4].fix(2)
"""


def test_constraints_from_a_file(tmp_path: Path) -> None:
    """The same as in the library; the file is told to be run, and its name stands in the solution."""
    hook = tmp_path / "my_constraints.py"
    hook.write_text(HOOK)
    file = INSTANCES / "networks/uniform-5-2.yaml"
    told = run("solve", file, "--set", f"model_hook={hook}", "--output", tmp_path, "--json")
    assert told.code == 0
    assert f"running the program {hook}" in told.stderr
    model = topoopt.model(topoopt.read_instance(file))
    model.far = pyo.Constraint(expr=model.x[0, 1] + model.x[0, 2] <= 0)
    model.x[3, 4].fix(2)
    by_hand = topoopt.solve_model(model, solver="pyomo:highs").solution
    assert told.json["objective"]["value"] == pytest.approx(by_hand.objective.value, rel=1e-6)
    assert any("my_constraints.py" in note and "far" in note for note in told.json["notes"])
    checked = run("check", file, tmp_path / "solution.json", "--json")
    assert checked.code == 0


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("import absent_module\n", 1, "absent_module"),
        ("def change(model, problem):\n    model.nothing.x = 1\n", 2, "AttributeError"),
        ("def change(model problem):\n", 1, "SyntaxError"),
        ("x = 1\n", None, "no such function"),
    ],
)
def test_a_file_of_constraints_that_fails(text: str, line: int | None, words: str, tmp_path: Path) -> None:
    """One line that says where, exit code 2, nothing written."""
    hook = tmp_path / "hook.py"
    hook.write_text(text)
    out = tmp_path / "out"
    told = run(
        "solve", INSTANCES / "networks/uniform-5-2.yaml", "--set", f"model_hook={hook}", "--output", out, "--json"
    )
    assert told.code == 2
    (problem,) = told.json["problems"]
    assert (problem["file"], problem["line"]) == (str(hook), line)
    assert words in problem["message"]
    assert not out.exists()


def test_refusals_at_the_command_line(tmp_path: Path) -> None:
    """Unknown solvers, kinds without such a formulation, a method beside a solver."""
    network = INSTANCES / "networks/uniform-5-2.yaml"
    for words, path in (
        ((network, "--set", "solver=gorubi"), "--set solver"),
        ((network, "--set", "solver=glop"), "--set solver"),
        ((network, "--set", "solver=ortools:SCIP"), "--set solver"),
        ((network, "--set", "solver=pyomo:nothing"), "--set solver"),
        ((network, "--set", "solver=pyomo:highs", "--method", "exact"), "--method"),
        ((network, "--set", "solver=pyomo:highs,formulation=hop_lp"), "formulation"),
        ((INSTANCES / "tiny-4.yaml", "--set", "solver=pyomo:highs"), "formulation"),
    ):
        told = run("solve", *words, "--output", tmp_path, "--json")
        assert told.code == 2
        assert told.json["problems"][0]["path"] == path


def test_doctor_lists_what_it_finds() -> None:
    """Each that is found solves the little problem; the others are named."""
    told = run("doctor", "--json").json
    assert {"highs", "cp-sat", "pyomo"} <= {name for name, entry in told["solvers"].items() if entry["ok"]}
    assert set(told["solvers_absent"]) == {name for name in FOREIGN if place_of(name) is None}
    assert not set(told["solvers_absent"]) & set(told["solvers"])
