"""Circuits of rails by phase: counts by hand, what a step sends on light, files that contradict themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from solvers.stop import Stop
from solvers.switching import RailSteps
from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from tests.support.read_back.exports import check_export
from tests.support.read_back.rails import read_timetable
from topoopt.core.errors import InputError
from topoopt.core.llm_training import Experts, LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy, PipelineSchedule
from topoopt.core.switching import (
    PortUse,
    RailPhase,
    RailTimetable,
    SwitchedStep,
    SwitchSettings,
)
from topoopt.formats.patch_list import rails_export
from topoopt.formats.table import ExportOptions
from topoopt.kinds.files import read_instance
from topoopt.simulate.rail_job import rail_timetable
from topoopt.verify.llm_training.rail_steps import check_timetable

FILE = INSTANCES / "llm-training" / "rails-32.yaml"
TWO = ParallelStrategy(tensor=4, pipeline=2, data=4, micro_batch=2, zero=1)


def made(
    strategy: ParallelStrategy, settings: SwitchSettings, experts: int = 0
) -> tuple[RailSteps, SwitchedStep, RailTimetable]:
    """Eight servers of four GPUs."""
    problem = read_instance(FILE)
    assert isinstance(problem, LlmTrainingProblem)
    if experts:
        model = replace(problem.model, kinds=(replace(problem.model.kinds[0], mlp=Experts(experts, 2, 8192)),))
        problem = replace(problem, model=model)
    problem = replace(problem, switching=settings)
    steps = RailSteps(problem, strategy, settings)
    mode = "provisioned" if settings.provisioned else "on-demand"
    step = steps.switched(settings.delay_s, mode, Stop(), events=True)
    return steps, step, rail_timetable(steps.job, steps.strategy, 4, step)


def uses(timetable: RailTimetable, phase: RailPhase) -> Counter[PortUse]:
    """Circuits that are lit."""
    found: Counter[PortUse] = Counter()
    for group in phase.lit:
        found[timetable.groups[group].use] += len(timetable.groups[group].circuits)
    return found


def test_circuits_of_two_stages_by_hand() -> None:
    """Servers 0 to 3 and 4 to 7: both ports to the other stage on 4 rails, 32 circuits; rings on 4 rails, 16 each."""
    _, step, timetable = made(TWO, SwitchSettings(0.003))
    assert [(one.use, one.stages, len(one.circuits)) for one in timetable.groups] == [
        (PortUse.DATA, (0,), 16),
        (PortUse.DATA, (1,), 16),
        (PortUse.PIPELINE, (0, 1), 16),
        (PortUse.PIPELINE, (0, 1), 16),
    ]
    first = {one for one in timetable.groups[0].circuits if one[0] == 2}
    assert first == {(2, *pair) for pair in ((0, 3), (2, 5), (4, 7), (1, 6))}
    across = {one[1:] for k in (2, 3) for one in timetable.groups[k].circuits if one[0] == 0}
    assert across == {(port, port + 8) for port in range(8)}
    seen = [uses(timetable, one) for one in timetable.phases]
    assert {PortUse.PIPELINE: 32} in seen
    assert {PortUse.DATA: 32} in seen
    assert timetable.step_ns == round(step.step_s * 1e9)
    assert {one.end_ns - one.begin_ns for one in timetable.phases if not one.lit} == {3_000_000}


CASES: dict[str, tuple[ParallelStrategy, SwitchSettings, int]] = {
    "provisioned": (TWO, SwitchSettings(0.004), 0),
    "on demand": (TWO, SwitchSettings(0.004, provisioned=False), 0),
    "no delay": (TWO, SwitchSettings(0.0), 0),
    "four ports": (TWO, SwitchSettings(0.002, ports=4, port_gbps=25.0), 0),
    "four stages": (replace(TWO, pipeline=4, data=2), SwitchSettings(0.003, ports=4), 0),
    "chunks": (
        replace(TWO, pipeline=4, data=2, chunks=2, schedule=PipelineSchedule.INTERLEAVED), SwitchSettings(0.001), 0,
    ),
    "replicas": (replace(TWO, pipeline=1, data=8), SwitchSettings(0.003), 0),
    "experts": (replace(TWO, tensor=1, data=16, expert=16), SwitchSettings(0.001), 16),
    "experts, four ports": (replace(TWO, tensor=1, data=16, expert=8), SwitchSettings(0.001, ports=4), 16),
    "weights": (replace(TWO, zero=3), SwitchSettings(0.001), 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_all_that_a_step_sends_has_its_circuits(name: str) -> None:
    """By the checker; and what is written is read back."""
    strategy, settings, experts = CASES[name]
    steps, step, timetable = made(strategy, settings, experts)
    assert check_timetable(steps.problem, steps.strategy, step.plan, timetable).ok
    switched = any(one.what == "switch" for one in step.events)
    assert switched == (len(timetable.phases) > 1)
    check_export("patch-list", rails_export(timetable, ExportOptions()))


def _moved(timetable: RailTimetable, place: int, by_ns: int) -> RailTimetable:
    """A boundary of two phases elsewhere."""
    phases = list(timetable.phases)
    phases[place] = replace(phases[place], end_ns=phases[place].end_ns + by_ns)
    phases[place + 1] = replace(phases[place + 1], begin_ns=phases[place + 1].begin_ns + by_ns)
    return replace(timetable, phases=tuple(phases))


def _phase(timetable: RailTimetable, **change: tuple[int, ...]) -> RailTimetable:
    dark = next(k for k, one in enumerate(timetable.phases) if one.dark)
    phases = list(timetable.phases)
    phases[dark] = replace(phases[dark], **change)  # type: ignore[arg-type]
    return replace(timetable, phases=tuple(phases))


def _ring_cut(timetable: RailTimetable) -> RailTimetable:
    """A ring without its last circuit."""
    first = timetable.groups[0]
    return replace(timetable, groups=(replace(first, circuits=first.circuits[:-1]), *timetable.groups[1:]))


def _crossed(timetable: RailTimetable) -> RailTimetable:
    """Circuits of servers 0 and 1 to each other's replica, with both ports."""
    groups = list(timetable.groups)
    for place in (2, 3):
        a, b = groups[place].circuits[:2]
        swapped = ((*a[:2], b[2]), (*b[:2], a[2]), *groups[place].circuits[2:])
        groups[place] = replace(groups[place], circuits=swapped)
    return replace(timetable, groups=tuple(groups))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda t: _moved(t, 2, -500_000), "dark"),
        (lambda t: _moved(t, 3, -500_000), "dark"),
        (lambda t: _phase(t, lit=(2, 3), dark=()), "dark"),
        (lambda t: _phase(t, lit=(0,)), "ports"),
        (_ring_cut, "dark"),
        (_crossed, "dark"),
        (lambda t: replace(t, phases=t.phases[1:]), "timetable"),
        (lambda t: replace(t, step_ns=t.step_ns + 10), "timetable"),
        (lambda t: replace(t, delay_ns=2_000_000), "timetable"),
        (lambda t: replace(t, ports=4), "timetable"),
    ],
)
def test_the_checker_objects(change: Callable[[RailTimetable], RailTimetable], code: str) -> None:
    """Light too early, ports taken twice, rings that do not close, other ends, gaps."""
    steps, step, timetable = made(TWO, SwitchSettings(0.003))
    assert check_timetable(steps.problem, steps.strategy, step.plan, timetable).ok
    found = check_timetable(steps.problem, steps.strategy, step.plan, change(timetable)).violations
    assert code in {one.code for one in found}


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("circuits.csv", "1,data,1,1,4,", "1,data,1,1,x,", "not a list of circuits"),
        ("circuits.csv", "group,", "groups,", "not the columns"),
        ("circuits.csv", "1,data,1,1,4,", "1,data,1,3,6,", "a circuit more than once"),
        ("circuits.csv", "1,data,1,1,4,", "1,data,1,1,3,", "a port of a switch is used twice"),
        ("circuits.csv", "1,data,1,1,4,", "1,pipeline,1,1,4,", "groups that are not numbered"),
        ("phases.csv", "\n0,", "\n5,", "leave a gap"),
        ("phases.csv", ",1 2,", ",1 9,", "a group that has no circuits"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, name: str, old: str, new: str, message: str) -> None:
    export = rails_export(made(TWO, SwitchSettings(0.003))[2], ExportOptions())
    for file, data in export.files:
        text = data.decode()
        assert file != name or old in text
        (tmp_path / file).write_text(text.replace(old, new, 1) if file == name else text)
    with pytest.raises(InputError, match=message):
        read_timetable(tmp_path)


def test_from_the_command_line(tmp_path: Path) -> None:
    """The instance stands in the solution; a previous plan has no place."""
    assert run("solve", FILE, "-o", tmp_path / "out").code == 0
    solution = tmp_path / "out" / "solution.json"
    result = run("export", solution, "--to", "patch-list", "-o", tmp_path / "patches", "--json")
    assert result.code == 0, result.stderr
    _, phases = read_timetable(tmp_path / "patches")
    due = run("check", solution, "--json").json
    assert due["ok"]
    assert phases[-1].end_ns == pytest.approx(1e9 * result_time(solution), abs=1)
    for words in (("--set", f"previous={solution}"), ("--fabric", "ideal-switch")):
        assert run("export", solution, "--to", "patch-list", "-o", tmp_path / "none", *words).code == 2


def result_time(solution: Path) -> float:
    """Seconds of the step."""
    import json

    return float(json.loads(solution.read_text())["objective"]["value"])
