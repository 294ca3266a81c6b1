"""The alternating loop: what it returns fits together, improves, repeats itself, and stops when told."""

from __future__ import annotations

import time

import numpy as np
import pytest

from solvers.job.joint import joint_problems
from solvers.job.methods import METHODS, run_method
from solvers.stop import Stop
from tests.support.simulated import evaluate_plan
from topoopt.core.arrays import GIB
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.job import CoOptimisation
from topoopt.core.proofs import StopReason
from topoopt.core.workload import Operator, OperatorInput, Split, Workload
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.verify.job.check import CHECKER
from topoopt.verify.job.plan import check_plan


def job(n, memory=0, weights=(1_000_000, 1000), elements=4096):
    """Two tables on single servers and a small stack of dense layers over all of them."""
    wide = tuple(Split(p, 2.0 / p, 4.0 / p, memory) for p in range(1, n + 1) if n % p == 0)
    one = (Split(1, 0.5, 1.0, memory),)
    operators = [
        Operator("table0", "embedding", elements, 4, (), (), one, locally_reduced=False),
        Operator("table1", "embedding", elements, 4, (), (), one, locally_reduced=False),
        Operator("dense0", "dense", elements, 4, weights, (OperatorInput(0), OperatorInput(1)), wide),
        Operator("dense1", "dense", 1, 4, weights, (OperatorInput(2),), wide),
    ]
    return Workload("job", 16 * n, tuple(operators))


@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.parametrize("links", list(LinkDirection))
@pytest.mark.parametrize(("n", "degree"), [(2, 1), (2, 3), (3, 2), (5, 2), (6, 3), (7, 4), (8, 9), (12, 4)])
def test_every_method_returns_a_plan_that_passes_the_checker(method, links, n, degree):
    """Small and awkward sizes: checked plan, its time is the simulated time, never worse than the start."""
    cluster, workload = Cluster(n, 2, degree, 50.0, links), job(n)
    if method == "joint" and joint_problems(cluster, workload):
        with pytest.raises(InputError, match="too large"):
            run_method(method, cluster, workload, budget=120, seed=1, stop=Stop())
        return
    result = run_method(method, cluster, workload, budget=120, seed=1, stop=Stop())
    assert check_plan(cluster, workload, result.plan) == ()
    evaluation = evaluate_plan(CoOptimisation("job", cluster, workload), result.plan)
    assert evaluation.iteration_time_ms == result.iteration_time_ms
    if method != "robust":  # that one pays for robustness
        assert result.iteration_time_ms <= result.initial_ms
    assert result.proposals <= 120


@pytest.mark.parametrize("links", list(LinkDirection))
@pytest.mark.parametrize("gbps", [1.0, 10.0, 25.0, 100.0])
def test_the_loop_is_never_worse_than_data_parallelism(links, gbps):
    """A method that searches more returns no slower plan than the one that keeps data parallelism."""
    cluster, workload = Cluster(4, 1, 2, gbps, links), job(4)
    times = {
        method: run_method(method, cluster, workload, budget=200, seed=0, stop=Stop()).iteration_time_ms
        for method in ("data-parallel", "alternating")
    }
    assert times["alternating"] <= times["data-parallel"]


def test_convergence_points_only_improve():
    """Times in the log fall, proposals grow, and the last one is the result."""
    cluster, workload = Cluster(8, 2, 3, 50.0), job(8)
    result = run_method("alternating", cluster, workload, budget=600, seed=0, stop=Stop())
    times = [point.best_ms for point in result.convergence]
    proposals = [point.proposals for point in result.convergence]
    assert times == sorted(times, reverse=True)
    assert proposals == sorted(proposals)
    assert times[-1] == result.iteration_time_ms


def test_the_same_seed_gives_the_same_plan():
    """Twice the same seed: equal strategy, arcs, routes and rings."""
    cluster, workload = Cluster(6, 2, 2, 50.0), job(6)
    first, again = (run_method("alternating", cluster, workload, budget=300, seed=7, stop=Stop()) for _ in range(2))
    assert first.plan.strategy == again.plan.strategy
    assert first.plan.rings == again.plan.rings
    for name in ("arcs", "multiplicity", "switches"):
        assert np.array_equal(getattr(first.plan.topology, name), getattr(again.plan.topology, name))
    for name in ("source", "target", "pair_ptr", "share", "path_ptr", "node"):
        assert np.array_equal(getattr(first.plan.routes, name), getattr(again.plan.routes, name))
    assert first.convergence == again.convergence


