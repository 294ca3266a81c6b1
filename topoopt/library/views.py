"""What methods of problems and solutions give that takes more than numpy: documents, tables of Arrow, HTML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.core.data import Displayed, short
from topoopt.core.errors import InputError, Problem, extra
from topoopt.core.result import Result, SolutionHead
from topoopt.core.topology import Topology
from topoopt.drawing.format import number, percent
from topoopt.drawing.sentences import full_answer, objective_text
from topoopt.drawing.svg import element, joined
from topoopt.drawing.topology_picture import find_links, topology_svg
from topoopt.drawing.utilisation import plain_style
from topoopt.kinds import kind_of

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ARCS = 6000
"""Arcs of a topology that is drawn; a picture of more is a black disc of megabytes."""

STYLE = """
.topoopt { max-width: 480px; }
.topoopt th, .topoopt td { text-align: left; padding: 1px 10px 1px 0; }
.topoopt svg { width: 100%; }
.topoopt .lk { fill: none; stroke-linecap: round; }
.topoopt .nodes circle { fill: #fff; stroke: #57606c; }
.topoopt .labels text { text-anchor: middle; dominant-baseline: central; font-size: 12px; fill: #57606c; }
"""


def document_of(solution: SolutionHead) -> dict[str, Any]:
    """Plain data of a solution, as its file holds them."""
    document: dict[str, Any] = kind_of(solution).files.solutions.document(solution)  # type: ignore[arg-type]
    return document


def figures_of(result: Result[Any, Any]) -> Any:
    """Everything that follows from the problem, the seed and the plan of a result.

    Raises:
        InputError: the result has no problem.
    """
    if result.problem is None:
        text = "the instance is neither in this solution nor beside it"
        raise InputError([Problem(text, path="instance", allowed="topoopt check INSTANCE SOLUTION")])
    problem = result.problem
    if problem.search.seed != result.seed:  # the run was called with another one than the instance says
        problem = replace(problem, search=problem.search.but(seed=result.seed))
    return kind_of(result).figures(problem, result.plan, result.certificates)


def tables_of(solution: SolutionHead) -> dict[str, pa.Table]:
    """The columns of a solution as tables of Arrow.

    Raises:
        InputError: the extra `studies` is not installed.
    """
    pa = extra("pyarrow", "tables of Arrow")
    return {
        name: pa.table({key: _arrow(values) for key, values in columns.items()})
        for name, columns in solution.columns().items()
    }


def _arrow(values: Any) -> Any:
    return np.ascontiguousarray(values) if isinstance(values, np.ndarray) else list(values)


def html_of(shown: Displayed) -> str:
    """A short block for a notebook, with all its style: figures, and the picture of the topology if there is one."""
    if isinstance(shown, SolutionHead):
        return str(_block(_headline(shown), *_picture(shown.columns().get("links"), _topology(shown))))
    inside = ((field.name, getattr(shown, field.name)) for field in fields(shown) if field.repr)  # type: ignore[arg-type]
    rows = [(name, short(value)) for name, value in inside if name != "sha256" and not _empty(value)]
    return str(_block([(type(shown).__name__, ""), *rows], *_picture(None, _topology(shown))))


def _headline(solution: SolutionHead) -> list[tuple[str, str]]:
    objective, bound = solution.objective, solution.bound
    failed = f"FAILED: {len(solution.check.violations)} violations"
    verdict = solution.check.outcome if solution.check.ok else failed
    return [
        (solution.name, f"{solution.kind}, {solution.status}"),
        ("answer", full_answer(kind_of(solution).pages().answer(solution), solution.check)),
        (objective_text(objective.name), f"{number(objective.value)} {objective.unit}"),
        ("bound", f"{number(bound.value)} {objective.unit} ({bound.proved_by}), gap {percent(solution.gap)}"),
        ("method", f"{solution.method}, seed {solution.seed}, stopped by {solution.stopped_by}"),
        ("check", verdict),
    ]


def _empty(value: object) -> bool:
    return value is None or (isinstance(value, str | tuple) and not value)


def _topology(shown: Any) -> Topology | None:
    """The topology that something is, has, or has in its plan or problem."""
    owners = (shown, getattr(shown, "plan", None), getattr(shown, "problem", None))
    for found in (shown, *(getattr(owner, "topology", None) for owner in owners)):
        if isinstance(found, Topology):
            return found
    return None


def _picture(links: Any, topology: Topology | None) -> Iterable[Markup]:
    if topology is None or len(topology.arcs) > MOST_ARCS:
        return ()
    busy: Floats = np.zeros(len(topology.arcs))
    if links is not None and "utilisation" in links:
        busy = np.asarray(links["utilisation"], dtype=np.float64)
    busy = busy / max(1.0, float(busy.max(initial=0.0)))
    return (topology_svg(topology, find_links(topology), busy, lambda arc: percent(float(busy[arc]))),)


def html_table(rows: Iterable[tuple[str, ...]]) -> Markup:
    """A table for a notebook, its first row in bold."""
    first, *others = ([element("td", cell) for cell in row] for row in rows)
    body = (element("tr", *cells) for cells in others)
    return element("table", element("tr", *(element("th", cell.striptags()) for cell in first)), joined(body))


def _block(rows: Iterable[tuple[str, str]], *pictures: Markup) -> Markup:
    table = (element("tr", element("th", name), element("td", value)) for name, value in rows)
    style = element("style", Markup(STYLE + plain_style(".topoopt")))
    return element("div", style, element("table", joined(table)), *pictures, class_="topoopt")
