"""Jobs on more servers than every candidate has all routes for, and than strategies are annealed on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from solvers.job import alternate
from solvers.job import annealing as screening
from solvers.job import realise as realising
from solvers.job.annealing import estimated_ms, promising, too_many_tasks
from solvers.job.fabrics import fabric_job, search_strategy
from solvers.job.methods import default_budget, run_method
from solvers.job.realise import demand_routed, extends, pairs_routed, realise, too_long
from solvers.job.starts import (
    ALL_PAIRS_SERVERS,
    EFFORTS,
    MOST_TASKS,
    Start,
    data_parallel,
    effort_for,
    starting_strategies,
)
from solvers.network.routes import circulant_topology
from solvers.stop import Stop
from tests.support.simulated import evaluate_plan
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.job import CoOptimisation
from topoopt.core.workload import Demand, Operator, OperatorInput, Placement, Split, Strategy, Workload, strided_groups
from topoopt.simulate.fabrics import FABRICS, FabricOptions
from topoopt.simulate.network import build_task_graph, workload_arrays
from topoopt.simulate.time_models.evaluate import simulate
from topoopt.verify.job.plan import check_plan

LARGE = 264
"""The least size above `ALL_PAIRS_SERVERS` with many divisors."""


def job(n: int) -> Workload:
    """Two tables that stay whole, read by a stack of two dense layers over any number of servers."""
    wide = tuple(Split(p, 2.0 * n / p, 4.0 * n / p, 0) for p in range(1, n + 1) if n % p == 0)
    one = (Split(1, 0.5, 1.0, 0),)
    return Workload(
        "job",
        16 * n,
        (
            Operator("table0", "embedding", 4096, 4, (), (), one, locally_reduced=False),
            Operator("table1", "embedding", 4096, 4, (), (), one, locally_reduced=False),
            Operator("dense0", "dense", 4096, 4, (1_000_000,), (OperatorInput(0), OperatorInput(1)), wide),
            Operator("dense1", "dense", 1, 4, (1_000_000,), (OperatorInput(2),), wide),
        ),
    )


def test_a_plan_of_a_large_cluster_is_whole() -> None:
    """Routes of pairs with traffic alone go through the loop; the plan passes the checker at the time simulated."""
    assert LARGE > ALL_PAIRS_SERVERS
    cluster, workload = Cluster(LARGE, 2, 4, 50.0), job(LARGE)
    result = run_method("auto", cluster, workload, budget=64, seed=3, stop=Stop())
    assert check_plan(cluster, workload, result.plan) == ()
    evaluation = evaluate_plan(CoOptimisation("job", cluster, workload), result.plan)
    assert evaluation.iteration_time_ms == result.iteration_time_ms
    assert result.initial_ms is not None
    assert result.iteration_time_ms <= result.initial_ms
    assert 0 < result.proposals <= 64
    assert all(late.best_ms < early.best_ms for early, late in pairwise(result.convergence))


def test_above_a_size_strategies_are_not_annealed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best start is kept, no proposal is made, and a note says so."""
    monkeypatch.setattr(alternate, "ANNEALED_SERVERS", 11)
    cluster, workload = Cluster(12, 2, 4, 50.0), job(12)
    result = run_method("alternating", cluster, workload, budget=64, seed=0, stop=Stop())
    assert result.proposals == 0
    assert any("starts alone" in note for note in result.notes)
    assert check_plan(cluster, workload, result.plan) == ()
    assert result.plan.strategy in {start.strategy for start in starting_strategies(cluster, workload)}


def test_routes_of_the_demand_alone() -> None:
    """Up to 256 servers all pairs, above those that send: with the same paths as among all."""
    few, many = np.zeros((256, 256)), np.zeros((LARGE, LARGE))
    many[3, 40] = many[40, 3] = 1.0
    assert pairs_routed(Demand(few, ())) is None
    pairs = pairs_routed(Demand(many, ()))
    assert pairs is not None
    topology = circulant_topology(LARGE, 4, LinkDirection.BIDIRECTIONAL, (1, 16))
    made = realise(Cluster(LARGE, 1, 4, 100.0), topology, (), pairs=pairs)
    assert made.partial
    assert list(zip(made.routes.source.tolist(), made.routes.target.tolist(), strict=True)) == [(3, 40), (40, 3)]
    # 37 = 2 x 16 + 5: seven hops, or 3 x 16 - 11: fourteen.
    assert len(made.routes.path(0)) == 8


