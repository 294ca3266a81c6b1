"""Two plug-ins of pytest: one records which cases execute a place, one runs these cases with each mutant.

Both replace the code of functions in the process that has collected the tests, so nothing is imported twice. A mutant
runs in a fork of that process. What only another process executes is not recorded, nor what imports execute.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib
import json
import mmap
import os
import resource
import signal
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from _pytest.runner import runtestprotocol

from tests.mutants.sites import Site, by_function, mutant, with_probes
from tests.support.paths import ROOT

MOST_RECORDED_S = 60.0
"""No case that takes longer is recorded, by the list of slow cases."""

LIMIT_S = 60.0
"""Processor time of the cases of one mutant, of the quick ones and of the slow ones."""

WALL_LIMIT_S = 900.0
"""For mutants that wait without end."""


@dataclass
class Recorded:
    """Which cases execute each place, the processor time of these cases, and the cases that fail without a mutant."""

    hits: dict[int, list[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    def write(self, path: Path) -> None:
        """Write all of it, in the place of an older record."""
        document = {"hits": self.hits, "seconds": self.seconds, "failed": sorted(self.failed)}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """Read what `write` wrote."""
        document = json.loads(path.read_text(encoding="utf-8"))
        hits = {int(number): cases for number, cases in document["hits"].items()}
        return cls(hits, document["seconds"], set(document["failed"]))


class Functions:
    """The functions of the process by file, name and first line."""

    def __init__(self, sites: Sequence[Site]) -> None:
        for site in sites:
            importlib.import_module(site.module.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        gc.unfreeze()
        self.of: dict[tuple[str, str, int], list[FunctionType]] = {}
        for function in gc.get_objects():
            if isinstance(function, FunctionType):
                code = function.__code__
                self.of.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(function)
        gc.freeze()

    def replace(self, site: Site, code: CodeType) -> None:
        """Give the function of a place new code.

        Raises:
            LookupError: no function in memory has this code.
        """
        key = str(ROOT / site.module), code.co_qualname, code.co_firstlineno
        if key not in self.of:
            raise LookupError(f"{site.module} {site.function} is not in memory")
        for function in self.of[key]:
            function.__code__ = code


class Recorder:
    """Notes for each case which places it executes."""

    def __init__(self, sites: Sequence[Site], path: Path, most_seconds: Mapping[str, float]) -> None:
        self.sites, self.path, self.listed = sites, path, most_seconds
        self.recorded = Recorded()
        self.executed: set[int] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The shortest first, and the longest left out."""
        seconds = {item: self.listed.get(item.nodeid, 0.0) for item in items}
        items[:] = sorted((item for item in items if seconds[item] <= MOST_RECORDED_S), key=seconds.__getitem__)

    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Put the probes in."""
        vars(builtins)["__hit__"] = self.executed.add
        functions = Functions(self.sites)
        for group in by_function(self.sites):
            functions.replace(self.sites[group[0]], with_probes(self.sites, group))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        """One case with all that it sets up."""
        self.executed.clear()
        start_s = time.process_time()
        result = yield
        self.recorded.seconds[item.nodeid] = time.process_time() - start_s
        for number in self.executed:
            self.recorded.hits.setdefault(number, []).append(item.nodeid)
        if len(self.recorded.seconds) % 20 == 0:
            self.recorded.write(self.path)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A case that fails shows nothing about a mutant."""
        if report.failed:
            self.recorded.failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Keep the record."""
        self.recorded.write(self.path)


@dataclass(frozen=True)
class Outcome:
    """What the cases of a mutant did: `killed` with the case, or by `time`; `survived`; `limit` before all had run."""

    kind: str
    case: str = ""
    cases: int = 0


class Trial:
    """Runs the recorded cases with each mutant, in place of the loop of pytest."""

    def __init__(
        self, sites: Sequence[Site], numbers: Sequence[int], recorded: Recorded, path: Path, jobs: int | None = None
    ) -> None:
        self.sites, self.numbers, self.recorded, self.path = sites, numbers, recorded, path
        self.jobs = jobs or os.cpu_count() or 1
        self.outcomes: dict[int, Outcome] = {}
        self.unsound = set(recorded.failed)
        self.sound: set[str] = set()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All mutants, shared by forks of this process."""
        functions = Functions(self.sites)
        items = {item.nodeid: item for item in session.items}
        shares = [(self.numbers[k :: self.jobs], self.path.with_suffix(f".{k}")) for k in range(self.jobs)]
        workers: list[int] = []
        for numbers, path in shares:
            workers.append(os.fork())
            if workers[-1] == 0:
                self._share(numbers, path, functions, items)
                os._exit(0)
        for worker in workers:
            os.waitpid(worker, 0)
        rows: dict[str, object] = {}
        for _, path in shares:
            rows |= json.loads(path.read_text(encoding="utf-8"))
        self.path.write_text(json.dumps(rows), encoding="utf-8")
        return True

    def _share(
        self, numbers: Sequence[int], path: Path, functions: Functions, items: Mapping[str, pytest.Item]
    ) -> None:
        """Some of the mutants, one after the other, and a file of what came out."""
        path.write_text("{}", encoding="utf-8")
        for number in numbers:
            outcome = Outcome("survived")
            while True:
                cases = self._ordered([case for case in self.recorded.hits.get(number, []) if case in items])
                if not cases:
                    break
                outcome = self._run(functions, self.sites[number], [items[case] for case in cases])
                if outcome.kind != "killed" or self._is_sound(items[outcome.case]):
                    break
                self.unsound.add(outcome.case)
            self.outcomes[number] = outcome
            path.write_text(json.dumps({str(n): vars(row) for n, row in self.outcomes.items()}), encoding="utf-8")

    def _ordered(self, cases: Sequence[str]) -> list[str]:
        """Modules of tests in the order of their times, so that most mutants are killed soon."""
        cases = [case for case in cases if case not in self.unsound]
        totals: dict[str, float] = {}
        for case in cases:
            module = case.split("::")[0]
            totals[module] = totals.get(module, 0.0) + self.recorded.seconds[case]
        return sorted(cases, key=lambda case: (totals[case.split("::")[0]], case.split("::")[0]))

    def _is_sound(self, item: pytest.Item) -> bool:
        """Whether the case passes by itself without a mutant."""
        if item.nodeid not in self.sound and self._run(None, None, [item]).kind == "survived":
            self.sound.add(item.nodeid)
        return item.nodeid in self.sound

    def _run(self, functions: Functions | None, site: Site | None, items: Sequence[pytest.Item]) -> Outcome:
        """The cases up to the first that fails, in a fork."""

        def change() -> None:
            if functions is not None and site is not None:
                functions.replace(site, mutant(site))

        outcome = run_forked(items, change, LIMIT_S)
        past_s = sum(self.recorded.seconds[item.nodeid] for item in items[: outcome.cases])
        return replace(outcome, kind="time") if outcome.kind == "limit" and past_s < LIMIT_S / 2 else outcome


