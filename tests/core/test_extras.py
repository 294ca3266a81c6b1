"""Libraries that the main work does without: what needs one says which extra brings it, and nothing else needs one."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topoopt
from tests.support.cli_cases import run
from tests.support.paths import INSTANCES, ROOT
from tests.support.study_cases import routing, study
from topoopt.core.errors import EXTRAS, extra
from topoopt.kinds.files import instance_text


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no extra was installed."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("pyarrow", "duckdb")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("pyarrow", "duckdb"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails then


def test_every_library_has_its_extra() -> None:
    """The table here says what the distribution says, and the distribution itself needs none of them."""
    project = tomllib.loads(Path(ROOT / "pyproject.toml").read_text())["project"]
    for module, name in EXTRAS.items():
        library = module.replace("_", "-")  # as distributions are called
        assert any(line.startswith(library) for line in project["optional-dependencies"][name]), library
        assert not any(line.startswith(library) for line in project["dependencies"]), library


def test_what_is_missing_is_said(bare: None, tmp_path: Path) -> None:
    """One line with the extra to install, exit code 2, before anything is run."""
    with pytest.raises(topoopt.InputError, match=r"topoopt\[studies\]"):
        extra("pyarrow.parquet", "tables of studies")
    file = tmp_path / "s.json"
    file.write_text(instance_text(study({"instance": routing()}), file))
    told = run("study", "run", file, "--output", tmp_path / "out", "--json")
    assert told.code == 2
    assert "pip install 'topoopt[studies]'" in told.json["problems"][0]["allowed"]
    assert not (tmp_path / "out").exists()
    (tmp_path / "demand.parquet").write_bytes(b"PAR1")
    network: dict[str, Any] = {"schema_version": 1, "kind": "topology", "name": "p", "servers": 4, "degree": 2}
    wrong = tmp_path / "p.yaml"
    wrong.write_text(instance_text({**network, "links": "unidirectional", "demand": {"file": "demand.parquet"}}, wrong))
    refused = run("validate", wrong)
    assert "topoopt[studies]" in refused.stderr + refused.stdout


def test_solutions_have_no_need_of_them(bare: None) -> None:
    """Solve, check, report and compare; a table of Arrow is refused with the extra's name."""
    problem = topoopt.TopologyInstance(servers=4, degree=2, demand=np.ones((4, 4)) - np.eye(4), links="unidirectional")
    solution = topoopt.solve(problem)
    assert topoopt.check(problem, solution).ok
    assert topoopt.report(solution)
    with pytest.raises(topoopt.InputError, match=r"topoopt\[studies\]"):
        solution.tables()


def test_nothing_heavy_loads_with_a_solve(tmp_path: Path) -> None:
    """In a process of its own: no library of an extra is loaded by the command that everybody runs."""
    script = (
        "import sys; from topoopt.cli.app import command_line\n"
        f"command_line(['solve', {str(INSTANCES / 'tiny-4.yaml')!r}, '--budget', '5', '-o', {str(tmp_path)!r}])\n"
        f"print([name for name in {sorted(EXTRAS)!r} if name in sys.modules and name != 'pandas'])\n"
    )
    told = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "[]"
