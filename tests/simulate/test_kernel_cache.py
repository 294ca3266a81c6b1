"""Kernels where their compiled code cannot be kept or read back."""

from __future__ import annotations

import ast
import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numba.core.caching import FunctionCache

from tests.support.paths import ROOT
from topoopt.simulate import jit
from topoopt.simulate.kernel_files import KernelFiles


def full(*_: Any) -> None:
    """Stands in for a disk without space."""
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["_save_overload", "_load_overload"])
def test_kernel_runs_when_its_cache_fails(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full or unreadable disk costs the next run its time, not this one its result."""
    monkeypatch.setattr(FunctionCache, step, full)

    @jit.kernel
    def twice(x: int) -> int:
        return 2 * x

    assert twice(21) == 42


def test_kernel_runs_without_a_place_for_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba knows no folder it may write to."""

    def nowhere(*_: Any) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(FunctionCache, "__init__", nowhere)

    @jit.kernel
    def thrice(x: int) -> int:
        return 3 * x

    assert thrice(14) == 42


KERNELS = """
import numpy as np
from topoopt.simulate.jit import kernel

@kernel
def total(values):
    return np.sort(values).cumsum()[-1] + values.mean()

@kernel
def doubled(values):
    return 2.0 * total(values)
"""

RUN = """
import sys
import numpy as np
from topoopt.simulate.compilation import heard
from own.part import doubled, total

compiled = []
with heard(lambda: compiled.append(1), lambda: None):
    print(float(total(np.arange(5.0))))
    print(len(compiled), "numba.np.arraymath" in sys.modules, "scipy.linalg" in sys.modules)
    if len(sys.argv) > 1:
        print(float(doubled(np.arange(5.0))), len(compiled))
"""


def test_a_kernel_on_disk_is_read_without_the_compiler(tmp_path: Path) -> None:
    """And can be called by one that is compiled later: 0 + 1 + 2 + 3 + 4, and their mean, 2."""
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "part.py").write_text(KERNELS)
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}

    def run(*arguments: str) -> list[str]:
        command = [sys.executable, "-c", RUN, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
        return done.stdout.splitlines()

    assert run() == ["12.0", "1 True True"]
    assert run("more") == ["12.0", "0 False False", "24.0 1"]
    assert run("more") == ["12.0", "0 False False", "24.0 0"]


def test_a_file_holds_what_its_name_says(tmp_path: Path) -> None:
    """Code of one kind of arguments or of an older source is never taken for another, whoever wrote last."""

    def files(source: str) -> Any:
        return KernelFiles(str(tmp_path), "part.total-1", source)  # type: ignore[no-untyped-call]

    one, other, newer = files("1"), files("1"), files("2")
    one.save("int64", "code of integers")
    other.save("float64", "code of floats")
    assert files("1").load("int64") == "code of integers"
    assert files("1").load("float64") == "code of floats"
    assert newer.load("int64") is None
    newer.save("int64", "newer code")
    assert [len(list(tmp_path.iterdir())), newer.load("int64"), one.load("int64")] == [1, "newer code", None]
    newer.flush()
    assert list(tmp_path.iterdir()) == []


def test_what_is_borrowed_outlives_its_use() -> None:
    """An array made inside a kernel and never named again is freed at once: what is borrowed of it would dangle."""
    found = 0
    for file in sorted((ROOT / "topoopt").rglob("*.py")) + sorted((ROOT / "solvers").rglob("*.py")):
        for function in ast.walk(ast.parse(file.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            read = [
                each for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
            ]
            arguments = {each.arg for each in function.args.args}
            for call in ast.walk(function):
                if isinstance(call, ast.Call) and getattr(call.func, "id", None) == "borrowed":
                    found += 1
                    inside = {each for each in ast.walk(call) if isinstance(each, ast.Name)} - {call.func}
                    kept = arguments | {each.id for each in read if each not in inside}
                    assert {each.id for each in inside} <= kept, f"{file}:{call.lineno}"
    assert found > 3
