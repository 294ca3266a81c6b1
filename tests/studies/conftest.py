"""Studies for the tests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes a study file and gives its path."""

    def write(document: dict[str, Any], name: str = "study.json") -> Path:
        path = tmp_path / name
        path.write_text(json.dumps(document))
        return path

    return write


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets servers import the programs of `tests.support`."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
