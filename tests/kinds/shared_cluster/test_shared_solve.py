"""Simulated clusters against schedules worked out by hand, queueing theory and laws."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.paths import INSTANCES
from tests.support.shared_cases import IDEAL, PARTITIONED, fat_tree, plain_class, shared_cluster
from topoopt.core.cluster import staggered_layer
from topoopt.core.errors import InputError, LimitError
from topoopt.core.job import CoOptimisation
from topoopt.core.proofs import Status
from topoopt.core.result import Result
from topoopt.core.shared_cluster import Contention, DrawnJobs, FabricRun, JobClass, QueueOrder, SharedCluster
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster.methods import SCHEDULING_METHODS

SHIPPED = INSTANCES / "shared"
FORMULAS = ("coinciding", "interleaved")

ONE, TWO, FOUR, SIX, EIGHT = (plain_class(f"c{k}", k) for k in (1, 2, 4, 6, 8))
SIZES = (ONE, TWO, FOUR, SIX, EIGHT)


def solved(problem: SharedCluster, **options: object) -> Result[Any, Any]:
    """The solution, which the checker accepts."""
    solution = solve(problem, SolveOptions(**options))  # type: ignore[arg-type]
    assert solution.check.ok, solution.check.violations
    return solution


def starts(run: FabricRun) -> dict[int, float]:
    """When each job first got servers."""
    found: dict[int, float] = {}
    for job, time in zip(run.stays.job.tolist(), run.stays.held_from_s.tolist(), strict=True):
        found.setdefault(job, time)
    return found


def test_first_come_first_served_by_hand() -> None:
    """Eight servers: 6 for 10 s, then 4 must wait for them, and 2 behind it wait too."""
    solution = solved(shared_cluster([(0, 3, 10), (1, 2, 5), (2, 1, 5)], SIZES))
    assert starts(solution.figures.runs[0]) == {0: 0.0, 1: 10.0, 2: 10.0}
    metrics = solution.figures.metrics[0]
    assert metrics is not None
    assert metrics.makespan_s == pytest.approx(15.0)
    assert metrics.waiting_s.mean == pytest.approx(17 / 3)
    assert metrics.utilisation == pytest.approx((6 * 10 + 4 * 5 + 2 * 5) / (8 * 15))
    # 2 servers are free while a job of 4 waits, from 1 s to 10 s: too few, so none is stranded.
    assert metrics.waiting_free == pytest.approx(2 * 9 / 15)
    assert metrics.stranded == 0.0
    assert metrics.queue_length == pytest.approx((9 + 8) / 15)


def test_backfilling_by_hand() -> None:
    """Any that fits starts at once; with a reservation only what ends before the first one's turn."""
    jobs = [(0.0, 3, 10), (1.0, 4, 5), (2.0, 1, 20), (3.0, 1, 5)]
    any_fits = solved(shared_cluster(jobs, SIZES, queue="backfill")).figures.runs[0]
    assert starts(any_fits) == {0: 0.0, 2: 2.0, 1: 22.0, 3: 10.0}
    reserved = solved(shared_cluster(jobs, SIZES, queue="reserve")).figures.runs[0]
    assert starts(reserved) == {0: 0.0, 3: 3.0, 1: 10.0, 2: 15.0}


def test_fragments_hold_a_job_back() -> None:
    """Two switches of four servers, two free under each: a job of 4 waits though 4 are free."""
    jobs = [(0.0, 1, 100), (0.0, 2, 10), (0.0, 1, 100), (20.0, 2, 10)]
    problem = shared_cluster(jobs, SIZES, ports=4)
    run = solved(problem).figures.runs[0]
    held = {job: run.stays.servers_of(stay).tolist() for stay, job in enumerate(run.stays.job.tolist())}
    assert (held[0], held[1], held[2]) == ([0, 1], [4, 5, 6, 7], [2, 3])
    # Best fit kept the second switch whole.
    assert starts(run)[3] == 20.0
    spread = [(0.0, 2, 10), (0.0, 1, 100), (0.0, 1, 10), (1.0, 1, 100), (20.0, 2, 10)]
    # Group 0 holds j0 until 10 s, group 1 j1 and j2; j3 waits until 10 s and goes where least is left: group 1.
    assert starts(solved(shared_cluster(spread, SIZES, ports=4)).figures.runs[0])[4] == 20.0


