"""Optima by other ways: closed forms, convex optimisation, grids, enumeration, the Pyomo model; and what must hold."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from formulations.hierarchy.hierarchical_bandwidth import Scale, build_arrays
from formulations.hierarchy.hierarchical_bandwidth_pyomo import build_pyomo
from formulations.hierarchy.hierarchical_program import plain_program, program_of
from solvers.backends import SOLVERS
from solvers.hierarchy import minimise, starting_point
from solvers.hierarchy.cuts import paths_at
from solvers.stop import Stop
from tests.support.hierarchical_cases import instance, job, layer, network, phase, problem_of, random_instance, solved
from topoopt.core.hierarchy import Design, Fleet, HierarchicalProblem
from topoopt.core.proofs import Argument
from topoopt.core.verdict import Status
from topoopt.verify.hierarchy.laws import broken_laws
from topoopt.verify.hierarchy.times import fleet_time_ns, moved_bytes, network_cost_usd

TENSOR_DATA = {"tensor": [4, 1], "data": [1, 8]}


def value_at(problem: HierarchicalProblem, design: Design, bandwidth: Any) -> float:
    """The objective by the checker's evaluation."""
    time = fleet_time_ns(design, problem.fleet, bandwidth)
    cost = network_cost_usd(design.network, bandwidth)
    return {"time": time, "time-times-cost": time * (cost or 0.0), "cost": cost or 0.0}[problem.objective.value]


def test_one_collective_has_its_closed_form() -> None:
    """Bandwidth in proportion to the bytes: B = total v / sum v and T = C + sum v / total."""
    found = solved(instance(network([4, 8, 16], total_gbytes_per_s=100.0)))
    # An all-reduce of 10^9 bytes over 4 x 8 x 16: twice 3/4, then 7/8 of a quarter, then 15/16 of a 32nd.
    volumes = 2e9 * np.array([3 / 4, 7 / 8 / 4, 15 / 16 / 32])
    assert found.bandwidth_gbytes_per_s == pytest.approx(100.0 * volumes / volumes.sum(), rel=1e-4)
    assert found.time_ns == pytest.approx(1e6 + volumes.sum() / 100.0, rel=1e-9)
    assert found.status is Status.OPTIMAL


def test_disjoint_communicators_share_by_square_roots() -> None:
    """T = C + (sqrt S1 + sqrt S2)^2 / total for tensor and data parallelism on dimensions of their own."""
    own = job(
        "job",
        layer(
            forward=phase(5e6, ("all-reduce", 4e9, "tensor")), weight_gradient=phase(1e6, ("all-reduce", 1e9, "data"))
        ),
        communicators=TENSOR_DATA,
    )
    found = solved(instance(network([4, 8], total_gbytes_per_s=300.0), own))
    sums = [2 * 4e9 * 3 / 4, 2 * 1e9 * 7 / 8]
    assert found.time_ns == pytest.approx(6e6 + (math.sqrt(sums[0]) + math.sqrt(sums[1])) ** 2 / 300.0, rel=1e-9)
    assert found.bandwidth_gbytes_per_s[0] / found.bandwidth_gbytes_per_s[1] == pytest.approx(
        math.sqrt(sums[0] / sums[1]), rel=1e-4
    )


