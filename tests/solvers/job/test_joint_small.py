"""The joint program of tiny clusters against enumeration of strategies and topologies with a routing LP of its own."""

from __future__ import annotations

import numpy as np
import pyomo.environ as pyo
import pytest
from pyomo.contrib.appsi.solvers.highs import Highs

from formulations.job_plans import joint_plan_arrays
from solvers.backends import SOLVERS
from solvers.job.joint import (
    joint_problems,
    joint_tables,
    plan_time,
    realised,
    ring_orders,
    run_joint,
    solve_joint,
    topology_of,
)
from solvers.job.loop import LoopSettings
from solvers.job.methods import run_method
from solvers.stop import Stop
from tests.support.joint_cases import BI, CASES, job, least_time, plain_phases, plain_theta, strategies, tables
from tests.support.pyomo_networks import joint_plan_pyomo
from tests.support.simulated import evaluate_plan
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError
from topoopt.core.job import CoOptimisation
from topoopt.core.workload import Operator, Placement, Split, Strategy, Workload
from topoopt.verify.job.check import joint_bound
from topoopt.verify.job.plan import check_plan


@pytest.mark.parametrize("name", list(CASES))
def test_optimum_equals_enumeration(name) -> None:
    """The joint program finds the best of all strategies on all topologies, each routed by a program of the test."""
    cluster, workload = CASES[name]
    rate = cluster.link_gbps * 125_000.0
    least = least_time(cluster, workload)
    optimum = solve_joint(cluster, workload)
    assert optimum is not None
    assert optimum.time_ms == pytest.approx(least, rel=1e-6)
    assert optimum.bound_ms == pytest.approx(least, rel=1e-5)
    placements = tuple((p.split, p.offset) for p in optimum.strategy.placements)
    compute, demand, groups = plain_phases(cluster, workload, placements)
    assert optimum.compute_ms == pytest.approx(compute)
    theta = plain_theta(optimum.counts, demand, groups, rate)
    assert optimum.time_ms == pytest.approx(compute + theta, rel=1e-6)


def test_a_given_plan_has_the_time_of_the_model() -> None:
    """plan_time of random strategies on random topologies equals the program of the test."""
    cluster, workload = Cluster(4, 1, 3, 0.1, BI), job(4, (1, 2, 4))
    networks = list(tables(4, 3, BI))
    every = list(strategies(4, workload))
    rng = np.random.default_rng(5)
    for _ in range(12):
        placements, counts = every[rng.integers(len(every))], networks[rng.integers(len(networks))]
        compute, demand, groups = plain_phases(cluster, workload, placements)
        topology = topology_of(cluster, counts)
        full = np.zeros((4, 4), dtype=np.int64)
        full[topology.arcs[:, 0], topology.arcs[:, 1]] = topology.multiplicity
        assert (full >= counts).all()
        time_ms = plan_time(cluster, workload, Strategy(tuple(Placement(*p) for p in placements)), topology)
        assert time_ms == pytest.approx(compute + plain_theta(full, demand, groups, 0.1 * 125_000.0), rel=1e-6)


@pytest.mark.parametrize("name", ["three-pairs", "three-chain-of-three"])
@pytest.mark.parametrize("memory", [None, 100])
def test_arrays_equal_the_pyomo_reference(name, memory) -> None:
    """Same optimum from both builders, with and without a limit of memory."""
    cluster, workload = CASES[name]
    if memory is not None:
        cluster = Cluster(cluster.servers, 1, cluster.degree, cluster.link_gbps, cluster.links, gpu_memory_bytes=100)
        operators = tuple(
            Operator(op.name, op.kind, op.output_elements, 4, op.weight_elements, op.inputs,
                     tuple(Split(s.sample_ways, s.forward_ms, s.backward_ms, 60) for s in op.splits))
            for op in workload.operators
        )  # fmt: skip
        workload = Workload("heavy", workload.samples, operators)
    data = joint_tables(cluster, workload, 100.0)[0]
    mine = SOLVERS["highs"](joint_plan_arrays(data))
    model = joint_plan_pyomo(data)
    solver = Highs()
    solver.config.load_solution = False
    result = solver.solve(model)
    if mine.x is None:
        assert result.best_feasible_objective is None
        return
    result.solution_loader.load_vars()
    assert mine.objective == pytest.approx(pyo.value(model.end), rel=1e-6)


