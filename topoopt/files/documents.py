"""YAML and JSON files of unknown origin become plain data whose lines are known, within bounds.

Only mappings with text keys, lists, text, numbers, booleans and null come out. Size, nesting and number of values are
bounded before they take memory; YAML anchors, aliases and tags, duplicate keys, NaN and infinity are refused. YAML data
are built from the parser's events, because the constructor of the library resolves aliases, recurses, and drops the
lines that messages need.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path as FilePath

import numpy as np
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from topoopt.core.arrays import MIB
from topoopt.core.errors import Problem, raise_any
from topoopt.files.issues import MAX_LISTED, Issue, Path, path_text, value_text
from topoopt.files.untrusted import parsing, read_text, refusal


def canonical_json(document: object) -> str:
    """JSON with sorted keys, no blanks, ASCII only, shortest numbers that round-trip.

    Raises:
        ValueError: NaN or infinity in the document.
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical_sha256(document: object) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(document).encode("ascii")).hexdigest()


MAX_DEPTH = 64
"""Mappings and lists inside each other."""

MAX_INTEGER_DIGITS = 400


@dataclass(frozen=True, eq=False)
class Document:
    """A parsed file.

    Attributes:
        file: its name, for messages; empty for text that is not from a file.
        data: plain data.
        locate: lines (1-based) of the given paths, those that exist.
        faults: what is wrong with it so far though it could be parsed (duplicate keys, NaN, infinity).
        broken: whether parsing stopped at the last fault: there are no data.
    """

    file: str
    data: object
    locate: Callable[[frozenset[Path]], dict[Path, int]]
    issues: tuple[Issue, ...] = ()
    broken: bool = False

    def line(self, path: Path) -> int | None:
        """Line of a path, or of the nearest thing around it."""
        return self.lines([path])[path]

    def lines(self, paths: Iterable[Path]) -> dict[Path, int | None]:
        """Lines of many paths in one pass, each its own or that of the nearest thing around it."""
        wanted = set(paths)
        lines = self.locate(frozenset(path[:end] for path in wanted for end in range(len(path) + 1)))
        return {
            path: next((lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in lines), None)
            for path in wanted
        }

    def problems(self, issues: Iterable[Issue]) -> list[Problem]:
        """The document's own faults and the given ones, in file order, each path and message once, with lines."""
        unique: dict[tuple[Path, str], Issue] = {}
        given = list(issues)
        better = {issue.path for issue in given}
        for issue in (*(own for own in self.issues if not (own.general and own.path in better)), *given):
            unique.setdefault((issue.path, issue.message), issue)
        shown = list(unique.values())[:MAX_LISTED]
        lines = self.lines({issue.path for issue in shown if issue.line is None})
        problems = [
            Problem(
                issue.message,
                file=self.file,
                line=issue.line if issue.line is not None else lines[issue.path],
                path=path_text(issue.path),
                value=issue.value,
                allowed=issue.allowed,
            )
            for issue in shown
        ]
        problems.sort(key=lambda problem: problem.line or 0)
        if len(unique) > MAX_LISTED:
            problems.append(Problem(f"{len(unique) - MAX_LISTED} further problems are not listed", file=self.file))
        return problems

    def refuse(self, issues: Iterable[Issue]) -> None:
        """Raise InputError when the document has faults of its own or any are given."""
        raise_any(self.problems(issues))


def broken(message: str, line: int | None, *, allowed: str | None = None, path: Path = ()) -> Document:
    """A document that cannot be parsed, and why."""
    return Document("", None, lambda _: {}, (Issue(path, message, allowed=allowed, line=line),), broken=True)


_HALF = re.compile("[\ud800-\udfff]")


def values(data: object) -> Iterator[tuple[Path, object]]:
    """Everything in the data with its path, mappings and lists themselves too."""
    stack: list[tuple[Path, object]] = [((), data)]
    while stack:
        path, value = stack.pop()
        yield path, value
        if isinstance(value, dict):
            stack.extend(((*path, key), item) for key, item in value.items())
        elif isinstance(value, list):
            stack.extend(((*path, index), item) for index, item in enumerate(value))


def half_characters(data: object) -> list[Issue]:
    """Texts with half a character (a surrogate alone, which both formats can name): no file can hold them."""
    return [
        Issue(path, "half a character", value_text(text), "characters that UTF-8 can hold")
        for path, value in values(data)
        for text in (value if isinstance(value, dict) else [value])
        if isinstance(text, str) and _HALF.search(text)
    ]


