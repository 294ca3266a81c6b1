"""Steps that are left behind, limits, and memory: what a run does when it has to end."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest

from solvers.stop import Memory, Stop, resident_bytes
from solvers.timing import LateError, Timing, step
from topoopt.core.arrays import bytes_of
from topoopt.core.process import end_if_left
from topoopt.core.proofs import StopReason
from topoopt.native import graph
from topoopt.verify.checker import ViolationLog


def test_a_step_that_never_ends_is_left() -> None:
    """The caller goes on; nothing is raised into the step, whose libraries could not bear it, until it looks itself."""
    begun, free, past, goes_on, ended = (threading.Event() for _ in range(5))

    def work() -> None:
        try:
            begun.set()
            free.wait()
            for _ in range(1000):  # a place for an error from outside
                past.is_set()
            past.set()
            Stop().reason()
            goes_on.set()
        except Exception:  # as libraries do that go on after any error: being left is none
            goes_on.set()
        finally:
            ended.set()

    with pytest.raises(LateError):
        step(work, begun.is_set)
    assert any(thread.name == "topoopt step" for thread in threading.enumerate())
    free.set()
    assert ended.wait(60.0)
    assert past.is_set()
    assert not goes_on.is_set()
    for thread in threading.enumerate():
        if thread.name == "topoopt step":
            thread.join(60.0)
            assert not thread.is_alive()


def test_a_step_gives_its_result_or_its_error() -> None:
    """A step that ends is as good as a call."""
    assert step(lambda: 5, lambda: False) == 5
    with pytest.raises(ZeroDivisionError):
        step(lambda: 1 // 0, lambda: False)


def test_a_step_that_is_late_is_not_begun() -> None:
    """What would be left at once must not take the interpreter from what comes after it."""
    begun = threading.Event()
    with pytest.raises(LateError):
        step(begun.set, lambda: True)
    assert not begun.wait(0.1)


def test_loops_of_the_checker_end_when_they_are_left() -> None:
    """Work below the solvers looks as well, without knowing who waits for it; outside a step it is never left."""
    begun, left = threading.Event(), threading.Event()

    def check() -> None:
        log = ViolationLog()
        while log.ended is None:
            begun.set()
            log.guard("law", "figure", lambda: None)
        assert [one.figure for one in log.left_out] == ["figure"]
        left.set()

    with pytest.raises(LateError):
        step(check, begun.is_set)
    assert left.wait(60.0)
    end_if_left()


def test_a_step_inside_a_step_is_left_with_it() -> None:
    """Leaving the outer one ends both, at the next look of each."""
    begun, free = threading.Event(), threading.Event()
    stops: list[str] = []

    def inner() -> None:
        begun.set()
        free.wait()
        try:
            Stop().reason()
        finally:
            stops.append("inner")

    def outer() -> None:
        try:
            step(inner, lambda: False)
        finally:
            stops.append("outer")

    with pytest.raises(LateError):
        step(outer, begun.is_set)
    free.set()
    for thread in threading.enumerate():
        if thread.name == "topoopt step":
            thread.join(60.0)
            assert not thread.is_alive()
    assert sorted(stops) == ["inner", "outer"]


def test_a_native_call_ends_when_its_step_is_left() -> None:
    """It looks at the flag of its step; calls outside any step go on."""
    first, head = np.arange(0, 4 * 60 + 1, 4, dtype=np.int64), np.arange(240, dtype=np.int64) % 60
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        try:
            while True:
                graph.hop_distances(first, head, 60)
        finally:
            ended.set()

    with pytest.raises(LateError):
        step(work, begun.is_set)
    assert ended.wait(60.0)
    assert graph.hop_distances(first, head, 60).shape == (60, 60)


def test_the_first_plan_shows_what_comes_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search whose first plan took 20 of 100 s leaves 1.5 times that for what follows; later plans change nothing."""
    now = [1000.0]
    monkeypatch.setattr("solvers.stop.time.monotonic", lambda: now[0])
    timing = Timing(Stop(1100.0), 100.0)
    search = timing.for_search(1.0)
    assert search.deadline == 1100.0
    now[0] += 20.0
    timing.keep(lambda: 1, search)
    assert search.deadline == 1070.0
    now[0] += 40.0
    timing.keep(lambda: 2, search)
    assert (search.deadline, timing.stop.deadline) == (1070.0, 1100.0)
    late = Timing(Stop(1160.0), 100.0)
    search = late.for_search(1.0)
    now[0] += 90.0  # nothing is left of the time: the search ends at once
    late.keep(lambda: 1, search)
    assert search.deadline == now[0]


