"""Files of all kinds: instances are read, checked, built and written, and solutions carry them."""

from __future__ import annotations

import importlib
import io
import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode
from ruamel.yaml import YAML

from topoopt.core.errors import InputError, Problem, raise_any, raise_rejected
from topoopt.core.process import end_if_interrupted
from topoopt.core.proofs import Argument, Bound, Status, StopReason
from topoopt.core.result import UNCHECKED, Objective, Result, SolutionHead
from topoopt.files import codec
from topoopt.files.atomic import write_text_atomically
from topoopt.files.documents import Document, Limits, parse_document
from topoopt.files.issues import Issue, nearest_text, value_text
from topoopt.files.results import (
    FILES,
    FORMAT,
    KIND_LIMITS,
    LIMITS,
    MAX_BYTES,
    SCHEMA,
    SUFFIX,
    solution_document,
    with_files,
    with_files_beside,
)
from topoopt.files.untrusted import files_seen
from topoopt.kinds import KINDS, kind_named, kind_of
from topoopt.kinds.kind import Instance
from topoopt.verify.checker import BRIEF, CheckDepth, CheckFindings, Violation

DIALECT = "https://json-schema.org/draft/2020-12/schema"

OTHER_FILES = {"price-book": ("topoopt.files.price_book_file", "PriceBookFile")}
"""Files that are no instances."""


FORMER_KINDS: Mapping[str, str] = {
    "robust-network": "kind: topology (routing where the links are given) with demands: [...] instead of demand; its "
    "set of matrices becomes [{matrix: ...}, ...], its files [{file: ...}, ...]",
    "shared-load": "kind: shared-cluster with jobs: {at_once: [...], repetitions, mix, placement, rank_order}; classes "
    "have plan or iteration_ms, fabrics kind, name and server_gbps",
}
"""How what was once a kind is written now."""


MODES: Mapping[tuple[str, str], str] = {("regional-circuits", "switches"): "parallel-circuits"}
"""Name of a kind, key that tells a mode of it -> the kind that the mode is, which reads it under either name."""


def _of_its_kind(document: Document) -> Document:
    """Return a document whose kind is that of its mode, where it states the kind that the mode is of."""
    data = document.data
    for (kind, key), mode in MODES.items():
        if isinstance(data, dict) and data.get("kind") == kind and key in data:
            return replace(document, data={**data, "kind": mode})
    return document


def build_instance(document: Document) -> Any:
    """Hand the document to its kind, which makes a problem of it; the document is kept with the problem.

    Raises:
        InputError: not a mapping, no or an unknown kind, and whatever the kind finds.
    """
    document = _of_its_kind(document)
    data = document.data
    if not isinstance(data, dict):
        document.refuse([Issue((), "not an instance", value_text(data), "a mapping with schema_version, kind, ...")])
        raise AssertionError("refuse returned with a fault")
    kind = data.get("kind")
    if isinstance(kind, str) and kind in KINDS:
        with with_files_beside(document) as whole, files_seen() as others:
            problem = kind_named(kind).files.read(whole)
        folder, beside = os.path.dirname(document.file), () if FILES in data else tuple(dict.fromkeys(others))
        return replace(problem, document=data, folder=folder, beside=beside)
    if isinstance(kind, str) and kind in FORMER_KINDS:
        document.refuse([Issue(("kind",), "no longer a kind of its own", value_text(kind), FORMER_KINDS[kind])])
    message = "no such kind of instance" if "kind" in data else "missing"
    issue = Issue(("kind",), message, value_text(kind) if "kind" in data else None, nearest_text(kind, KINDS))
    document.refuse([issue])
    raise AssertionError("refuse returned with a fault")


def read_instance(path: str | os.PathLike[str], changes: Sequence[tuple[str, object, str]] = ()) -> Any:
    """Read an instance file (YAML or JSON).

    Args:
        changes: (key at the top of the file, value in place of that of the file, option of the command line that gives
            it, such as `--set slack_percent`); the problem is that of the changed document.

    Raises:
        InputError: everything that is wrong with the file, with line, path, value and what is allowed; a change of a
            key that its kind does not have.
    """
    document = parse_document(path)
    instance = build_instance(_changed(document, changes) if changes else document)
    end_if_interrupted()
    return instance


def _changed(document: Document, changes: Sequence[tuple[str, object, str]]) -> Document:
    document = _of_its_kind(document)
    data = document.data
    if not isinstance(data, dict):
        return document
    kind = data.get("kind")
    if isinstance(kind, str) and kind in KINDS:
        keys = json_schema(kind)["properties"]
        text = f"instances of kind {kind} have no"
        wrong = [
            Problem(f"{text} {key}", document.file, None, option, value_text(value), "left out")
            for key, value, option in changes
            if key not in keys
        ]
        raise_any(wrong)
    return replace(document, data={**data, **{key: value for key, value, _ in changes}})


def _count(value: object) -> int:
    """Values in a document, keys included."""
    if isinstance(value, Mapping):
        return 1 + sum(1 + _count(item) for item in value.values())
    return 1 + sum(_count(item) for item in value) if isinstance(value, (list, tuple)) else 1


