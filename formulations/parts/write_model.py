"""Programs as text with readable names: CPLEX LP format, free MPS format, and single constraints for messages.

The same program gives the same bytes. Names may hold anything in the arrays; in files, characters the formats cannot
take become `_`, and names that clash by that, or are empty, get their position appended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from formulations.parts.arrays import LpArrays

# What CPLEX's LP grammar allows; brackets would open a quadratic expression, so indices come in parentheses.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.,()#@~|]")
_BRACKETS = str.maketrans("[]{}", "()()")
_LONGEST = 200
# Words that start a section of an LP file, so no name may be one.
_RESERVED = re.compile(
    r"min|max|minimi[sz]e|maximi[sz]e|minimum|maximum|subject|such|st|s\.t\.|st\.|bounds?|bin|binary|binaries|gen"
    r"|generals?|int|integers?|free|inf|infinity|end|semi|sos[12]?",
    re.IGNORECASE,
)
_LINE = 100


def model_text(program: LpArrays, form: Literal["lp", "mps"], *, title: str = "") -> str:
    """The program in a file format; integers and infinite bounds included (rows without any bound are left out of LP).

    Args:
        program: sound arrays (see `shape_faults`).
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
    cleaned = [_UNSAFE.sub("_", name.translate(_BRACKETS))[:_LONGEST] for name in names]
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
        if len(line) + len(term) > _LINE:
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
