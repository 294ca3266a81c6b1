"""Signals outside of searches: every one that asks a run to end is heard, but what is ignored stays so."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WAITING = """
import signal, sys, time
ignored = sys.argv[1] == "ignored"
signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)  # `nohup` around the tests has it ignored
from topoopt.core.process import hold_interrupts, leave_on_interrupt, raise_on_interrupt
leave_on_interrupt()
if sys.argv[1] == "saving":
    raise_on_interrupt()
try:
    print("ready", flush=True)
    time.sleep(2 if ignored else 600)
except KeyboardInterrupt:
    hold_interrupts()
    sys.exit(7)
"""


def ended(way: str, number: signal.Signals) -> tuple[int, str]:
    """Exit code and messages of a process that gets a signal while it waits."""
    child = subprocess.Popen([sys.executable, "-c", WAITING, way], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    child.send_signal(number)
    return child.wait(timeout=300), child.communicate()[1].decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_ends_a_command(number: signal.Signals) -> None:
    """At once with words and code 130; while files are written as an interrupt that cleans up."""
    assert ended("loading", number) == (130, "interrupted\n")
    assert ended("saving", number) == (7, "")


LOST = """
import os, signal, time
from topoopt.core.process import hold_interrupts, leave_on_interrupt, raise_on_interrupt
class Closing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
leave_on_interrupt()
raise_on_interrupt()
try:
    Closing()
    print("went on", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    hold_interrupts()
    print("ended")
"""


def test_an_interrupt_that_is_lost_comes_again() -> None:
    """In a finalizer nothing can be raised: Python goes on. It is heard a moment later, without words."""
    found = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=300, check=True)
    assert found.stdout.split() == ["went", "on", "ended"]
    assert found.stderr == ""


def test_what_is_ignored_stays_so() -> None:
    """As under nohup."""
    assert ended("ignored", signal.SIGHUP) == (0, "")
