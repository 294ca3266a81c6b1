"""What the checker looks at, from its code: arguments behind bounds, constraints of plans, fields of solution files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from topoopt.core.proofs import CLAIMED, PHRASES, Argument
from topoopt.files.codec import FieldWords, SectionWords, sections_of
from topoopt.kinds import kind_named
from topoopt.verify import allocation, collective, dag_topology, hierarchy, parallel_circuits, regional_circuits
from topoopt.verify.checker import Checker
from topoopt.verify.job import check as job
from topoopt.verify.network import checker as network
from topoopt.verify.placement import check as placement
from topoopt.verify.shared_cluster import checker as shared_cluster

CHECKERS: dict[str, Sequence[Checker]] = {
    "co-optimisation": (job.CHECKER,),
    "topology": (network.TOPOLOGY,),
    "routing": (network.ROUTING,),
    "allocation": (allocation.CHECKER,),
    "hierarchical-bandwidth": (hierarchy.CHECKER, hierarchy.SPEEDS_CHECKER),
    "placement": (placement.PIPELINES, placement.SCHEDULES),
    "shared-cluster": (shared_cluster.CHECKER,),
    "collective": (collective.CHECKER,),
    "llm-training": (),
    "dag-topology": (dag_topology.CHECKER,),
    "regional-circuits": (regional_circuits.CHECKER,),
    "parallel-circuits": (parallel_circuits.CHECKER,),
}
"""The checkers of each kind; none: it has a module of its own in place of a list of constraints."""

HEAD = frozenset(
    ("", "argument", "bound", "certificate", "checkresult", "decides", "leftout", "objective", "status", "stopreason")
)
"""Sections that the files of all kinds have."""


def _row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def _table(head: Sequence[str], rows: Iterator[str]) -> str:
    return "\n".join([_row(*head), _row(*("---" for _ in head)), *rows]) + "\n"


def _first(text: str | None) -> str:
    return (text or "").split("\n\n")[0]


def arguments(_: str = "") -> str:
    """All arguments, in the order of the kinds, and whether a check derives them again."""
    return _table(
        ("argument", "the bound rests on"),
        (_row(f"`{each}`", f"claimed: {PHRASES[each]}" if each in CLAIMED else PHRASES[each]) for each in Argument),
    )


def constraints(kind: str) -> str:
    """What a plan of a kind keeps, in the order of evaluation, and the tolerances of value and optimum."""
    rows = {
        code: sentence
        for checker in CHECKERS[kind]
        for code, constraint in checker.constraints
        if (sentence := _first(constraint.__doc__))
    }
    listed = _table(("constraint", "what it says"), (_row(f"`{code}`", text) for code, text in rows.items()))
    figures = " or ".join(dict.fromkeys(f"{checker.tolerance.relative:g}" for checker in CHECKERS[kind]))
    optimum = " or ".join(dict.fromkeys(f"{checker.optimal.relative:g}" for checker in CHECKERS[kind]))
    tolerances = f"Recomputed figures agree within a part of {figures}; a value meets its bound within {optimum}.\n"
    return f"{listed}\n{tolerances}" if rows else tolerances


def meaning_of(section: SectionWords, field: FieldWords) -> str:
    """What a field means: its annotation, or its line in the docstring of its class."""
    stands = re.search(rf"\b{field.name} ?: (.+?)(?= \w+ ?: |$)", " ".join(section.meaning.split()))
    return field.meaning or (stands[1] if stands else "")


def plan_sections(kind: str) -> list[SectionWords]:
    """The sections of solution files that only this kind has."""
    schema = kind_named(kind).files.solutions.json_schema()
    return [section for section in sections_of(schema) if section.name not in HEAD]


def fields(kind: str) -> str:
    """The decisions in a solution file of a kind."""
    return _table(
        ("section", "field", "meaning"),
        (
            _row(f"`{section.name}`", f"`{field.name}`", meaning_of(section, field) or field.value)
            for section in plan_sections(kind)
            for field in section.fields
        ),
    )


def head_fields(_: str = "") -> str:
    """What the files of all kinds have beside their decisions."""
    schema = kind_named("allocation").files.solutions.json_schema()
    return _table(
        ("section", "field", "meaning"),
        (
            _row(f"`{section.name or 'file'}`", f"`{field.name}`", meaning_of(section, field) or field.value)
            for section in sections_of(schema)
            if section.name in HEAD
            for field in section.fields
        ),
    )
