"""A linear or mixed-integer program in arrays, without solver objects: built row by row, compared, and written as text.

write_model
-----------
Programs as text with readable names: CPLEX LP format, free MPS format, and single constraints for messages.

The same program gives the same bytes. Names may hold anything in the arrays; in files, characters the formats cannot
take become `_`, and names that clash by that, or are empty, get their position appended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topoopt.core.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csc_array


@dataclass(frozen=True, eq=False)
class LpArrays:
    """minimise cost.x subject to row_lower <= A x <= row_upper, lower <= x <= upper, some x integer.

    Attributes:
        cost, lower, upper: float64[columns]; infinite bounds are +-numpy.inf.
        row_lower, row_upper: float64[rows].
        start: int64[columns+1]; index: int64[nonzeros]; value: float64[nonzeros]: A by columns.
        integer: bool[columns], True where x must be a whole number; None: nowhere.
        column_names, row_names: what people call them; None: x0, x1, ... and row0, row1, ...
    """

    cost: Floats
    lower: Floats
    upper: Floats
    row_lower: Floats
    row_upper: Floats
    start: Ints
    index: Ints
    value: Floats
    integer: Bools | None = None
    column_names: tuple[str, ...] | None = None
    row_names: tuple[str, ...] | None = None

    @property
    def columns(self) -> int:
        return len(self.cost)

    @property
    def rows(self) -> int:
        return len(self.row_lower)

    @property
    def nonzeros(self) -> int:
        return len(self.value)

    @property
    def is_integer(self) -> Bools:
        """bool[columns], True where x must be a whole number."""
        return np.zeros(self.columns, dtype=np.bool_) if self.integer is None else self.integer

    @property
    def has_integers(self) -> bool:
        """Whether any variable must be a whole number."""
        return self.integer is not None and bool(self.integer.any())

    def matrix(self) -> csc_array:
        """A as a sparse array of shape (rows, columns)."""
        from scipy.sparse import csc_array

        return csc_array((self.value, self.index, self.start), shape=(self.rows, self.columns))

    def column_name(self, column: int) -> str:
        return self.column_names[column] if self.column_names is not None else f"x{column}"

    def row_name(self, row: int) -> str:
        return self.row_names[row] if self.row_names is not None else f"row{row}"


def with_names(program: LpArrays, columns: Iterable[str], rows: Iterable[str]) -> LpArrays:
    """The same program with names; apart from the builders, so that large programs do not pay for names unread.

    Raises:
        ValueError: not one name for each column and row.
    """
    named = replace(program, column_names=tuple(columns), row_names=tuple(rows))
    errors = shape_errors(named)
    if errors:
        raise ValueError("; ".join(errors))
    return named


def shape_errors(program: LpArrays) -> list[str]:
    """What makes the arrays no program at all (sizes, order, not-a-number); empty when they are sound.

    Crossed bounds are no fault here: such a program is infeasible, and a backend says so.
    """
    errors = []
    columns, rows = program.columns, program.rows
    sizes = {
        "lower": (len(program.lower), columns),
        "upper": (len(program.upper), columns),
        "row_upper": (len(program.row_upper), rows),
        "start": (len(program.start), columns + 1),
        "value": (len(program.value), len(program.index)),
    }
    if program.integer is not None:
        sizes["integer"] = (len(program.integer), columns)
    if program.column_names is not None:
        sizes["column_names"] = (len(program.column_names), columns)
    if program.row_names is not None:
        sizes["row_names"] = (len(program.row_names), rows)
    errors += [
        f"{name} has {got} entries, not {expected}" for name, (got, expected) in sizes.items() if got != expected
    ]
    if errors:
        return errors
    if program.start[0] != 0 or program.start[-1] != len(program.index) or (np.diff(program.start) < 0).any():
        errors.append("start does not run from 0 up to the number of coefficients")
    if len(program.index) and (program.index.min() < 0 or program.index.max() >= rows):
        errors.append("index names a row that does not exist")
    if not np.isfinite(program.cost).all() or not np.isfinite(program.value).all():
        errors.append("cost or value is not finite")
    bounds = (program.lower, program.upper, program.row_lower, program.row_upper)
    if any(np.isnan(bound).any() for bound in bounds):
        errors.append("a bound is not a number")
    if not errors and _repeats(program):
        errors.append("a coefficient stands twice")
    return errors


def _repeats(program: LpArrays) -> bool:
    """Whether a (row, column) pair is stored twice; solvers disagree about what that means."""
    column = np.repeat(np.arange(program.columns), np.diff(program.start))
    key = np.sort(column * max(program.rows, 1) + program.index)
    return bool((key[1:] == key[:-1]).any())


Term = tuple[int, float]
Key = tuple[object, ...]
Shape = int | tuple[int, ...]


class Families:
    """Columns, rows and coefficients, collected by families; every family keeps the numbers it was given."""

    def __init__(self) -> None:
        self._column_parts: list[tuple[Floats, ...]] = []
        self._row_parts: list[tuple[Floats, ...]] = []
        self._terms: list[tuple[NDArray[np.generic], ...]] = []
        self._column_names: list[str] = []
        self._row_names: list[str] = []
        self.column_count = self.row_count = 0

    @classmethod
    def extending(cls, program: LpArrays) -> Families:
        made = cls()
        made.columns(
            program.columns,
            lower=program.lower,
            upper=program.upper,
            cost=program.cost,
            integer=program.is_integer,
            names=program.column_names or (),
        )
        made.rows(program.rows, program.row_lower, program.row_upper, program.row_names or ())
        made.terms(program.index, np.repeat(np.arange(program.columns), np.diff(program.start)), program.value)
        return made

    def columns(
        self,
        shape: Shape,
        *,
        lower: ArrayLike = 0.0,
        upper: ArrayLike = np.inf,
        cost: ArrayLike = 0.0,
        integer: ArrayLike = False,
        names: Iterable[str] = (),
    ) -> Ints:
        """Numbers of new variables, int64[shape]; the rest is broadcast to the shape, names are in its order."""
        first, self.column_count = self.column_count, self.column_count + int(np.prod(shape))
        self._column_parts.append(_spread(shape, cost, lower, upper, integer))
        self._column_names += names
        return np.arange(first, self.column_count).reshape(shape)

    def rows(self, shape: Shape, lower: ArrayLike, upper: ArrayLike, names: Iterable[str] = ()) -> Ints:
        """Numbers of new constraints, int64[shape]."""
        first, self.row_count = self.row_count, self.row_count + int(np.prod(shape))
        self._row_parts.append(_spread(shape, lower, upper))
        self._row_names += names
        return np.arange(first, self.row_count).reshape(shape)

    def terms(self, row: ArrayLike, column: ArrayLike, value: ArrayLike, where: ArrayLike = True) -> None:
        """Coefficients, broadcast against each other, where the mask says so; those of one place add up."""
        *parts, kept = np.broadcast_arrays(row, column, value, where)
        self._terms.append(tuple(part[kept] for part in parts))

    def arrays(self, *, as_given: bool = False) -> LpArrays:
        """The program; without names where no family has any.

        Args:
            as_given: coefficients of a column stay in the order of their families, which decides what a solver does in
                a tie; no place may have two then. Else they go by row.
        """
        from scipy.sparse import csc_array

        row, column, value = (np.concatenate(part) for part in zip(*self._terms, strict=True))
        matrix = csc_array((value.astype(np.float64), (row, column)), shape=(self.row_count, self.column_count))
        if as_given:
            order = np.argsort(column, kind="stable")
            matrix = csc_array((value[order], row[order], matrix.indptr), shape=matrix.shape)
        matrix.eliminate_zeros()
        cost, lower, upper, integer = (np.concatenate(part) for part in zip(*self._column_parts, strict=True))
        row_lower, row_upper = (np.concatenate(part) for part in zip(*self._row_parts, strict=True))
        return LpArrays(
            cost=cost,
            lower=lower,
            upper=upper,
            row_lower=row_lower,
            row_upper=row_upper,
            start=matrix.indptr.astype(np.int64),
            index=matrix.indices.astype(np.int64),
            value=np.asarray(matrix.data, dtype=np.float64),
            integer=integer > 0 if integer.any() else None,
            column_names=tuple(self._column_names) or None,
            row_names=tuple(self._row_names) or None,
        )


def _spread(shape: Shape, *values: ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.broadcast_to(np.asarray(value, dtype=np.float64), shape).ravel() for value in values)


class Rows:
    """Columns and rows collected one by one; a column is known by a key, a row by its name."""

    def __init__(self) -> None:
        self.numbers: dict[Key, int] = {}
        self.columns: list[tuple[float, float, bool]] = []
        self.rows: dict[str, tuple[int, float, float]] = {}
        self.entries: list[tuple[int, int, float]] = []

    def column(self, *key: object, lower: float = 0.0, upper: float = np.inf, integer: bool = False) -> None:
        self.numbers[key] = len(self.columns)
        self.columns.append((lower, upper, integer))

    def at(self, *key: object) -> int:
        return self.numbers[key]

    def row(self, name: str, lower: float, upper: float, terms: Iterable[Term]) -> None:
        """A new constraint; terms of one column add up."""
        self.rows[name] = len(self.rows), lower, upper
        self.extend(name, terms)

    def extend(self, name: str, terms: Iterable[Term]) -> None:
        """Add terms to a row that is there."""
        number = self.rows[name][0]
        self.entries += [(number, column, value) for column, value in terms]

    def program(self, objective: Mapping[Key, float]) -> LpArrays:
        """The arrays, minimising the objective given by columns."""
        made = Families()
        lower, upper, integer = zip(*self.columns, strict=True)
        cost = [objective.get(key, 0.0) for key in self.numbers]
        names = ("_".join(map(str, key)) for key in self.numbers)
        made.columns(len(cost), lower=lower, upper=upper, cost=cost, integer=integer, names=names)
        _, low, high = zip(*self.rows.values(), strict=True)
        made.rows(len(low), low, high, names=self.rows)
        made.terms(*zip(*self.entries, strict=True))
        return made.arrays()


class Changes(NamedTuple):
    """What a user changed in a model.

    `added`: names of rows that are new or tighter, and of variables whose bounds are tighter. `loosened`: names of
    rows that are gone or looser, and of such variables. `objective`: whether the objective is another one.
    """

    added: tuple[str, ...]
    loosened: tuple[str, ...]
    objective: bool


def changes_of(given: LpArrays, now: LpArrays) -> Changes:
    """What differs between two programs, by the names of their rows and columns."""
    rows = (_rows_of(given), _rows_of(now))
    columns = (_bounds_of(given), _bounds_of(now))
    added = [name for name, row in rows[1].items() if name not in rows[0] or not _looser(row, rows[0][name])]
    gone = [name for name, row in rows[0].items() if name not in rows[1] or not _looser(row, rows[1][name])]
    for name, (low, high) in columns[1].items():
        old = columns[0].get(name)
        if old is None:
            continue
        if low > old[0] or high < old[1]:
            added.append(name)
        if low < old[0] or high > old[1]:
            gone.append(name)
    return Changes(tuple(added), tuple(gone), _cost_of(given) != _cost_of(now))


Row = tuple[tuple[tuple[str, float], ...], float, float]


def _looser(first: Row, second: Row) -> bool:
    """Whether what the second row admits the first one admits too, as far as that shows in the numbers."""
    return first[0] == second[0] and first[1] <= second[1] and first[2] >= second[2]


def _rows_of(program: LpArrays) -> dict[str, Row]:
    matrix = program.matrix().tocsr()
    ranges = {}
    for i in range(program.rows):
        at = slice(matrix.indptr[i], matrix.indptr[i + 1])
        terms = sorted(
            (program.column_name(int(j)), float(v))
            for j, v in zip(matrix.indices[at], matrix.data[at], strict=True)
            if v != 0.0
        )
        ranges[program.row_name(i)] = (tuple(terms), float(program.row_lower[i]), float(program.row_upper[i]))
    return ranges


def _bounds_of(program: LpArrays) -> dict[str, tuple[float, float]]:
    return {program.column_name(j): (float(program.lower[j]), float(program.upper[j])) for j in range(program.columns)}


def _cost_of(program: LpArrays) -> dict[str, float]:
    return {program.column_name(int(j)): float(program.cost[j]) for j in np.flatnonzero(program.cost)}


# What CPLEX's LP grammar allows; brackets would open a quadratic expression, so indices come in parentheses.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.,()#@~|]")
_LONGEST = 200
# Words that start a section of an LP file, so no name may be one.
_RESERVED = re.compile(
    r"min|max|minimi[sz]e|maximi[sz]e|minimum|maximum|subject|such|st|s\.t\.|st\.|bounds?|bin|binary|binaries|gen"
    r"|generals?|int|integers?|free|inf|infinity|end|semi|sos[12]?",
    re.IGNORECASE,
)


def model_text(program: LpArrays, form: Literal["lp", "mps"], *, title: str = "") -> str:
    """The program in a file format; integers and infinite bounds included (rows without any bound are left out of LP).

    Args:
        program: sound arrays (see `shape_errors`).
        form: `lp` (CPLEX LP) or `mps` (free MPS).
        title: a comment line in LP, the problem's name in MPS.

    Raises:
        ValueError: a bound of +inf below or -inf above, which neither format can say.
    """
    impossible = np.isposinf(program.lower) | np.isneginf(program.upper)
    row_impossible = np.isposinf(program.row_lower) | np.isneginf(program.row_upper)
    if impossible.any() or row_impossible.any():
        raise ValueError("a lower bound of +inf or an upper bound of -inf cannot be written")
    writers: dict[str, Callable[[LpArrays, str], Iterator[str]]] = {"lp": _lp_lines, "mps": _mps_lines}
    return "\n".join(writers[form](program, title)) + "\n"


def safe_names(names: Sequence[str]) -> list[str]:
    """Names that both formats take, all different, in order."""
    cleaned = [_UNSAFE.sub("_", name.translate(str.maketrans("[]{}", "()()")))[:_LONGEST] for name in names]
    # A leading digit, period or exponent letter would read as a number.
    cleaned = [f"_{name}" if not name or re.match(r"[0-9.,()]|[eE][0-9+\-.]?", name) else name for name in cleaned]
    cleaned = [f"_{name}" if _RESERVED.fullmatch(name) else name for name in cleaned]
    taken: set[str] = set()
    for i, name in enumerate(cleaned):
        unique, tries = name, 0
        while unique in taken:
            unique = f"{name}#{i}" if tries == 0 else f"{name}#{i}.{tries}"
            tries += 1
        cleaned[i] = unique
        taken.add(unique)
    return cleaned


def row_text(program: LpArrays, row: int, side: Literal["lower", "upper", "both"] = "both") -> str:
    """A constraint in words of its names, `capacity: 2 a + b <= 3`."""
    matrix = program.matrix().tocsr()
    entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
    names = [program.column_name(int(j)) for j in matrix.indices[entries]]
    expression = " ".join(_terms(matrix.data[entries].tolist(), names)).removeprefix("+ ") or "0"
    low, high = float(program.row_lower[row]), float(program.row_upper[row])
    if low == high and side == "both":
        return f"{program.row_name(row)}: {expression} = {_number(low)}"
    parts = [expression]
    if side in ("lower", "both") and np.isfinite(low):
        parts += [">=", _number(low)]
    if side in ("upper", "both") and np.isfinite(high):
        parts += [("and <=" if len(parts) > 1 else "<="), _number(high)]
    return f"{program.row_name(row)}: {' '.join(parts)}"


def bound_text(program: LpArrays, column: int, side: Literal["lower", "upper"]) -> str:
    """A bound of a variable in words, `bound: a <= 1`."""
    bound = program.lower[column] if side == "lower" else program.upper[column]
    return f"bound: {program.column_name(column)} {'>=' if side == 'lower' else '<='} {_number(float(bound))}"


def _number(value: float) -> str:
    """The shortest text that reads back as the same float."""
    if value == int(value) and abs(value) < 1e15 if np.isfinite(value) else False:
        return str(int(value))
    return repr(float(value))


def _terms(values: Sequence[float], names: Sequence[str]) -> Iterator[str]:
    for value, name in zip(values, names, strict=True):
        size = "" if abs(value) == 1 else f"{_number(abs(value))} "
        yield f"{'-' if value < 0 else '+'} {size}{name}"


def _wrapped(head: str, terms: Iterator[str], tail: str = "") -> Iterator[str]:
    line = head
    for term in [*terms, *([tail] if tail else [])]:
        if len(line) + len(term) > 100:
            yield line
            line = " "
        line += f" {term}"
    yield line


def _lp_lines(program: LpArrays, title: str) -> Iterator[str]:
    columns = safe_names([program.column_name(j) for j in range(program.columns)])
    matrix = program.matrix().tocsr()
    matrix.sort_indices()
    if title:
        yield "\\ " + title.replace("\n", " ")
    yield "Minimize"
    # Variables in no row must still be declared, in order: the objective lists every one.
    yield from _wrapped(" cost:", _objective(program, columns))
    yield "Subject To"
    # Ranges are two rows here, since readers disagree about the short form.
    sides: list[tuple[int, str, str, float]] = []
    for i in range(program.rows):
        low, high, name = float(program.row_lower[i]), float(program.row_upper[i]), program.row_name(i)
        both = np.isfinite(low) and np.isfinite(high)
        if low == high:
            sides.append((i, name, "=", low))
            continue
        if np.isfinite(low):
            sides.append((i, f"{name}.low" if both else name, ">=", low))
        if np.isfinite(high):
            sides.append((i, f"{name}.high" if both else name, "<=", high))
    for (i, _, sense, side), name in zip(sides, safe_names([name for _, name, _, _ in sides]), strict=True):
        entries = slice(matrix.indptr[i], matrix.indptr[i + 1])
        terms = list(_terms(matrix.data[entries].tolist(), [columns[j] for j in matrix.indices[entries]]))
        terms = terms or [f"0 {name}" for name in columns[:1]]
        if terms:
            yield from _wrapped(f" {name}:", iter(terms), f"{sense} {_number(side)}")
    yield "Bounds"
    for name, low, high in zip(columns, program.lower.tolist(), program.upper.tolist(), strict=True):
        yield f" {_bound(low)} <= {name} <= {_bound(high)}" if np.isfinite([low, high]).any() else f" {name} free"
    if program.has_integers:
        yield "General"
        yield from (f" {name}" for name, whole in zip(columns, program.is_integer, strict=True) if whole)
    yield "End"


def _objective(program: LpArrays, columns: Sequence[str]) -> Iterator[str]:
    for value, name in zip(program.cost.tolist(), columns, strict=True):
        yield from _terms([value], [name]) if value else [f"+ 0 {name}"]


def _bound(value: float) -> str:
    return _number(value) if np.isfinite(value) else ("+inf" if value > 0 else "-inf")


def _mps_lines(program: LpArrays, title: str) -> Iterator[str]:
    columns = safe_names([program.column_name(j) for j in range(program.columns)])
    rows = safe_names([program.row_name(i) for i in range(program.rows)])
    cost = next(name for name in ("cost", "cost_", "cost__", "cost___") if name not in set(rows))
    low, high = program.row_lower, program.row_upper
    kinds = [
        "N" if np.isneginf(a) and np.isposinf(b) else "E" if a == b else "G" if np.isposinf(b) else "L"
        for a, b in zip(low, high, strict=True)
    ]
    yield f"NAME {_UNSAFE.sub('_', title) or 'program'}"
    yield "ROWS"
    yield f" N {cost}"
    yield from (f" {kind} {name}" for kind, name in zip(kinds, rows, strict=True))
    yield "COLUMNS"
    whole, inside = program.is_integer, False
    for j, (name, (first, last)) in enumerate(zip(columns, pairwise(program.start.tolist()), strict=True)):
        if bool(whole[j]) != inside:
            inside = not inside
            yield f" MARKER 'MARKER' '{'INTORG' if inside else 'INTEND'}'"
        order = first + np.argsort(program.index[first:last], kind="stable")
        yield f" {name} {cost} {_number(float(program.cost[j]))}"
        yield from (f" {name} {rows[program.index[k]]} {_number(float(program.value[k]))}" for k in order)
    if inside:
        yield " MARKER 'MARKER' 'INTEND'"
    yield "RHS"
    for kind, name, a, b in zip(kinds, rows, low, high, strict=True):
        side = float(a if kind in ("E", "G") else b)
        if kind != "N" and side != 0:
            yield f" RHS {name} {_number(side)}"
    yield "RANGES"
    for kind, name, a, b in zip(kinds, rows, low, high, strict=True):
        if kind == "L" and np.isfinite(a):
            yield f" RANGE {name} {_number(float(b - a))}"
    yield "BOUNDS"
    for name, a, b in zip(columns, program.lower.tolist(), program.upper.tolist(), strict=True):
        if a == b:
            yield f" FX BOUND {name} {_number(a)}"
        elif np.isneginf(a) and np.isposinf(b):
            yield f" FR BOUND {name}"
        else:
            yield f" LO BOUND {name} {_number(a)}" if np.isfinite(a) else f" MI BOUND {name}"
            yield f" UP BOUND {name} {_number(b)}" if np.isfinite(b) else f" PL BOUND {name}"
    yield "ENDATA"
