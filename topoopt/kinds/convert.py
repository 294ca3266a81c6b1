"""Solution files of format 2, read once more: the plan and its certificates are taken over, and checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topoopt.core.errors import InputError, Problem
from topoopt.core.proofs import Argument, Bound, Status, StopReason
from topoopt.core.result import UNCHECKED, Objective, Result
from topoopt.files.documents import Document, parse_document
from topoopt.files.results import FORMAT, LIMITS
from topoopt.kinds import KINDS, kind_named
from topoopt.kinds.instance_file import build_instance, read_instance
from topoopt.verify.laws.findings import CheckDepth

SUFFIX = "-solution"


def converted(path: str | os.PathLike[str], instance: str | os.PathLike[str] | None, depth: CheckDepth) -> Any:
    """Return the result in a solution file of format 2, with the verdict of the checker.

    Parameters
    ----------
    path : of the solution file.
    instance : file of its instance; None where the solution carries it.
    depth : of the check.

    Raises
    ------
    InputError
        The file is no solution file of format 2, its instance is not at hand, or it is another one.
    """
    document = parse_document(path, LIMITS)
    file = os.fspath(path)
    data: Mapping[str, Any] = document.data if isinstance(document.data, Mapping) else {}
    kind_name = str(data.get("kind", "")).removesuffix(SUFFIX)
    kind = kind_named(kind_name) if kind_name in KINDS else None
    if kind is None or data.get("schema_version") != FORMAT - 1:
        text, allowed = "no solution file of format 2", f"schema_version: 2 and kind: one of {', '.join(KINDS)}{SUFFIX}"
        raise InputError([Problem(text, file=file, path="schema_version", allowed=allowed)])
    if kind.format_2 is None:
        raise InputError([Problem("files of this kind need no conversion", file=file, path="kind", value=kind_name)])
    if instance is not None:
        problem = read_instance(instance)
    elif data.get("instance") is not None:
        problem = build_instance(Document(f"{file}#/instance", data["instance"], lambda _: {}))
    else:
        text, allowed = "this solution carries no instance", f"topoopt convert {Path(file).name} --instance INSTANCE"
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
