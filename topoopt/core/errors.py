"""One root for every error a user can cause or meet, each with the exit code of the command line.

Bad input is collected: an `InputError` lists all problems of a file at once.
"""

from __future__ import annotations

import errno
import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class TopooptError(Exception):
    """Root of all errors raised on purpose by topoopt."""

    exit_code = 1


@dataclass(frozen=True)
class Problem:
    """One thing wrong with the input: where it is, what stands there, what is allowed."""

    message: str
    file: str | None = None
    line: int | None = None
    path: str | None = None
    value: str | None = None
    allowed: str | None = None

    def __str__(self) -> str:
        # A name may hold line breaks, which would let it speak for us.
        file = None if self.file is None else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in self.file)
        where = ":".join(str(part) for part in (file, self.line) if part is not None)
        parts = [part for part in (where, self.path) if part]
        text = f"{' '.join(parts)}: {self.message}" if parts else self.message
        if self.value is not None:
            text += f" (value: {self.value})"
        if self.allowed is not None:
            text += f"; allowed: {self.allowed}"
        return text


class InputError(TopooptError):
    """Bad input: all problems found, in file order; exit code 3 where the file is right and no plan can satisfy it."""

    exit_code = 2

    def __init__(self, problems: list[Problem] | tuple[Problem, ...] | str, exit_code: int = exit_code) -> None:
        self.exit_code = exit_code
        if isinstance(problems, str):
            problems = (Problem(problems),)
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def raise_any(problems: list[Problem] | tuple[Problem, ...]) -> None:
    """Raise all problems at once, where there are any.

    Raises:
        InputError: there are some.
    """
    if problems:
        raise InputError(problems)


class InfeasibleError(TopooptError):
    """No plan can satisfy the constraints; the message names the clashing ones."""

    exit_code = 3


class LimitError(TopooptError):
    """A limit was reached before any plan was found."""

    exit_code = 5


class MachineError(TopooptError):
    """The machine failed, not what it was given: disk full, too many files open. The same command may do later."""

    exit_code = 7


OF_MACHINE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE}
)
"""Errors of the system that say nothing about the input or the place."""


def is_of_machine(error: BaseException) -> bool:
    """Whether an error of the system is one of those that pass."""
    return isinstance(error, OSError) and error.errno in OF_MACHINE


class CheckError(TopooptError):
    """The independent checker rejects a result of ours: a bug, never to be shown as a result."""

    exit_code = 6


def raise_rejected(violations: Iterable[object]) -> None:
    """Raise what the checker finds wrong with a solution, where there is anything.

    Raises:
        CheckError: there is.
    """
    if texts := [*map(str, violations)]:
        raise CheckError("\n".join(["the checker rejects the solution:", *texts]))


EXTRAS = {
    "pyarrow": "studies",
    "duckdb": "studies",
    "altair": "studies",
    "vl_convert": "studies",
    "submitit": "slurm",
    "distributed": "dask",
    "pandas": "notebook",
}
"""Extra that each library comes with."""


def extra(module: str, purpose: str) -> Any:
    """A library of an extra, loaded.

    Args:
        module: such as `pyarrow.parquet`.
        purpose: what it is needed for, as the subject of a sentence in the plural.

    Raises:
        InputError: it is not installed; names the extra.
    """
    library = module.split(".", 1)[0]
    try:
        return importlib.import_module(module)
    except ImportError:
        text = f"{purpose} need {library}, which is not installed"
        raise InputError([Problem(text, allowed=f"pip install 'topoopt[{EXTRAS[library]}]'")]) from None
