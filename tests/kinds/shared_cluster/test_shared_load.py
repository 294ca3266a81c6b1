"""The experiment: published figures, draws, statistics, what is kept when it ends early, what the checker rejects."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import shared_load_cases as cases
from topoopt.core.errors import InputError, LimitError
from topoopt.core.shared_load import SHARDS
from topoopt.core.shared_load_solution import ClassPlan, SharedLoadSolution, Together
from topoopt.core.verdict import Status, StopReason
from topoopt.kinds.shared_cluster.flows_draw import draw_jobs
from topoopt.kinds.shared_cluster.flows_plans import fabric_options
from topoopt.kinds.shared_cluster.flows_report import render_shared_load
from topoopt.kinds.shared_cluster.flows_solution_file import (
    read_shared_load_solution,
    statistics_csv,
    write_shared_load_solution,
)
from topoopt.kinds.shared_cluster.flows_solve import solve_shared_load
from topoopt.kinds.shared_cluster.flows_statistics import load_statistics, percentile
from topoopt.simulate.cluster.together import PlacedJob, simulate_together
from topoopt.simulate.fabrics import FABRICS
from topoopt.simulate.lower import build_task_graph
from topoopt.verify.shared_cluster.shared_load import check_shared_load

FIG16 = Path("../shared/data/flexnet/fig16")
PUBLISHED_MEANS = {5: 64.41, 10: 70.63, 15: 63.13, 20: 61.43, 27: 60.41}
"""ms at d = 8."""


@pytest.mark.parametrize("load", PUBLISHED_MEANS)
def test_statistics_of_the_published_runs(load: int) -> None:
    """Mean and 99th percentile of the published files are those published: 131.546 ms everywhere."""
    file = FIG16 / f"100_topo_d8_{load}jobs.csv"
    if not file.exists():
        pytest.skip(f"shared data absent: {file}")
    times = tuple(int(line) / 1e9 for line in file.read_text().split())
    run = Together(len(times), 0, (0,) * len(times), ((),) * len(times), (times,))
    plans = [ClassPlan("shards", "any", 1.0, 1.0, "given", None)]
    (row,) = load_statistics(["shards"], ["any"], plans, [run])
    assert row.mean_ms == pytest.approx(PUBLISHED_MEANS[load], abs=0.005)
    assert row.p99_ms == pytest.approx(131.546, abs=5e-4)
    assert row.p90_ms <= row.p95_ms <= row.p99_ms


def test_percentiles_take_the_element_at_the_floor() -> None:
    """Element floor(q N): of 10 values the 9th from 0 at q = 0.9, of 200 the 198th at 0.99, the only one of one."""
    assert percentile([float(v) for v in range(10)], 90) == 9.0
    assert percentile([float(v) for v in range(200)][::-1], 99) == 198.0
    assert percentile([7.0], 99) == 7.0


@pytest.mark.parametrize(
    ("shares", "low", "high"),
    [(None, 60.0, 71.0), ({"dlrm": 40, "bert": 30, "candle": 20, "vgg": 10}, 60.0, 71.0)],
    ids=["sampled mix", "nominal mix"],
)
def test_published_mix_and_times_give_the_published_means(
    shares: dict[str, float] | None, low: float, high: float
) -> None:
    """Dedicated times drawn by the job mix: means of 60 to 71 ms at every load, near the expectation; p99 131.5 ms."""
    problem = cases.read(cases.published(shares))
    solution = solve_shared_load(problem)
    expected = sum(one.share * sum(one.times_ms) / len(one.times_ms) for one in problem.classes)
    assert solution.check.ok
    assert [row.load for row in solution.statistics] == [5, 10, 15, 20, 27]
    for row in solution.statistics:
        deviation = 43.0 / row.jobs**0.5  # of one job: less than 43 ms
        assert low < row.mean_ms < high
        assert abs(row.mean_ms - expected) < 4 * deviation
        assert row.p99_ms == 131.546
    assert shares or expected == pytest.approx(62.3, abs=0.1)


def test_classes_come_by_their_shares() -> None:
    """Over many draws each class has its share, within four standard deviations."""
    problem = cases.read(cases.published())
    drawn = [index for repetition in range(400) for index in draw_jobs(problem, 27, repetition, 5).classes]
    for index, one in enumerate(problem.classes):
        deviation = (one.share * (1 - one.share) / len(drawn)) ** 0.5
        assert drawn.count(index) / len(drawn) == pytest.approx(one.share, abs=4 * deviation)


def test_draws_depend_on_seed_load_and_repetition_alone() -> None:
    """Another list of loads leaves a draw as it is; another seed does not."""
    few, many = cases.read(cases.published(loads=[5])), cases.read(cases.published())
    assert draw_jobs(few, 5, 3, 0) == draw_jobs(many, 5, 3, 0)
    assert draw_jobs(few, 5, 3, 0) != draw_jobs(many, 5, 3, 1)
    assert draw_jobs(few, 5, 3, 0).servers != draw_jobs(many, 5, 4, 0).servers


@pytest.mark.parametrize("order", ["random", "sorted"])
def test_rack_local_jobs_stand_in_few_racks(order: str) -> None:
    """Racks of 6: 16 consecutive servers touch 4 racks at most; all servers differ."""
    problem = cases.read(cases.published(placement="rack-local", rank_order=order))
    draw = draw_jobs(problem, 27, 0, 0)
    assert problem.rack_servers == 6
    assert sorted(server for own in draw.servers for server in own) == list(range(432))
    assert all(len({server // 6 for server in own}) <= 4 for own in draw.servers)
    if order == "sorted":
        assert all(list(own) == sorted(own) for own in draw.servers)


def test_the_small_experiment_is_right() -> None:
    """Checked; every shard takes its time alone; every shared time is what a simulation of the draw gives."""
    problem, solution = cases.solved()
    assert solution.check.ok
    assert solution.status is Status.FEASIBLE
    assert len(solution.runs) == 4
    assert solution.objective.value >= solution.bound.value
    alone = {(plan.fabric, plan.job_class): plan for plan in solution.plans}
    for run in solution.runs:
        names = [problem.classes[index].name for index in run.classes]
        assert run.times_ms[0] == tuple(alone[SHARDS, name].alone_ms for name in names)
        for place, choice in enumerate(problem.fabrics[1:], 1):
            jobs = []
            for index, servers in zip(run.classes, run.servers, strict=True):
                job, strategy = problem.classes[index].job, alone[choice.name, problem.classes[index].name].strategy
                assert job is not None
                assert strategy is not None
                jobs.append(PlacedJob(build_task_graph(job.cluster, job.workload, strategy), servers))
            draw = draw_jobs(problem, run.load, run.repetition, 1)
            options = fabric_options(choice, draw.routes_seed)
            times = simulate_together(jobs, problem.cluster, FABRICS[choice.fabric].build, options, "fluid")
            assert run.times_ms[place] == tuple(times.tolist())


def test_the_cluster_speaks_for_the_interfaces_of_the_classes() -> None:
    """Degree and rate of the instances of the classes give way to those of the cluster."""
    problem, _ = cases.solved()
    for one in problem.classes:
        assert one.job is not None
        assert (one.job.cluster.degree, one.job.cluster.link_gbps, one.job.cluster.servers) == (2, 100.0, 4)


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    """A second run writes the same solution, statistics and report; the file read back writes itself again."""
    problem, solution = cases.solved()
    again = solve_shared_load(problem)
    texts = []
    for number, each in enumerate((solution, again)):
        write_shared_load_solution(each, tmp_path / f"{number}.json")
        texts.append((tmp_path / f"{number}.json").read_bytes())
    assert texts[0] == texts[1]
    assert render_shared_load(solution) == render_shared_load(again)
    back = read_shared_load_solution(tmp_path / "0.json")
    assert back == solution
    assert statistics_csv(back).count("\n") == 1 + 2 * 4


def test_the_rounds_model_runs_too() -> None:
    """First come, first served: checked like the fluid one."""
    solution = solve_shared_load(cases.read(cases.instance(time_model="rounds", loads=[3], repetitions=1)))
    assert solution.check.ok
    assert solution.time_model == "rounds"


def test_ctrl_c_keeps_the_draws_done() -> None:
    """Interrupted while the second draw begins: that one is not kept, the first is, checked."""
    problem = cases.read(cases.instance())

    def progress(what: str, done: int, total: int) -> None:
        assert total == 2 * 4 + 4
        if what == "4 jobs, draw 1 of 2":
            signal.raise_signal(signal.SIGINT)

    solution = solve_shared_load(problem, progress=progress)
    assert solution.stopped_by is StopReason.INTERRUPTED
    assert [(run.load, run.repetition) for run in solution.runs] == [(1, 0)]
    assert solution.check.ok


def test_ctrl_c_while_planning_leaves_nothing() -> None:
    """Before the first draw there is nothing to keep."""

    def progress(what: str, done: int, total: int) -> None:
        if done == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        solve_shared_load(cases.read(cases.instance()), progress=progress)


def test_no_time_at_all_is_a_limit() -> None:
    """A time limit of 0 ends before the first draw."""
    with pytest.raises(LimitError, match="before any jobs"):
        solve_shared_load(cases.read(cases.instance()), time_limit_s=0.0)


def test_refuses_what_does_not_exist() -> None:
    """Fabric, method and time model are all named at once."""
    problem = cases.read(cases.instance(time_model="guess", fabrics=[{"fabric": "token-ring"}]))
    with pytest.raises(InputError) as refusal:
        solve_shared_load(problem, method="magic")
    assert [each.path for each in refusal.value.problems] == ["fabrics[0].fabric", "search.method", "time_model"]


def test_refuses_classes_that_cannot_run_together() -> None:
    """A job that would begin again a million times during one iteration of another."""
    problem = cases.read(cases.instance(loads=[2], repetitions=1))
    long = problem.classes[1]
    assert long.job is not None
    operators = tuple(
        replace(one, splits=tuple(replace(s, forward_ms=1e6, backward_ms=1e6) for s in one.splits))
        for one in long.job.workload.operators
    )
    slow = replace(long, job=replace(long.job, workload=replace(long.job.workload, operators=operators)))
    with pytest.raises(InputError, match="too uneven"):
        solve_shared_load(replace(problem, classes=(problem.classes[0], slow)))


def changed_run(solution: SharedLoadSolution, **changes: Any) -> SharedLoadSolution:
    """With other fields in the second draw, that of four jobs."""
    runs = list(solution.runs)
    runs[1] = replace(runs[1], **changes)
    return replace(solution, runs=tuple(runs))


def changed_plan(solution: SharedLoadSolution, **changes: Any) -> SharedLoadSolution:
    """With other fields in the plan of the first class on the first fabric."""
    return replace(solution, plans=(replace(solution.plans[0], **changes), *solution.plans[1:]))


def time_set(solution: SharedLoadSolution, place: int, value: float) -> SharedLoadSolution:
    """With another time of the first job of four on a fabric."""
    times = list(solution.runs[1].times_ms)
    times[place] = (value, *times[place][1:])
    return changed_run(solution, times_ms=tuple(times))


BROKEN: dict[str, tuple[Callable[[SharedLoadSolution], SharedLoadSolution], str]] = {
    "other instance": (lambda s: replace(s, instance_sha256="0"), "identity"),
    "other fabric": (lambda s: replace(s, fabrics=s.fabrics[::-1]), "identity"),
    "plan missing": (lambda s: replace(s, plans=s.plans[1:]), "plans"),
    "faster than the bound": (lambda s: changed_plan(s, alone_ms=0.001), "plan-bound"),
    "bound made up": (lambda s: changed_plan(s, bound_ms=0.0), "plan-bound"),
    "no strategy": (lambda s: changed_plan(s, strategy=None), "plan-strategy"),
    "server twice": (lambda s: changed_run(s, servers=(s.runs[1].servers[1], *s.runs[1].servers[1:])), "run-servers"),
    "server missing": (lambda s: changed_run(s, servers=((0, 1, 2), *s.runs[1].servers[1:])), "run-servers"),
    "server unknown": (lambda s: changed_run(s, servers=((16, 17, 18, 19), *s.runs[1].servers[1:])), "run-servers"),
    "draw twice": (lambda s: replace(s, runs=(*s.runs, s.runs[0])), "run-twice"),
    "load not asked for": (lambda s: changed_run(s, repetition=7), "run-load"),
    "class unknown": (lambda s: changed_run(s, classes=(5, 0, 0, 0)), "run-classes"),
    "times missing": (lambda s: changed_run(s, times_ms=s.runs[1].times_ms[:2]), "run-times"),
    "shard slowed": (lambda s: time_set(s, 0, s.runs[1].times_ms[0][0] * 1.5), "time-alone"),
    "switch slowed": (lambda s: time_set(s, 3, s.runs[1].times_ms[3][0] * 1.5), "time-alone"),
    "tree too fast": (lambda s: time_set(s, 1, 0.001), "time-bound"),
    "mean made up": (lambda s: replace(s, statistics=(replace(s.statistics[0], mean_ms=1.0),)), "statistics"),
    "tail made up": (
        lambda s: replace(s, statistics=(*s.statistics[:-1], replace(s.statistics[-1], p99_ms=1.0))),
        "statistics",
    ),
    "objective made up": (lambda s: replace(s, objective=replace(s.objective, value=1.0)), "objective"),
    "bound of all made up": (lambda s: replace(s, bound=replace(s.bound, value=1.0)), "bound"),
    "time that is none": (lambda s: time_set(s, 1, float("nan")), "time-bound"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_checker_rejects(name: str) -> None:
    """Every way to break a result has its violation."""
    change, code = BROKEN[name]
    problem, solution = cases.solved()
    assert code in {violation.code for violation in check_shared_load(problem, change(solution))}


def test_the_checker_accepts_a_subset_of_the_draws() -> None:
    """Fewer draws than asked for are right when the statistics are theirs."""
    problem, solution = cases.solved()
    assert check_shared_load(problem, solution) == ()
    assert np.isfinite(solution.gap)
