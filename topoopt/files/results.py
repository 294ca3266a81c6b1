"""Result files, format 3: head, instance, plan and certificates; nothing that follows from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Generic, TypeVar

from annotated_types import Ge, Le, Len

from topoopt.core.data import STRICT, Pattern
from topoopt.core.errors import InputError, Problem, TopooptError
from topoopt.core.proofs import Bound
from topoopt.core.result import MAX_CERTIFICATES, Certificate, Result
from topoopt.core.solution import CheckResult, Objective
from topoopt.core.verdict import Status, StopReason
from topoopt.files import codec
from topoopt.files.atomic import write_text_atomically
from topoopt.files.carried import laid_out
from topoopt.files.documents import Document, Limits, parse_document
from topoopt.files.faults import path_text
from topoopt.files.fields import PRINTABLE
from topoopt.files.findings import Findings

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

    Attributes
    ----------
    kind : name of the kind.
    plan : class of the plans.
    resolve : document of an instance -> problem. Raises InputError.
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

        Raises
        ------
        TopooptError
            A figure is out of range, NaN or infinite: what is written can be read.
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

        Parameters
        ----------
        path : of the file.
        document : the same file, where it has been parsed already.

        Raises
        ------
        InputError
            All errors of the file, and of the instance in it, with lines and paths.
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
            with laid_out(Document(f"{os.fspath(path)}#/instance", file.instance, lambda _: {})) as embedded:
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
    """Return a document without keys of null, at the top and one level below."""
    kept = {key: value for key, value in document.items() if value is not None}
    bounds = ("bound", "claimed_bound")
    return kept | {key: {k: v for k, v in kept[key].items() if v is not None} for key in bounds if key in kept}
