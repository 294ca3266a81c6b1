"""Corrupt any place of a valid solution file: the reader refuses it, or the checker rejects it.

What may be changed all the same is listed by the caller: free text, and changes that leave an equally valid solution,
each with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.mutations import Mutation, mutations
from topoopt.core.errors import InputError
from topoopt.kinds import kind_of
from topoopt.kinds.files import check_whole
from topoopt.verify.checker import FULL

Document = dict[str, Any]


@dataclass(frozen=True)
class Harmless:
    """Changes after which a solution is as right as before.

    Attributes:
        where: pattern of the path, with dots; `*` stands for anything.
        why: what makes them harmless.
        how: pattern of what is done there.
    """

    where: str
    why: str
    how: str = "*"

    def covers(self, change: Mutation) -> bool:
        """Whether a change is of these."""
        return fnmatchcase(change.where, self.where) and fnmatchcase(change.how, self.how)


PROVENANCE = (
    Harmless("versions*", "of the libraries that made it"),
    Harmless("notes*", "for people"),
    Harmless("seed", "of the run that made it; what it found is checked, not how"),
    Harmless("method", "name of what found it"),
    Harmless("stopped_by", "of the run that made it", "now *"),
    Harmless("instance", "a solution need not carry its instance", "key dropped"),
    Harmless("instance", "the same", "*null"),
    Harmless("instance.*", "what is left out has its default: the same instance, by its hash", "key dropped"),
    Harmless("instance.*", "the same", "*null"),
    Harmless("*bound.verified", "that it is only claimed is the weaker statement", "turned"),
    Harmless("*bound.derived", "that it is only claimed is the weaker statement", "turned"),
    Harmless("check.not_recomputed*", "of the check that was made then; each check says what it left out itself"),
)
"""Of solutions of all kinds."""


def enumerations_of(schema: Any) -> dict[str, tuple[str, ...]]:
    """For every text that is one of a fixed list somewhere in a JSON Schema: the others of these lists."""
    found: dict[str, dict[str, None]] = {}
    for names in _lists_of_names(schema):
        for name in names:
            found.setdefault(name, {}).update(dict.fromkeys(other for other in names if other != name))
    return {name: tuple(others) for name, others in found.items()}


def _lists_of_names(schema: Any) -> Iterable[list[str]]:
    if isinstance(schema, Mapping):
        names = schema.get("enum")
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            yield names
        for item in schema.values():
            yield from _lists_of_names(item)
    elif isinstance(schema, list):
        for item in schema:
            yield from _lists_of_names(item)


INNER = re.compile(r"np\.\w+\(|<\w+\.\w+: ")
"""How Python shows numbers of arrays and members of enumerations, which is for nobody to read."""


@dataclass(frozen=True)
class Case:
    """A problem with a solution that its checker accepts.

    Attributes:
        problem: of any kind.
        document: of the solution, plain data.
        folder: where altered files are written.
    """

    problem: Any
    document: Document
    folder: Path

    def accepts(self, document: Document) -> bool:
        """Whether the reader takes a document, it says something else than before, and the checker accepts it."""
        kind = kind_of(self.problem)
        path = self.folder / "altered.json"
        path.write_text(json.dumps(document))
        try:
            solution = kind.files.solutions.read(path)
        except InputError:
            return False
        if kind.files.solutions.document(solution) == self.document:
            return False  # a default written out, an integer as a float: nothing was changed
        findings = check_whole(self.problem, solution, FULL)
        told = [violation.message for violation in findings.violations]
        assert not any(INNER.search(message) for message in told), told
        return findings.ok


def case_of(problem: Any, solution: Any, folder: Path) -> Case:
    """A case to be corrupted, valid as it stands."""
    kind = kind_of(problem)
    document = kind.files.solutions.document(solution)
    findings = kind.check(problem, solution, FULL)
    assert findings.ok, findings.violations
    return Case(problem, json.loads(json.dumps(document)), folder)


def accepted(case: Case, harmless: Iterable[Harmless], *, seed: int = 0, most: int | None = None) -> list[str]:
    """What was changed at one place without anybody objecting, and is not listed as harmless.

    Args:
        case: what is corrupted.
        harmless: what may be changed all the same.
        seed: of the entries of long lists that are looked into, and of the changes drawn.
        most: changes that are tried, drawn from all of them; None: all.
    """
    known = tuple(harmless)
    schema = kind_of(case.problem).files.solutions.json_schema()
    found = mutations(case.document, enumerations_of(schema), seed)
    changes = [change for change in found if not any(one.covers(change) for one in known)]
    if most is not None and len(changes) > most:
        places = np.random.default_rng(seed).choice(len(changes), most, replace=False)
        changes = [changes[place] for place in sorted(places.tolist())]
    return [str(change) for change in changes if case.accepts(change.document)]


def accepted_together(case: Case, changes: Mapping[str, Callable[[Document], Document]]) -> list[str]:
    """What was changed at several places that depend on each other without anybody objecting."""
    return [name for name, change in changes.items() if case.accepts(change(case.document))]