@pytest.mark.parametrize("reason", [StopReason.INTERRUPTED, StopReason.TIME])
def test_a_stop_at_the_very_start_still_gives_a_checked_plan(reason):
    """Time limit 0 or Ctrl-C during start-up: the first plan comes back, with the reason."""
    cluster, workload = Cluster(6, 2, 3, 50.0), job(6)
    stop = Stop(deadline=time.monotonic() if reason is StopReason.TIME else None)
    if reason is StopReason.INTERRUPTED:
        stop.interrupted.set()
    result = run_method("alternating", cluster, workload, budget=10_000, seed=0, stop=stop)
    assert result.stopped_by is reason
    assert check_plan(cluster, workload, result.plan) == ()


def test_memory_decides_over_time():
    """With 3 units of memory per server and operators of one unit each the plan fits; with half a unit none does."""
    workload = job(4, memory=1000)
    fits = run_method(
        "alternating", Cluster(4, 1, 2, 50.0, gpu_memory_bytes=3000), workload, budget=300, seed=0, stop=Stop()
    )
    assert check_plan(Cluster(4, 1, 2, 50.0, gpu_memory_bytes=3000), workload, fits.plan) == ()
    with pytest.raises(InfeasibleError, match="memory"):
        run_method(
            "alternating", Cluster(4, 1, 2, 50.0, gpu_memory_bytes=500), workload, budget=50, seed=0, stop=Stop()
        )


def test_data_parallelism_that_does_not_fit_is_no_start_and_no_plan():
    """Each replica needs 3 GiB of 2: no time of it is told, the note says why, and asked for it there is no plan."""
    workload, cluster = job(4, memory=GIB), Cluster(4, 1, 2, 50.0, gpu_memory_bytes=2 * GIB)
    found = run_method("alternating", cluster, workload, budget=300, seed=0, stop=Stop())
    assert check_plan(cluster, workload, found.plan) == ()
    assert max(found.plan.strategy.server_memory_bytes(workload, 4)) <= 2 * GIB
    assert found.initial_ms is None
    assert any("it needs 3.0 GiB of a GPU, 2 GiB are there" in note for note in found.notes)
    with pytest.raises(InfeasibleError, match="memory"):
        run_method("data-parallel", cluster, workload, budget=300, seed=0, stop=Stop())
    free = run_method("alternating", Cluster(4, 1, 2, 50.0), workload, budget=300, seed=0, stop=Stop())
    assert free.initial_ms is not None


def test_solving_gives_a_checked_solution_whose_parts_agree():
    """Pipeline: objective = evaluation >= bound, breakdown sums, baselines are there, the checker agrees."""
    instance = CoOptimisation("job", Cluster(8, 2, 3, 50.0), job(8))
    solution = solve(instance, SolveOptions(budget=200, seed=3))
    assert solution.check.ok, solution.check.violations
    assert CHECKER(instance, solution).violations == ()
    assert solution.objective.value == solution.figures.evaluation.iteration_time_ms
    assert solution.bound.value <= solution.objective.value
    parts = solution.figures.breakdown
    total = parts.compute_ms + parts.model_parallel_ms + parts.allreduce_ms + parts.idle_ms
    assert total == pytest.approx(solution.objective.value, rel=1e-12)
    assert [line.fabric for line in solution.figures.baselines] == [
        "ideal-switch",
        "fat-tree",
        "full-fat-tree",
        "random-regular",
    ]


def test_a_job_without_any_traffic_is_solved_to_optimality():
    """One operator without weights on one server: nothing to send, the time is its compute time and the bound."""
    workload = Workload("still", 4, (Operator("only", "dense", 8, 4, (), (), (Split(1, 1.5, 2.5, 0),)),))
    solution = solve(CoOptimisation("still", Cluster(4, 1, 2, 50.0), workload), SolveOptions(budget=20))
    assert (solution.objective.value, solution.status.value) == (4.0, "optimal")
    assert solution.bound.value == pytest.approx(4.0, rel=1e-9)
    assert solution.figures.bandwidth_tax == 1.0


def test_plans_route_the_pairs_with_demand_and_no_others():
    """The trimmed table keeps the paths of the wanted pairs as they were."""
    from solvers.job.realise import routes_of_pairs
    from solvers.network.routes import balanced_routes, circulant_topology

    routes = balanced_routes(circulant_topology(8, 4, LinkDirection.BIDIRECTIONAL, (1, 3)), paths_per_pair=2)
    wanted = np.random.default_rng(0).random((8, 8)) < 0.3
    np.fill_diagonal(wanted, False)
    trimmed = routes_of_pairs(routes, wanted)
    assert set(zip(trimmed.source.tolist(), trimmed.target.tolist(), strict=True)) == set(
        map(tuple, np.argwhere(wanted).tolist())
    )

    def paths(table):
        return {
            (int(s), int(t)): [(table.path(p), float(table.share[p])) for p in range(*table.pair_ptr[i : i + 2])]
            for i, (s, t) in enumerate(zip(table.source, table.target, strict=True))
        }

    whole = paths(routes)
    assert paths(trimmed) == {pair: whole[pair] for pair in paths(trimmed)}
