"""The shipped files of public data: valid, named after their files, and what the public files give."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.measured import make
from tests.support.paths import INSTANCES, SHARED_DATA
from topoopt.kinds.files import read_instance

FILES = sorted(path for folder in ("measured", "published") for path in (INSTANCES / folder).glob("*.[yj]*"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_instances_are_valid(path: Path) -> None:
    """Read without a fault, and named like the file."""
    assert read_instance(path).name == path.stem


@pytest.mark.heavy
def test_made_from_the_public_files(tmp_path: Path) -> None:
    """Importing the public files again gives the shipped bytes."""
    if not SHARED_DATA.exists():
        pytest.skip(f"shared data absent: {SHARED_DATA}")
    make(SHARED_DATA, tmp_path)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert made == {path: (INSTANCES / path).read_bytes() for path in made}
    assert len(made) == len(FILES) + 1
