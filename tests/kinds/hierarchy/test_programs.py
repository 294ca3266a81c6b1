"""The programs of a hierarchy: graphs of tasks, both builders, bytes of collectives, laws of scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formulations.hierarchical_bandwidth import Scale, build_arrays, plain_program, program_of
from solvers.backends import SOLVERS
from solvers.hierarchy import minimise, paths_at, starting_point
from solvers.stop import Stop
from tests.support.hierarchical_cases import (
    TENSOR_DATA,
    instance,
    job,
    layer,
    network,
    phase,
    problem_of,
    random_instance,
    solved,
)
from tests.support.pyomo_networks import hierarchical_bandwidth_pyomo
from topoopt.core.proofs import Status
from topoopt.verify.hierarchy import moved_bytes


def dag_document(loop_tasks: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Tasks on two dimensions of 4 and 8."""
    own = {"name": "graph", "communicators": TENSOR_DATA, "tasks": loop_tasks}
    return instance(network([4, 8], [2.0, 9.0], total_gbytes_per_s=200.0), own, **fields)


def task(name: str, *after: int, **own: Any) -> dict[str, Any]:
    """A task."""
    return {"name": name, "after": list(after), **own}


def test_graph_takes_its_longest_path() -> None:
    """Two collectives side by side on different dimensions: T = C + max, least where both take equally long."""
    tasks = [
        task("begin", compute_ns=1e6),
        task("left", 0, **phase(0.0, ("all-reduce", 2e9, "tensor"))),
        task("right", 0, **phase(0.0, ("all-reduce", 1e9, "data"))),
        task("end", 1, 2, compute_ns=2e6),
    ]
    volumes = [2 * 2e9 * 3 / 4, 2 * 1e9 * 7 / 8]
    found = solved(dag_document(tasks))
    assert found.figures.time_ns == pytest.approx(3e6 + sum(volumes) / 200.0, rel=1e-9)
    assert found.status is Status.OPTIMAL


@pytest.mark.parametrize("objective", ["time", "time-times-cost"])
def test_graph_of_a_layered_job_is_the_layered_job(objective: str) -> None:
    """A chain of tasks gives what the loop without overlap gives; diamonds, what the overlapped one gives."""
    layers = [
        layer(
            f"l{k}",
            forward=phase(1e6 * k, ("all-reduce", 1e9, "tensor")),
            input_gradient=phase(2e6, ("all-reduce", 5e8 * k, "tensor")),
            weight_gradient=phase(1e6, ("all-reduce", 8e8, "data")),
        )
        for k in (1, 2, 3)
    ]
    chain: list[dict[str, Any]] = []
    diamonds: list[dict[str, Any]] = []
    for own in layers:
        for key in ("forward", "input_gradient", "weight_gradient"):
            chain.append(task(key, *([len(chain) - 1] if chain else []), **own[key]))
        last = [len(diamonds) - 2, len(diamonds) - 1] if diamonds else []
        diamonds.append(task("forward", *last, **own["forward"]))
        diamonds.append(task("ig", len(diamonds) - 1, compute_ns=own["input_gradient"]["compute_ns"]))
        split = len(diamonds) - 1
        diamonds.append(task("ig comm", split, collectives=own["input_gradient"]["collectives"]))
        diamonds.append(task("wg", split, **own["weight_gradient"]))
    for loop, tasks in (("no-overlap", chain), ("dp-overlap", diamonds)):
        plain = instance(
            network([4, 8], [2.0, 9.0], total_gbytes_per_s=200.0),
            job("graph", *layers, communicators=TENSOR_DATA, loop=loop),
            objective=objective,
        )
        expected = solved(plain).objective.value
        assert solved(dag_document(tasks, objective=objective)).objective.value == pytest.approx(expected, rel=2e-9)


