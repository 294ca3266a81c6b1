"""YAML and JSON files of unknown origin, read into plain data whose lines are known.

Only mappings with text keys, lists, text, numbers, booleans and null come out. Size, nesting and number of values are
bounded before they take memory; YAML anchors, aliases and tags, duplicate keys, NaN and infinity are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path as FilePath

from topoopt.core.errors import InputError, Problem
from topoopt.core.units import MIB
from topoopt.files.faults import MAX_LISTED, Fault, Path, path_text
from topoopt.files.json_document import parse_json
from topoopt.files.parsed import half_characters
from topoopt.files.untrusted import parsing, read_text, refusal
from topoopt.files.yaml_document import parse_yaml


@dataclass(frozen=True)
class Limits:
    """What one file may take.

    YAML is parsed in Python, about a hundred times slower than JSON, so it is held smaller: large data go into JSON.
    """

    json_bytes: int = 64 * MIB
    json_nodes: int = 2_000_000
    yaml_bytes: int = 4 * MIB
    yaml_nodes: int = 200_000


@dataclass(frozen=True, eq=False)
class Document:
    """A parsed file.

    Attributes:
        file: its name, for messages.
        data: plain data.
        locate: lines (1-based) of the given paths, those that exist.
        faults: what is wrong with it so far though it could be parsed (duplicate keys, NaN, infinity).
    """

    file: str
    data: object
    locate: Callable[[frozenset[Path]], dict[Path, int]]
    faults: tuple[Fault, ...] = ()

    def line(self, path: Path) -> int | None:
        """Line of a path, or of the nearest thing around it."""
        return self.lines([path])[path]

    def lines(self, paths: Iterable[Path]) -> dict[Path, int | None]:
        """Lines of many paths in one pass, each its own or that of the nearest thing around it."""
        wanted = set(paths)
        found = self.locate(frozenset(path[:end] for path in wanted for end in range(len(path) + 1)))
        return {
            path: next((found[path[:end]] for end in range(len(path), -1, -1) if path[:end] in found), None)
            for path in wanted
        }

    def problems(self, faults: Iterable[Fault]) -> list[Problem]:
        """The document's own faults and the given ones, in file order, each path and message once, with lines."""
        unique: dict[tuple[Path, str], Fault] = {}
        given = list(faults)
        better = {fault.path for fault in given}
        for fault in (*(own for own in self.faults if not (own.general and own.path in better)), *given):
            unique.setdefault((fault.path, fault.message), fault)
        shown = list(unique.values())[:MAX_LISTED]
        lines = self.lines({fault.path for fault in shown if fault.line is None})
        problems = [
            Problem(
                fault.message,
                file=self.file,
                line=fault.line if fault.line is not None else lines[fault.path],
                path=path_text(fault.path),
                value=fault.value,
                allowed=fault.allowed,
            )
            for fault in shown
        ]
        problems.sort(key=lambda problem: problem.line or 0)
        if len(unique) > MAX_LISTED:
            problems.append(Problem(f"{len(unique) - MAX_LISTED} further problems are not listed", file=self.file))
        return problems

    def refuse(self, faults: Iterable[Fault]) -> None:
        """Raise InputError when the document has faults of its own or any are given."""
        problems = self.problems(faults)
        if problems:
            raise InputError(problems)


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
    document = Document(file, parsed.data, parsed.locate, (*parsed.faults, *halves))
    if parsed.broken:
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
