"""Sizes of a model: their names, defaults and ranges, and the check of what a user gives."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from topoopt.core.errors import InputError, Problem
from topoopt.workloads.spec import OperatorSpec


@dataclass(frozen=True)
class Parameter:
    """One size of a model; `doc` is shown to users."""

    name: str
    default: int
    minimum: int
    maximum: int
    doc: str


@dataclass(frozen=True)
class ModelSpec:
    """A model family.

    Attributes:
        name: key in `MODELS`.
        summary: one line for users.
        parameters: its sizes.
        build: sizes (complete, in range) to operators in topological order; may raise InputError when sizes clash.
    """

    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    build: Callable[[Mapping[str, int]], tuple[OperatorSpec, ...]]


def samples_per_gpu(default: int) -> Parameter:
    """Samples each GPU takes, the usual way to state the batch."""
    return Parameter("samples_per_gpu", default, 1, 1 << 20, "samples per GPU; global batch = servers * GPUs * this")


GLOBAL_BATCH = Parameter("global_batch", 0, 0, 1 << 40, "samples per iteration; 0 derives it from samples_per_gpu")
"""Common to all models."""


def all_parameters(model: ModelSpec) -> tuple[Parameter, ...]:
    """Sizes of a model with the common one."""
    return (*model.parameters, GLOBAL_BATCH)


def nearest(word: str, words: list[str]) -> str:
    """The valid words, led by those that look like `word`."""
    close = difflib.get_close_matches(word, words, n=2)
    listing = ", ".join(words)
    return f"did you mean {' or '.join(close)}? one of {listing}" if close else f"one of {listing}"


def complete_sizes(model: ModelSpec, sizes: Mapping[str, int], path: str = "workload.sizes") -> dict[str, int]:
    """The given sizes with the defaults filled in.

    Raises:
        InputError: every unknown name, wrong type and value out of range.
    """
    table = {parameter.name: parameter for parameter in all_parameters(model)}
    problems = []
    for name, value in sizes.items():
        where = f"{path}.{name}"
        if name not in table:
            problems.append(
                Problem(f"model {model.name} has no such size", path=where, allowed=nearest(str(name), list(table)))
            )
            continue
        low, high = table[name].minimum, table[name].maximum
        allowed = f"integer from {low} to {high}"
        if isinstance(value, bool) or not isinstance(value, int):
            problems.append(Problem("not an integer", path=where, value=repr(value), allowed=allowed))
        elif not low <= value <= high:
            problems.append(Problem("out of range", path=where, value=str(value), allowed=allowed))
    if problems:
        raise InputError(problems)
    return {name: sizes.get(name, parameter.default) for name, parameter in table.items()}


def require(holds: bool, name: str, sizes: Mapping[str, int], allowed: str, path: str = "workload.sizes") -> None:
    """Refuse a size that clashes with another one.

    Raises:
        InputError: `holds` is False.
    """
    if not holds:
        raise InputError(
            [Problem("does not fit the other sizes", path=f"{path}.{name}", value=str(sizes[name]), allowed=allowed)]
        )
