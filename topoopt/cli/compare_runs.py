"""What `topoopt compare` runs: instances of any kind that has a contest, methods of its table, seeds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from topoopt.core.comparison import ComparedRun
from topoopt.core.errors import InfeasibleError, InputError, LimitError, Problem, TopooptError
from topoopt.core.price_book import PriceBook
from topoopt.kinds import kind_of
from topoopt.kinds.kind import Kind, SolveOptions

DEFAULT_LIMIT_S = 30.0

FAILURES: tuple[tuple[type[TopooptError], str], ...] = (
    (InputError, "not applicable"),
    (InfeasibleError, "infeasible"),
    (LimitError, "limit"),
    (TopooptError, "error"),
)
"""Outcome of a run that raised; the first that fits."""


@dataclass(frozen=True)
class Entrant:
    """An instance to be solved by several methods.

    Attributes:
        file: as given.
        instance: as read.
        kind: its record.
        methods: names of its methods.
    """

    file: str
    instance: Any
    kind: Kind
    methods: tuple[str, ...]


@dataclass(frozen=True)
class PlannedRun:
    """A run to be made; None for `options`: the kind has no such method."""

    entrant: Entrant
    method: str
    seed: int
    options: SolveOptions | None


def entrants_of(files: Sequence[Path]) -> list[Entrant]:
    """Read all instances; a file given twice counts once.

    Raises:
        InputError: everything wrong with any of them.
    """
    from topoopt.kinds.instance_file import read_instance

    entrants: list[Entrant] = []
    problems: list[Problem] = []
    for file in dict.fromkeys(map(str, files)):
        try:
            instance = read_instance(file)
        except InputError as error:
            problems += error.problems
            continue
        kind = kind_of(instance)
        entrants.append(Entrant(file, instance, kind, tuple(kind.methods(instance))))
    if problems:
        raise InputError(problems)
    return entrants


def starts_of(
    entrants: Sequence[Entrant],
    methods: str | None,
    seeds: int,
    time_limit_s: float | None,
    budget: int | None,
    book: PriceBook | None = None,
) -> list[PlannedRun]:
    """All runs to be made, in order: instance, method, seed.

    A method of one kind only is a run of no effect on the others. With a budget, kinds that take one run without a time
    limit unless one is given; all others have 30 seconds a run unless another limit is given.

    Args:
        entrants: the instances.
        methods: names parted by commas; None for all but `auto`.
        seeds: seeds 0, 1, ... of each method.
        time_limit_s, budget: of each run; None if not given.
        book: prices, for kinds that take them; None: those shipped.

    Raises:
        InputError: all names that no kind among the instances knows, no name at all, a budget that no kind takes.
    """
    problems = []
    names = None if methods is None else list(dict.fromkeys(name.strip() for name in methods.split(",")))
    known = list(dict.fromkeys(name for entrant in entrants for name in entrant.methods))
    kinds = ", ".join(dict.fromkeys(entrant.instance.kind for entrant in entrants))
    for name in names or ():
        if name not in known:
            text = f"no such method of kind {kinds}"
            problems.append(Problem(text, path="--methods", value=repr(name), allowed=", ".join(known)))
    if budget is not None and not any(entrant.kind.takes_budget for entrant in entrants):
        text = f"no such limit for kind {kinds}"
        problems.append(Problem(text, path="--budget", value=str(budget), allowed="--time-limit"))
    if problems:
        raise InputError(problems)
    starts = []
    for entrant in entrants:
        budgeted = budget is not None and entrant.kind.takes_budget
        options = SolveOptions(
            budget=budget if budgeted else None,
            time_limit_s=DEFAULT_LIMIT_S if time_limit_s is None and not budgeted else time_limit_s,
            objective_only=True,
            book=book,
        )
        own = [name for name in entrant.methods if name != "auto"] or ["auto"]
        for name in own if names is None else names:
            for seed in range(seeds):
                fits = replace(options, seed=seed, method=name) if name in entrant.methods else None
                starts.append(PlannedRun(entrant, name, seed, fits))
    return starts


def run_of(start: PlannedRun) -> ComparedRun:
    """Make a run; what a method cannot do is a row, not an error."""
    entrant, instance = start.entrant, start.entrant.instance
    failed = ComparedRun(
        file=entrant.file,
        instance=instance.name,
        kind=instance.kind,
        method=start.method,
        seed=start.seed,
        outcome="not applicable",
        stopped_by="",
        objective="",
        unit="",
        value=None,
        bound=None,
        proved_by=f"no such method of kind {instance.kind}",
        checked=False,
        wall_s=0.0,
        maximise=entrant.kind.maximise(entrant.instance),
    )
    if start.options is None:
        return failed
    from topoopt.kinds.pipeline import solve

    began = time.monotonic()
    try:
        found = solve(instance, start.options)
    except TopooptError as error:
        outcome = next(text for kind, text in FAILURES if isinstance(error, kind))
        return replace(failed, outcome=outcome, proved_by=str(error), wall_s=time.monotonic() - began)
    except MemoryError:
        return replace(failed, outcome="error", proved_by="out of memory", wall_s=time.monotonic() - began)
    return replace(
        failed,
        outcome=found.status.value,
        stopped_by=found.stopped_by.value,
        objective=found.objective.name,
        unit=found.objective.unit,
        value=found.objective.value,
        bound=found.bound.value,
        proved_by=found.bound.proved_by,
        checked=found.check.ok,
        value_per_million_usd=entrant.kind.value_per_million_usd(found),
        wall_s=time.monotonic() - began,
    )