def not_finite(path: Path, value: float, line: int | None = None) -> Issue:
    """NaN or infinity where a number stands."""
    text = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return Issue(path, "not a finite number", value=text, allowed="a finite number", line=line, general=True)


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
    lines: dict[Path, int] = {}
    missing = set(wanted)
    if not missing:
        return lines
    for path, line in walk_lines(text):
        if path in missing:
            lines[path] = line
            missing.discard(path)
            if not missing:
                break
    return lines


def _duplicates(text: str, suspects: set[str]) -> list[Issue]:
    """Every entry whose key stood before in the same mapping, looking at the given keys only."""
    first: dict[Path, int] = {}
    issues = []
    for path, line in walk_lines(text):
        if path and path[-1] in suspects:
            if path in first:
                issues.append(
                    Issue(path, f"duplicate key, first on line {first[path]}", allowed="each key once", line=line)
                )
            else:
                first[path] = line
    return issues


def _not_finite(data: object) -> list[Issue]:
    numbers = values(data)
    return [not_finite(path, value) for path, value in numbers if isinstance(value, float) and not math.isfinite(value)]


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


def parse_json(text: str, max_nodes: int) -> Document:
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
    issues = _duplicates(text, repeated) if repeated else []
    if unbounded:
        issues += _not_finite(data)
    return Document("", data, partial(locate_in, text), tuple(issues))


