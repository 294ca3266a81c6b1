"""The Python of the README runs as it stands, block after block."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import INSTANCES, ROOT


def test_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks in one namespace, in a folder with the shipped instances; what is written can be read."""
    shutil.copytree(INSTANCES, tmp_path / "instances", ignore=shutil.ignore_patterns("*.png", "published"))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert names["topoopt"].read_solution(tmp_path / "solution.json").check.ok
    assert names["rows"].to_pandas().shape[0] == 4
