"""The experiment: published figures, draws, statistics, what is kept when it ends early, what the checker rejects."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import at_once_cases as cases
from topoopt.core.cluster import LinkSharing
from topoopt.core.errors import InputError, LimitError
from topoopt.core.proofs import Status, StopReason
from topoopt.core.result import Decides, Objective, Result
from topoopt.core.shared_cluster import FabricSchedule, JobsAtOnce, SharedCluster
from topoopt.core.workload import Placement, Strategy
from topoopt.kinds import kind_of
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.kinds.shared_cluster import SOLUTION_FILE
from topoopt.kinds.shared_cluster.figures import (
    ClassTime,
    DrawnRun,
    FlowTimes,
    LoadStatistics,
    fabric_options,
    load_objective,
    load_statistics,
    tail_of,
)
from topoopt.kinds.shared_cluster.page import statistics_table
from topoopt.simulate.cluster_rates import simulate_together
from topoopt.simulate.fabrics import FABRICS
from topoopt.simulate.network import build_task_graph
from topoopt.verify.checker import FULL, CheckDepth
from topoopt.workloads import cluster_draws as jobs_at_once
from topoopt.workloads.cluster_draws import Draw

SHARDS = "direct-connect"


def at_once(problem: SharedCluster) -> JobsAtOnce:
    """The jobs of a problem."""
    assert problem.at_once is not None
    return problem.at_once


def draw_jobs(problem: SharedCluster, load: int, repetition: int, seed: int) -> Draw:
    """A draw of the jobs of a problem."""
    return jobs_at_once.draw_jobs(at_once(problem), problem.classes, problem.servers, load, repetition, seed)


FIG16 = Path("../shared/data/flexnet/fig16")
PUBLISHED_MEANS = {5: 64.41, 10: 70.63, 15: 63.13, 20: 61.43, 27: 60.41}
"""ms at d = 8 (TopoOpt, NSDI'23, Fig 16)."""


@pytest.mark.parametrize("load", PUBLISHED_MEANS)
def test_statistics_of_the_published_runs(load: int) -> None:
    """Mean and 99th percentile of the published files are those of the figure: 131.546 ms everywhere."""
    file = FIG16 / f"100_topo_d8_{load}jobs.csv"
    if not file.exists():
        pytest.skip(f"shared data absent: {file}")
    times = tuple(int(line) / 1e9 for line in file.read_text().split())
    run = DrawnRun(len(times), 0, (0,) * len(times), ((),) * len(times), (times,))
    (row,) = load_statistics(["shards"], ["any"], [ClassTime("shards", "any", 1.0)], [run])
    times = row.iteration_ms
    assert times.mean == pytest.approx(PUBLISHED_MEANS[load], abs=0.005)
    assert times.p99 == pytest.approx(131.546, abs=5e-4)
    assert times.p90 <= times.p95 <= times.p99


def test_percentiles_take_the_element_at_the_floor() -> None:
    """Element floor(q N): of 10 values the 9th from 0 at q = 0.9, of 200 the 198th at 0.99, the only one of one."""
    assert tail_of(np.arange(10.0)).p90 == 9.0
    assert tail_of(np.arange(200.0)[::-1]).p99 == 198.0
    assert tail_of(np.array([7.0])).p99 == 7.0


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
    solution = solve(problem)
    weights = dict(at_once(problem).mix)
    means = [sum(one.iteration_ms) / len(one.iteration_ms) for one in problem.classes]
    expected = sum(weights[index] * mean for index, mean in enumerate(means)) / sum(weights.values())
    assert solution.check.ok
    assert [row.load for row in solution.figures.statistics] == [5, 10, 15, 20, 27]
    for row in solution.figures.statistics:
        deviation = 43.0 / row.jobs**0.5  # of one job: less than 43 ms
        assert low < row.iteration_ms.mean < high
        assert abs(row.iteration_ms.mean - expected) < 4 * deviation
        assert row.iteration_ms.p99 == 131.546
    assert shares or expected == pytest.approx(62.3, abs=0.1)  # of the published sampling


def test_classes_come_by_their_shares() -> None:
    """Over many draws each class has its share, within four standard deviations."""
    problem = cases.read(cases.published())
    drawn = [index for repetition in range(400) for index in draw_jobs(problem, 27, repetition, 5)[0]]
    mix = dict(at_once(problem).mix)
    for index, weight in mix.items():
        share = weight / sum(mix.values())
        deviation = (share * (1 - share) / len(drawn)) ** 0.5
        assert drawn.count(index) / len(drawn) == pytest.approx(share, abs=4 * deviation)


def test_draws_depend_on_seed_load_and_repetition_alone() -> None:
    """Another list of loads leaves a draw as it is; another seed does not."""
    few, many = cases.read(cases.published(jobs={"at_once": [5]})), cases.read(cases.published())
    assert draw_jobs(few, 5, 3, 0) == draw_jobs(many, 5, 3, 0)
    assert draw_jobs(few, 5, 3, 0) != draw_jobs(many, 5, 3, 1)
    assert draw_jobs(few, 5, 3, 0)[1] != draw_jobs(many, 5, 4, 0)[1]


@pytest.mark.parametrize("order", ["random", "sorted"])
def test_rack_local_jobs_stand_in_few_racks(order: str) -> None:
    """Racks of 6: 16 consecutive servers touch 4 racks at most; all servers differ."""
    problem = cases.read(cases.published(jobs={"placement": "rack-local", "rank_order": order}))
    draw = draw_jobs(problem, 27, 0, 0)
    assert at_once(problem).rack_servers == 6
    assert sorted(server for own in draw[1] for server in own) == list(range(432))
    assert all(len({server // 6 for server in own}) <= 4 for own in draw[1])
    if order == "sorted":
        assert all(list(own) == sorted(own) for own in draw[1])


def test_the_small_experiment_is_right() -> None:
    """Checked; every shard takes its time alone; every shared time is what a simulation of the draw gives."""
    problem, solution = cases.solved()
    assert solution.check.ok
    assert solution.status is Status.FEASIBLE
    assert len(solution.figures.draws) == 4
    assert solution.objective.value >= solution.bound.value
    figures = solution.figures
    alone = {(row.fabric, row.job_class): row.alone_ms for row in figures.alone}
    times = FlowTimes(problem, solution.plan.classes)
    for run in figures.draws:
        names = [problem.classes[index].name for index in run.classes]
        assert run.times_ms[0] == tuple(alone[SHARDS, name] for name in names)
        for place, fabric in enumerate(problem.fabrics[1:], 1):
            jobs = []
            for index, servers in zip(run.classes, run.servers, strict=True):
                job = problem.classes[index].plan
                assert job is not None
                strategy = times.strategy(index, place)
                jobs.append((build_task_graph(job.cluster, job.workload, strategy), servers))
            draw = draw_jobs(problem, run.load, run.repetition, 1)
            options = fabric_options(fabric, draw[3])
            expected = simulate_together(jobs, problem.cluster, FABRICS[fabric.kind].build, options, "fluid")
            assert run.times_ms[place] == tuple(expected.tolist())


def test_the_cluster_speaks_for_the_interfaces_of_the_classes() -> None:
    """Degree and rate of the instances of the classes give way to those of the cluster."""
    problem, _ = cases.solved()
    for one in problem.classes:
        assert one.plan is not None
        assert (one.plan.cluster.degree, one.plan.cluster.link_gbps, one.plan.cluster.servers) == (2, 100.0, 4)


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    """A second run writes the same solution, statistics and report; the file read back writes itself again."""
    problem, solution = cases.solved()
    again = solve(problem)
    texts = []
    for number, each in enumerate((solution, again)):
        SOLUTION_FILE.write(each, tmp_path / f"{number}.json")
        texts.append((tmp_path / f"{number}.json").read_bytes())
    assert texts[0] == texts[1]
    assert kind_of(solution).pages().report(solution) == kind_of(again).pages().report(again)
    back = replace(SOLUTION_FILE.read(tmp_path / "0.json"), problem=problem)
    SOLUTION_FILE.write(back, tmp_path / "2.json")
    assert (tmp_path / "2.json").read_bytes() == texts[0]
    for name in ("alone", "draws", "statistics", "objective"):  # simulated anew
        assert getattr(back.figures, name) == getattr(solution.figures, name)
    table = statistics_table(back)
    assert table is not None
    assert table[1].count("\n") == 1 + 2 * 4


def test_the_rounds_model_runs_too() -> None:
    """First come, first served: checked like the fluid one."""
    solution = solve(cases.read(cases.instance({"at_once": [3], "repetitions": 1}, time_model="rounds")))
    assert solution.check.ok
    assert not solution.check.not_recomputed


def test_ctrl_c_keeps_the_draws_done() -> None:
    """Interrupted while the second draw begins: that one is not kept, the first is, checked."""
    problem = cases.read(cases.instance())

    def progress(what: str, done: int, total: int) -> None:
        assert total == 2 * 4 + 4 or what in ("evaluation", "check")
        if what == "4 jobs, draw 1 of 2":
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.3)  # the main thread hears of it

    solution = solve(problem, SolveOptions(progress=progress))
    assert solution.stopped_by is StopReason.INTERRUPTED
    assert [(run.load, run.repetition) for run in solution.figures.draws] == [(1, 0)]
    assert solution.check.ok


def test_ctrl_c_while_planning_leaves_nothing() -> None:
    """Before the first draw there is nothing to keep."""

    def progress(what: str, done: int, total: int) -> None:
        if done == 1:
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.3)  # the main thread hears of it

    with pytest.raises(KeyboardInterrupt):
        solve(cases.read(cases.instance()), SolveOptions(progress=progress))


def test_no_time_at_all_is_a_limit() -> None:
    """A time limit of 0 ends before the first draw."""
    with pytest.raises(LimitError, match="before any"):
        solve(cases.read(cases.instance()), SolveOptions(time_limit_s=0.0))


def test_refuses_what_does_not_exist() -> None:
    """Fabric, method and time model are all named at once."""
    problem = cases.read(cases.instance(time_model="guess", fabrics=[{"kind": "token-ring"}]))
    with pytest.raises(InputError) as refusal:
        solve(problem, SolveOptions(method="magic"))
    assert {each.path for each in refusal.value.problems} == {"fabrics[0].kind", "search.method", "time_model"}


def test_refuses_classes_that_cannot_run_together() -> None:
    """A job that would begin again a million times during one iteration of another."""
    problem = cases.read(cases.instance({"at_once": [2], "repetitions": 1}))
    long = problem.classes[1]
    assert long.plan is not None
    operators = tuple(
        replace(one, splits=tuple(replace(s, forward_ms=1e6, backward_ms=1e6) for s in one.splits))
        for one in long.plan.workload.operators
    )
    slow = replace(long, plan=replace(long.plan, workload=replace(long.plan.workload, operators=operators)))
    with pytest.raises(InputError, match="too uneven"):
        solve(replace(problem, classes=(problem.classes[0], slow)))


def changed(solution: Result[Any, Any], **fields: Any) -> Result[Any, Any]:
    """With other parts of the plan."""
    return replace(solution, plan=replace(solution.plan, **fields))


def changed_class(solution: Result[Any, Any], **fields: Any) -> Result[Any, Any]:
    """With another plan of the first class."""
    first, *others = solution.plan.classes
    return changed(solution, classes=(replace(first, **fields), *others))


def changed_shard(solution: Result[Any, Any], **fields: Any) -> Result[Any, Any]:
    """With another plan of a shard of the first class."""
    return changed_class(solution, shard=replace(solution.plan.classes[0].shard, **fields))


NOBODY = FabricSchedule(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), ())

BROKEN: dict[str, tuple[Callable[[Result[Any, Any]], Result[Any, Any]], str]] = {
    "other instance": (lambda s: replace(s, instance_sha256="0"), "instance-sha256"),
    "plan missing": (lambda s: changed(s, classes=s.plan.classes[1:]), "plan"),
    "no plan of a shard": (lambda s: changed_class(s, shard=None), "plan"),
    "no strategy": (lambda s: changed_class(s, strategies=s.plan.classes[0].strategies[1:]), "plan"),
    "a strategy for fewer operators": (
        lambda s: changed_class(s, strategies=(Strategy((Placement(0, 0),)), *s.plan.classes[0].strategies[1:])),
        "classes",
    ),
    "links shared otherwise": (lambda s: changed_class(s, link_sharing=LinkSharing.FAIR), "plan"),
    "dark interfaces": (lambda s: changed_shard(s, switches=((-1,) * 4,) * 2), "classes"),
    "interfaces missing": (lambda s: changed_shard(s, switches=s.plan.classes[0].shard.switches[:1]), "classes"),
    "no rings": (lambda s: changed_shard(s, rings=()), "classes"),
    "more draws": (lambda s: changed(s, draws=5), "plan"),
    "no draws": (lambda s: changed(s, draws=0), "plan"),
    "fewer draws": (lambda s: changed(s, draws=3), "runs"),
    "schedules": (lambda s: changed(s, schedules=(NOBODY,)), "plan"),
    "another seed": (lambda s: replace(s, seed=s.seed + 1), "objective"),
    "called optimal": (lambda s: replace(s, status=Status.OPTIMAL), "optimality"),
    "objective made up": (lambda s: replace(s, objective=replace(s.objective, value=1.0)), "objective"),
    "bound of all made up": (lambda s: replace(s, bound=replace(s.bound, value=1.0)), "bound"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_checker_rejects(name: str) -> None:
    """Every way to break a result has its violation."""
    change, code = BROKEN[name]
    problem, solution = cases.solved()
    findings = kind_of(problem).check(problem, change(solution), FULL)
    assert code in {violation.code for violation in findings.violations}, findings.violations


def test_flows_on_a_shared_fabric_are_simulated_twice() -> None:
    """By the checker in code of its own, to the same times; nothing of the value is claimed."""
    fabrics = [{"kind": "fat-tree"}, {"name": "slow", "kind": "oversubscribed-fat-tree"}, {"kind": "ideal-switch"}]
    for first in range(3):
        problem = cases.read(cases.instance({"at_once": [3]}, fabrics=[fabrics[first]]))
        solution = solve(problem)
        assert solution.check.ok, solution.check.violations
        assert not solution.check.not_recomputed
        wrong = replace(solution, objective=replace(solution.objective, value=1.001 * solution.objective.value))
        findings = kind_of(problem).check(problem, wrong, FULL)
        assert {violation.code for violation in findings.violations} == {"objective"}


def test_a_quick_check_claims_what_it_does_not_simulate() -> None:
    """Without events the value is claimed, and said to be."""
    problem, solution = cases.solved()
    findings = kind_of(problem).check(problem, solution, CheckDepth(events=0))
    assert findings.ok
    assert {row.decides for row in findings.claimed} == {Decides.VALUE}


def test_the_objective_is_found_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker finds the mean by itself; altered in the simulation alone, it is rejected."""

    def altered(statistics: Sequence[LoadStatistics]) -> Objective:
        exact = load_objective(statistics)
        return replace(exact, value=1.01 * exact.value)

    monkeypatch.setattr("topoopt.kinds.shared_cluster.figures.load_objective", altered)
    problem = cases.read(cases.published(jobs={"at_once": [5], "repetitions": 2}))
    assert any(text.startswith("objective") for text in solve(problem).check.violations)


def test_the_checker_accepts_a_subset_of_the_draws() -> None:
    """Fewer draws than asked for are right."""
    problem, solution = cases.solved()
    assert kind_of(problem).check(problem, solution, FULL).violations == ()
    assert np.isfinite(solution.gap)