def fragmented(**fields: object) -> SharedCluster:
    """Two switches of four: after 10 s each has two free servers, jobs of 2 run on until 1000 s, a job of 4 waits."""
    jobs = [(0.0, 1, 10), (0.0, 1, 1000), (0.0, 1, 10), (0.0, 1, 1000), (20.0, 2, 50)]
    return shared_cluster(jobs, SIZES, ports=4, **fields)  # type: ignore[arg-type]


def test_moving_a_job_makes_room() -> None:
    """The move costs 3 + 2 s of one job and saves a wait of 980 s; the waiting job starts after the checkpoint."""
    still = solved(fragmented(switching_s=2.0, checkpoint_s=3.0))
    assert starts(still.figures.runs[0])[4] == 1002.0
    assert still.figures.metrics[0] is not None
    assert still.figures.metrics[0].stranded == pytest.approx(4 * 982 / 1054)
    solution = solved(fragmented(switching_s=2.0, checkpoint_s=3.0, defragment=True))
    moved, metrics = solution.figures.runs[0], solution.figures.metrics[0]
    assert starts(moved)[4] == 23.0
    assert metrics is not None
    assert metrics.moves == 1
    assert metrics.reconfigurations == 6
    mover = np.flatnonzero(np.bincount(moved.stays.job) == 2)[0]
    own = np.flatnonzero(moved.stays.job == mover)
    # 1000 s of work after 2 s of circuits, a pause of 3 s to save and 2 s for the new circuits.
    assert moved.stays.held_to_s[own[-1]] == pytest.approx(1007.0)
    assert metrics.dark_s == pytest.approx(5 * 2 + 3 + 2)


def test_a_move_that_does_not_pay_is_not_made() -> None:
    """The pause is longer than the wait it saves."""
    metrics = solved(fragmented(switching_s=2.0, checkpoint_s=990.0, defragment=True)).figures.metrics[0]
    assert metrics is not None
    assert metrics.moves == 0


def test_look_ahead_hides_the_switching_time() -> None:
    """A job that waited as long as circuits take starts at once; one that waited less waits for the rest."""
    jobs = [(0.0, 4, 20), (12.0, 4, 10), (13.0, 4, 10)]
    plain = solved(shared_cluster(jobs, SIZES, switching_s=10.0)).figures.runs[0]
    assert plain.stays.work_from_s.tolist() == [10.0, 40.0, 60.0]
    ahead = solved(shared_cluster(jobs, SIZES, switching_s=10.0, look_ahead=True)).figures.runs[0]
    # j1 is wired from 12 s on and starts when j0 ends at 30 s. The plane of j0 is free from then on, so j2 is ready at
    # 40 s, when j1 ends.
    assert ahead.stays.work_from_s.tolist() == [10.0, 30.0, 40.0]
    short = solved(
        shared_cluster([(0.0, 4, 20), (25.0, 4, 10)], SIZES, switching_s=10.0, look_ahead=True)
    ).figures.runs[0]
    assert short.stays.work_from_s.tolist() == [10.0, 35.0]


SENDING = JobClass("sending", 4, (100.0,), 60.0, allreduce_bytes=2e9)
"""2 GB at 400 Gbit/s: 40 ms, after 60 ms of compute."""


def test_a_job_alone_takes_its_time_everywhere() -> None:
    """On a fabric of the same rate without contention of its own."""
    fabrics = (PARTITIONED, IDEAL, fat_tree(), fat_tree("at aggregation", ratio=2.0, oversubscribed_at="aggregation"))
    for metrics in solved(shared_cluster([(0.0, 0, 50)], [SENDING], fabrics=fabrics)).figures.metrics:
        assert metrics is not None
        assert metrics.iteration_ms.mean == pytest.approx(100.0)


def test_a_ring_leaves_each_rack_at_full_rate() -> None:
    """Racks of 2 thinned 2:1 carry 400 Gbit/s, which is what the one flow of a packed ring out of each needs."""
    classes = [replace(SENDING, servers=8)]
    fabrics = (fat_tree(ratio=2.0),)
    problem = shared_cluster([(0.0, 0, 30)], classes, servers=16, fabrics=fabrics, goal="mean-iteration-time")
    assert solved(problem).objective.value == pytest.approx(100.0)


