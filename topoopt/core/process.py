"""The running program: signals that end it, abandoned work, plug-ins, versions of libraries; the process of a command.

Compiled code may swallow what is raised in a function that it calls, or make another error of it. So nothing is raised
while code that is known to do so, or an import, is under way. Wherever else an interrupt was swallowed, by a finalizer
or a callback of a solver, it comes again a moment later, until somebody has taken it.

Abandoned work takes the interpreter away from what comes after it until it ends, so work of more than a few hundredths
of a second asks at every turn of its loop whether somebody still waits. The question costs a tenth of a microsecond.
"""

from __future__ import annotations

import _thread
import importlib
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cached_property
from types import FrameType
from typing import Generic, NamedTuple, TypeVar

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What asks a run to end; SIGHUP where the system knows it."""

DEAF = ("pydantic",)
"""Packages whose compiled part calls functions of Python, and goes on when these raise."""

_AGAIN_S = 0.01


class _Interrupts:
    """Those of this process.

    Attributes:
        heard: whether a signal came.
        pending: what stands for an interrupt that nobody has taken yet; None where there is none.
        reminded: whether a signal is on its way that reminds of it.
        lock: of what the reminding thread reads and sends.
    """

    heard = False
    pending: object | None = None
    reminded = False
    lock = threading.Lock()


_NOW = _Interrupts()


def interrupt(number: int, frame: FrameType | None) -> None:
    """A handler of signals.

    Raises:
        KeyboardInterrupt: now or, if it could not arrive here, a moment later.
    """
    reminded, _NOW.reminded = _NOW.reminded, False
    if reminded and _NOW.pending is None:
        return
    _NOW.heard = True
    if _NOW.pending is None:
        _NOW.pending = object()
        with suppress(RuntimeError):  # no more threads: it is raised once
            _thread.start_new_thread(_remind, (number, _NOW.pending))
    if not (_is_deaf(frame) or (reminded and _in_flight())):
        raise KeyboardInterrupt


def end_if_interrupted() -> None:
    """To be called before what cannot be undone.

    Raises:
        KeyboardInterrupt: one is pending that has not arrived.
    """
    if _NOW.pending is not None and not _in_flight():
        raise KeyboardInterrupt


def hear() -> None:
    """A signal came, and whoever handles it ends the run in his own way."""
    _NOW.heard = True


def listen() -> None:
    _NOW.heard = False


def was_heard() -> bool:
    """Whether a signal came since `listen`."""
    return _NOW.heard


def is_pending() -> bool:
    """Whether an interrupt came that nobody has taken."""
    return _NOW.pending is not None


def take() -> None:
    """The interrupt has arrived, so that it need not come again; called where handlers of signals still stand."""
    with _NOW.lock:
        _NOW.pending = None
    for _ in range(100):  # the handler has yet to see that a reminder is of no use
        if not _NOW.reminded:
            break
        time.sleep(0.001)


def _remind(number: int, pending: object) -> None:
    main = threading.main_thread().ident
    assert main is not None
    while True:
        time.sleep(_AGAIN_S)
        with _NOW.lock:
            if _NOW.pending is not pending:
                return
            _NOW.reminded = True
            signal.pthread_kill(main, number)


def _is_deaf(frame: FrameType | None) -> bool:
    """Whether code is under way that swallows interrupts; its compiled part is between frames that are seen."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] in DEAF or frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _in_flight() -> bool:
    """Whether an interrupt was raised here, and is on its way to whoever takes it."""
    error = sys.exception()
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


class Left(SystemExit):
    """Raised inside work that was left; handlers of errors do not catch it, and a thread ends by it in silence."""


LEFT: ContextVar[threading.Event] = ContextVar("left")
"""Set for the work of this context once nobody waits for it any more; not there: it is never left."""


def end_if_left() -> None:
    """To be called where work may end: it does if nobody waits for it any more.

    Raises:
        Left: nobody does.
    """
    left = LEFT.get(None)
    if left is not None and left.is_set():
        raise Left


PlugIn = TypeVar("PlugIn")


