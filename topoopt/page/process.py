"""The process of one command: when it began, what Ctrl-C and other signals do to it, how much it says."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextvars import ContextVar
from types import FrameType
from typing import NamedTuple

from topoopt.core.process import SIGNALS, interrupt, is_pending, listen, take, was_heard


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