def interleaved_racks(iterations: int, contention: Contention) -> FabricRun:
    """Two jobs with one server each in all 8 racks of 2, thinned 2:1, from 10 s on."""
    filler, pair = plain_class("filler", 1), replace(SENDING, servers=8)
    jobs = [(0.0, 0, 10 if server % 2 else 5) for server in range(16)]
    jobs += [(5.0, 1, 1000), (10.0, 1, iterations)]
    problem = shared_cluster(jobs, [filler, pair], servers=16, fabrics=(fat_tree(ratio=2.0),))
    return solved(replace(problem, contention=contention)).figures.runs[0]


def test_two_equal_jobs_on_one_bottleneck() -> None:
    """400 Gbit/s out of each rack for two flows: 2 GB take 80 ms instead of 40, so 140 ms an iteration."""
    run = interleaved_racks(100, "coinciding")
    second = int(np.flatnonzero(run.stays.job == 17)[0])
    assert run.stays.held_to_s[second] - run.stays.held_from_s[second] == pytest.approx(14.0)
    # The first: 5 s alone, 14 s together (100 iterations), the rest alone.
    first = int(np.flatnonzero(run.stays.job == 16)[0])
    assert run.stays.held_to_s[first] == pytest.approx(5.0 + 5.0 + 14.0 + (1000 - 50 - 100) * 0.1)


def test_interleaved_jobs_fit_beside_each_other() -> None:
    """Each needs 16 Gbit in 100 ms, 160 Gbit/s on average; two make 320 of 400, so neither is slowed down."""
    run = interleaved_racks(100, "interleaved")
    second = int(np.flatnonzero(run.stays.job == 17)[0])
    assert run.stays.held_to_s[second] - run.stays.held_from_s[second] == pytest.approx(10.0)


def test_spread_shards_reach_over_borders() -> None:
    """Jobs of two interfaces under switches shifted from plane to plane: six servers with two planes in common.

    Servers 0 to 15, four planes of two switches of 8, each plane shifted by 2. Groups that share all switches are
    pairs, so a job of 6 that used every interface had no place; with two interfaces one starts at once, and a second
    one next to it.
    """
    classes = [replace(SIX, interfaces=2)]
    fabrics = (replace(PARTITIONED, placement="spread"),)
    problem = shared_cluster([(0.0, 0, 5), (0.0, 0, 5)], classes, servers=16, fabrics=fabrics)
    problem = replace(problem, layer=staggered_layer(16, 4, 8, 0.0))
    run = solved(problem).figures.runs[0]
    assert starts(run) == {0: 0.0, 1: 0.0}
    for stay in range(2):
        switches = problem.layer.switch_of[:, run.stays.servers_of(stay)]
        assert sum(len(set(row.tolist())) == 1 for row in switches) >= 2
    with pytest.raises(InputError, match="not moved"):
        solve(problem, SolveOptions(method="fifo-defragment"))


@settings(max_examples=25)
@given(st.integers(0, 2**31), st.sampled_from(get_args(QueueOrder)), st.booleans())
def test_random_clusters_pass_the_check(seed: int, queue: QueueOrder, defragment: bool) -> None:
    """Whatever arrives, every fabric's run keeps the laws, and the bound holds."""
    rng = np.random.default_rng(seed)
    classes = [
        JobClass(
            f"c{k}",
            k,
            tuple(rng.uniform(40, 200, 2)),
            10.0,
            *((0.0, 0.0) if k == 1 else rng.uniform(0, 1e9, 2).tolist()),
        )
        for k in (1, 2, 3, 5, 8)
    ]
    arrivals = np.sort(rng.uniform(0, 20, 25)).round(2)
    jobs = [(float(t), int(rng.integers(5)), int(rng.integers(1, 60))) for t in arrivals]
    fabrics = [
        PARTITIONED,
        fat_tree(gbps=200.0),
        fat_tree("thin", ratio=4.0, paths="hashed", placement="random"),
        IDEAL,
    ]
    problem = shared_cluster(
        jobs,
        classes,
        servers=17,
        ports=9,
        switching_s=float(rng.choice([0.0, 0.5])),
        look_ahead=bool(rng.integers(2)),
        fabrics=fabrics,
        queue=queue,
        defragment=defragment,
    )
    problem = replace(problem, contention=FORMULAS[int(rng.integers(2))])
    solution = solved(problem)
    assert solution.objective.value >= solution.bound.value * (1 - 1e-9)
    assert all(run.whole for run in solution.figures.runs)


