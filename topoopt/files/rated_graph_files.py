"""Networks with rates in files of unknown origin: GraphML with `rate` and `role`, or a table of links."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path as FilePath

from topoopt.core.errors import InputError, Problem
from topoopt.files.faults import value_text
from topoopt.files.graph_files import MAX_TEXT, parsed_graphml
from topoopt.files.untrusted import read_text

SWITCH = "switch"
"""The role of a node that does not compute."""

SHOWN = 50


@dataclass(frozen=True)
class RatedGraph:
    """A network as a file states it: names of nodes, which are switches, and (tail, head, GB/s) by number."""

    names: tuple[str, ...]
    is_switch: tuple[bool, ...]
    links: tuple[tuple[int, int, Fraction], ...]


def rate_of(value: object) -> Fraction | None:
    """A rate above 0 as it is written, exactly; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        rate = Fraction(str(value).strip())
    except (ValueError, ZeroDivisionError):
        return None
    return rate if Fraction(1, 10**9) <= rate <= 10**9 else None


def read_rated_graph(path: str | os.PathLike[str]) -> RatedGraph:
    """A network, by the ending of the file's name: .graphml, .csv or .txt.

    Raises:
        InputError: unknown ending, and everything wrong with the file.
    """
    suffix = FilePath(os.fspath(path)).suffix.lower()
    if suffix == ".graphml":
        return _of_graphml(os.fspath(path))
    if suffix in (".csv", ".txt"):
        return _of_table(os.fspath(path))
    problem = Problem(
        "unknown kind of network file", file=os.fspath(path), value=suffix, allowed=".graphml, .csv, .txt"
    )
    raise InputError([problem])


def _of_graphml(file: str) -> RatedGraph:
    """Edge attribute `rate` (GB/s), node attribute `role`, `switch` where it is one."""
    graph = parsed_graphml(file)
    names = [str(node) for node in graph.nodes()]
    number = {name: place for place, name in enumerate(names)}
    problems, links = [], []
    for tail, head, data in graph.edges(data=True):
        rate = rate_of(data.get("rate"))
        if rate is None:
            text = f"the link {tail} -> {head} has no proper rate"
            problems.append(Problem(text, file=file, value=value_text(data.get("rate")), allowed="GB/s, above 0"))
            continue
        ends = number[str(tail)], number[str(head)]
        links.append((*ends, rate))
        if not graph.is_directed():
            links.append((*ends[::-1], rate))
    if problems:
        raise InputError(problems[:SHOWN])
    switch = tuple(data.get("role") == SWITCH for _, data in graph.nodes(data=True))
    return RatedGraph(tuple(names), switch, tuple(links))


def _of_table(file: str) -> RatedGraph:
    """A line a link: tail, head, GB/s, parted by commas, semicolons or blanks; # comments; nodes by any names.

    A first line of words (`tail,head,rate`) is skipped. Nodes whose names are all numbers are ordered by them.
    """
    problems: list[Problem] = []
    rows: list[tuple[str, str, Fraction]] = []
    for number, raw in enumerate(read_text(file, MAX_TEXT).splitlines(), start=1):
        cells = [cell for cell in re.split(r"[,;\s]+", raw.partition("#")[0].strip()) if cell]
        if not cells or (not rows and not problems and [cell.lower() for cell in cells] == ["tail", "head", "rate"]):
            continue
        rate = rate_of(cells[2]) if len(cells) == 3 else None
        if rate is None:
            allowed = "tail, head and a rate above 0 in GB/s"
            problems.append(Problem("not a link", file=file, line=number, value=value_text(raw), allowed=allowed))
        else:
            rows.append((cells[0], cells[1], rate))
    if problems:
        hidden = len(problems) - SHOWN
        more = [Problem(f"{hidden} further lines are wrong", file=file)] if hidden > 0 else []
        raise InputError([*problems[:SHOWN], *more])
    names = list(dict.fromkeys(end for row in rows for end in row[:2]))
    if all(name.isdecimal() for name in names):
        names.sort(key=int)
    place = {name: k for k, name in enumerate(names)}
    links = tuple((place[tail], place[head], rate) for tail, head, rate in rows)
    return RatedGraph(tuple(names), (False,) * len(names), links)
