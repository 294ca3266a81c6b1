"""Solves in a child process: the same answers, and nothing lost when the child hangs, dies or overruns."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csc_array

from formulations.programs import LpArrays
from solvers.backends import SOLVERS, SolverLimits, solve_guarded
from solvers.stop import Memory, Stop, resident_bytes
from topoopt.core.errors import InputError
from topoopt.core.proofs import Status, StopReason


def knapsack(items: int = 12, rows: int = 3, seed: int = 2) -> LpArrays:
    """A multi-dimensional knapsack of whole items."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(20, 99, (rows, items)).astype(float)
    matrix = csc_array(weight)
    return LpArrays(
        -rng.integers(10, 99, items).astype(float),
        np.zeros(items),
        np.ones(items),
        np.full(rows, -np.inf),
        np.floor(weight.sum(axis=1) / 2),
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int64),
        matrix.data,
        integer=np.ones(items, dtype=np.bool_),
    )


def child(tmp_path: Path, body: str) -> tuple[str, ...]:
    """Command of a child that reads the request and then does as `body` says."""
    script = tmp_path / "child.py"
    head = """
        import os, sys, time
        import numpy as np
        from solvers.processes import receive, send
        name, program, limits, options, start = receive(sys.stdin.buffer)
        out = sys.stdout.buffer
        """
    script.write_text(textwrap.dedent(head) + textwrap.dedent(body))
    return (sys.executable, str(script))


@pytest.mark.parametrize("name", ["highs", "cp-sat"])
def test_same_answer_as_in_this_process(name: str) -> None:
    """Optimum, point and bound equal those of a direct call; incumbents come through, each better than the last."""
    data = knapsack()
    seen: list[NDArray[np.float64]] = []
    result = solve_guarded(name, data, SolverLimits(time_s=300.0), on_incumbent=seen.append)
    direct = SOLVERS[name](data)
    assert (result.status, result.objective) == (Status.OPTIMAL, direct.objective)
    np.testing.assert_array_equal(result.x, direct.x)
    costs = [float(data.cost @ x) for x in seen]
    assert costs == sorted(set(costs), reverse=True)
    assert costs[-1] == result.objective


class Clock:
    """A clock for the watcher that jumps far beyond any limit once `late` is called: no test waits for a limit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("solvers.backends.table.time", SimpleNamespace(monotonic=lambda: self.now))

    def late(self) -> None:
        """The limit is over."""
        self.now = 1e6


def test_hanging_child_is_killed_and_its_best_point_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four points streamed, one breaks a row, one is worse than the one before, the last is best and kept."""
    data, clock = knapsack(), Clock(monkeypatch)
    command = child(
        tmp_path,
        """
        nothing, one, two, all_of = np.zeros(12), np.zeros(12), np.zeros(12), np.ones(12)
        one[0], two[:2] = 1, 1
        for x in (all_of, one, nothing, two):
            send(out, ("incumbent", x))
        time.sleep(600)
        """,
    )
    seen: list[NDArray[np.float64]] = []

    def incumbent(x: NDArray[np.float64]) -> None:
        seen.append(x)
        if len(seen) == 2:
            clock.late()

    result = solve_guarded("highs", data, SolverLimits(time_s=0.2), on_incumbent=incumbent, command=command)
    assert (result.status, result.stopped_by) == (Status.FEASIBLE, StopReason.TIME)
    assert [x.sum() for x in seen] == [1, 2]
    assert result.objective == data.cost[:2].sum()
    assert "killed" in result.message


def test_start_survives_a_child_that_says_nothing(tmp_path: Path) -> None:
    """Killed without a word: the start is the result; without a start, unknown."""
    data = knapsack()
    command = child(tmp_path, "time.sleep(600)")
    limits = SolverLimits(time_s=0.1)
    start = np.zeros(12)
    start[3] = 1.0
    result = solve_guarded("highs", data, limits, start=start, grace_s=0.3, command=command)
    assert (result.status, result.objective, result.from_start) == (Status.FEASIBLE, data.cost[3], True)
    result = solve_guarded("highs", data, limits, grace_s=0.3, command=command)
    assert (result.status, result.stopped_by, result.x) == (Status.UNKNOWN, StopReason.TIME, None)