@settings(max_examples=25)
@given(
    st.integers(0, 2**31),
    st.sampled_from(FORMULAS),
    st.sampled_from(["even", "hashed"]),
)
def test_an_ideal_switch_is_never_slower(seed: int, contention: Contention, paths: str) -> None:
    """Jobs that all run at once end no later on it than on a fat-tree of the same rate."""
    rng = np.random.default_rng(seed)
    classes = [JobClass(f"c{k}", k, (100.0,), 40.0, *rng.uniform(0, 2.5e9, 2).tolist()) for k in (2, 3, 5, 6)]
    fabrics = [IDEAL, fat_tree(ratio=float(rng.uniform(1, 6)), paths=paths, placement="random")]
    jobs = [(0.0, c, int(rng.integers(1, 40))) for c in range(4)]
    problem = replace(shared_cluster(jobs, classes, servers=16, fabrics=fabrics), contention=contention)
    ideal, tree = solved(problem, seed=seed).figures.runs
    assert (
        ideal.stays.held_to_s[np.argsort(ideal.stays.job)] <= tree.stays.held_to_s[np.argsort(tree.stays.job)] + 1e-9
    ).all()


def test_a_class_is_planned_first() -> None:
    """Its co-optimisation is solved, and the jobs take the time of the plan."""
    plan = read_instance(SHIPPED.parent / "tiny-4.yaml")
    assert isinstance(plan, CoOptimisation)
    blank = JobClass("tiny", 4, (1.0,), iterations=10, plan=plan)
    problem = shared_cluster([(0.0, 0, 10)], [blank])
    cluster = replace(problem.cluster, degree=plan.cluster.degree, link_gbps=plan.cluster.link_gbps)
    problem = replace(problem, cluster=cluster)
    problem = replace(problem, layer=staggered_layer(8, plan.cluster.degree, 8, 0.0), goal="mean-iteration-time")
    solution = solved(problem)
    assert solution.objective.value == pytest.approx(solve(plan, SolveOptions(objective_only=True)).objective.value)
    assert solution.figures.classes[0].compute_ms <= solution.figures.classes[0].iteration_ms[0]


def test_infinite_rates_make_fabrics_equal() -> None:
    """Nothing is slower than its compute; the same servers, the same order, the same times."""
    classes = [replace(SENDING, iteration_ms=(60.0,)), replace(SENDING, name="b", servers=3, iteration_ms=(60.0,))]
    classes = [replace(one, allreduce_bytes=1.0) for one in classes]
    fabrics = [replace(one, server_gbps=1e6) for one in (IDEAL, fat_tree(), fat_tree("thin", ratio=3.0))]
    jobs = [(0.1 * j, j % 2, 20 + j) for j in range(12)]
    runs = solved(shared_cluster(jobs, classes, fabrics=[PARTITIONED, *fabrics])).figures.runs
    for run in runs[1:]:
        np.testing.assert_allclose(run.stays.held_to_s, runs[0].stays.held_to_s, rtol=1e-6)


def test_one_server_queue_as_pollaczek_and_khinchin_say() -> None:
    """Jobs of all servers and one length, Poisson arrivals at load 0.6: mean wait 0.6 S / (2 (1 - 0.6))."""
    problem = shared_cluster([], [replace(EIGHT, duration_s=100.0)])
    problem = replace(problem, jobs=DrawnJobs(20_000, ((0, 1.0),), load=0.6))
    metrics = solved(problem, seed=1).figures.metrics[0]
    assert metrics is not None
    assert metrics.waiting_s.mean == pytest.approx(75.0, rel=0.05)
    assert metrics.utilisation == pytest.approx(0.6, rel=0.02)


