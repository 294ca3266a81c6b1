"""Data beside the checkout that tests read in place; where they are not there, tests are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).absolute().parents[3] / "shared" / "data"


def shared_file(*parts: str) -> Path:
    """A file beside the checkout."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"../shared/data/{'/'.join(parts)} is not there")
    return path
