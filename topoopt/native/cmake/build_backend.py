"""How pip builds topoopt: scikit-build-core, with a compiler from a wheel where the machine has none."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import stat
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from scikit_build_core import build as scikit

NAMES = ("c++", "g++", "clang++")
COMPILER_WHEEL = "ziglang>=0.13"
NO_HEADERS = (
    "Python.h is missing, the header of Python's C interface. Install python3-dev (Debian, Ubuntu) or python3-devel "
    "(Fedora), or take Python from python.org or Homebrew (macOS)."
)

build_sdist = scikit.build_sdist
get_requires_for_build_sdist = scikit.get_requires_for_build_sdist
prepare_metadata_for_build_wheel = scikit.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = scikit.prepare_metadata_for_build_editable


def needs_compiler() -> bool:
    """Whether no C++ compiler is at hand."""
    named = os.environ.get("CXX")
    return shutil.which(named.split()[0]) is None if named else not any(map(shutil.which, NAMES))


def get_requires_for_build_wheel(settings: dict[str, Any] | None = None) -> list[str]:
    """What pip installs in the environment of the build."""
    return [*scikit.get_requires_for_build_wheel(settings), *_compiler()]


def get_requires_for_build_editable(settings: dict[str, Any] | None = None) -> list[str]:
    """What pip installs in the environment of the build."""
    return [*scikit.get_requires_for_build_editable(settings), *_compiler()]


def build_wheel(folder: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Build a wheel into the folder; its name."""
    _prepare()
    return str(scikit.build_wheel(folder, settings, metadata))


def build_editable(folder: str, settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Build the module beside its sources, and a wheel that points to the tree; its name."""
    _prepare()
    name = str(scikit.build_editable(folder, settings, metadata))
    _leave_imports_alone(Path(folder) / name)
    return name


def _leave_imports_alone(wheel: Path) -> None:
    """Take the finder out of an editable wheel: it would come before PYTHONPATH, and serves builds at imports alone."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    kept = {name: data for name, data in files.items() if not (name.startswith("_editable_") and name.endswith(".py"))}
    (record,) = (name for name in kept if name.endswith(".dist-info/RECORD"))
    for name, data in tuple(kept.items()):
        if name.endswith(".pth"):
            lines = dict.fromkeys(line for line in data.decode().splitlines() if not line.startswith("import "))
            kept[name] = "".join(f"{line}\n" for line in lines).encode()
    rows = [f"{name},{_hash(data)},{len(data)}\n" for name, data in kept.items() if name != record]
    kept[record] = "".join((*rows, f"{record},,\n")).encode()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in kept.items():
            archive.writestr(name, data)


def _hash(data: bytes) -> str:
    return f"sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')}"


def _compiler() -> list[str]:
    return [COMPILER_WHEEL] if needs_compiler() else []


def _prepare() -> None:
    """See to headers and a compiler.

    Raises:
        SystemExit: the headers of Python are missing.
    """
    if not any(Path(sysconfig.get_path(name), "Python.h").exists() for name in ("include", "platinclude")):
        raise SystemExit(NO_HEADERS)
    if not needs_compiler():
        return
    print("No C++ compiler is at hand: the ziglang wheel compiles the native module.", file=sys.stderr, flush=True)
    tools = Path(tempfile.mkdtemp(prefix="topoopt-compiler-"))
    for name in ("c++", "ar", "ranlib"):
        tool = tools / name
        # By itself it compiles for this processor alone, and with checks of its own.
        checks = " -mcpu=baseline -fno-sanitize=undefined" if name == "c++" else ""
        tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang {name}{checks} "$@"\n')
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    os.environ["CXX"] = str(tools / "c++")
    given = os.environ.get("CMAKE_ARGS", "")
    os.environ["CMAKE_ARGS"] = f"{given} -DCMAKE_AR={tools / 'ar'} -DCMAKE_RANLIB={tools / 'ranlib'}".strip()
