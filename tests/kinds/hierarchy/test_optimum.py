"""Optimal bandwidths by other ways: closed forms, convex optimisation, grids."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from formulations.hierarchical_bandwidth import formula_bound, plain_program
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
    value_at,
)
from topoopt.core.hierarchy import HierarchicalProblem
from topoopt.core.proofs import Status
from topoopt.verify.hierarchy import moved_bytes


def test_one_collective_has_its_closed_form() -> None:
    """Bandwidth in proportion to the bytes: B = total v / sum v and T = C + sum v / total."""
    found = solved(instance(network([4, 8, 16], total_gbytes_per_s=100.0)))
    # An all-reduce of 10^9 bytes over 4 x 8 x 16: twice 3/4, then 7/8 of a quarter, then 15/16 of a 32nd.
    volumes = 2e9 * np.array([3 / 4, 7 / 8 / 4, 15 / 16 / 32])
    assert found.plan.bandwidth_gbytes_per_s == pytest.approx(100.0 * volumes / volumes.sum(), rel=1e-4)
    assert found.figures.time_ns == pytest.approx(1e6 + volumes.sum() / 100.0, rel=1e-9)
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
    assert found.figures.time_ns == pytest.approx(
        6e6 + (math.sqrt(sums[0]) + math.sqrt(sums[1])) ** 2 / 300.0, rel=1e-9
    )
    assert found.plan.bandwidth_gbytes_per_s[0] / found.plan.bandwidth_gbytes_per_s[1] == pytest.approx(
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
    overlap = own.loop == "dp-overlap"
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
        ratio = problem.objective == "time-times-cost"
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
    other = smooth_optimum(problem, found.figures.time_ns, seed)
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


def test_worst_case_balances_two_jobs() -> None:
    """Two jobs on dimensions of their own: the worst of both is least when both take equally long."""
    one = job("one", layer(forward=phase(0.0, ("all-reduce", 3e9, "t"))), communicators={"t": [4, 1]})
    two = job("two", layer(forward=phase(0.0, ("all-reduce", 1e9, "d"))), communicators={"d": [1, 8]})
    found = solved(instance(network([4, 8], total_gbytes_per_s=100.0), one, two, fleet="worst-case"))
    volumes = [2 * 3e9 * 3 / 4, 2 * 1e9 * 7 / 8]
    assert found.figures.time_ns == pytest.approx(sum(volumes) / 100.0, rel=1e-9)
    assert found.figures.jobs[0].time_ns == pytest.approx(found.figures.jobs[1].time_ns, rel=1e-6)


def test_a_formula_is_the_optimum_of_communicators_apart() -> None:
    """C + (sqrt S1 + sqrt S2)^2 / total, what the program has for disjoint communicators."""
    phases = {"forward": phase(5e6, ("all-reduce", 4e9, "tensor"))}
    phases["weight_gradient"] = phase(1e6, ("all-reduce", 1e9, "data"))
    problem = problem_of(
        instance(network([4, 8], total_gbytes_per_s=300.0), job("job", layer(**phases), communicators=TENSOR_DATA))
    )
    sums = [2 * 4e9 * 3 / 4, 2 * 1e9 * 7 / 8]
    least = 6e6 + (math.sqrt(sums[0]) + math.sqrt(sums[1])) ** 2 / 300.0
    bound = formula_bound(plain_program(problem.designs[0], problem), ratio=False)
    assert bound == pytest.approx(least, rel=1e-12)