def test_hand_computed_pair() -> None:
    """Two servers, one fibre pair: one layer whole takes 9 ms; halved, 4.5 ms and 1e6 bytes over 1e6 bytes a ms."""
    layer = Operator("layer", "dense", 4, 4, (250_000,), (), (Split(1, 3.0, 6.0, 0), Split(2, 1.5, 3.0, 0)))
    optimum = solve_joint(Cluster(2, 1, 1, 8.0, BI), Workload("one", 4, (layer,)))
    assert optimum is not None
    assert optimum.time_ms == pytest.approx(5.5)
    assert optimum.strategy.placements[0].split == 1
    assert optimum.rings == ((((0, 1), pytest.approx(1.0)),),)
    slow = solve_joint(Cluster(2, 1, 1, 0.8, BI), Workload("one", 4, (layer,)))
    assert slow is not None
    assert slow.time_ms == pytest.approx(9.0)


def test_no_plan_fits_the_memory() -> None:
    """Every split takes more than a server has: None."""
    cluster = Cluster(3, 1, 2, 1.0, BI, gpu_memory_bytes=5)
    assert solve_joint(cluster, job(3, (1, 3), memory=6)) is None


def test_ring_orders_are_all_cyclic_orders() -> None:
    """(k - 1)! of them, each with every member once, the first one first."""
    orders = ring_orders((0, 2, 4, 6))
    assert len(set(orders)) == 6
    assert all(order[0] == 0 and sorted(order) == [0, 2, 4, 6] for order in orders)


def test_large_jobs_are_refused_with_the_limits() -> None:
    """More servers or interfaces, or more pairs of placements, than the program is meant for: one message with all."""
    assert joint_problems(Cluster(4, 1, 2, 1.0), job(4, (1, 4))) == []
    with pytest.raises(InputError, match=r"cluster\.servers.*6.*2 to 5(.|\n)*cluster\.degree.*9.*at most 4"):
        run_method("joint", Cluster(6, 1, 9, 1.0), job(6, (1, 6)), budget=10, seed=0, stop=Stop())
    wide = Workload("wide", 48, tuple(job(4, (1, 2, 4), (9,) * 12, (9,) * 12, (1.0,) * 12).operators))
    with pytest.raises(InputError, match=r"workload.*539.*at most 400 pairs"):
        solve_joint(Cluster(4, 1, 2, 1.0), wide)


def test_the_method_returns_the_faster_plan_and_says_how_far_the_loop_is() -> None:
    """The plan passes the checker, its time is the simulated one, both optima are in the notes, twice the same."""
    cluster, workload = CASES["four-pairs"]
    settings = LoopSettings(budget=40, topologies=3)
    results = [run_joint(cluster, workload, settings, seed=1, stop=Stop(), progress=None) for _ in range(2)]
    result = results[0]
    assert check_plan(cluster, workload, result.plan) == ()
    evaluation = evaluate_plan(CoOptimisation("job", cluster, workload), result.plan)
    assert evaluation.iteration_time_ms == result.iteration_time_ms
    optimum = solve_joint(cluster, workload)
    assert optimum is not None
    plan, time_ms = realised(cluster, workload, optimum, seed=1)
    assert check_plan(cluster, workload, plan) == ()
    assert result.iteration_time_ms <= time_ms
    assert f"joint program: {optimum.time_ms:.6g} ms" in " ".join(result.notes)
    assert "above the joint optimum" in " ".join(result.notes)
    assert result.joint is not None
    proven = joint_bound(cluster, workload, result.joint.tree, result.joint.bound_ms)
    assert proven == pytest.approx(optimum.time_ms, rel=1e-9), "the checker proves what the notes say"
    assert results[0].notes == results[1].notes
    assert results[0].plan.strategy == results[1].plan.strategy
