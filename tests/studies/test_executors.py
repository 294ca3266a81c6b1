"""Executors: one loop hands out tasks to any of them, and gives out again what is lost."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from solvers.processes import TRIES, completed, in_order
from solvers.stop import Stop
from tests.support.cli_cases import chain, job, run, write
from tests.support.fake_executor import FakeExecutor
from tests.support.study_cases import routing, study
from topoopt.core.errors import InputError, MachineError
from topoopt.studies.executors import Elsewhere, end_by_file, opener_of, run_part, scratch_folder, stop_by_file
from topoopt.studies.expand import read_study
from topoopt.studies.runner import collect_rows, run_study

FAKE = "tests.support.fake_executor:FakeExecutor"


@pytest.fixture(autouse=True)
def none_yet() -> Iterator[None]:
    """No executor was opened."""
    FakeExecutor.submitted.clear()
    yield
    FakeExecutor.submitted.clear()


def squares(tasks: int, **options: str) -> list[int]:
    """Of tasks in a fake executor, two at a time."""
    return [*in_order(completed(opened(_square, **options), range(tasks), 2, Stop(), lambda now: None))]


def opened(work: Callable[[int], Any], **options: str) -> Callable[[], Any]:
    """What opens a fake executor for two tasks at a time."""

    @contextmanager
    def made() -> Iterator[Elsewhere]:
        opener = opener_of(FAKE, options, 2)
        assert opener is not None
        with opener(Path(), 1, 1) as executor:
            yield Elsewhere(executor, lambda task: work(task[0]), Stop())

    return made


def _square(value: int) -> int:
    return value * value


def test_lost_tasks_are_given_out_again() -> None:
    """A broken executor is opened again, a lost task is done by another worker; results come in order."""
    expected = [k * k for k in range(9)]
    assert squares(9) == expected
    assert squares(9, loses="3") == expected
    assert FakeExecutor.submitted == [9, 12]
    FakeExecutor.submitted.clear()
    assert squares(9, breaks="4") == expected
    assert FakeExecutor.submitted == [5, 5]


def test_what_is_lost_each_time_is_said() -> None:
    """With the last reason, as a failure of the machine."""
    with pytest.raises(MachineError, match=f"lost {TRIES} times; the same command goes on. Last: machine"):
        squares(3, loses="100")


def test_tasks_are_taken_when_there_is_a_worker() -> None:
    """And no more once the source ends; whoever leaves early has the tasks under way ended."""
    taken, ended = [], []
    release = threading.Event()

    def tasks() -> Iterator[int]:
        for k in range(100):
            taken.append(k)
            yield k

    def work(k: int) -> int:
        if k:
            release.wait(60)
        return k

    def end(now: bool) -> None:
        ended.append(now)
        release.set()

    results = completed(opened(work), tasks(), 2, Stop(), end)
    index, future = next(results)
    assert (index, future.result()) == (0, 0)
    assert len(taken) == 2
    results.close()
    assert ended == [True]


def test_options_and_names(tmp_path: Path) -> None:
    """What is no executor, does not load or takes no such option is said; nothing is opened before."""
    for name, message in (
        ("abacus", "no such executor"),
        ("no_such_module:Executor", "no such executor: No module"),
        ("tests.support.fake_executor:Nothing", "no such executor: module"),
    ):
        with pytest.raises(InputError, match=message):
            opener_of(name, {}, 1)
    with pytest.raises(InputError, match="unknown option of the executor"):
        opener_of("local", {"scheduler": "x"}, 1)
    for name, options in (("tests.support.fake_executor:no_executor", {}), (FAKE, {"colour": "red"})):
        opener = opener_of(name, options, 1)
        assert opener is not None
        with pytest.raises(InputError, match=r"no executor|does not start"), opener(tmp_path, 1, 1):
            pass
    assert opener_of("local", {}, 1) is None


def test_processes_by_their_name(tmp_path: Path) -> None:
    """Any class of the standard library or of another package, by module and name."""
    opener = opener_of("concurrent.futures:ProcessPoolExecutor", {}, 1)
    assert opener is not None
    with opener(tmp_path, 1, 1) as executor:
        assert isinstance(executor, ProcessPoolExecutor)


def _until_stopped(stop: Stop) -> Callable[[Any, Any], Any]:
    def work(task: Any, tell: Any) -> Any:
        stop.interrupted.wait(60)
        return task, stop.reason(), stop.second_interrupt.is_set()

    return work


def test_a_stop_reaches_another_machine(tmp_path: Path) -> None:
    """By a file, the second one by another; a file that cannot be made is no error."""
    with scratch_folder(tmp_path / "made") as scratch:
        stop_file = scratch / "stop"
        with stop_by_file(str(stop_file)) as heard:
            assert heard.reason() is None
            end_by_file(stop_file, False)
            assert heard.interrupted.wait(60)
            assert not heard.second_interrupt.is_set()
            end_by_file(stop_file, True)
            assert heard.second_interrupt.wait(60)
        found = run_part(pickle.dumps((_until_stopped, ())), str(stop_file), ("part", None))
        assert found == ("part", "interrupted", True)
    assert not (tmp_path / "made").exists()
    end_by_file(scratch / "gone" / "stop", True)


@pytest.mark.usefixtures("programs")
def test_a_study_by_an_executor_of_the_user(tmp_path: Path, written: Callable[..., Path]) -> None:
    """The table is that of any other, although tasks are lost and the executor breaks."""
    found = read_study(written(study({"instance": routing(), "seeds": {"count": 12}})))
    options = {"breaks": "3", "loses": "1"}
    program = "tests.support.misbehave:quick"
    tally = run_study(found, tmp_path / "out", jobs=2, executor=FAKE, options=options, program=program)
    assert (tally["done"], tally["missing"]) == (12, 0)
    assert [row["objective"] for row in collect_rows(tmp_path / "out")] == [1.0 + seed for seed in range(12)]
    assert len(FakeExecutor.submitted) == 2
    assert not list((tmp_path / "out" / "unfinished").iterdir())


def test_a_solve_by_an_executor_of_the_user(tmp_path: Path) -> None:
    """Its parts are given out by the same loop, and the solution is that of one process."""
    instance = write(tmp_path, job(6, 2, chain(6, 3), search={"budget": 60, "method": "alternating"}))
    assert run("solve", instance, "--output", tmp_path / "here").code == 0
    words = ("--jobs", 2, "--executor", FAKE, "--executor-option", "loses=1", "--json")
    result = run("solve", instance, "--output", tmp_path / "there", *words)
    assert result.code == 0, result.stderr
    assert sum(FakeExecutor.submitted) > 1
    assert (tmp_path / "there" / "solution.json").read_bytes() == (tmp_path / "here" / "solution.json").read_bytes()