def test_what_has_no_time_is_named() -> None:
    """An optional step after the deadline is not begun; the note says which, and why."""
    timing = Timing(Stop(time.monotonic() - 1.0), 1.0)
    assert timing.optional("one", lambda: 5) is None
    assert timing.notes() == ("left out (time limit): one",)
    assert Timing().optional("two", lambda: 5) == 5


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_of_this_process_counts() -> None:
    """A process with Python in it holds more than a megabyte and less than 100 GB."""
    here = Memory(limit_bytes=10**6)
    assert here.look()
    assert here.exceeded.is_set()
    assert Stop(memory=here).reason() is StopReason.MEMORY
    assert not Memory(limit_bytes=10**11).look()
    assert not Memory().look()
    assert resident_bytes(2**22 + 1) == 0


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GiB", 4 * 2**30),
        ("500 MB", 500_000_000),
        ("1.5kB", 1500),
        ("77", 77),
        ("", None),
        ("GiB", None),
        ("-1GiB", None),
        ("4gib", None),
        ("0.1", None),
        ("1e3", None),
        ("9" * 400, None),
        ("٤GiB", None),
    ],
)
def test_sizes_of_memory(text: str, size: int | None) -> None:
    """Decimal and binary units; anything else is no size."""
    assert bytes_of(text) == size


@pytest.mark.parametrize(
    ("past_s", "cpu_s", "children", "late"),
    [
        (0.3, 2.9, (), False),  # what comes after it still has its time
        (0.7, 2.7, (), True),
        (0.7, 2.3, (), False),  # a busy machine gave it less than the clock says
        (20.0, 2.3, (), True),  # for ever so long
        (0.7, 0.0, (17,), True),  # another process worked for it
    ],
)
def test_when_a_check_is_left(
    past_s: float, cpu_s: float, children: tuple[int, ...], late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seconds were given: past the limit both by the clock and by the time of the processor."""
    timing = Timing(Stop(0.0), 2.0, cpu_began_s=50.0)
    timing.stop.memory.children |= set(children)
    monkeypatch.setattr("solvers.timing.time.monotonic", lambda: past_s + 0.02 * 2.0)
    monkeypatch.setattr("solvers.timing.time.process_time", lambda: 50.0 + cpu_s)
    assert timing.check_late() == late
    timing.file_s = 20.0
    assert timing.check_late(), "no time for the file"


def test_what_cannot_be_written_in_time_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 20 s is begun 20 s before the limit and a second at the latest; after Ctrl-C at any time."""
    timing = Timing(Stop(100.0), 100.0, cpu_began_s=0.0, file_s=20.0)
    now = [85.0]
    monkeypatch.setattr("solvers.timing.time.monotonic", lambda: now[0])
    monkeypatch.setattr("solvers.timing.time.process_time", lambda: now[0])
    assert timing.unwritable() is None
    now[0] = 87.0
    assert "about 20 s more" in str(timing.unwritable())
    assert not timing.figures_late(80.0)
    now[0] = 106.0
    assert timing.figures_late(80.0)
    assert not timing.figures_late(101.0)  # the search was late, not they
    timing.stop.interrupted.set()
    assert timing.unwritable() is None
    assert not timing.figures_late(80.0)
    timing.stop.interrupted.clear()
    timing.file_s = 0.5  # is as good as there
    assert timing.unwritable() is None
