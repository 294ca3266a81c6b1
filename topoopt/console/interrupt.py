"""Ctrl-C and SIGTERM while the program loads and before there is anything to save: leave at once, without a traceback.

A KeyboardInterrupt inside an import can surface as any other error, so none is raised there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from types import FrameType

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
    """From now on these signals end the process, unless they were set to be ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _leave)


def raise_on_interrupt() -> None:
    """From now on they raise KeyboardInterrupt, so that files being written are cleaned up."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is _leave:
            signal.signal(number, signal.default_int_handler)
