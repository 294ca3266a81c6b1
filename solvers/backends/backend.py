"""A backend: a library behind the common signature, with declared features; programs scaled, all claims checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np

from formulations.parts.arrays import LpArrays, shape_faults
from solvers.backends.evaluate import judged
from solvers.backends.result import (
    Claim,
    Features,
    LpResult,
    OnIncumbent,
    Options,
    RunBackend,
    SolverLimits,
    SolverTask,
)
from solvers.backends.scaling import Scaling, scaling_of
from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.core.proofs import Status, StopReason


@dataclass(frozen=True)
class Engine:
    """A library, loaded.

    Attributes:
        run: solves and translates.
        options: names of the options it passes through, in the library's words.
        status_map: ours of each of its statuses.
        statuses: all statuses the installed library declares.
    """

    run: RunBackend
    options: frozenset[str]
    status_map: Mapping[str, tuple[Status, StopReason]]
    statuses: tuple[str, ...]


@dataclass(frozen=True)
class Backend:
    """One line of the table of backends; calling it solves (see `LpBackend`).

    Attributes:
        name: in the table.
        library: package and solver, for people.
        features: what it can do.
        load: imports the library.
    """

    name: str
    library: str
    features: Features
    load: Callable[[], Engine]

    def __call__(
        self,
        program: LpArrays,
        limits: SolverLimits | None = None,
        options: Options | None = None,
        start: Floats | None = None,
        *,
        on_incumbent: OnIncumbent | None = None,
    ) -> LpResult:
        """Solve; see `LpBackend`."""
        limits, options = limits or SolverLimits(), options or {}
        refuse(self, program, options, start)
        claim = trivial(program)
        if claim is not None:
            return judged(program, limits, claim, start)
        scaling = scaling_of(program) if self.features.continuous else None
        task = SolverTask(program, limits, options, start, on_incumbent)
        result = self._in_units(scaling, task)
        if scaling is not None and result.x is None and result.stopped_by is StopReason.ERROR:
            # No units suit numbers that lie too far apart; as they are given they may do.
            result = self._in_units(None, task)
        return result

    def _in_units(self, scaling: Scaling | None, task: SolverTask) -> LpResult:
        """Solve and check a program in the units of a scaling; None: as it is."""
        if scaling is None:
            return judged(task.program, task.limits, self._ran(task), task.start)
        telling = None if task.on_incumbent is None else scaling.telling(task.on_incumbent)
        start = None if task.start is None else scaling.point(task.start)
        scaled = replace(task, program=scaling.applied(task.program), start=start, on_incumbent=telling)
        return scaling.back(self._in_units(None, scaled))

    def covers(self, program: LpArrays) -> str | None:
        """None if the features cover the program, else what is missing, in words."""
        if program.has_integers and not self.features.integer:
            return "integer variables"
        if not program.is_integer.all() and not self.features.continuous:
            first = program.column_name(int(np.argmin(program.is_integer)))
            return f"continuous variables ({first} is one)"
        return None

    def _ran(self, task: SolverTask) -> Claim:
        claim = self.load().run(task)
        failed = claim.status is Status.UNKNOWN and claim.stopped_by is StopReason.ERROR
        # Several libraries answer "not solved" for a time limit; past the limit that is what it was.
        return replace(claim, stopped_by=StopReason.TIME) if failed and task.time_left_s() == 0.0 else claim


def refuse(backend: Backend, program: LpArrays, options: Options, start: Floats | None) -> None:
    """Raise InputError, with all problems, for what the backend cannot take at all."""
    problems = [Problem(fault, path="program") for fault in shape_faults(program)]
    if not problems and (missing := backend.covers(program)) is not None:
        problems.append(Problem(f"{backend.name} cannot solve programs with {missing}", path="program"))
    if not problems and start is not None and len(start) != program.columns:
        problems.append(Problem(f"has {len(start)} entries, not {program.columns}", path="start"))
    known = backend.load().options if options else frozenset()
    for name in options:
        if name not in known:
            close = get_close_matches(name, sorted(known), n=3, cutoff=0.5)
            hint = f"close to: {', '.join(close)}" if close else f"one of {len(known)} options of {backend.library}"
            problems.append(Problem(f"unknown option of {backend.name}", path=name, allowed=hint))
    if problems:
        raise InputError(problems)


def trivial(program: LpArrays) -> Claim | None:
    """The answer to programs that need no solver and that libraries answer differently; None for all others."""
    # A bound of +inf below or -inf above leaves nothing too.
    column_bad = (program.lower > program.upper) | np.isposinf(program.lower) | np.isneginf(program.upper)
    if column_bad.any():
        name = program.column_name(int(np.argmax(column_bad)))
        return Claim(Status.INFEASIBLE, StopReason.CONVERGED, f"the bounds of {name} leave no value")
    row_bad = (program.row_lower > program.row_upper) | np.isposinf(program.row_lower) | np.isneginf(program.row_upper)
    empty = np.bincount(program.index, minlength=program.rows) == 0
    row_bad |= empty & ((program.row_lower > 0) | (program.row_upper < 0))
    if row_bad.any():
        name = program.row_name(int(np.argmax(row_bad)))
        return Claim(Status.INFEASIBLE, StopReason.CONVERGED, f"the bounds of {name} leave no value")
    if program.columns == 0:
        return Claim(
            Status.OPTIMAL, StopReason.CONVERGED, "no variables", np.zeros(0), 0.0, np.zeros(program.rows)
        )  # fmt: skip
    return None


def bad_option(backend: str, name: str, value: object, allowed: str = "") -> InputError:
    """The error of an option whose value the library refuses."""
    return InputError([Problem(f"{backend} refuses the value", path=name, value=repr(value), allowed=allowed or None)])
