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


def test_the_pieces_have_the_names_the_package_gives_them():
    """Every name `topoopt` and `topoopt.simulate` announce is there, and nothing else answers."""
    import pytest

    import topoopt

    for package in (topoopt, topoopt.simulate):
        for name in package.__all__:
            assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        getattr(topoopt.simulate, "no" + "thing")
    assert callable(topoopt.replay)
