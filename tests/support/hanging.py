"""Work that hangs, and a clock for which it hangs longer than any limit: what a limit does, whatever the machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

LIMIT_S = 1000
"""A time limit that no machine reaches but by hanging."""

HUNG, FREE = threading.Event(), threading.Event()
"""Whether some work hangs, and whether it may end."""


def endless(*values: object, **named: object) -> Any:
    """Work that looks at no clock."""
    HUNG.set()
    FREE.wait()
    raise SystemExit


@pytest.fixture
def time_passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Once work hangs, the time limit is over; when the test ends, what hangs is freed."""
    original = time.monotonic
    monkeypatch.setattr("solvers.stop.time.monotonic", lambda: original() + 10.0 * LIMIT_S * HUNG.is_set())
    yield
    FREE.set()
    for thread in threading.enumerate():
        if thread.name == "topoopt step":
            thread.join(300.0)
    HUNG.clear()
    FREE.clear()
