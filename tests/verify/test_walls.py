"""The checker stands alone: what loading it brings along, and that nothing of ours is outside the contracts."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import topoopt

ROOT = Path(topoopt.__file__).parents[1]
VERIFY = ROOT / "topoopt" / "verify"
FOLDERS = sorted(folder.name for folder in VERIFY.iterdir() if (folder / "__init__.py").exists())

MOST_MB = 60
"""Memory of a process that has loaded the checker of one kind; Python with numpy takes about 30 of it."""

LOADED = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(found.name)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]
print(json.dumps([sorted(sys.modules), int(peak) / 1024]))
"""


@pytest.mark.parametrize("folder", FOLDERS)
def test_loading_a_checker_loads_nothing_it_checks(folder: str) -> None:
    """In a process of its own: no solver, no compiler, no reader of files, and little memory."""
    command = [sys.executable, "-c", LOADED, f"topoopt.verify.{folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    modules, peak_mb = json.loads(done.stdout)
    ours = {name for name in modules if name.split(".")[0] in ("topoopt", "solvers", "formulations")}
    assert {".".join(name.split(".")[:2]) for name in ours} == {"topoopt", "topoopt.core", "topoopt.verify"}
    heavy = {"scipy", "networkx", "highspy", "ortools", "pyomo", "pydantic", "ruamel", "rich"}
    assert not heavy & {name.split(".")[0] for name in modules}
    assert peak_mb < MOST_MB


def test_every_package_of_ours_is_under_the_contracts() -> None:
    """The packages that are shipped are those the layers are drawn over, and no layer has an exception."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    packages = settings["scikit-build"]["wheel"]["packages"]
    assert set(packages) == set(settings["importlinter"]["root_packages"])
    assert set(packages) == {
        path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name not in ("tests", "docs")
    }
    layers = [one for one in settings["importlinter"]["contracts"] if one["type"] == "layers"]
    assert any(one.get("exhaustive") and one["containers"] == ["topoopt"] for one in layers)
    assert not any(one.get("ignore_imports") or one.get("exhaustive_ignores") for one in layers)
