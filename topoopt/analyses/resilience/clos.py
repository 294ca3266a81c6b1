"""Blast radius of the switches of a Clos fabric: what a leaf, a spine, a core or a plane takes away when it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from rich.console import Console

from solvers.collective.limits import ratio_cut
from topoopt.core.clos import clos_fabric
from topoopt.core.collective import CollectiveProblem
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.rated_network import RatedNetwork
from topoopt.files.atomic import csv_text, write_text_atomically
from topoopt.files.documents import parse_document
from topoopt.files.results import KIND_LIMITS, SUFFIX
from topoopt.kinds import kind_named
from topoopt.kinds.files import build_instance
from topoopt.page.output import Output
from topoopt.page.render import TerminalTable, stacked
from topoopt.page.text import counted, number, percent, ratio
from topoopt.verify.collective import allgather_ratio

KIND = "collective"
OTHER_KINDS = ("co-optimisation", "llm-training")
"""Kinds whose networks are families: they name no Clos fabric, whose leaves, spines and planes are counted."""


def clos_problem(file: Path) -> CollectiveProblem | None:
    """The collective in an instance or a solution; None: the file is of another kind.

    Raises:
        InputError: everything wrong with it, its network is no Clos fabric, or an instance of a kind that names none.
    """
    document = parse_document(file, KIND_LIMITS)
    kind = document.data.get("kind") if isinstance(document.data, dict) else None
    if kind == KIND:
        problem = build_instance(document)
    elif kind == f"{KIND}{SUFFIX}":
        problem = kind_named(KIND).files.solutions.read(file).problem
    else:
        if kind in OTHER_KINDS:
            refuse_clos(str(kind), str(file), "kind", str(kind))
        return None
    if problem is None or problem.fabric is None:
        text, allowed = "only a Clos fabric has switches whose failure is studied", "fabric: {clos: ...}"
        raise InputError([Problem(text, file=str(file), path="fabric", allowed=allowed)])
    return problem if isinstance(problem, CollectiveProblem) else None


def refuse_clos(kind: str, file: str, path: str, value: str) -> NoReturn:
    """Raise InputError: plans of this kind are on families of networks, in which no leaf, spine or plane is counted."""
    text = f"networks of kind {kind} are families, without the leaves, spines and planes of a Clos fabric"
    allowed = f"a collective on fabric: {{clos: ...}}; links, servers and switches of a solution ({kind}{SUFFIX})"
    raise InputError([Problem(text, file, None, path, value, allowed)])


def blast_study(problem: CollectiveProblem) -> dict[str, Any]:
    """The document of a fabric and its failures: of the fullest leaf, spine and core, and of a plane.

    Each has what it takes away, the best rate of an AllGather after it (null: some rank is out of reach), and the rate
    before over that. Rates are those of cuts, counted again in rationals: a collective runs at its slowest member.
    """
    assert problem.fabric is not None
    fabric = clos_fabric(problem.fabric)
    before = _rate(fabric.network(problem.server_gbytes_per_s))
    assert before is not None
    failures = []
    for radius in fabric.blast_radii():
        rate = _rate(fabric.network(problem.server_gbytes_per_s, radius.part))
        after = (None, None) if rate is None else (float(rate), float(before / rate))
        rates = dict(zip(("allgather_gbytes_per_s", "slowdown"), after, strict=True))
        failures.append({**asdict(radius), "kept": float(radius.kept), **rates})
    return {
        "kind": "blast-radius",
        "name": problem.name,
        "fabric": fabric.text,
        "allgather_gbytes_per_s": float(before),
        "failures": failures,
    }


def _rate(network: RatedNetwork) -> Fraction | None:
    """Of an AllGather, GB/s of the whole vector; None: ranks are apart."""
    if network.unreachable() is not None:
        return None
    _, cut = ratio_cut(network)
    slowest = allgather_ratio(network, np.flatnonzero(cut).tolist()) / network.unit_gbytes_per_s
    return len(network.ranks) / slowest


def answer_blast(output: Output, problem: CollectiveProblem, options: Mapping[str, object], csv: Path | None) -> int:
    """Say what each switch takes away.

    Args:
        options: that mean nothing here, by name.
        csv: table to write.

    Raises:
        InputError: one of them is given.
    """
    text, allowed = "plays no part for a Clos fabric, whose every kind of switch is studied", "left out"
    raise_any([Problem(text, path=name, allowed=allowed) for name, value in options.items() if value not in (None, [])])
    document = blast_study(problem)
    rows = document["failures"]
    if csv is not None:
        write_text_atomically(csv, csv_text(tuple(rows[0]), (tuple(row.values()) for row in rows)))
    document["written"] = [] if csv is None else [str(csv)]
    output.result(document, lambda console: _show(console, document), _said(document))
    return 0


def _said(document: Mapping[str, Any]) -> str:
    parts = []
    for row in document["failures"]:
        effect = "ranks are cut off" if row["slowdown"] is None else f"an AllGather takes {ratio(row['slowdown'])}"
        parts.append(f"a failed {row['part']} touches {counted(row['servers'], 'server')}, {effect}")
    return f"{document['fabric']}: {'; '.join(parts)}."


COLUMNS = ("failure", "of", "interfaces", "servers", "cut off", "rate kept", "out of a", "AllGather GB/s", "slow-down")


def _show(console: Console, document: Mapping[str, Any]) -> None:
    table = TerminalTable(title=f"{document['name']}: one failure at a time", dense=True)
    for name in COLUMNS:
        table.add_column(stacked(name), justify="left" if name in ("failure", "out of a") else "right")
    for row in document["failures"]:
        rate, slowdown = row["allgather_gbytes_per_s"], row["slowdown"]
        table.add_row(
            row["part"],
            *(str(row[name]) for name in ("parts", "interfaces", "servers", "cut_off")),
            percent(row["kept"]),
            row["of"],
            "-" if rate is None else number(rate),
            "nothing delivered" if slowdown is None else ratio(slowdown),
        )
    console.print(table)