def test_the_most_promising_starts_are_looked_at() -> None:
    """Data parallelism and those of least estimate, in the order of all; memory to watch adds stages on every coset."""
    cluster, workload = Cluster(180, 2, 4, 50.0, gpu_memory_bytes=2**40), job(180)
    starts = starting_strategies(cluster, workload)
    kept = promising(cluster, workload, starts, far=np.inf)
    assert len(starts) > len(kept) == effort_for(180).starts
    assert kept[0].strategy == data_parallel(180, workload)
    assert [starts.index(each) for each in kept] == sorted(starts.index(each) for each in kept)
    worst = max(estimated_ms(cluster, workload, each.strategy) for each in kept[1:])
    left = [each for each in starts if each not in kept]
    assert min(estimated_ms(cluster, workload, each.strategy) for each in left) >= worst


def test_starts_far_behind_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the third least estimate is the limit unless another is given; data parallelism stays in any case."""
    cluster, workload = Cluster(12, 2, 4, 50.0, gpu_memory_bytes=2**40), job(12)
    starts = starting_strategies(cluster, workload)[:5]
    estimates = dict(zip((each.strategy for each in starts), (25.0, 10.0, 12.0, 24.1, 24.0), strict=True))
    monkeypatch.setattr(screening, "estimated_ms", lambda cluster, workload, strategy: estimates[strategy])
    assert promising(cluster, workload, starts) == [*starts]  # the third least is 24.0
    estimates[starts[0].strategy] = 11.0
    assert promising(cluster, workload, starts) == [*starts[:3], starts[4]]
    assert promising(cluster, workload, starts, far=2.1) == [*starts]
    estimates[starts[0].strategy] = 1000.0
    assert promising(cluster, workload, starts, far=1.0) == [*starts[:3], starts[4]]


def test_estimate_of_data_parallelism() -> None:
    """Compute: tables side by side, then two layers. Links: two AllReduces, and transfers over their hops."""
    n = 180
    cluster, workload = Cluster(n, 2, 4, 50.0), job(n)
    bare = Workload(
        "bare", workload.samples, (Operator("one", "dense", 1, 4, (1_000_000,), (), workload.operators[2].splits),)
    )
    # 4 bytes of each of 10^6 weights go 2 (n-1)/n times over a ring, over four interfaces at once.
    wire = 2 * (n - 1) / n * 4e6 / (4 * cluster.link_bytes_per_ms)
    assert estimated_ms(cluster, bare, data_parallel(n, bare)) == pytest.approx(2.0 + 4.0 + wire)
    assert estimated_ms(cluster, workload, data_parallel(n, workload)) > 1.5 + 12.0 + 2 * wire


def test_the_default_budget_of_large_clusters() -> None:
    """A quarter of what the tasks of the job would allow, but at least 64 000 over the servers."""
    # Tasks of `job(n)`: 2 + 2 + 2n + 2n and, for three inputs over n servers, 6n.
    assert default_budget(Cluster(160, 1, 4, 50.0), job(160)) == 60_000
    assert default_budget(Cluster(720, 1, 4, 50.0), job(720)) == 150_000_000 // (4 * (4 + 10 * 720))


def test_starts_of_too_many_tasks_are_left_out() -> None:
    """n slices that each read all of n slices take n (n - 1) transfers each way: for 1024 servers above the limit, at
    half the ways below it."""
    n = 1024
    # Tasks beside transfers: four of computing and one AllReduce a server at most.
    assert 2 * 2 * (n // 2) * (n // 2 - 1) + 6 * n < MOST_TASKS < 2 * n * (n - 1)
    splits = tuple(Split(n // ways, 1.0, 2.0, 0, channel_ways=ways) for ways in (1, n // 2, n))
    workload = Workload(
        "slices",
        n,
        (
            Operator("first", "dense", 4 * n, 4, (1000,), (), splits, mixes_channels=True),
            Operator("second", "dense", 4 * n, 4, (1000,), (OperatorInput(0),), splits, mixes_channels=True),
        ),
    )
    cluster, arrays = Cluster(n, 1, 4, 50.0), workload_arrays(Cluster(n, 1, 4, 50.0), workload)
    starts = [Start(str(k), Strategy((Placement(k, 0), Placement(k, 0)))) for k in range(3)]
    assert [too_many_tasks(arrays, start.strategy) for start in starts] == [False, False, True]
    assert promising(cluster, workload, starts) == starts[:2]


def test_hops_of_all_routes() -> None:
    """On one ring of an even n the paths of all pairs have n (n/2)^2 hops; few pairs have few."""
    ring = circulant_topology(LARGE, 2, LinkDirection.BIDIRECTIONAL, (1,))
    hops = LARGE * (LARGE // 2) ** 2
    ways = realising.MOST_HOPS // hops
    assert ways >= 2
    assert not too_long(ring, None, ways)
    assert too_long(ring, None, ways + 1)
    some = np.zeros((LARGE, LARGE), dtype=np.bool_)
    some[0, 10] = True  # ten hops
    assert not too_long(ring, some, realising.MOST_HOPS // 10)
    assert too_long(ring, some, realising.MOST_HOPS // 10 + 1)


def test_on_links_with_long_routes_no_strategies_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best start on them is kept, and a note says so; the plan is whole."""
    monkeypatch.setattr(realising, "MOST_HOPS", 1000)
    cluster, workload = Cluster(LARGE, 2, 4, 50.0), job(LARGE)
    result = run_method("auto", cluster, workload, budget=64, seed=3, stop=Stop())
    assert result.proposals == 0
    assert any("no topology with more than" in note for note in result.notes)
    assert check_plan(cluster, workload, result.plan) == ()
    evaluation = evaluate_plan(CoOptimisation("job", cluster, workload), result.plan)
    assert evaluation.iteration_time_ms == result.iteration_time_ms


