"""The option `--memory-limit` of long runs."""

from __future__ import annotations

import typer

from topoopt.core.arrays import SIZES, bytes_of
from topoopt.core.errors import InputError, Problem

MemoryOption = typer.Option(
    "--memory-limit", help="Resident memory of the run and its solvers together, such as 4GiB or 500MB."
)


def memory_bytes(text: str | None) -> int | None:
    """Bytes of `--memory-limit`.

    Raises:
        InputError: it is no size.
    """
    if text is None:
        return None
    size = bytes_of(text)
    if size is None:
        allowed = f"a number and one of {', '.join(filter(None, SIZES))}"
        raise InputError([Problem("not a size of memory", path="--memory-limit", value=text, allowed=allowed)])
    return size
