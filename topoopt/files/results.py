"""Result files, format 3: head, instance with the files that it names, plan and certificates.

The key `files` of an instance maps the name of a file, as the instance names it, to its content: compressed by zlib,
written in base64. `topoopt solve` fills it in the instance that a solution carries.
"""

from __future__ import annotations

import base64
import binascii
import os
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, TypeVar

from annotated_types import Ge, Le, Len

from topoopt.core.arrays import MIB
from topoopt.core.data import STRICT, Pattern
from topoopt.core.errors import InputError, Problem, TopooptError
from topoopt.core.proofs import Bound, Status, StopReason
from topoopt.core.result import MAX_CERTIFICATES, Certificate, CheckResult, Objective, Result
from topoopt.files import codec
from topoopt.files.atomic import write_text_atomically
from topoopt.files.codec import PRINTABLE
from topoopt.files.documents import Document, Limits, parse_document
from topoopt.files.issues import Issue, nearest_text, path_text, value_text
from topoopt.files.reader_fields import Findings
from topoopt.files.untrusted import read_bytes


def check_document(check: CheckResult) -> dict[str, Any]:
    """Plain data of the verdict of the checker."""
    left_out = [asdict(omission) for omission in check.not_recomputed]
    return {"ok": check.ok, "violations": list(check.violations), "not_recomputed": left_out}


def bound_document(bound: Bound) -> dict[str, Any]:
    document = {"value": float(bound.value), "proved_by": bound.argument.value, "verified": bound.verified}
    return document if bound.iterations is None else {**document, "iterations": bound.iterations}


KIND_LIMITS = Limits(json_bytes=256 * MIB, json_nodes=40_000_000)
SUFFIX = "-solution"


def solution_kind(path: str | os.PathLike[str], kinds: Collection[str]) -> str:
    """Kind of the instance that a solution file (JSON) solves, one of `kinds`.

    Raises:
        InputError: no JSON document, or not a solution of any of the kinds.
    """
    return solution_document(path, kinds)[0]


def solution_document(path: str | os.PathLike[str], kinds: Collection[str]) -> tuple[str, Document]:
    """The same, and the document, so that its reader need not parse it again."""
    document = parse_document(path, KIND_LIMITS)
    data = document.data
    kind = data.get("kind") if isinstance(data, dict) else None
    if isinstance(kind, str) and kind.endswith(SUFFIX) and kind.removesuffix(SUFFIX) in kinds:
        return kind.removesuffix(SUFFIX), document
    allowed = nearest_text(kind, [f"{name}{SUFFIX}" for name in kinds])
    document.refuse([Issue(("kind",), "not a solution", value_text(kind), allowed)])
    raise AssertionError("refuse returned with a fault")


FILES = "files"
MAX_FILES = 1000
MAX_BYTES = 256 * MIB
"""Of all files together, before compression."""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": "string", "contentEncoding": "base64"},
    "maxProperties": MAX_FILES,
    "description": "files that this instance names, by name: zlib in base64; filled in by topoopt, not by hand",
}
"""JSON Schema of the key."""


def with_files(document: Mapping[str, Any], folder: str, paths: tuple[str, ...]) -> dict[str, Any] | None:
    """Return a document that carries the files it names, or None where they are too large or gone.

    Args:
        document: of an instance.
        folder: where it stands.
        paths: of the files, as they were opened.
    """
    names: dict[str, str] = {}
    files: dict[str, str] = {}
    total = 0
    for index, path in enumerate(paths):
        name = Path(os.path.relpath(path, folder or ".")).as_posix()
        if os.path.isabs(path) or name.startswith(".."):
            names[os.path.normpath(path)] = name = f"{index}-{os.path.basename(path)}"
        try:
            content = read_bytes(path, MAX_BYTES)
        except InputError:
            return None
        total += len(content)
        if total > MAX_BYTES or len(paths) > MAX_FILES:
            return None
        files[name] = base64.b64encode(zlib.compress(content, 9)).decode("ascii")
    return {**_renamed(document, folder, names), FILES: files}


