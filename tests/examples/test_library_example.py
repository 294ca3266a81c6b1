"""The library example of the README runs as printed."""

from __future__ import annotations

import runpy
from pathlib import Path


def test_the_library_example_runs(tmp_path, capsys):
    """It solves a shipped instance, passes the checker and writes a solution and a report."""
    example = runpy.run_path(str(Path(__file__).with_name("library.py")))
    time_ms = example["main"]("instances/tiny-6.yaml", str(tmp_path / "out"))
    text = capsys.readouterr().out
    assert f"{time_ms:.3f} ms" in text
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"solution.json", "report.html"}