def instance_text(document: Mapping[str, object], path: str | os.PathLike[str]) -> str:
    """JSON if the name ends so, else YAML (innermost lists and mappings on one line, keys in the given order)."""
    if FilePath(os.fspath(path)).suffix.lower() == ".json":
        return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.allow_unicode = True
    yaml.width = 4096
    yaml.representer.ignore_aliases = lambda _: True  # the reader takes none: what stands twice is written twice
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def write_instance(document: Mapping[str, object], path: str | os.PathLike[str]) -> None:
    """Write an instance document; only what `read_instance` would take is written.

    Profiles are looked for relative to the folder the file goes to.

    Raises:
        InputError: the document is not a valid instance; the problems have paths, no lines.
        WriteError: the file cannot be written.
    """
    file = os.fspath(path)
    if FilePath(file).suffix.lower() != ".json" and _count(document) > Limits().yaml_nodes:
        allowed = f"at most {Limits().yaml_nodes} values as YAML; give a name that ends in .json"
        raise InputError([Problem("too many values", file=file, allowed=allowed)])
    build_instance(Document(file, document, lambda _: {}))
    write_text_atomically(path, instance_text(document, path))


def located(problems: Iterable[Problem], path: str | os.PathLike[str]) -> list[Problem]:
    """Problems with an instance, each with its file, and the line if it is one of the search settings."""
    file = os.fspath(path)
    document: Document | None = None
    placed = []
    for problem in problems:
        line = problem.line
        if problem.file is None and problem.path is not None and problem.path.startswith("search."):
            document = document or parse_document(path)
            line = document.line(tuple(problem.path.split(".")))
        placed.append(replace(problem, file=problem.file or file, line=line))
    return placed


def json_schema(kind: str | None = None) -> dict[str, Any]:
    """JSON Schema of one kind of file, or of all instances: then one of the kinds.

    Raises:
        InputError: no such kind.
    """
    if kind is None:
        inputs: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]]
        inputs = [(name, "validation", codec.adapter(kind_named(name).files.schema)) for name in KINDS]
        references, shared = TypeAdapter.json_schemas(inputs, schema_generator=codec.SchemaOfFiles)
        return {"$schema": DIALECT, "oneOf": [references[name, mode] for name, mode, _ in inputs], **shared}
    if kind in OTHER_FILES:
        module, model = OTHER_FILES[kind]
        return {"$schema": DIALECT, **getattr(importlib.import_module(module), model).model_json_schema()}
    if kind not in KINDS:
        allowed = nearest_text(kind, (*KINDS, *OTHER_FILES))
        raise InputError([Problem("no such kind of instance", path="kind", value=value_text(kind), allowed=allowed)])
    schema = codec.json_schema(kind_named(kind).files.schema)
    return {"$schema": DIALECT, **schema, "properties": {**schema["properties"], FILES: SCHEMA}}


def read_solution(path: str | os.PathLike[str], kinds: Collection[str] | None = None) -> Any:
    """The solution in a file; whether it is right is for the checker to say.

    Raises:
        InputError: everything wrong with the file; not a solution of any of the kinds.
    """
    kind, document = solution_document(path, tuple(KINDS) if kinds is None else kinds)
    return kind_named(kind).files.solutions.read(path, document)


def write_solution(solution: Any, path: str | os.PathLike[str]) -> None:
    """Write a solution file, whole or not at all; equal solutions give equal bytes.

    Raises:
        TopooptError: a number is NaN or infinite (a bug of what made the solution); WriteError: it cannot be written.
    """
    kind_of(solution).files.solutions.write(solution, path)


def build_embedded(document: Mapping[str, Any], source: str) -> Any:
    """Return the problem of an embedded document; only the files that it carries stand beside it.

    Raises:
        InputError: everything that is wrong with it, as if `source` were its file.
    """
    return build_instance(Document(f"{source}#/instance", document, lambda _: {}))


def document_to_embed(problem: Instance) -> Mapping[str, Any] | None:
    """Return the document of a problem with the files that it names; None where it would not say the same alone."""
    data = problem.document
    if data is None or not problem.sha256:
        return None
    if not problem.beside:
        return data
    document = with_files(data, problem.folder, problem.beside)
    try:
        return (
            document if document is not None and build_embedded(document, "solution").sha256 == problem.sha256 else None
        )
    except InputError:
        return None


def embedded_problem(solution: SolutionHead, path: FilePath) -> Any:
    """Return the problem of the instance that stands in a solution file.

    Raises:
        InputError: there is none, or something is wrong with it.
    """
    problem = getattr(solution, "problem", None)
    if problem is not None:
        return problem
    if solution.instance is None:
        text = f"this solution carries no instance (the files that it names are larger than {MAX_BYTES} bytes)"
        raise InputError([Problem(text, file=str(path), path="instance", allowed="the instance as another argument")])
    return build_embedded(solution.instance, str(path))


