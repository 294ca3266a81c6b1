"""The native module is built: into a wheel, from a source archive, and where no compiler is at hand."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT

INSTANCE = ROOT / "instances" / "tiny-4.yaml"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
ARCHIVE = (
    "import sys; sys.path.insert(0, 'topoopt/native/cmake'); import build_backend; "
    "print(build_backend.build_sdist(sys.argv[1]))"
)
OUTCOMES = (
    "import sys; sys.path.append(sys.argv[1]); from tests.native.outcomes import digest; import topoopt; "
    "print(digest(), topoopt.__file__)"
)


def run(*words: str | Path, path: str | None = None, cwd: Path = ROOT, modules: Path | None = None) -> str:
    """What a command prints; without `path`, tools are found as here."""
    environment = {**os.environ, **({} if path is None else {"PATH": path})}
    environment.pop("PYTHONPATH", None)
    if modules is not None:
        environment["PYTHONPATH"] = str(modules)
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed(wheel: Path, into: Path) -> Path:
    """The folder with what the wheel holds."""
    run(*PIP, "install", "--no-deps", "--target", into, wheel)
    return into


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree that a source archive unpacks to."""
    folder = tmp_path_factory.mktemp("source")
    name = run(sys.executable, "-c", ARCHIVE, folder).split()[-1]
    with tarfile.open(folder / name) as archive:
        archive.extractall(folder, filter="data")
    return folder / name.removesuffix(".tar.gz")


def test_a_wheel_of_the_source_archive_solves_without_a_compiler(source: Path, tmp_path: Path) -> None:
    """What is built here runs where nothing else is installed of it, and says what the tree says."""
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path / "dist", source)
    (wheel,) = (tmp_path / "dist").glob("topoopt-*.whl")
    modules = installed(wheel, tmp_path / "modules")
    assert not list(modules.rglob("*.cpp"))
    assert (modules / "topoopt" / "instances" / "tiny-4.yaml").is_file()
    words = (sys.executable, "-m", "topoopt.cli.main", "solve", INSTANCE, "--json", "--output")
    here, there = tmp_path / "here", tmp_path / "there"
    where = run(sys.executable, "-c", "import topoopt; print(topoopt.__file__)", cwd=tmp_path, modules=modules)
    assert Path(where.strip()).is_relative_to(modules)
    answer = json.loads(run(*words, there, path="/nowhere", cwd=tmp_path, modules=modules))
    same = json.loads(run(*words, here, cwd=ROOT, modules=ROOT))
    assert answer["check"]["ok"] is True
    assert answer["objective"] == same["objective"]


def test_missing_headers_of_python_are_named() -> None:
    """One line says what to install."""
    program = (
        "import sys, sysconfig; sys.path.insert(0, 'topoopt/native/cmake'); import build_backend; "
        "sysconfig.get_path = lambda name: '/nowhere'; build_backend.build_wheel('out')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().count("\n") == 0
    for package in ("python3-dev", "python3-devel", "python.org"):
        assert package in done.stderr


@pytest.mark.heavy
def test_where_no_compiler_is_at_hand_a_wheel_brings_one(tmp_path: Path) -> None:
    """Built by the ziglang wheel (some minutes, 100 MB loaded), the module gives the same bytes."""
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "sh").symlink_to("/bin/sh")
    run(
        *PIP[:-1],
        "--log",
        tmp_path / "log",
        "wheel",
        "--no-deps",
        "--verbose",
        "--wheel-dir",
        tmp_path / "dist",
        ROOT,
        path=str(bare),
    )
    assert "No C++ compiler is at hand: the ziglang wheel compiles the native module." in (tmp_path / "log").read_text()
    (wheel,) = (tmp_path / "dist").glob("topoopt-*.whl")
    modules = installed(wheel, tmp_path / "modules")
    there, file = run(sys.executable, "-c", OUTCOMES, ROOT, cwd=tmp_path, modules=modules).split()
    assert Path(file).is_relative_to(modules)
    assert there == run(sys.executable, "-c", OUTCOMES, ROOT, modules=ROOT).split()[0]