def run_forked(items: Sequence[pytest.Item], change: Callable[[], None], limit_s: float) -> Outcome:
    """Run cases up to the first that fails, in a fork of this process, where `change` is called before.

    Args:
        items: cases in their order.
        change: makes the fault.
        limit_s: processor time of all of them.
    """
    at = mmap.mmap(-1, 8)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _limit(limit_s)
            change()
            code = _first_failure(items, at)
        finally:
            os._exit(code)
    status, late = _wait(child)
    (index,) = struct.unpack("q", at[:8])
    case = items[index].nodeid
    if late or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in {signal.SIGXCPU, signal.SIGKILL}):
        return Outcome("limit", case, index + 1)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0:
        return Outcome("survived", "", len(items))
    return Outcome("killed", case, index + 1)


def _limit(limit_s: float) -> None:
    """Bounds of a fork: time, memory, a group of its own; nothing is printed."""
    os.setpgrp()
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s) + 5))
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _first_failure(items: Sequence[pytest.Item], at: mmap.mmap) -> int:
    """Exit code of the cases: 1 where one fails, which is then the last in `at`."""
    for index, item in enumerate(items):
        at[:8] = struct.pack("q", index)
        following = items[index + 1] if index + 1 < len(items) else None
        if any(report.failed for report in runtestprotocol(item, nextitem=following, log=False)):
            return 1
    return 0


def _wait(child: int) -> tuple[int, bool]:
    """Status of a fork when it ends, and whether it had to be ended; its own children end with it."""
    end_s = time.monotonic() + WALL_LIMIT_S
    pid = status = 0
    while not pid and time.monotonic() < end_s:
        pid, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return (status, False) if pid else (os.waitpid(child, 0)[1], True)
