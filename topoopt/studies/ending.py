"""What ends a study before all its runs are done: a signal, or a limit of time for all of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from solvers.stop import stop_on_signals
from topoopt.console.interrupt import INTERRUPTED
from topoopt.console.output import EXIT_OF_STOP
from topoopt.core.errors import CheckError
from topoopt.core.proofs import StopReason
from topoopt.studies.stopping import StudyStop

SAID = "finishing: runs in flight keep the best they have, no more begin; Ctrl-C again to stop with what is there"


@dataclass(frozen=True)
class StudyEnd:
    """Why a study ends early, if it does.

    Attributes:
        stop: interrupted when it is to end, and in a hurry on the second signal.
        late: set when the limit was why.
    """

    stop: StudyStop
    late: threading.Event = field(default_factory=threading.Event)

    @property
    def status(self) -> str:
        """`done`, `time` or `interrupted`."""
        return "done" if not self.stop.interrupted.is_set() else "time" if self.late.is_set() else "interrupted"

    def exit_code(self, rejected: int) -> int:
        """That of the command; `rejected`: results that the checker rejects."""
        if self.stop.interrupted.is_set():
            return EXIT_OF_STOP[StopReason.TIME] if self.late.is_set() else INTERRUPTED
        return CheckError.exit_code if rejected else 0


@contextmanager
def ended_early(time_limit_s: float | None) -> Iterator[StudyEnd]:
    """Look after signals, and a limit, while the block runs; the first signal says at once what comes of it."""

    def told(signals: int) -> None:
        text = SAID if signals == 1 else "stopping"
        os.write(2, f"\n{text}\n".encode())  # a handler of signals must not wait for a lock of the console

    with stop_on_signals(None, hurries=True, told=told) as stop:
        end = StudyEnd(StudyStop(stop.interrupted, stop.hurry))

        def over() -> None:
            end.late.set()
            end.stop.interrupted.set()

        timer = threading.Timer(time_limit_s or 0.0, over)
        timer.daemon = True
        if time_limit_s is not None:
            timer.start()
        try:
            yield end
        finally:
            timer.cancel()