def test_routes_of_some_pairs_are_part_of_those_of_all() -> None:
    """With them a job takes as long; not with routes balanced for its own demand."""
    cluster, topology = Cluster(LARGE, 1, 4, 100.0), circulant_topology(LARGE, 4, LinkDirection.BIDIRECTIONAL, (1, 16))
    pairs = np.zeros((LARGE, LARGE), dtype=np.bool_)
    pairs[0, 1:] = True
    group = tuple(range(0, LARGE, 2))
    part, whole = realise(cluster, topology, [group], pairs=pairs), realise(cluster, topology, [group])
    assert extends(whole, part)
    assert not extends(part, whole)
    assert not extends(realise(cluster, topology, []), part)
    (*_, split) = demand_routed(cluster, part, pairs.astype(np.float64))
    assert not extends(whole, split)


def test_fabrics_of_large_clusters_keep_the_best_by_rounds() -> None:
    """A strategy that was found and is a start is tried once; what is kept is as fast as the best of both."""
    cluster, workload = Cluster(LARGE, 2, 4, 50.0), job(LARGE)
    plain = data_parallel(LARGE, workload)
    tried = fabric_job(cluster, workload, [plain])
    assert tried.strategies.count(plain) == 1
    network = FABRICS["ideal-switch"].build(cluster, strided_groups(LARGE), FabricOptions())
    found = search_strategy(tried, network, proposals=0, seed=0, stop=Stop())
    alone = simulate(build_task_graph(cluster, workload, found.strategy), network).iteration_time_ms
    assert found.iteration_time_ms == alone
    assert alone <= simulate(build_task_graph(cluster, workload, plain), network).iteration_time_ms


def test_the_larger_the_cluster_the_less_is_tried() -> None:
    """Every size has a row, of which no column grows; every part of a search tries something, but random graphs of
    thousands of servers, whose paths of all pairs nobody has."""
    assert [row.servers for row in EFFORTS] == sorted({row.servers for row in EFFORTS})
    for small, large in pairwise(EFFORTS):
        assert all(less <= more for less, more in zip(large[1:], small[1:], strict=True))
    assert min(EFFORTS[-1]._replace(annealed=1)) >= 1
    assert effort_for(161) is effort_for(256) is not effort_for(160)
    assert effort_for(2).servers == 20
    assert effort_for(4096) is effort_for(5000) is EFFORTS[-1]


@pytest.mark.parametrize("gbps", [1.0, 50.0])
def test_the_best_strategy_is_that_of_whole_simulations(gbps: float) -> None:
    """Simulations end where the best before them is exceeded; that changes neither the strategy nor its time."""
    cluster, workload = Cluster(12, 2, 4, gbps), job(12)
    tables, ways = (Placement(0, 0), Placement(0, 1)), len(workload.operators[2].splits)
    given = [Strategy((*tables, Placement(way, 0), Placement(way, 0))) for way in range(ways)]
    tried = fabric_job(cluster, workload, given)
    network = FABRICS["fat-tree"].build(cluster, strided_groups(12), FabricOptions())
    times = [
        simulate(build_task_graph(cluster, workload, each), network).iteration_time_ms for each in tried.strategies
    ]
    assert len(set(times)) > 2
    found = search_strategy(tried, network, proposals=0, seed=0, stop=Stop())
    assert (found.iteration_time_ms, found.strategy) == (min(times), tried.strategies[times.index(min(times))])
