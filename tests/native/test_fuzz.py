"""Damaged arguments never bring the process down; `make fuzz-native` does the same with sanitizers."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.native.fuzz import UNITS, calls_of, function_named, fuzz
from tests.support.paths import ROOT
from topoopt import native

CALLS = 1500


@pytest.mark.parametrize("unit", UNITS)
def test_every_function_has_a_maker_whose_arguments_are_taken(unit: str) -> None:
    """All functions and classes of a unit are named, and their valid arguments are not refused."""
    bound = {name for name in vars(getattr(native, unit)) if not name.startswith("_")}
    named = calls_of(unit)
    assert bound == {name.partition(".")[0] for name in named}
    rng = np.random.default_rng(1)
    for name, maker in named.items():
        for _ in range(5):
            function_named(unit, name)(*maker(rng))


@pytest.mark.parametrize("unit", UNITS)
def test_damaged_arguments_return_or_raise(unit: str) -> None:
    """In a process of its own, so that a crash fails one test."""
    command = [sys.executable, "-m", "tests.native.fuzz", "--calls", str(CALLS), "--unit", unit]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "refused" in done.stdout


def test_a_damaged_call_is_seen() -> None:
    """Most damage is refused; calls that are not damaged return."""
    ended = fuzz(400, 3, ("graph",))
    assert ended["returned"] > 50
    assert ended["refused"] > 50