def _renamed(value: Any, folder: str, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(os.path.normpath(os.path.join(folder, value)), value) if names else value
    if isinstance(value, Mapping):
        return {key: _renamed(entry, folder, names) for key, entry in value.items()}
    return [_renamed(entry, folder, names) for entry in value] if isinstance(value, list) else value


@contextmanager
def with_files_beside(document: Document) -> Iterator[Document]:
    """Yield a document whose carried files stand beside it while it is read; one without such files as it is.

    Raises:
        InputError: the key is damaged, or whatever is raised inside, with the names of the document and of its files.
    """
    data = document.data
    if not isinstance(data, Mapping) or FILES not in data:
        yield document
        return
    contents = _contents(document, data[FILES])
    with tempfile.TemporaryDirectory(prefix="topoopt-") as folder:
        for name, content in contents.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        file = os.path.join(folder, os.path.basename(document.file))
        rest = {key: value for key, value in data.items() if key != FILES}
        try:
            yield replace(document, file=file, data=rest)
        except InputError as error:
            raise InputError([_original(problem, document.file, file, folder) for problem in error.problems]) from None


def _original(problem: Problem, name: str, file: str, folder: str) -> Problem:
    if problem.file == file:
        return replace(problem, file=name)
    if problem.file is not None and problem.file.startswith(folder):
        return replace(problem, file=f"{name}#/{FILES}/{os.path.relpath(problem.file, folder)}")
    return problem


def _contents(document: Document, files: object) -> dict[str, bytes]:
    """Return the files by name; every one stays inside the folder that it is laid out in."""
    if not isinstance(files, Mapping) or len(files) > MAX_FILES:
        document.refuse([Issue((FILES,), "not a mapping of names to contents", allowed=f"at most {MAX_FILES} files")])
        raise AssertionError("refuse returned with a fault")
    contents: dict[str, bytes] = {}
    issues, left = [], MAX_BYTES
    for name, text in files.items():
        pure = PurePosixPath(name)
        if pure.is_absolute() or not pure.parts or ".." in pure.parts or "\0" in name or "\\" in name:
            issues.append(Issue((FILES, name), "no name of a file below the instance", name, "a relative path"))
            continue
        try:
            unpack = zlib.decompressobj()
            content = unpack.decompress(base64.b64decode(text, validate=True), left + 1)
            whole = unpack.eof and not unpack.unused_data
        except (binascii.Error, zlib.error, TypeError, ValueError):
            whole, content = False, b""
        if not whole:
            allowed = f"zlib in base64, at most {MAX_BYTES} bytes in all"
            issues.append(Issue((FILES, name), "no content of a file", allowed=allowed))
        left -= len(content)
        contents[name] = content
    document.refuse(issues)
    return contents


PlanT = TypeVar("PlanT")

FORMAT = 3
LIMITS = Limits(json_bytes=256 << 20, json_nodes=16_000_000)
Text = Annotated[str, Len(0, 20_000), Pattern(PRINTABLE)]


@dataclass(frozen=True, kw_only=True)
class ResultFile(Generic[PlanT]):
    """The file of a result, for every kind."""

    __pydantic_config__ = STRICT

    schema_version: Annotated[int, Ge(FORMAT), Le(FORMAT)] = FORMAT
    kind: Text
    name: Text
    status: Status
    stopped_by: StopReason
    objective: Objective
    bound: Bound
    claimed_bound: Bound | None = None
    check: CheckResult
    seed: Annotated[int, Ge(0)]
    method: Text
    instance_sha256: Annotated[str, Len(0, 64)]
    versions: dict[str, Text]
    notes: Annotated[tuple[Text, ...], Len(0, 10_000)] = ()
    instance: dict[str, Any] | None = None
    """the document of the instance, with the files that it names; null where these are too large"""
    plan: PlanT
    certificates: Annotated[tuple[Certificate, ...], Len(0, MAX_CERTIFICATES)] = ()


@dataclass(frozen=True)
class ResultFormat:
    """How the results of a kind are read and written.

    Attributes:
        kind: name of the kind.
        plan: class of the plans.
        resolve: document of an instance -> problem. Raises InputError.
    """

    kind: str
    plan: type[Any]
    resolve: Callable[[Document], Any]

    @property
    def shape(self) -> Any:
        """The annotated type that is the file."""
        return ResultFile[self.plan]  # type: ignore[name-defined]

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the files."""
        return dict(codec.json_schema(self.shape))

    def document(self, result: Result[Any, Any]) -> dict[str, Any]:
        """Return the document of a result; optional keys without a value are left out.

        Raises:
            TopooptError: a figure is out of range, NaN or infinite: what is written can be read.
        """
        file = ResultFile(
            **{name: getattr(result, name) for name in _SHARED},
            kind=f"{self.kind}-solution",
            versions=dict(result.versions),
        )
        document = _without_none(codec.plain(file, shape=self.shape))
        _, errors = codec.read(self.shape, document)
        if errors:  # of whoever made the result
            raise TopooptError(f"this result cannot be written: {path_text(errors[0].path)}: {errors[0].message}")
        return document

    def text(self, result: Result[Any, Any]) -> str:
        """Return the text of the file; equal results give equal text."""
        return codec.lines(self.document(result))

    def write(self, result: Result[Any, Any], path: str | os.PathLike[str]) -> None:
        """Write a result file, whole or not at all."""
        write_text_atomically(path, self.text(result))

    def read(self, path: str | os.PathLike[str], document: Document | None = None) -> Result[Any, Any]:
        """Return the result in a file; the checker says whether it is right.

        Args:
            path: of the file.
            document: the same file, where it has been parsed already.

        Raises:
            InputError: all errors of the file, and of the instance in it, with lines and paths.
        """
        document = document or parse_document(path, LIMITS)
        if isinstance(document.data, dict) and document.data.get("schema_version") == FORMAT - 1:
            allowed = f"{FORMAT}; `topoopt convert {os.fspath(path)} -o FILE` writes such a file"
            old = Problem("a solution file of an earlier format", path="schema_version", value="2", allowed=allowed)
            raise InputError([replace(old, file=os.fspath(path))])
        findings = Findings()
        file = findings.shaped(self.shape, document)
        findings.refuse(document)
        problem = None
        if file.instance is not None:
            with with_files_beside(Document(f"{os.fspath(path)}#/instance", file.instance, lambda _: {})) as embedded:
                problem = replace(self.resolve(embedded), document=file.instance)
        return Result(
            **{name: getattr(file, name) for name in _SHARED},
            kind=file.kind.removesuffix("-solution"),
            versions=tuple(file.versions.items()),
            problem=problem,
        )


_CONVERTED = {"schema_version", "kind", "versions"}
_SHARED = [field.name for field in fields(ResultFile) if field.name not in _CONVERTED]
"""Fields that a result and its file have alike."""


def _without_none(document: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in document.items() if value is not None}
    bounds = ("bound", "claimed_bound")
    return kept | {key: {k: v for k, v in kept[key].items() if v is not None} for key in bounds if key in kept}
