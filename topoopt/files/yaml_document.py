"""YAML 1.2 text to plain data, from the parser's events; no anchors, aliases or tags, so nothing can multiply or run.

The data are built here rather than by the library's constructor because that one resolves aliases, recurses, and drops
the lines that messages need.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

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

from topoopt.files.faults import Fault, Path, value_text
from topoopt.files.parsed import MAX_DEPTH, MAX_INTEGER_DIGITS, Parsed, broken, not_finite

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
    """Carries the fault that ends parsing."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.message)


@dataclass
class _Frame:
    """A mapping or list being filled."""

    path: Path
    container: dict[str, object] | list[object]
    key: str | None = None


@dataclass
class _YamlBuilder:
    """Builds data from events without recursion, so nesting cannot exhaust the stack."""

    max_nodes: int
    root: object = None
    lines: dict[Path, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    stack: list[_Frame] = field(default_factory=list)
    documents: int = 0
    nodes: int = 0

    def take(self, event: Event) -> None:
        """Use one event of the parser."""
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        if isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise _RefusedError(Fault((), "a second document in the file", allowed="one document", line=line))
        elif isinstance(event, CollectionEndEvent):
            self.stack.pop()
        elif isinstance(event, NodeEvent):
            self._node(event, line)

    def _node(self, event: NodeEvent, line: int) -> None:
        path = self._path_of_next()
        self.nodes += 1
        if self.nodes > self.max_nodes:
            raise _RefusedError(
                Fault((), "too many values", allowed=f"at most {self.max_nodes}; larger files as JSON", line=line)
            )
        if isinstance(event, AliasEvent) or event.anchor is not None:
            raise _RefusedError(
                Fault(path, "anchors and aliases are not accepted", allowed="every value written out", line=line)
            )
        tag = getattr(event, "tag", None)
        if tag is not None:
            raise _RefusedError(
                Fault(path, "tags are not accepted", value=value_text(str(tag)), allowed="no tag", line=line)
            )
        if self.stack and isinstance(self.stack[-1].container, dict) and self.stack[-1].key is None:
            self._key(self.stack[-1], event, line)
            return
        value: object
        if isinstance(event, ScalarEvent):
            value = resolve(event.value) if event.implicit[0] else event.value
            if isinstance(value, float) and not math.isfinite(value):
                self.faults.append(not_finite(path, value, line))
        else:
            value = {} if isinstance(event, MappingStartEvent) else []
        self._place(path, value, line)
        if isinstance(event, (MappingStartEvent, SequenceStartEvent)):
            if len(self.stack) >= MAX_DEPTH:
                raise _RefusedError(
                    Fault(path[:3], "nested too deeply", allowed=f"at most {MAX_DEPTH} levels", line=line)
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
                Fault(frame.path, "a key is a mapping or list", allowed="keys that are text", line=line)
            )
        key = str(event.value)
        path = (*frame.path, key)
        frame.key = key
        if event.implicit[0] and not isinstance(resolve(key), str):
            self.faults.append(Fault(path, "a key that is not text", allowed="keys that are text", line=line))
        if key in frame.container:
            first = self.lines.get(path)
            self.faults.append(Fault(path, f"duplicate key, first on line {first}", allowed="each key once", line=line))
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


def parse_yaml(text: str, max_nodes: int) -> Parsed:
    """Plain data of one YAML document; NaN, infinity, duplicate keys and keys that are not text as faults."""
    builder = _YamlBuilder(max_nodes)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            builder.take(event)
    except _RefusedError as refused:
        return Parsed(None, lambda _: {}, (*builder.faults, refused.fault), broken=True)
    except YAMLError as error:
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "cannot be parsed"
        return broken(f"broken YAML: {reason}", _line_of(error, text), allowed="valid YAML 1.2")
    except Exception as error:  # the library fails in its own ways on text made to break it; users get one message
        return broken(f"broken YAML: {type(error).__name__} in the parser", None, allowed="valid YAML 1.2")
    if builder.documents == 0:
        return broken("the file is empty", 1, allowed="a YAML or JSON document")

    def locate(wanted: frozenset[Path]) -> dict[Path, int]:
        return {path: builder.lines[path] for path in wanted if path in builder.lines}

    return Parsed(builder.root, locate, tuple(builder.faults))
