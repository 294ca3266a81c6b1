"""Nothing is replaced that was not meant to be."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from topoopt.core.errors import InputError, Problem


def refuse_existing(files: Iterable[Path], allowed: str) -> None:
    """Stop where a file is there already.

    Args:
        allowed: what the user may do instead.

    Raises:
        InputError: all those that are there.
    """
    there = [path for path in files if path.exists()]
    if there:
        raise InputError([Problem("exists already", file=str(path), allowed=allowed) for path in there])


def new_file(name: str) -> Path:
    """A file of this name in the working directory, for a command whose `--out` was left out.

    Raises:
        InputError: it is there already.
    """
    refuse_existing([Path(name)], "a place named by --out")
    return Path(name)