def solution_of(
    path: FilePath, instance: FilePath | None = None, kinds: Collection[str] | None = None
) -> tuple[Any, Any]:
    """Return the problem of a solution file and the solution, whose plan a brief check does not reject.

    Args:
        path: of the solution file.
        instance: file of its instance; None: the one that the solution carries.
        kinds: of solutions that are taken; None: all.

    Raises:
        InputError: one of the files is wrong, or the solution carries no instance and none is given.
        CheckError: the checker rejects the solution: no figure of it means anything.
    """
    solution = read_solution(path, kinds)
    problem = embedded_problem(solution, path) if instance is None else read_instance(instance)
    raise_rejected(check_whole(problem, solution, BRIEF).violations)
    if isinstance(solution, Result) and solution.problem is None:
        solution = replace(solution, problem=problem)
    return problem, solution


def problem_and_solution(path: FilePath) -> tuple[Any, Any]:
    """Return the problem of an instance file and None; or of a solution file its problem and it, briefly checked.

    Raises:
        InputError: something is wrong with the file.
        CheckError: the checker rejects the solution.
    """
    data = parse_document(path, KIND_LIMITS).data
    kind = data.get("kind") if isinstance(data, dict) else None
    if isinstance(kind, str) and kind.endswith(SUFFIX):
        return solution_of(path)
    return read_instance(path), None


def check_whole(problem: Any, solution: SolutionHead, depth: CheckDepth) -> CheckFindings:
    """What the checker of the kind finds, and whether the instance in the solution is the one it is checked against."""
    findings = kind_of(problem).check(problem, solution, depth)
    if solution.instance is None or getattr(solution, "problem", None) is problem:
        return findings
    try:
        sha256 = build_embedded(solution.instance, "solution").sha256
    except InputError as error:
        wrong = f"the instance in the solution cannot be read: {error}"
    else:
        if sha256 == problem.sha256:
            return findings
        wrong = "the instance in the solution is another one"
    return replace(findings, violations=(*findings.violations, Violation("instance", wrong)))


def converted(path: str | os.PathLike[str], instance: str | os.PathLike[str] | None, depth: CheckDepth) -> Any:
    """Return the result in a solution file of format 2, with the verdict of the checker.

    Args:
        path: of the solution file.
        instance: file of its instance; None where the solution carries it.
        depth: of the check.

    Raises:
        InputError: the file is no solution file of format 2, its instance is not at hand, or it is another one; or its
            kind has another model now.
    """
    document = parse_document(path, LIMITS)
    file = os.fspath(path)
    data: Mapping[str, Any] = document.data if isinstance(document.data, Mapping) else {}
    kind_name = str(data.get("kind", "")).removesuffix(SUFFIX)
    kind = kind_named(kind_name) if kind_name in KINDS else None
    if kind is None or data.get("schema_version") != FORMAT - 1:
        text, allowed = (
            "no solution file of format 2",
            f"schema_version: 2 and kind: one of {', '.join(KINDS)}{SUFFIX}",
        )
        raise InputError([Problem(text, file=file, path="schema_version", allowed=allowed)])
    if kind.format_2 is None:
        raise InputError([Problem("files of this kind need no conversion", file=file, path="kind", value=kind_name)])
    if isinstance(kind.format_2, str):
        allowed = "topoopt solve with its instance, once more"
        raise InputError([Problem(kind.format_2, file=file, path="kind", value=kind_name, allowed=allowed)])
    if instance is not None:
        problem = read_instance(instance)
    elif data.get("instance") is not None:
        problem = build_instance(Document(f"{file}#/instance", data["instance"], lambda _: {}))
    else:
        text, allowed = (
            "this solution carries no instance",
            f"topoopt convert INSTANCE {FilePath(file).name}",
        )
        raise InputError([Problem(text, file=file, path="instance", allowed=allowed)])
    try:
        plan, certificates = kind.format_2()(problem, data)
        result: Result[Any, Any] = Result(
            **_head(data), problem=problem, instance=problem.document, plan=plan, certificates=certificates
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        text = f"no solution of kind {kind_name}: {type(error).__name__}: {error}"
        raise InputError([Problem(text, file=file, allowed="what topoopt solve of format 2 wrote")]) from error
    findings = kind.check(problem, result, depth)
    return result.judged(findings.violations, findings.not_recomputed)


def _head(data: Mapping[str, Any]) -> dict[str, Any]:
    claimed = data.get("claimed_bound")
    return {
        "name": data["name"],
        "kind": data["kind"].removesuffix(SUFFIX),
        "status": Status(data["status"]),
        "stopped_by": StopReason(data["stopped_by"]),
        "objective": Objective(**data["objective"]),
        "bound": _bound(data["bound"]),
        "claimed_bound": None if claimed is None else _bound(claimed),
        "check": UNCHECKED,
        "seed": data["seed"],
        "method": data["method"],
        "instance_sha256": data["instance_sha256"],
        "versions": tuple(data["versions"].items()),
        "notes": tuple(data["notes"]),
    }


def _bound(data: Mapping[str, Any]) -> Bound:
    return Bound(data["value"], Argument(data["proved_by"]), data.get("iterations"))
