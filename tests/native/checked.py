"""Runs something with the native module built with sanitizers and checked views.

python -m tests.native.checked pytest tests/native
python -m tests.native.checked fuzz --calls 1000000
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.paths import ROOT

BUILD = ROOT / "out" / "checked"
RUNTIMES = ("libasan.so", "libubsan.so")


def build(source: Path = ROOT / "topoopt" / "native" / "cmake", folder: Path = BUILD, checked: bool = True) -> Path:
    """Build the module, with sanitizers or as it is shipped; where it is.

    Raises:
        RuntimeError: the tools are missing.
    """
    for tool in ("cmake", "g++"):
        if shutil.which(tool) is None:
            raise RuntimeError(f"the checked build needs {tool}")
    options = (f"-DPython_EXECUTABLE={sys.executable}", f"-DTOPOOPT_CHECKED={'ON' if checked else 'OFF'}")
    subprocess.run(["cmake", "-S", source, "-B", folder, *options], check=True, stdout=subprocess.DEVNULL)
    jobs = "--parallel" if checked else "--parallel=1"
    subprocess.run(["cmake", "--build", folder, jobs], check=True, stdout=subprocess.DEVNULL)
    return next((folder if checked else source.parent).glob("_native*.so"))


def environment(module: Path) -> dict[str, str]:
    """Variables of a process that loads this module in place of the ordinary one (`tests.native.loaded`)."""
    paths = [
        subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in RUNTIMES
    ]
    sanitizers = {"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return {**os.environ, **sanitizers, "LD_PRELOAD": " ".join(paths), "TOPOOPT_CHECKED_MODULE": str(module)}


def main() -> int:
    """Build, run, and end with the exit code of what ran."""
    what, *words = sys.argv[1:]
    names = {"pytest": ["pytest", "-p", "no:cacheprovider"], "fuzz": ["tests.native.fuzz"]}
    command = [sys.executable, "-m", *names[what], *words]
    return subprocess.run(command, cwd=ROOT, env=environment(build()), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