def smooth_optimum(problem: HierarchicalProblem, scale_ns: float, seed: int) -> float:
    """Least objective by SLSQP on the epigraph: a variable for every collective and every layer's overlap."""
    design = problem.designs[0]
    own = design.workloads[0]
    count, total = len(design.network.dimensions), design.network.total_gbytes_per_s or 0.0
    prices = design.network.npus * np.array([one.usd_per_gbytes_per_s for one in design.network.dimensions])
    rows = [(row, part) for row in own.layers for part in (row.forward, row.input_gradient, row.weight_gradient)]
    volumes = [
        np.array(moved_bytes(one.collective, one.size_bytes, own.communicators[one.communicator].ranks))
        for _, part in rows
        for one in part.communications
    ]
    first = np.cumsum([0, *(len(part.communications) for _, part in rows)])
    cells = [(k, j) for k, row in enumerate(volumes) for j in range(count) if row[j] > 0]
    pairs = np.array(cells)
    weight = np.array([volumes[k][j] for k, j in cells]) / (total * scale_ns)
    overlap = own.loop.value == "dp-overlap"
    at_layer = count + len(volumes)

    def parts(x: np.ndarray) -> tuple[list[float], list[float], list[float]]:
        spent = x[count:at_layer]
        sums = [float(spent[first[k] : first[k + 1]].sum()) for k in range(len(rows))]
        return sums[0::3], sums[1::3], sums[2::3]

    def time(x: np.ndarray) -> float:
        forward, _, _ = parts(x)
        tails = x[at_layer:]
        return sum(
            row.repeat * ((row.forward.compute_ns + row.input_gradient.compute_ns) / scale_ns + forward[k] + tails[k])
            for k, row in enumerate(own.layers)
        )

    def objective(x: np.ndarray) -> float:
        ratio = problem.objective.value == "time-times-cost"
        return time(x) * (float(prices @ x[:count]) / float(prices.mean()) if ratio else 1.0)

    def slack(x: np.ndarray) -> np.ndarray:
        _, inputs, weights = parts(x)
        tails = x[at_layer:]
        backward = [w + row.weight_gradient.compute_ns / scale_ns for w, row in zip(weights, own.layers, strict=True)]
        if overlap:
            ends = [*(tails - np.array(inputs)), *(tails - np.array(backward))]
        else:
            ends = [*(tails - np.array(inputs) - np.array(backward))]
        return np.concatenate((x[count + pairs[:, 0]] - weight / x[pairs[:, 1]], ends))

    best = math.inf
    for shares in np.random.default_rng(seed).dirichlet(np.full(count, 2.0), size=2):
        spent = np.array([max(row / np.maximum(shares, 0.02)) for row in volumes]) / (total * scale_ns)
        x = np.concatenate((np.maximum(shares, 0.02), spent * 1.1, np.full(len(own.layers), spent.sum() + 1.0)))
        found = minimize(
            objective,
            x,
            method="SLSQP",
            bounds=[(1e-5, 1.0)] * count + [(0.0, None)] * (len(x) - count),
            constraints=[
                {"type": "eq", "fun": lambda y: y[:count].sum() - 1.0},
                {"type": "ineq", "fun": slack},
            ],
            options={"maxiter": 500, "ftol": 1e-14},
        )
        bandwidth = total * found.x[:count] / found.x[:count].sum()
        best = min(best, value_at(problem, design, bandwidth))
    return best


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("objective", ["time", "time-times-cost"])
@pytest.mark.parametrize("loop", ["no-overlap", "dp-overlap"])
def test_convex_optimisation_agrees(seed: int, objective: str, loop: str) -> None:
    """SLSQP on a smooth form of the same problem finds nothing better, and as good."""
    document = random_instance(seed, 2 + seed % 2, objective=objective, loop=loop)
    problem = problem_of(document)
    found = solved(document)
    other = smooth_optimum(problem, found.time_ns, seed)
    assert other >= found.objective.value * (1 - 1.1e-9)
    assert other == pytest.approx(found.objective.value, rel=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_a_grid_finds_nothing_better(seed: int) -> None:
    """Two dimensions, every split of the total in 20 000 parts, both objectives."""
    for objective in ("time", "time-times-cost"):
        document = random_instance(100 + seed, 2, objective=objective)
        problem = problem_of(document)
        design = problem.designs[0]
        found = solved(document)
        total = design.network.total_gbytes_per_s or 0.0
        program = plain_program(design, problem)
        values = []
        for part in np.linspace(0.0, 1.0, 20_001)[1:-1]:
            bandwidth = np.array([part * total, (1 - part) * total])
            time = program.time_of(bandwidth)
            values.append(time * program.cost_of(bandwidth) if objective == "time-times-cost" else time)
        assert min(values) >= found.objective.value * (1 - 1e-9)
        assert min(values) == pytest.approx(found.objective.value, rel=1e-4)


SPEEDS = ([10.0, 25.0, 50.0, 100.0], [12.5, 25.0, 50.0], [5.0, 10.0, 20.0, 40.0])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("goal", ["time", "time-times-cost", "cost"])
def test_catalogues_against_enumeration(seed: int, goal: str) -> None:
    """Branch and bound finds the best of all combinations of speeds."""
    document = random_instance(200 + seed, 3, objective=goal)
    for dimension, speeds in zip(document["network"]["dimensions"], SPEEDS, strict=True):
        dimension["speeds_gbytes_per_s"] = speeds
    document["network"]["total_at_most_gbytes_per_s"] = 130.0
    del document["network"]["total_gbytes_per_s"]
    relaxed = problem_of({**document, "objective": "time"})
    design = relaxed.designs[0]
    allowed = [row for row in itertools.product(*SPEEDS) if not broken_laws(design.network, row)]
    if goal == "cost":
        times = sorted(fleet_time_ns(design, relaxed.fleet, row) for row in allowed)
        document["time_limit_ns"] = times[len(times) // 3]
    problem = problem_of(document)
    limit = problem.time_limit_ns or math.inf
    best = min(value_at(problem, design, row) for row in allowed if fleet_time_ns(design, problem.fleet, row) <= limit)
    found = solved(document)
    assert found.objective.value == pytest.approx(best, rel=1e-12)
    assert found.status is Status.OPTIMAL
    assert found.bound.argument is Argument.ALL_SPEEDS or found.gap <= 1e-6


def test_catalogue_in_one_dimension_only() -> None:
    """One dimension has speeds, the other takes what is left: as good as the best of all fixed speeds."""
    document = random_instance(7, 2, objective="time-times-cost")
    document["network"]["dimensions"][0]["speeds_gbytes_per_s"] = [10.0, 20.0, 40.0, 80.0]
    document["network"]["total_at_most_gbytes_per_s"] = document["network"].pop("total_gbytes_per_s")
    found = solved(document)
    values = []
    for speed in (10.0, 20.0, 40.0, 80.0):
        fixed = {**document, "network": {**document["network"]}}
        first = {**document["network"]["dimensions"][0], "min_gbytes_per_s": speed, "max_gbytes_per_s": speed}
        del first["speeds_gbytes_per_s"]
        fixed["network"]["dimensions"] = [first, document["network"]["dimensions"][1]]
        values.append(solved(fixed).objective.value)
    assert found.objective.value == pytest.approx(min(values), rel=1e-6)


def test_cost_and_time_are_each_others_limits() -> None:
    """Least cost within the least time of a cost cap is that cap; least time within the least cost, that time."""
    document = random_instance(3)
    document["network"]["total_at_most_gbytes_per_s"] = document["network"].pop("total_gbytes_per_s")
    free = solved(document)
    assert free.cost_usd is not None
    cap = 0.5 * free.cost_usd
    capped = solved({**document, "cost_cap_usd": cap})
    assert capped.time_ns > free.time_ns
    assert capped.cost_usd == pytest.approx(cap, rel=1e-9)
    cheapest = solved({**document, "objective": "cost", "time_limit_ns": capped.time_ns})
    assert cheapest.objective.value == pytest.approx(cap, rel=1e-7)


def test_cost_needs_no_total() -> None:
    """One collective: cost under a limit is (sum sqrt(v k))^2 / (limit - C), Lagrange's closed form."""
    own = instance(network([4, 8], [3.0, 20.0]), objective="cost", time_limit_ns=2e8)
    volumes = 2e9 * np.array([3 / 4, 7 / 8 / 4])
    # The slowest dimension is the whole time, so each needs exactly v / (limit - C), at its own price.
    cost = 32 * float((np.array([3.0, 20.0]) * volumes).sum()) / (2e8 - 1e6)
    assert solved(own).objective.value == pytest.approx(cost, rel=1e-8)


def test_time_x_cost_needs_a_floor_only() -> None:
    """Without any upper limit on bandwidth: the best of all totals, found one by one."""
    document = random_instance(9, 2, objective="time-times-cost")
    del document["network"]["total_gbytes_per_s"]
    document["network"]["constraints"] = [{"name": "floor", "terms": {"d0": 1.0, "d1": 1.0}, "at_least": 40.0}]
    found = solved(document)
    fixed = {**document, "network": {**document["network"], "constraints": []}}
    values = []
    for total in (40.0, 45.0, 60.0, 100.0, 400.0):
        fixed["network"]["total_gbytes_per_s"] = total
        values.append(solved(fixed).objective.value)
    # More bandwidth only adds cost to compute time, so the floor is where the least product lies.
    assert min(values) == values[0]
    assert found.objective.value == pytest.approx(values[0], rel=2e-9)


def test_front_is_falling_and_ends_at_the_fastest() -> None:
    """Every point is cheaper than the one before; no single solution beats one; bounds are tight."""
    found = solved(random_instance(11, 3, objective="time-times-cost", pareto_points=12))
    times = [point.time_ns for point in found.pareto]
    costs = [point.cost_usd for point in found.pareto]
    assert len(found.pareto) == 12
    assert times == sorted(times)
    assert costs == sorted(costs, reverse=True)
    assert all(point.cost_bound.value >= point.cost_usd * (1 - 1e-7) for point in found.pareto)
    # The solution of least time x cost lies on the front, so no point is below it in both.
    assert not any(
        t < found.time_ns * (1 - 1e-7) and c < (found.cost_usd or 0) * (1 - 1e-7)
        for t, c in zip(times, costs, strict=True)
    )
    assert all(t * c >= found.objective.value * (1 - 1e-7) for t, c in zip(times, costs, strict=True))


def test_worst_case_balances_two_jobs() -> None:
    """Two jobs on dimensions of their own: the worst of both is least when both take equally long."""
    one = job("one", layer(forward=phase(0.0, ("all-reduce", 3e9, "t"))), communicators={"t": [4, 1]})
    two = job("two", layer(forward=phase(0.0, ("all-reduce", 1e9, "d"))), communicators={"d": [1, 8]})
    found = solved(instance(network([4, 8], total_gbytes_per_s=100.0), one, two, fleet="worst-case"))
    volumes = [2 * 3e9 * 3 / 4, 2 * 1e9 * 7 / 8]
    assert found.time_ns == pytest.approx(sum(volumes) / 100.0, rel=1e-9)
    assert found.jobs[0].time_ns == pytest.approx(found.jobs[1].time_ns, rel=1e-6)


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
    assert found.time_ns == pytest.approx(3e6 + sum(volumes) / 200.0, rel=1e-9)
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

    model = build_pyomo(data, tangents, paths)
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
    from formulations.hierarchy.hierarchical_timeline import unit_volumes
    from topoopt.core.hierarchy_workload import Collective

    assert unit_volumes(Collective(kind), ranks) == pytest.approx(moved)
    assert moved_bytes(Collective(kind), 1.0, ranks) == pytest.approx(moved)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), factor=st.floats(0.1, 8.0))
