"""Instances that stand in the files of their solutions, so that a stranger can check one file alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from topoopt.core.errors import InputError, Problem
from topoopt.core.solution import SolutionHead
from topoopt.files.documents import Document
from topoopt.kinds import kind_of
from topoopt.kinds.instance_file import MOST_BYTES, build_instance
from topoopt.kinds.kind import Instance
from topoopt.verify.laws.findings import CheckDepth, CheckFindings, Violation


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _built(document: Mapping[str, Any], where: str) -> Any:
    """The problem of an embedded document; files beside it do not exist."""
    return build_instance(Document(f"{where}#/instance", document, lambda _: {}))


def document_to_embed(problem: Instance) -> Mapping[str, Any] | None:
    """The document of a problem, if it was kept and says all there is to say; else None."""
    data = problem.document
    if data is None or not problem.sha256 or any(os.path.isabs(text) for text in _texts(data)):
        return None
    if problem.alone:
        return data
    try:
        alone = _built(data, "solution")
    except InputError:  # it refers to other files
        return None
    return data if alone.sha256 == problem.sha256 else None


def embedded_problem(solution: SolutionHead, path: Path) -> Any:
    """The problem of the instance that stands in a solution file.

    Raises:
        InputError: there is none, or something is wrong with it.
    """
    if solution.instance is None:
        text = f"this solution carries no instance (larger than {MOST_BYTES} bytes, or it refers to other files)"
        raise InputError([Problem(text, file=str(path), path="instance", allowed="topoopt check INSTANCE SOLUTION")])
    return _built(solution.instance, str(path))


def check_whole(problem: Any, solution: SolutionHead, depth: CheckDepth) -> CheckFindings:
    """What the checker of the kind finds, and whether the instance in the solution is the one it is checked against."""
    findings = kind_of(problem).check(problem, solution, depth)
    if solution.instance is None:
        return findings
    try:
        sha256 = _built(solution.instance, "solution").sha256
    except InputError as error:
        wrong = f"the instance in the solution cannot be read: {error}"
    else:
        if sha256 == problem.sha256:
            return findings
        wrong = "the instance in the solution is another one"
    return replace(findings, violations=(*findings.violations, Violation("instance", wrong)))
