"""Blast radius of the switches of a Clos fabric: what a leaf, a spine, a core or a plane takes away when it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from solvers.collective.limits import ratio_cut
from topoopt.core.clos import BlastRadius, clos_fabric
from topoopt.core.collective import CollectiveProblem
from topoopt.core.errors import InputError, Problem
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


def clos_problem(file: Path) -> CollectiveProblem | None:
    """The collective in an instance or a solution; None: the file is of another kind.

    Raises:
        InputError: everything wrong with it, or its network is no Clos fabric.
    """
    document = parse_document(file, KIND_LIMITS)
    kind = document.data.get("kind") if isinstance(document.data, dict) else None
    if kind == KIND:
        problem = build_instance(document)
    elif kind == f"{KIND}{SUFFIX}":
        problem = kind_named(KIND).files.solutions.read(file).problem
    else:
        return None
    if problem is None or problem.fabric is None:
        text, allowed = "only a Clos fabric has switches whose failure is studied", "fabric: {clos: ...}"
        raise InputError([Problem(text, file=str(file), path="fabric", allowed=allowed)])
    return problem if isinstance(problem, CollectiveProblem) else None


@dataclass(frozen=True)
class SwitchFailure:
    """A failure, and the best rate of an AllGather after it.

    Attributes:
        radius: what it takes away.
        gbytes_per_s: of the whole vector, which trees reach; None: some rank cannot be reached.
        slowdown: the rate before over that.
    """

    radius: BlastRadius
    gbytes_per_s: float | None
    slowdown: float | None


@dataclass(frozen=True)
class BlastStudy:
    """A fabric and its failures.

    Attributes:
        name: of the instance.
        fabric: in words.
        gbytes_per_s: best rate of an AllGather without failure.
        failures: of the fullest leaf, spine and core, and of a plane.
    """

    name: str
    fabric: str
    gbytes_per_s: float
    failures: tuple[SwitchFailure, ...]


def blast_study(problem: CollectiveProblem) -> BlastStudy:
    """Rates are those of cuts, counted again in rationals: a collective runs at its slowest member."""
    assert problem.fabric is not None
    fabric = clos_fabric(problem.fabric)
    before = _rate(fabric.network(problem.server_gbytes_per_s))
    assert before is not None
    failures = []
    for radius in fabric.blast_radii():
        rate = _rate(fabric.network(problem.server_gbytes_per_s, radius.part))
        slowdown = None if rate is None else float(before / rate)
        failures.append(SwitchFailure(radius, None if rate is None else float(rate), slowdown))
    return BlastStudy(problem.name, fabric.text, float(before), tuple(failures))


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
    wrong = [Problem(text, path=name, allowed=allowed) for name, value in options.items() if value not in (None, [])]
    if wrong:
        raise InputError(wrong)
    study = blast_study(problem)
    rows = [_row(failure) for failure in study.failures]
    if csv is not None:
        write_text_atomically(csv, csv_text(tuple(rows[0]), (tuple(row.values()) for row in rows)))
    document = {
        "kind": "blast-radius",
        "name": study.name,
        "fabric": study.fabric,
        "allgather_gbytes_per_s": study.gbytes_per_s,
        "failures": rows,
        "written": [] if csv is None else [str(csv)],
    }
    output.result(document, lambda console: _show(console, study), _said(study))
    return 0


def _row(failure: SwitchFailure) -> dict[str, Any]:
    names = [item.name for item in fields(BlastRadius)]
    radius = {name: asdict(failure.radius)[name] for name in names}
    return {
        **radius,
        "kept": float(failure.radius.kept),
        "allgather_gbytes_per_s": failure.gbytes_per_s,
        "slowdown": failure.slowdown,
    }


def _said(study: BlastStudy) -> str:
    parts = []
    for failure in study.failures:
        radius = failure.radius
        effect = "ranks are cut off" if failure.slowdown is None else f"an AllGather takes {ratio(failure.slowdown)}"
        parts.append(f"a failed {radius.part} touches {counted(radius.servers, 'server')}, {effect}")
    return f"{study.fabric}: {'; '.join(parts)}."


def _show(console: Console, study: BlastStudy) -> None:
    table = TerminalTable(title=f"{study.name}: one failure at a time", dense=True)
    columns = (
        "failure",
        "of",
        "interfaces",
        "servers",
        "cut off",
        "rate kept",
        "out of a",
        "AllGather GB/s",
        "slow-down",
    )
    for name in columns:
        table.add_column(stacked(name), justify="left" if name in ("failure", "out of a") else "right")
    for failure in study.failures:
        radius = failure.radius
        table.add_row(
            radius.part,
            str(radius.parts),
            str(radius.interfaces),
            str(radius.servers),
            str(radius.cut_off),
            percent(float(radius.kept)),
            radius.of,
            "-" if failure.gbytes_per_s is None else number(failure.gbytes_per_s),
            "nothing delivered" if failure.slowdown is None else ratio(failure.slowdown),
        )
    console.print(table)