def test_laws_of_scale(seed: int, factor: float) -> None:
    """More total never hurts; time scales with volumes and compute; merging equal layers changes nothing."""
    document = random_instance(seed, 2)
    base = solved(document)
    more = {**document, "network": {**document["network"]}}
    more["network"]["total_gbytes_per_s"] = document["network"]["total_gbytes_per_s"] * (1 + factor)
    assert solved(more).time_ns <= base.time_ns
    grown = instance(document["network"], *document["workloads"])
    apart = instance(document["network"], *document["workloads"])
    rows = apart["workloads"][0]["layers"]
    apart["workloads"][0]["layers"] = [{**row, "repeat": 1} for row in rows for _ in range(row["repeat"])]
    for row in grown["workloads"][0]["layers"]:
        for key in ("forward", "input_gradient", "weight_gradient"):
            row[key]["compute_ns"] *= factor
            for one in row[key]["collectives"]:
                one["bytes"] *= factor
    assert solved(grown).time_ns == pytest.approx(factor * base.time_ns, rel=2e-9)
    assert solved(apart).time_ns == pytest.approx(base.time_ns, rel=2e-9)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_objectives_rank_each_others_solutions(seed: int) -> None:
    """Each objective's solution is at least as good in it as the other's; two equal jobs are one of weight two."""
    document = random_instance(seed)
    fast, dear = solved(document), solved({**document, "objective": "time-times-cost"})
    assert fast.time_ns <= dear.time_ns * (1 + 1e-9)
    assert dear.objective.value <= fast.time_ns * (fast.cost_usd or 0.0) * (1 + 1e-9)
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
    assert problem_of(random_instance(0, 2, fleet="worst-case")).fleet is Fleet.WORST_CASE