@pytest.mark.parametrize("goal", ["time", "time-times-cost", "cost", "worst-case"])
def test_arrays_and_pyomo_are_one_program(goal: str) -> None:
    """Same optimum of the same tangents and paths, from the arrays and from the readable model."""
    fields: dict[str, Any] = {"fleet": "worst-case"} if goal == "worst-case" else {"objective": goal}
    if goal == "cost":
        fields["time_limit_ns"] = 1e5
    # Numbers near 1, since the model is not scaled for the solver as the arrays are.
    own = job(
        "job",
        layer(
            forward=phase(2.0, ("all-reduce", 300.0, "tensor")),
            input_gradient=phase(1.0, ("all-gather", 20.0, "tensor")),
            weight_gradient=phase(1.5, ("all-reduce", 100.0, "data"), ("all-to-all", 50.0, None)),
        ),
        communicators=TENSOR_DATA,
        loop="dp-overlap",
    )
    net = network([4, 8], [0.01, 0.05], total_gbytes_per_s=100.0)
    problem = problem_of(instance(net, own, {**own, "name": "again", "weight": 2.0}, **fields))
    plain = plain_program(problem.designs[0], problem)
    data = program_of(problem.designs[0], problem)
    start = starting_point(replace(plain, time_limit_ns=None))
    if goal == "cost":
        data = replace(data, time_limit_ns=1.5 * plain.time_of(start))
    columns = data.columns_of(start)
    tangents = [one * np.geomspace(0.1, 10.0, 7) for one in columns]
    paths = paths_at(data, start * 0.5, paths_at(data, start, [[], []]))
    scale = Scale(columns, 50.0 if goal in ("time-times-cost", "cost") else 20.0, 20.0)
    program, _ = build_arrays(data, tangents, paths, scale)
    first = SOLVERS["highs"](program)
    import pyomo.environ as pyo

    model = hierarchical_bandwidth_pyomo(data, tangents, paths)
    pyo.SolverFactory("appsi_highs").solve(model)
    assert first.objective is not None
    assert first.objective * scale.objective == pytest.approx(pyo.value(model.least), rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "ranks", "moved"),
    [
        ("all-reduce", (4, 1, 8), [1.5, 0.0, 2 / 4 * 7 / 8]),
        ("reduce-scatter", (4, 1, 8), [0.75, 0.0, 7 / 32]),
        ("all-gather", (4, 1, 8), [3.0 * 8, 0.0, 7.0]),
        ("all-to-all", (4, 1, 8), [0.75, 0.0, 7 / 8]),
        ("point-to-point", (4, 1, 8), [1.0, 0.0, 1.0]),
        ("all-reduce", (1, 1, 1), [0.0, 0.0, 0.0]),
        ("all-reduce", (3, 5, 7), [4 / 3, 2 / 3 * 4 / 5, 2 / 15 * 6 / 7]),
    ],
)
def test_bytes_of_collectives(kind: str, ranks: tuple[int, ...], moved: list[float]) -> None:
    """Bytes in every dimension for one byte, written out by hand, by solver and checker."""
    from formulations.hierarchical_bandwidth import unit_volumes
    from topoopt.core.hierarchy import Collective

    assert unit_volumes(Collective(kind), ranks) == pytest.approx(moved)
    assert moved_bytes(Collective(kind), 1.0, ranks) == pytest.approx(moved)


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), factor=st.floats(0.1, 8.0))
def test_laws_of_scale(seed: int, factor: float) -> None:
    """More total never hurts; time scales with volumes and compute; merging equal layers changes nothing."""
    document = random_instance(seed, 2)
    base = solved(document)
    more = {**document, "network": {**document["network"]}}
    more["network"]["total_gbytes_per_s"] = document["network"]["total_gbytes_per_s"] * (1 + factor)
    assert solved(more).figures.time_ns <= base.figures.time_ns
    grown = instance(document["network"], *document["workloads"])
    apart = instance(document["network"], *document["workloads"])
    rows = apart["workloads"][0]["layers"]
    apart["workloads"][0]["layers"] = [{**row, "repeat": 1} for row in rows for _ in range(row["repeat"])]
    for row in grown["workloads"][0]["layers"]:
        for key in ("forward", "input_gradient", "weight_gradient"):
            row[key]["compute_ns"] *= factor
            for one in row[key]["collectives"]:
                one["bytes"] *= factor
    assert solved(grown).figures.time_ns == pytest.approx(factor * base.figures.time_ns, rel=2e-9)
    assert solved(apart).figures.time_ns == pytest.approx(base.figures.time_ns, rel=2e-9)


@settings(max_examples=6)
@given(seed=st.integers(0, 10_000))
def test_objectives_rank_each_others_solutions(seed: int) -> None:
    """Each objective's solution is at least as good in it as the other's; two equal jobs are one of weight two."""
    document = random_instance(seed)
    fast, dear = solved(document), solved({**document, "objective": "time-times-cost"})
    assert fast.figures.time_ns <= dear.figures.time_ns * (1 + 1e-9)
    assert dear.objective.value <= fast.figures.time_ns * (fast.figures.cost_usd or 0.0) * (1 + 1e-9)
    own = document["workloads"][0]
    twice = solved({**document, "workloads": [own, {**own, "name": "other"}]})
    heavy = solved({**document, "workloads": [{**own, "weight": 2.0}]})
    assert twice.objective.value == pytest.approx(heavy.objective.value, rel=2e-9)
    assert heavy.objective.value == pytest.approx(2 * fast.objective.value, rel=2e-9)


def test_bound_never_passes_the_value() -> None:
    """In every round the lower bound stays below the upper one: stopped after any number of rounds."""
    problem = problem_of(random_instance(1, 3, objective="time-times-cost"))
    plain = plain_program(problem.designs[0], problem)
    data = program_of(problem.designs[0], problem)
    for accuracy in (0.5, 1e-1, 1e-2, 1e-3, 1e-5, 1e-7):
        found = minimise(data, starting_point(plain), Stop(), accuracy=accuracy)
        assert found.bound <= found.objective * (1 + 1e-12)
        assert found.gap <= accuracy


def test_fleet_enum_is_read() -> None:
    """The fleet of an instance reaches the problem."""
    assert problem_of(random_instance(0, 2, fleet="worst-case")).fleet == "worst-case"
