"""The library example runs of the page of the library."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.support.paths import ROOT


def test_the_library_example_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three kinds, cell by cell; what is made by hand is no better than what is proven."""
    pytest.importorskip("pandas")
    monkeypatch.chdir(ROOT)
    example = runpy.run_path(str(Path(__file__).with_name("library.py")))
    found = example["main"](str(tmp_path / "out"))
    assert min(found["job, ms"], found["by hand, ms"]) >= found["job, bound, ms"] * (1 - 1e-9)
    assert min(found["cube, theta"], found["best of methods, theta"]) > 0
    # Links 3-7 and 5-7 each carry a third of 0->7 and a half of 1->7: s/3 + (40 + s)/2 = 100 for equal surplus s.
    assert found["least above the guarantee, Gbit/s"] == pytest.approx(96.0)
    text = capsys.readouterr().out
    assert f"{found['by hand, ms']:.3f} ms instead of {found['job, ms']:.3f} ms" in text
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"solution.json", "report.html", "notebook.html"}
    assert (tmp_path / "out" / "notebook.html").read_text().count("<svg") == 2
