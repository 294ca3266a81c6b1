"""5 000 damaged files: no error but the project's own, none slow, none hungry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.campaign import mutants, prepared
from tests.fuzz.targets import TARGETS

SHARES = {
    "instances": 270, "solved instances": 30, "network instances": 400, "other instances": 300, "shared clusters": 200,
    "solutions": 700, "studies": 300, "stores of studies": 600, "matrices": 500, "traces of demand": 300, "graphs": 400,
    "price books": 100, "foreign formats": 500, "foreign schedules": 400,
}  # fmt: skip
"""How many files of each; 5 000 in all."""


def test_shares() -> None:
    """Every target gets some."""
    assert SHARES.keys() == TARGETS.keys()
    assert sum(SHARES.values()) == 5000


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    """None of them ends in anything but an answer or a refusal."""
    found = list(mutants(name, range(SHARES[name]), tmp_path))
    assert not found, "\n\n".join(str(fault) for fault in found[:5])


@pytest.mark.parametrize("name", TARGETS)
def test_originals(name: str, tmp_path: Path) -> None:
    """What is not damaged is taken, so that damage reaches what lies behind the reader."""
    target = TARGETS[name]
    for original, content in target.originals().items():
        path = prepared(target, tmp_path) / original
        path.write_bytes(content)
        target.run(path)