Scalar = str | int | float | bool | None

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OTHER_BASE = re.compile(r"0o[0-7]{1,128}|0x[0-9a-fA-F]{1,128}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITY = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NAN = {".nan", ".NaN", ".NAN"}


def resolve(text: str) -> Scalar:
    """Value of a plain scalar in the core schema of YAML 1.2 (section 10.3.2)."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) <= MAX_INTEGER_DIGITS else float(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITY.fullmatch(text):
        return float(text.replace(".", "").lower())
    return math.nan if text in _NAN else text


class _RefusedError(Exception):
    def __init__(self, issue: Issue) -> None:
        self.issue = issue
        super().__init__(issue.message)


@dataclass
class _Frame:
    path: Path
    container: dict[str, object] | list[object]
    key: str | None = None


@dataclass
class _YamlBuilder:
    """Builds data from events without recursion, so nesting cannot exhaust the stack."""

    max_nodes: int
    root: object = None
    lines: dict[Path, int] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)
    stack: list[_Frame] = field(default_factory=list)
    documents: int = 0
    nodes: int = 0

    def take(self, event: Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        if isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise _RefusedError(Issue((), "a second document in the file", allowed="one document", line=line))
        elif isinstance(event, CollectionEndEvent):
            self.stack.pop()
        elif isinstance(event, NodeEvent):
            self._node(event, line)

    def _node(self, event: NodeEvent, line: int) -> None:
        path = self._path_of_next()
        self.nodes += 1
        if self.nodes > self.max_nodes:
            raise _RefusedError(
                Issue((), "too many values", allowed=f"at most {self.max_nodes}; larger files as JSON", line=line)
            )
        if isinstance(event, AliasEvent) or event.anchor is not None:
            raise _RefusedError(
                Issue(path, "anchors and aliases are not accepted", allowed="every value written out", line=line)
            )
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise _RefusedError(
                Issue(path, "tags are not accepted", value=value_text(str(tag)), allowed="no tag", line=line)
            )
        if self.stack and isinstance(self.stack[-1].container, dict) and self.stack[-1].key is None:
            self._key(self.stack[-1], event, line)
            return
        value: object
        if isinstance(event, ScalarEvent):
            value = resolve(event.value) if event.implicit[0] else event.value
            if isinstance(value, float) and not math.isfinite(value):
                self.issues.append(not_finite(path, value, line))
        else:
            value = {} if isinstance(event, MappingStartEvent) else []
        self._place(path, value, line)
        if isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            if len(self.stack) >= MAX_DEPTH:
                raise _RefusedError(
                    Issue(path[:3], "nested too deeply", allowed=f"at most {MAX_DEPTH} levels", line=line)
                )
            self.stack.append(_Frame(path, value))  # type: ignore[arg-type]  # one of the two containers above

    def _path_of_next(self) -> Path:
        if not self.stack:
            return ()
        frame = self.stack[-1]
        if isinstance(frame.container, list):
            return (*frame.path, len(frame.container))
        return frame.path if frame.key is None else (*frame.path, frame.key)

    def _key(self, frame: _Frame, event: NodeEvent, line: int) -> None:
        if not isinstance(event, ScalarEvent):
            raise _RefusedError(
                Issue(frame.path, "a key is a mapping or list", allowed="keys that are text", line=line)
            )
        key = str(event.value)
        path = (*frame.path, key)
        frame.key = key
        if event.implicit[0] and not isinstance(resolve(key), str):
            self.issues.append(Issue(path, "a key that is not text", allowed="keys that are text", line=line))
        if key in frame.container:
            first = self.lines.get(path)
            self.issues.append(Issue(path, f"duplicate key, first on line {first}", allowed="each key once", line=line))
        else:
            self.lines[path] = line

    def _place(self, path: Path, value: object, line: int) -> None:
        if not self.stack:
            self.root = value
            self.lines[()] = line
            return
        frame = self.stack[-1]
        if isinstance(frame.container, list):
            frame.container.append(value)
            self.lines[path] = line
        elif frame.key is not None:
            frame.container[frame.key] = value
            frame.key = None


def _line_of(error: YAMLError, text: str) -> int | None:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        return int(mark.line) + 1
    position = getattr(error, "position", None)
    return text.count("\n", 0, position) + 1 if isinstance(position, int) else None


def parse_yaml(text: str, max_nodes: int) -> Document:
    """Plain data of one YAML document; NaN, infinity, duplicate keys and keys that are not text as faults."""
    builder = _YamlBuilder(max_nodes)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            builder.take(event)
    except _RefusedError as refused:
        return Document("", None, lambda _: {}, (*builder.issues, refused.issue), broken=True)
    except YAMLError as error:
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be parsed"
        return broken(f"broken YAML: {reason}", _line_of(error, text), allowed="valid YAML 1.2")
    except Exception as error:  # the library fails in its own ways on text made to break it; users get one message
        return broken(f"broken YAML: {type(error).__name__} in the parser", None, allowed="valid YAML 1.2")
    if builder.documents == 0:
        return broken("the file is empty", 1, allowed="a YAML or JSON document")

    def locate(wanted: frozenset[Path]) -> dict[Path, int]:
        return {path: builder.lines[path] for path in wanted if path in builder.lines}

    return Document("", builder.root, locate, tuple(builder.issues))


@dataclass(frozen=True)
class Limits:
    """What one file may take.

    YAML is parsed in Python, about a hundred times slower than JSON, so it is held smaller: large data go into JSON.
    """

    json_bytes: int = 64 * MIB
    json_nodes: int = 2_000_000
    yaml_bytes: int = 4 * MIB
    yaml_nodes: int = 200_000


def _names_yaml(file: str) -> bool:
    return FilePath(file).suffix.lower() in {".yaml", ".yml"}


def is_json(file: str, text: str) -> bool:
    """By extension; by the first character where the extension says nothing."""
    if _names_yaml(file):
        return False
    return FilePath(file).suffix.lower() == ".json" or text.lstrip()[:1] in {"{", "["}


def parse_document(path: str | os.PathLike[str], limits: Limits = Limits()) -> Document:
    """Read a file; faults that leave the rest readable stay in `Document.faults`.

    Raises:
        InputError: no readable text, broken syntax, beyond the limits.
    """
    file = os.fspath(path)
    text = read_text(file, limits.yaml_bytes if _names_yaml(file) else limits.json_bytes, "a YAML or JSON file")
    json = is_json(file, text)
    if not json and len(text) > limits.yaml_bytes:
        raise refusal("the file is too large", file, allowed=f"at most {limits.yaml_bytes} bytes of YAML")
    with parsing(file, "a JSON file" if json else "a YAML file"):
        parsed = parse_json(text, limits.json_nodes) if json else parse_yaml(text, limits.yaml_nodes)
    halves = half_characters(parsed.data) if "\\u" in text.lower() else []  # they stand in files as escapes alone
    document = replace(parsed, file=file, issues=(*parsed.issues, *halves))
    if document.broken:
        document.refuse(())
    return document


def load_document(path: str | os.PathLike[str], limits: Limits = Limits()) -> Document:
    """Read a file and refuse it when anything at all is wrong with it as a document.

    Raises:
        InputError: as `parse_document`, and duplicate keys, keys that are not text, NaN, infinity.
    """
    document = parse_document(path, limits)
    document.refuse(())
    return document