@pytest.mark.parametrize("death", ["os._exit(7)", "os.kill(os.getpid(), 11)", "out.write(b'xx'); os._exit(7)"])
def test_death_of_the_child_is_an_error_result(tmp_path: Path, death: str) -> None:
    """Exit, crash and half a message: unknown by error, with the exit code in words, and no exception."""
    result = solve_guarded("highs", knapsack(), SolverLimits(time_s=300.0), command=child(tmp_path, death))
    assert (result.status, result.stopped_by) == (Status.UNKNOWN, StopReason.ERROR)
    assert "exit code" in result.message


def test_child_that_cannot_start_reading_is_no_exception(tmp_path: Path) -> None:
    """A child that dies before it reads a request larger than the pipe: an error result."""
    script = tmp_path / "dead.py"
    script.write_text("raise SystemExit(3)")
    data = knapsack(items=3000, rows=10)
    result = solve_guarded("highs", data, SolverLimits(time_s=300.0), command=(sys.executable, str(script)))
    assert (result.status, result.stopped_by) == (Status.UNKNOWN, StopReason.ERROR)


def test_overrun_of_a_real_solver_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver told to take its time is killed from outside, and what it streamed is the result."""
    data, clock = knapsack(items=120, rows=30), Clock(monkeypatch)
    result = solve_guarded(
        "highs",
        data,
        SolverLimits(time_s=2.0),
        {"time_limit": 500.0},
        start=np.zeros(120),
        on_incumbent=lambda x: clock.late() if x.any() else None,  # the start may come first
    )
    assert (result.status, result.stopped_by) == (Status.FEASIBLE, StopReason.TIME)
    assert "killed" in result.message
    assert result.objective is not None
    assert result.objective < 0.0


def test_refusals_come_before_the_child() -> None:
    """Unknown solvers and options, and programs beyond the features, are the caller's errors."""
    for name, options in (("hihgs", {}), ("highs", {"mip_rel_gp": 1.0}), ("highs-ipx", {})):
        with pytest.raises(InputError):
            solve_guarded(name, knapsack(), options=options, command=("/nonexistent",))


def test_bad_option_value_in_the_child_is_an_input_error() -> None:
    """What only the library can refuse is refused there, and raised here."""
    with pytest.raises(InputError, match="refuses the value"):
        solve_guarded("highs", knapsack(), SolverLimits(time_s=300.0), {"mip_rel_gap": -1.0})


def test_an_interrupt_ends_the_child_and_keeps_what_it_found(tmp_path: Path) -> None:
    """A stop set while the child hangs: its last solution is the result, without waiting for any limit."""
    data, stop = knapsack(), Stop()
    body = """
        send(out, ("incumbent", np.r_[1.0, np.zeros(11)]))
        time.sleep(600)
        """
    result = solve_guarded(
        "highs", data, on_incumbent=lambda x: stop.interrupted.set(), stop=stop, command=child(tmp_path, body)
    )
    assert (result.status, result.stopped_by) == (Status.FEASIBLE, StopReason.INTERRUPTED)
    assert result.x is not None
    assert result.x[0] == 1.0


def test_a_start_may_leave_columns_open() -> None:
    """HiGHS completes a start of which one column is known; the optimum stays what it is."""
    data = knapsack()
    start = np.full(12, np.nan)
    start[0] = 1.0
    assert SOLVERS["highs"](data, start=start).objective == SOLVERS["highs"](data).objective


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_child_over_the_memory_limit_ends(tmp_path: Path) -> None:
    """A child that takes memory for ever is ended at the limit, which the result says; its best solution is kept."""
    body = """
        send(out, ("incumbent", np.zeros(program.columns)))
        hoard = []
        while True:
            hoard.append(np.ones(1 << 20))
            time.sleep(0.001)
        """
    stop = Stop(memory=Memory(limit_bytes=resident_bytes(os.getpid()) + (300 << 20)))
    result = solve_guarded("highs", knapsack(), stop=stop, command=child(tmp_path, body))
    assert result.stopped_by is StopReason.MEMORY
    assert "over the memory limit" in result.message
    assert result.objective == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process")
def test_a_child_is_refused_what_is_beyond_the_limit(tmp_path: Path) -> None:
    """One allocation of 64 GB is refused by the system before anything of it is held."""
    body = """
        try:
            np.empty(8 << 30)
        except MemoryError:
            send(out, ("refused", ()))
        """
    limit = resident_bytes(os.getpid()) + (8 << 30)
    with pytest.raises(InputError):
        solve_guarded("highs", knapsack(), stop=Stop(memory=Memory(limit_bytes=limit)), command=child(tmp_path, body))
