"""All that is wrong with one file is collected and said at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.process import end_if_interrupted
from topoopt.files import codec
from topoopt.files.documents import Document, Limits, parse_document
from topoopt.files.issues import Issue, Path, parse_path, said_removed

Value = TypeVar("Value")
Result = TypeVar("Result")
File = TypeVar("File")


VERSION: Path = ("schema_version",)


def is_version(data: object) -> bool:
    """Whether a document says of what version it is, be it one that is read or not."""
    version = data.get(*VERSION) if isinstance(data, dict) else None
    return isinstance(version, int) and not isinstance(version, bool)


def fitting(shape: type[Value] | TypeAdapter[Value], raw: object) -> Value | None:
    """A section of a document that has faults elsewhere, in its shape; None if it has some itself."""
    try:
        adapter = shape if isinstance(shape, TypeAdapter) else TypeAdapter(shape)
        return adapter.validate_json(json.dumps(raw))
    except ValidationError:
        return None


def within(section: str, step: Callable[[], Result]) -> Result:
    """Run a step whose problems have paths relative to a section."""
    try:
        return step()
    except InputError as error:
        raise InputError(
            [
                problem
                if problem.file is not None
                else replace(problem, path=f"{section}.{problem.path}" if problem.path else section)
                for problem in error.problems
            ]
        ) from None


class Findings:
    """Faults of a file, problems of the files it refers to, and notes on how these were read.

    `infeasible` holds reasons why no plan satisfies a file that has no faults.
    """

    def __init__(self) -> None:
        self.issues: list[Issue] = []
        self.infeasible: list[Issue] = []
        self._elsewhere: list[Problem] = []
        self.notes: list[str] = []

    def add(self, issues: Iterable[Issue]) -> None:
        """Keep faults, but not a second time at a path where the schema already complained."""
        paths = {issue.path for issue in self.issues}
        self.issues += [issue for issue in issues if issue.path not in paths]

    def note(self, text: str) -> None:
        """Keep a note for people, once."""
        if text not in self.notes:
            self.notes.append(text)

    def shape(self, model: type[File], document: Document) -> File | None:
        """The document in the shape of a model, or None with its faults kept, so that more can be looked for."""
        value: File | None
        value, issues = codec.read(model, document.data)
        if issues:
            kind = document.data.get("kind") if isinstance(document.data, dict) else None
            issues = [said_removed(kind, issue) for issue in issues]
            # What is of another version fits in many places, for one reason.
            version = [issue for issue in issues if issue.path == VERSION and is_version(document.data)]
            self.add(version or issues)
        end_if_interrupted()
        return value

    def shaped(self, model: type[File], document: Document) -> File:
        """The document in the shape of a model.

        Raises:
            InputError: it does not have it; what was found so far is told as well.
        """
        return self.shape(model, document) or self.settled(document, None)

    def attempt(self, step: Callable[[], Result], around: Path, source: str | None = None) -> Result | None:
        """Result of `step`, or None with its problems kept.

        Args:
            step: may raise InputError.
            around: path of problems that have none of their own.
            source: a file whose problems are the fault of what stands at `around`.
        """
        try:
            return step()
        except InputError as error:
            issues = []
            for problem in error.problems:
                if problem.file is None:
                    path = parse_path(problem.path) if problem.path else around
                    issues.append(Issue(path, problem.message, problem.value, problem.allowed))
                elif problem.file == source:
                    issues.append(Issue(around, f"{problem.message} ({source})", problem.value, problem.allowed))
                else:
                    self._elsewhere.append(problem)
            self.add(issues)
            return None

    def clear_of(self, *sections: str) -> bool:
        """Whether nothing is wrong with the given sections, or with files they refer to."""
        return not self._elsewhere and not any(not issue.path or issue.path[0] in sections for issue in self.issues)

    def refuse(self, document: Document) -> None:
        """Raise InputError when anything was found, or the document has faults of its own."""
        wrong = self.issues or self._elsewhere or document.issues
        problems = document.problems([*self.issues, *self.infeasible]) + self._elsewhere
        if problems:
            raise InputError(problems, InputError.exit_code if wrong else InfeasibleError.exit_code)

    def settled(self, document: Document, built: Result | None) -> Result:
        """What was built of the document.

        Raises:
            InputError: anything was found, or the document has faults of its own.
        """
        self.refuse(document)
        if built is None:
            raise AssertionError("a file was neither built nor refused")
        return built


Model = TypeVar("Model", bound=BaseModel)


def read_checked(
    path: str | os.PathLike[str],
    model: type[Model],
    issues: Callable[[Model], Sequence[Issue]] = lambda _: (),
    limits: Limits | None = None,
) -> Model:
    """The file as an instance of `model`.

    Raises:
        InputError: everything wrong with the file.
    """
    document = parse_document(path, limits or Limits())
    findings = Findings()
    file = findings.shaped(model, document)
    findings.add(issues(file))
    return findings.settled(document, file)
