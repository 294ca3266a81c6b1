"""Placement, orders and static rates together: the optimum against all placements and orders by brute force."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from solvers.placement.static_rates import in_given_orders
from tests.support.placed_graphs import problem
from tests.support.settled import settled
from topoopt.core.errors import InputError
from topoopt.core.placement import PlacementProblem
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.simulate.placement import placement_arrays, simulated, uniform_rates

PER_MS = 125_000.0
"""Bytes of 1 Gbit/s."""


def least_span(
    fixed: list[float],
    sent: dict[int, tuple[float, tuple[int, int]]],
    arcs: list[tuple[int, int]],
    room: float,
) -> float | None:
    """Least makespan of activities in given orders over all static rates; None if the orders contradict each other.

    A plain linear program with tangents to 1 / rate, by SciPy; `sent`: volume and pair of servers of the transfers.
    """
    pairs = sorted({pair for _, pair in sent.values()})
    n, width = len(fixed), len(fixed) + len(pairs) + 1

    def end(row: np.ndarray, u: int) -> None:
        row[u] += 1.0
        if u in sent:
            row[n + pairs.index(sent[u][1])] += sent[u][0]

    rows, sides = [], []
    for u, v in arcs:
        row = np.zeros(width)
        end(row, u)
        row[v] -= 1.0
        rows.append(row)
        sides.append(-fixed[u])
    for u in range(n):
        row = np.zeros(width)
        end(row, u)
        row[-1] -= 1.0
        rows.append(row)
        sides.append(-fixed[u])
    ports = [
        [n + q for q, pair in enumerate(pairs) if pair[way] == s]
        for way in (0, 1)
        for s in sorted({pair[way] for pair in pairs})
    ]
    cost = np.zeros(width)
    cost[-1] = 1.0
    lower = [(0.0, None)] * n + [(1.0 / room, None)] * len(pairs) + [(0.0, None)]
    value = None
    for _ in range(60):
        result = linprog(cost, A_ub=np.array(rows), b_ub=np.array(sides), bounds=lower, method="highs")
        if result.status != 0:
            return None
        value = float(result.fun)
        full = [port for port in ports if sum(1.0 / result.x[q] for q in port) > room * (1 + 1e-9)]
        if not full:
            break
        for port in full:
            row = np.zeros(width)
            row[port] = -1.0 / result.x[port] ** 2
            rows.append(row)
            sides.append(room - 2.0 * sum(1.0 / result.x[q] for q in port))
    return value


def best_of_all(instance: PlacementProblem) -> float:
    """Least makespan over all placements within memory, all orders on devices and in queues, and all rates."""
    n, k = len(instance.operators), len(instance.devices)
    room = instance.servers[0].network_gbps
    best = float("inf")
    for device in itertools.product(range(k), repeat=n):
        held = [0] * k
        for operator, d in zip(instance.operators, device, strict=True):
            held[d] += operator.memory_bytes
        limits = [entry.memory_bytes for entry in instance.devices]
        if any(limit is not None and used > limit for used, limit in zip(held, limits, strict=True)):
            continue
        fixed = [operator.times_ms[0] for operator in instance.operators]
        arcs, sent, queues = [], {}, {}
        for tensor in instance.tensors:
            for e in sorted({device[j] for j in tensor.consumers}):
                readers = [j for j in tensor.consumers if device[j] == e]
                if e == device[tensor.producer]:
                    arcs += [(tensor.producer, j) for j in readers]
                    continue
                way = len(fixed)
                fixed.append(instance.transfer_latency_ms)
                sent[way] = (tensor.size_bytes / PER_MS, (device[tensor.producer], e))
                queues.setdefault((device[tensor.producer], e), []).append(way)
                arcs += [(tensor.producer, way), *((way, j) for j in readers)]
        lanes = [[i for i in range(n) if device[i] == d] for d in range(k)]
        for orders in itertools.product(*(itertools.permutations(line) for line in (*lanes, *queues.values()))):
            lines = [pair for order in orders for pair in itertools.pairwise(order)]
            value = least_span(fixed, sent, [*arcs, *lines], room)
            if value is not None:
                best = min(best, value)
    return best


def forced(seed: int, servers: int = 3) -> PlacementProblem:
    """Four operators of which a device holds two, on three servers of one device: rates of each pair matter."""
    rng = np.random.default_rng(seed)
    tensors = []
    for i in range(3):
        users = [j for j in range(i + 1, 4) if rng.random() < 0.6] or [i + 1]
        tensors.append((i, users, float(rng.integers(1, 5)) * 0.5))
    times = [float(time) for time in rng.integers(1, 4, 4)]
    return problem(
        times, tensors, [1] * servers, sharing="static", memory=[2, 2, 2, 3], room=4, alpha=0.125 * (seed % 2)
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_joint_program_is_the_best_of_all_placements_orders_and_rates(seed):
    """Proven by the program, equal to brute force, and the checker accepts the schedule."""
    instance = forced(seed)
    solution = solve(instance, SolveOptions(method="joint"))
    assert solution.check.ok, solution.check.violations
    assert settled(solution)
    expected = best_of_all(instance)
    assert solution.objective.value == pytest.approx(expected, rel=1e-6)
    assert solution.bound.value <= expected * (1 + 1e-6)


def test_rates_and_placement_together_beat_uniform_rates():
    """A fork of 4 and 1 ms of bytes out of one server: square roots or proportions, 5 ms instead of 8."""
    instance = problem([0, 20, 20], [(0, [1], 4), (0, [2], 1)], [1, 1, 1], sharing="static", memory=[9, 9, 9], room=10)
    solution = solve(instance)
    assert solution.method == "joint"
    assert settled(solution)
    assert solution.objective.value == pytest.approx(25.0, rel=1e-6)
    uniform = replace(instance, objective=replace(instance.objective, rates="uniform"))
    assert solve(uniform).objective.value == pytest.approx(28.0, rel=1e-6)


def test_different_classes_of_devices():
    """An operator that is slow on one class keeps its own time there: the optimum is on the fast one."""
    two = problem([1, 1], [(0, [1], 1)], [1, 1], sharing="static")
    operators = (replace(two.operators[0], times_ms=(1.0, 9.0)), replace(two.operators[1], times_ms=(9.0, 1.0)))
    devices = (two.devices[0], replace(two.devices[1], class_index=1))
    instance = replace(two, classes=("one", "other"), operators=operators, devices=devices)
    solution = solve(instance, SolveOptions(method="joint"))
    assert settled(solution)
    assert solution.objective.value == pytest.approx(3.0)


def test_small_and_large_tensors_in_one_graph():
    """A millionth of the largest tensor counts as nothing in the program, and in full in the answer."""
    instance = problem([1, 1, 1], [(0, [1], 4), (0, [2], 4e-6)], [1, 1, 1], sharing="static", memory=[3] * 3, room=4)
    solution = solve(instance, SolveOptions(method="joint"))
    assert solution.check.ok
    assert solution.bound.value <= solution.objective.value
    assert solution.objective.value == pytest.approx(6.0, rel=1e-3)


def test_refusals_of_the_joint_method():
    """It is for static rates to be chosen, and for small graphs; both are named."""
    instance = problem([1, 1], [(0, [1], 1)], [1, 1], sharing="fifo")
    with pytest.raises(InputError, match="sharing: static, rates: optimised"):
        solve(instance, SolveOptions(method="joint"))
    wide = problem([1.0] * 40, [(0, list(range(1, 40)), 1)], [1, 1], sharing="static")
    with pytest.raises(InputError, match="at most 400 orders"):
        solve(wide, SolveOptions(method="joint"))


def test_one_server_has_no_rates():
    """Two devices of one server: the program without pairs, 2 ms at ten times the rate inside."""
    instance = problem([1, 1], [(0, [1], 2)], [2], sharing="static", memory=[3, 3], room=4)
    solution = solve(instance, SolveOptions(method="joint"))
    assert settled(solution)
    assert solution.objective.value == pytest.approx(2.2)


def test_orders_are_kept_even_where_a_device_waits():
    """The later operator first: the other one waits though it could run; orders of no sense give nothing."""
    instance = problem([1, 5, 1], [(0, [1], 1)], [1, 1], sharing="static", rates="uniform")
    a = placement_arrays(instance)
    assert a.sharing == 2
    assert instance.objective.sharing == "static"
    rates = uniform_rates(a)
    plan = simulated(a, np.array([0, 1, 1]), rates)
    late = replace(plan, start_ms=np.array([0.0, 2.0, 7.0]), end_ms=np.array([1.0, 7.0, 8.0]))
    kept = in_given_orders(a, late, rates)
    assert kept.start_ms.tolist() == [0.0, 2.0, 7.0]
    same = simulated(a, np.array([0, 0, 0]), rates)
    against = replace(same, start_ms=np.array([7.0, 0.0, 8.0]), end_ms=np.array([8.0, 5.0, 9.0]))
    assert in_given_orders(a, against, rates) is None


def test_shipped_fork_meets_its_closed_form() -> None:
    """Rate x for 5 MB and 10 - x for 1.25 MB, both consumers done at once: 5 + 40/x = 3 + 10/(10 - x)."""
    shipped = read_instance("instances/placement/shared-fork-3.yaml")
    low, high = 5.0, 9.999
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if 5 + 40 / middle > 3 + 10 / (10 - middle) else (low, middle)
    found = solve(shipped)
    assert settled(found)
    assert found.objective.value == pytest.approx(5 + 40 / low, rel=1e-6)
