"""5 000 damaged files: no error but the project's own, none slow, none hungry."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.fuzz.campaign import batches, mutants, prepared
from tests.fuzz.targets import SHARES, TARGETS
from topoopt.core.errors import LimitError


def test_shares() -> None:
    """5 000 files, some of every target; batches of a campaign hold every seed of a target once."""
    assert sum(target.share for target in TARGETS.values()) == SHARES
    assert all(target.share > 0 for target in TARGETS.values())
    plan = batches(tuple(TARGETS), total=20_000, first=7)
    for name, target in TARGETS.items():
        seeds = [seed for batch in plan if batch.target == name for seed in batch.seeds]
        assert seeds == list(range(7, 7 + 4 * target.share))


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    """None of them ends in anything but an answer or a refusal."""
    found = list(mutants(name, range(TARGETS[name].share), tmp_path))
    assert not found, "\n\n".join(str(issue) for issue in found[:5])


@pytest.mark.parametrize("name", TARGETS)
def test_originals(name: str, tmp_path: Path) -> None:
    """What is not damaged is taken, so that damage reaches what lies behind the reader."""
    target = TARGETS[name]
    slow = [LimitError] if name == "solved instances" else []  # taken, on a machine too slow for the second it has
    for original, content in target.originals().items():
        path = prepared(target, tmp_path) / original
        path.write_bytes(content)
        with contextlib.suppress(*slow):
            target.run(path)
