"""Processes that share a search: results in order, limits and interrupts held in them, none left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from solvers.processes import in_order, processes
from solvers.stop import Stop
from topoopt.core.errors import InfeasibleError, MachineError
from topoopt.core.proofs import StopReason

Tell = Callable[[int], None]


class Squares:
    """Tells a number, then answers its square and the process that did it; dies of 13 and refuses 7."""

    def __init__(self, stop: Stop, offset: int) -> None:
        self.offset = offset

    def __call__(self, task: int, tell: Tell) -> tuple[int, int]:
        if task == 13:
            os._exit(13)
        if task == 7:
            raise InfeasibleError("seven")
        tell(task)
        return task * task + self.offset, os.getpid()


class UntilStopped:
    """Works until it has to stop, and says why it did."""

    def __init__(self, stop: Stop, within_s: float | None) -> None:
        self.stop, self.within_s = stop, within_s

    def __call__(self, task: int, tell: Tell) -> StopReason | None:
        tell(task)
        stop = self.stop.within(self.within_s)
        while stop.reason() is None:
            time.sleep(0.01)
        return stop.reason()


@pytest.mark.parametrize("members", [1, 3])
def test_results_come_in_the_order_of_the_tasks(members: int) -> None:
    """Squares of nine numbers, none done by this process; every number is told once."""
    told: list[int] = []
    with processes(members)(Squares, (5,), Stop()) as team:
        first = [value for value, _ in in_order(team([3, 1, 2], told.append))]
        second = list(in_order(team([4, 5, 6, 8, 9, 10], told.append)))
    assert first == [14, 6, 9]
    assert [value for value, _ in second] == [21, 30, 41, 69, 86, 105]
    assert os.getpid() not in {place for _, place in second}
    assert sorted(told) == [1, 2, 3, 4, 5, 6, 8, 9, 10]


def test_an_error_comes_when_its_turn_does() -> None:
    """What was done before it is given first; the error is of its class, with its message."""
    with processes(2)(Squares, (0,), Stop()) as team:
        results = in_order(team([1, 7, 2], lambda task: None))
        assert next(results)[0] == 1
        with pytest.raises(InfeasibleError, match="seven"):
            next(results)


def test_the_death_of_a_process_is_told() -> None:
    """With its exit code, and instead of waiting for ever."""
    with processes(2)(Squares, (0,), Stop()) as team, pytest.raises(MachineError, match="exit code 13"):
        list(in_order(team([1, 13, 2, 3], lambda task: None)))


def test_an_interrupt_reaches_every_process() -> None:
    """Set while both work for ever: both end by themselves, and say that they were interrupted."""
    stop = Stop()
    told: list[int] = []

    def tell(task: int) -> None:
        told.append(task)
        if len(told) == 2:
            stop.interrupted.set()

    with processes(2)(UntilStopped, (None,), stop) as team:
        assert list(in_order(team([0, 1], tell))) == [StopReason.INTERRUPTED] * 2


@pytest.mark.parametrize(("limit_s", "within_s"), [(0.2, None), (60.0, 0.2)])
def test_the_deadline_holds_in_every_process(limit_s: float, within_s: float | None) -> None:
    """They end with that of the search, and by themselves with an earlier one of their own."""
    stop = Stop().within(limit_s)
    with processes(2)(UntilStopped, (within_s,), stop) as team:
        reasons = list(in_order(team([0, 1], lambda task: None)))
    if within_s is None:
        assert None not in reasons
        assert stop.reason() is StopReason.TIME
    else:
        assert (reasons, stop.reason()) == ([StopReason.TIME] * 2, None)


class Unreadable:
    """Answers what cannot be read."""

    def __init__(self, stop: Stop) -> None:
        pass

    def __call__(self, task: int, tell: Tell) -> Unreadable:
        return self

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return int, ("no number",)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_answer_that_cannot_be_read_is_told() -> None:
    """Instead of waiting for ever."""
    with processes(1)(Unreadable, (), Stop()) as team, pytest.raises(MachineError, match="died"):
        list(in_order(team([1], lambda task: None)))


def test_who_leaves_early_leaves_no_process() -> None:
    """Members count as processes of the run while they work; after an early end there is none."""
    stop = Stop()
    with processes(2)(UntilStopped, (None,), stop) as team:
        members = set(stop.memory.children)
        results = in_order(team([0, 1, 2], lambda task: stop.interrupted.set()))
        assert next(results) is StopReason.INTERRUPTED
        results.close()
    assert len(members) == 2
    assert not stop.memory.children
    assert not any(_runs(member) for member in members)


ENDLESS = """
    from solvers.processes import Crew, in_order, processes
    from solvers.stop import Stop
    from tests.solvers.test_team import UntilStopped
    stop = Stop()
    with processes(2)(UntilStopped, (None,), stop) as team:
        seen = []
        def tell(task):
            seen.append(task)
            if len(seen) == 2:
                print(*stop.memory.children, flush=True)
        list(in_order(team([0, 1], tell)))
    """


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_their_parent(number: signal.Signals) -> None:
    """Also where it has no time to end them."""
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ENDLESS)], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert parent.stdout is not None
    members = [int(word) for word in parent.stdout.readline().split()]
    assert len(members) == 2
    parent.send_signal(number)
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 60.0
    while any(_runs(member) for member in members) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(_runs(member) for member in members)


def _runs(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False
