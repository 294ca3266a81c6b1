"""Work that may be left: whoever waited for it goes on, and it ends where it looks here next.

What is left takes the interpreter away from what comes after it until it ends, so work of more than a few hundredths of
a second looks at every turn of its loop. It costs a tenth of a microsecond.
"""

from __future__ import annotations

import threading
from contextvars import ContextVar


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
