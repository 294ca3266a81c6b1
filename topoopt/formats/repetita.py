"""REPETITA's data set: `.graph` lists nodes and links in both directions, `.demands` what is sent between positions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem
from topoopt.core.result import Result
from topoopt.files.issues import value_text
from topoopt.files.reader_fields import FieldTable, noted, used
from topoopt.files.untrusted import read_text, refusal
from topoopt.formats.exporter import Export, Exporter, ExportOptions, decimal_text, plain_name, refuse
from topoopt.formats.importer import Imported, Importer, NameOption, name_of
from topoopt.formats.networks import exact, routing_instance

MAX_TEXT = 64 * MIB
KBPS = Fraction(1, 10**6)
"""Gbit/s of a kbit/s."""

NODE_HEAD, EDGE_HEAD = "label x y", "label src dest weight bw delay"
DEMAND_HEAD = "label src dest bw"
FIELDS: FieldTable = {
    "node label": used("name of the node"),
    "node x": noted("where it is"),
    "node y": noted("where it is"),
    "edge label": noted("its name"),
    "edge src": used("position of its tail in the list of nodes"),
    "edge dest": used("position of its head"),
    "edge weight": noted("of shortest-path routing, which plans do not follow"),
    "edge bw": used("capacity, kbit/s"),
    "edge delay": noted("latencies play no part here"),
    "demand label": noted("its name"),
    "demand src": used("position of the node that sends"),
    "demand dest": used("position of the node that receives"),
    "demand bw": used("kbit/s; those of a pair add up"),
}
UNUSED = (
    "not used: node x, node y, edge label, edge weight (of shortest-path routing), edge delay (latencies play no part "
    "here), demand label"
)

Row = tuple[int, list[str]]


def read_block(file: str, lines: Sequence[tuple[int, str]], word: str, head: str, problems: list[Problem]) -> list[Row]:
    """The rows of a block: `WORD count`, names of columns, then `count` lines.

    Raises:
        InputError: there is no such block.
    """
    start = next((at for at, (_, text) in enumerate(lines) if text.split()[:1] == [word]), None)
    if start is None:
        raise refusal(f"no {word} in this file", file, allowed=f"{word} and their number, then: {head}")
    line, text = lines[start]
    count = text.split()[1:]
    below = lines[start + 1 :]
    if not below or below[0][1].split() != head.split():
        shown = value_text(below[0][1]) if below else None
        problems.append(Problem(f"columns of {word}", file, line + 1, None, shown, head))
        return []
    stop = next((at for at, (_, below_text) in enumerate(below) if below_text.split()[0].isupper()), len(below))
    rows = [(number, row.split()) for number, row in below[1:stop]]
    if count != [str(len(rows))]:
        message = f"the file says {' '.join(count)} {word}, {len(rows)} stand in it"
        problems.append(Problem(message, file, line, None, value_text(text), str(len(rows))))
    width = len(head.split())
    for number, cells in rows:
        if len(cells) != width:
            problems.append(Problem(f"a line of {word}", file, number, None, value_text(" ".join(cells)), head))
    return [row for row in rows if len(row[1]) == width]


def numbered_lines(path: Path) -> list[tuple[int, str]]:
    """Lines that are not empty, with their numbers."""
    text = read_text(path, MAX_TEXT, "REPETITA: NODES, EDGES, DEMANDS")
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def pairs_of(
    file: str, rows: Sequence[Row], columns: tuple[int, int, int], nodes: int, problems: list[Problem]
) -> list[tuple[int, int, Fraction]]:
    """Two positions and a number of kbit/s, as Gbit/s, of each row."""
    made = []
    for line, cells in rows:
        ends, rate = [cells[columns[0]], cells[columns[1]]], exact(cells[columns[2]])
        if not all(end.isdecimal() and end.isascii() and int(end[:9]) < nodes for end in ends):
            allowed = f"positions 0 to {nodes - 1}"
            problems.append(Problem("no such node", file, line, None, value_text(" ".join(cells)), allowed))
        elif rate is None:
            problems.append(Problem("no rate", file, line, None, value_text(cells[columns[2]]), "kbit/s, 0 or more"))
        else:
            made.append((int(ends[0]), int(ends[1]), rate * KBPS))
    return made


def import_repetita(
    file: Annotated[Path, typer.Argument(help="Network of REPETITA (.graph).")],
    demands: Annotated[Path | None, typer.Option(help="Demands (.demands); default: the one beside FILE.")] = None,
    name: NameOption = None,
) -> Imported:
    """A network and demands of REPETITA as an instance of kind routing, in Gbit/s."""
    problems: list[Problem] = []
    lines = numbered_lines(file)
    nodes = [cells[0] for _, cells in read_block(str(file), lines, "NODES", NODE_HEAD, problems)]
    edges = read_block(str(file), lines, "EDGES", EDGE_HEAD, problems)
    arcs = pairs_of(str(file), edges, (1, 2, 4), len(nodes), problems)
    chosen = demands or _beside(file)
    listed = read_block(str(chosen), numbered_lines(chosen), "DEMANDS", DEMAND_HEAD, problems)
    demand: dict[tuple[int, int], Fraction] = {}
    for source, sink, amount in pairs_of(str(chosen), listed, (1, 2, 3), len(nodes), problems):
        demand[source, sink] = demand.get((source, sink), Fraction(0)) + amount
    zero = next((line for (line, cells) in edges if exact(cells[4]) == 0), None)
    if zero is not None:
        problems.append(Problem("a link without capacity", str(file), zero, None, "0", "more than 0 kbit/s"))
    if problems:
        raise InputError(problems[:50])
    made = routing_instance(name or name_of(file), nodes, arcs, demand, directed=True, file=str(file))
    taken = () if demands is not None else (f"demands are those of {chosen.name}",)
    return Imported(made.document, made.line, made.figures, (*made.notes, *taken, UNUSED))


def _beside(file: Path) -> Path:
    """The one file of demands beside a network.

    Raises:
        InputError: none, or several.
    """
    listed = sorted(file.parent.glob(f"{file.name.removesuffix('.graph')}.*demands"))
    if len(listed) != 1:
        shown = ", ".join(path.name for path in listed[:8]) or None
        text = "no demands beside the network" if not listed else "several demands beside the network"
        raise InputError([Problem(text, path="--demands", value=shown, allowed="a file of REPETITA (.demands)")])
    return listed[0]


IMPORTER: Importer = import_repetita


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """The network and the demand of a routing.

    Raises:
        InputError: several demands, rates of which nobody says what they are in Gbit/s, not whole kbit/s.
    """
    problem = solution.figures.problem
    if problem.demand.ndim != 2:
        raise refuse("several demands", allowed="one matrix")
    unit = problem.link_gbps if problem.link_gbps is not None else options.link_gbps
    if unit is None:
        raise refuse("the solution does not say the rate of a link", path="--link-gbps", allowed="Gbit/s")
    topology = problem.topology
    nodes = [f"{node} 0 0" for node in range(topology.servers)]
    edges = [
        (tail, head, _kbps(capacity * unit))
        for (tail, head), capacity in zip(topology.arcs.tolist(), topology.capacity.tolist(), strict=True)
    ]
    demand = [
        (source, sink, _kbps(float(problem.demand[source, sink]) * unit))
        for source in range(topology.servers)
        for sink in range(topology.servers)
        if problem.demand[source, sink] > 0
    ]
    stem = plain_name(solution.name)
    graph = [f"NODES {len(nodes)}", NODE_HEAD, *nodes, "", f"EDGES {len(edges)}", EDGE_HEAD]
    graph += [f"edge_{at} {tail} {head} 1 {rate} 0" for at, (tail, head, rate) in enumerate(edges)]
    sent = [f"DEMANDS {len(demand)}", DEMAND_HEAD]
    sent += [f"demand_{at} {source} {sink} {rate}" for at, (source, sink, rate) in enumerate(demand)]
    files = tuple((f"{stem}.{ending}", "\n".join((*rows, "")).encode()) for ending, rows in
                  (("graph", graph), ("0000.demands", sent)))  # fmt: skip
    return Export(files, (len(nodes), tuple(edges), tuple(demand)), EXPORTER.limits)


def _kbps(gbps: float) -> str:
    return decimal_text(round(gbps * 1e6, 6))


EXPORTER = Exporter(
    kinds=("routing",),
    makes="NAME.graph and NAME.0000.demands: links with their capacities, and the demand, kbit/s",
    limits=(
        "REPETITA has no parallel links of their own: those of a pair are one with the sum of their capacities",
        "weights are 1 and delays 0; names of nodes are their numbers; no routes: REPETITA's solvers find them",
    ),
    folder=True,
    build=build,
)
