"""Runs what must not fail: within 10 s and 1 GB, and with no error but the project's own."""

from __future__ import annotations

import faulthandler
import resource
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from types import FrameType

from topoopt.core.errors import TopooptError

SECONDS = 10.0
"""Of the processor for one file; how busy the machine is says nothing."""

HUNG_S = 120.0
"""After which a call that takes no signal is ended with the whole process, its stack printed."""

MEBIBYTES = 1024


class TooSlowError(BaseException):
    """Not to be caught by anything that is tried."""


def _peak_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def issue_of(run: Callable[[], object]) -> str | None:
    """What goes wrong in a call, as a text; None: it ends as it should."""

    def late(number: int, frame: FrameType | None) -> None:
        raise TooSlowError

    before = _peak_mib()
    previous = signal.signal(signal.SIGPROF, late)
    faulthandler.dump_traceback_later(HUNG_S, exit=True, file=sys.__stderr__)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
    except TopooptError:
        pass
    except TooSlowError:
        return f"more than {SECONDS:g} s: " + "".join(traceback.format_exc(limit=-6))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return "".join(traceback.format_exception(error, limit=-8))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
        faulthandler.cancel_dump_traceback_later()
    taken = _peak_mib() - before
    return f"{taken} MiB more memory" if taken > MEBIBYTES else None