def test_many_server_queue_as_erlang_says() -> None:
    """Jobs of a quarter of the servers, exponential lengths, load 0.8: Erlang's formula for four servers."""
    problem = shared_cluster([], [replace(TWO, duration_s=100.0)])
    problem = replace(problem, jobs=DrawnJobs(40_000, ((0, 1.0),), load=0.8, spread="exponential"))
    offered = 3.2
    top = offered**4 / math.factorial(4) / (1 - 0.8)
    waits = top / (sum(offered**k / math.factorial(k) for k in range(4)) + top)
    means = [
        metrics.waiting_s.mean
        for seed in range(1, 5)
        for metrics in solved(problem, seed=seed).figures.metrics[:1]
        if metrics
    ]
    assert np.mean(means) == pytest.approx(waits * 100.0 / (4 * 0.2), rel=0.05)


def test_the_published_mix_gives_the_published_figures() -> None:
    """Mean iteration times of 60 to 71 ms and a tail of 131.5 ms come out on 432 servers, as in the figure."""
    problem = read_instance(SHIPPED / "published-mix-432.yaml")
    assert isinstance(problem, SharedCluster)
    problem = replace(problem, fabrics=problem.fabrics[:1])
    means = []
    for seed in range(20):
        metrics = solved(problem, seed=seed).figures.metrics[0]
        assert metrics is not None
        means.append(metrics.iteration_ms.mean)
        assert metrics.iteration_ms.p99 == pytest.approx(131.546)
    # 0.35 * 19.0 + 0.4225 * 62.644 + 0.20475 * 131.546 + 0.02275 * 100.559
    assert np.mean(means) == pytest.approx(62.3, abs=6.0)


def test_every_method_passes_the_check() -> None:
    """All ways of scheduling, and `best` is as good as any."""
    problem = read_instance(SHIPPED / "trace-16.yaml")
    assert isinstance(problem, SharedCluster)
    found = {method: solved(problem, method=method).objective.value for method in SCHEDULING_METHODS}
    assert found["best"] == min(found.values())
    assert found["fifo-defragment"] < found["fifo"]


def test_same_seed_same_jobs_and_servers() -> None:
    """Draws of jobs, servers and paths hang on the seed alone."""
    problem = shared_cluster([], [replace(TWO, duration_s=10.0)], fabrics=(replace(IDEAL, placement="random"),))
    problem = replace(problem, jobs=DrawnJobs(50, ((0, 1.0),), load=0.7))
    one, again, other = (solved(problem, seed=seed).figures for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.runs[0].stays.servers, again.runs[0].stays.servers)
    np.testing.assert_array_equal(one.jobs.arrival_s, again.jobs.arrival_s)
    assert not np.array_equal(one.jobs.arrival_s, other.jobs.arrival_s)


def test_no_time_no_solution() -> None:
    """A limit of 0 is an error; an unknown method another."""
    problem = shared_cluster([(0.0, 0, 1)], SIZES)
    with pytest.raises(LimitError):
        solve(problem, SolveOptions(time_limit_s=0.0))
    with pytest.raises(InputError, match="unknown method"):
        solve(problem, SolveOptions(method="lottery"))


def test_times_in_which_nothing_can_be_sent() -> None:
    """5 GB at 400 Gbit/s take 100 ms; 99 ms are refused, also on a fabric whose rate is found by its cost."""
    one = JobClass("fast", 4, (99.0,), 40.0, allreduce_bytes=5e9)
    with pytest.raises(InputError, match=r"iteration_ms.*at least 100"):
        solve(shared_cluster([(0.0, 0, 1)], [one]))
    tree = replace(fat_tree(), server_gbps=None)
    slow = replace(one, iteration_ms=(100.0,), fabric_ms=(("tree", 100.0),))
    with pytest.raises(InputError, match=r"fabric_ms.tree"):
        solve(shared_cluster([(0.0, 0, 1)], [slow], fabrics=(PARTITIONED, tree)))


def test_an_uncontended_mean_is_proven_optimal() -> None:
    """Every job of a partition is as fast as alone, which no schedule beats."""
    problem = shared_cluster([(0.0, 2, 3), (0.0, 1, 4)], SIZES, goal="mean-iteration-time")
    assert solved(problem).status is Status.OPTIMAL