class PlugInNames(Mapping[str, str]):
    """Name -> where the plug-in stands: those of the literal table, then those of other packages.

    Args:
        table: in the order in which lists name them.
        group: of entry points, such as `topoopt.kinds`; other packages add plug-ins by it. None: nobody does.
    """

    def __init__(self, table: Mapping[str, str], group: str | None = None) -> None:
        self._table = table
        self._group = group

    @cached_property
    def _others(self) -> Mapping[str, str]:
        """Entry points, looked for once, and only where the literal table is not enough."""
        from importlib.metadata import entry_points

        points = () if self._group is None else entry_points(group=self._group)
        for point in points:
            if point.name in self._table:
                text = f"the entry point {point.value} of {self._group} is left out: {point.name} is a name of topoopt"
                warnings.warn(text, stacklevel=2)
        return {point.name: point.value for point in points if point.name not in self._table}

    def __getitem__(self, name: str) -> str:
        return self._table[name] if name in self._table else self._others[name]

    def __iter__(self) -> Iterator[str]:
        yield from self._table
        yield from self._others

    def __len__(self) -> int:
        return len(self._table) + len(self._others)


class PlugIns(Mapping[str, PlugIn], Generic[PlugIn]):
    """Name -> constant of a module, in the order of the table.

    Args:
        table: where each stands, as `module:constant`.
        group: of entry points of other packages.
    """

    def __init__(self, table: Mapping[str, str], group: str | None = None) -> None:
        self._names = PlugInNames(table, group)

    def __getitem__(self, name: str) -> PlugIn:
        module, _, constant = self._names[name].partition(":")
        plug_in: PlugIn = getattr(importlib.import_module(module), constant)
        return plug_in

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


PACKAGES = ("topoopt", "numpy", "scipy", "networkx", "highspy", "ortools")


def versions() -> tuple[tuple[str, str], ...]:
    """(name, version) of Python and the packages, in this order."""
    from importlib.metadata import version

    return (("python", sys.version.split()[0]), *((name, version(name)) for name in PACKAGES))


def versions_text() -> str:
    return ", ".join(f"{name} {version}" for name, version in versions())


class Moment(NamedTuple):
    """`time.monotonic()` and `time.process_time()` at once."""

    at_s: float
    cpu_s: float


_BEGAN: ContextVar[Moment] = ContextVar("began")


def _now() -> Moment:
    return Moment(time.monotonic(), time.process_time())


def begin() -> None:
    """To be called first of all where the program starts."""
    _BEGAN.set(_now())


def began() -> Moment:
    """The start of the program; now, where it was not started for this run alone."""
    return _BEGAN.get(_now())


INTERRUPTED = 130
"""Exit code after Ctrl-C, SIGTERM or SIGHUP."""


def interrupted_document() -> dict[str, object]:
    """What `--json` prints when there is no plan."""
    return {"status": "unknown", "stopped_by": "interrupted", "exit_code": INTERRUPTED}


def _leave(number: int, frame: FrameType | None) -> None:
    if "--json" in sys.argv:
        os.write(1, (json.dumps(interrupted_document()) + "\n").encode())
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def leave_on_interrupt() -> None:
    """While the program loads there is nothing to save: these signals end it at once, unless they are ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _leave)


def raise_on_interrupt() -> None:
    """From now on they raise KeyboardInterrupt, so that files being written are cleaned up."""
    listen()
    sys.unraisablehook = _tell_unraisable
    for number in SIGNALS:
        if signal.getsignal(number) is _leave:
            signal.signal(number, interrupt)


def hold_interrupts() -> bool:
    """All is done but to leave; whether one of them came."""
    take()
    for number in SIGNALS:
        if signal.getsignal(number) is interrupt:
            signal.signal(number, signal.SIG_IGN)
    return was_heard()


def ignore_from_now() -> None:
    """The same for a program that got no further than loading."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _tell_unraisable(lost: sys.UnraisableHookArgs) -> None:
    """As ever, but for an interrupt, which comes again."""
    if not (is_pending() and issubclass(lost.exc_type, KeyboardInterrupt)):
        sys.__unraisablehook__(lost)


_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


def be_quiet(wanted: bool) -> None:
    """Set by the option `--quiet`, which every command has."""
    _QUIET.set(wanted)


def quiet() -> bool:
    """Whether it was given."""
    return _QUIET.get()


_VERBOSE: ContextVar[bool] = ContextVar("verbose", default=False)


def be_verbose(wanted: bool) -> None:
    """Set by the option `--verbose`, which every command has."""
    _VERBOSE.set(wanted)


def verbose() -> bool:
    return _VERBOSE.get()
