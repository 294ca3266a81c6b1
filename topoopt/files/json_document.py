"""JSON text to plain data, by the standard parser; lines are looked up only when there is something to report."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import partial

import numpy as np

from topoopt.files.faults import Fault, Path
from topoopt.files.parsed import MAX_DEPTH, MAX_INTEGER_DIGITS, Parsed, broken, not_finite, values

_STEP = np.zeros(256, dtype=np.int8)
_STEP[list(b"{[")], _STEP[list(b"}]")] = 1, -1
_NO_MARKS = bytes(letter for letter in range(256) if letter not in b'{[]}"')

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def walk_lines(text: str) -> Iterator[tuple[Path, int]]:
    """Path and line of every value of valid JSON text, in file order; a mapping entry has the line of its key."""
    path: list[str | int] = []
    in_mapping: list[bool] = []
    line, counted = 1, 0
    expect_key = False
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == ":":
            continue
        if token == ",":
            expect_key = in_mapping[-1]
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else last
            continue
        if token in "]}":
            in_mapping.pop()
            path.pop()
            expect_key = False
            continue
        line += text.count("\n", counted, match.start())
        counted = match.start()
        if expect_key:
            path[-1] = json.loads(token)
            expect_key = False
            yield tuple(path), line
            continue
        if not in_mapping or not in_mapping[-1]:
            yield tuple(path), line
        if token in "{[":
            in_mapping.append(token == "{")
            expect_key = in_mapping[-1]
            path.append("" if expect_key else 0)


def locate_in(text: str, wanted: frozenset[Path]) -> dict[Path, int]:
    """Lines of the wanted paths; stops reading once all are found."""
    found: dict[Path, int] = {}
    missing = set(wanted)
    if not missing:
        return found
    for path, line in walk_lines(text):
        if path in missing:
            found[path] = line
            missing.discard(path)
            if not missing:
                break
    return found


def _duplicates(text: str, suspects: set[str]) -> list[Fault]:
    """Every entry whose key stood before in the same mapping, looking at the given keys only."""
    first: dict[Path, int] = {}
    faults = []
    for path, line in walk_lines(text):
        if path and path[-1] in suspects:
            if path in first:
                faults.append(
                    Fault(path, f"duplicate key, first on line {first[path]}", allowed="each key once", line=line)
                )
            else:
                first[path] = line
    return faults


def _not_finite(data: object) -> list[Fault]:
    """Every NaN and infinity in the data."""
    found = values(data)
    return [not_finite(path, value) for path, value in found if isinstance(value, float) and not math.isfinite(value)]


def _depth(text: str) -> int:
    """Deepest nesting, brackets inside text not counted."""
    if "\\" not in text:
        return _plain_depth(text)
    depth = deepest = 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', text):
        token = match[0]
        if token in "{[":
            depth += 1
            deepest = max(deepest, depth)
            if deepest > MAX_DEPTH:
                break
        elif token in "}]":
            depth -= 1
    return deepest


def _plain_depth(text: str) -> int:
    """The same of text without escapes, where every quotation mark opens or closes a text."""
    marks = np.frombuffer(text.encode("utf-8", "replace").translate(None, _NO_MARKS), dtype=np.uint8)
    outside = ~np.bitwise_xor.accumulate(marks == ord('"'))
    steps = _STEP[marks[outside]]
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))


def parse_json(text: str, max_nodes: int) -> Parsed:
    """Plain data of JSON text (RFC 8259), NaN, infinity and duplicate keys as faults."""
    # Every value but the first follows an opening bracket or a comma, so this bounds their number before any is built.
    if text.count(",") + text.count("[") + text.count("{") >= max_nodes:
        return broken("too many values", None, allowed=f"at most {max_nodes} values in a file")
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        return broken("nested too deeply", None, allowed=f"at most {MAX_DEPTH} levels")
    repeated: set[str] = set()
    unbounded = False

    def mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
        data = dict(pairs)
        if len(data) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                (repeated if key in seen else seen).add(key)
        return data

    def real(token: str) -> float:
        nonlocal unbounded
        value = float(token)
        unbounded = unbounded or not math.isfinite(value)
        return value

    def whole(token: str) -> int | float:
        return int(token) if len(token) <= MAX_INTEGER_DIGITS else real(token)

    try:
        data = json.loads(text, object_pairs_hook=mapping, parse_float=real, parse_int=whole, parse_constant=real)
    except json.JSONDecodeError as error:
        return broken(f"broken JSON: {error.msg}", error.lineno, allowed="valid JSON (RFC 8259)")
    faults = _duplicates(text, repeated) if repeated else []
    if unbounded:
        faults += _not_finite(data)
    return Parsed(data, partial(locate_in, text), tuple(faults))
