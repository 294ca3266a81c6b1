"""SNDlib's networks, native and XML: links with pre-installed capacities and modules, and demands.

Whether links and demands have a direction is part of a model there, which the file of the network does not state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import typer

from topoopt.core.arrays import MIB
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.result import Result
from topoopt.files.issues import value_text
from topoopt.files.reader_fields import FieldTable, noted, used
from topoopt.files.untrusted import parsing, read_xml_text, refusal
from topoopt.formats.networks import exact, routing_instance, routing_tables
from topoopt.formats.table import (
    Export,
    Exporter,
    ExportOptions,
    Imported,
    Importer,
    NameOption,
    decimal_text,
    name_of,
    plain_name,
    require_choice,
)

MAX_TEXT = 64 * MIB
XSI = "{http://www.w3.org/2001/XMLSchema-instance}"
UNITS = {"KBITPERSEC": Fraction(1, 10**6), "MBITPERSEC": Fraction(1, 1000), "GBITPERSEC": Fraction(1),
         "TBITPERSEC": Fraction(1000)}  # fmt: skip
FIELDS: FieldTable = {
    "unit": used("of capacities and demands; default: taken for Gbit/s, which a note says"),
    "granularity": noted("what the demands are taken over"),
    "time": noted("when"),
    "origin": noted("who measured"),
    "node id": used("name of the node"),
    "coordinates": noted("where it is"),
    "link id": noted("name of the link"),
    "source": used("end of a link or demand"),
    "target": used("the other end"),
    "pre-installed capacity": used("capacity that is there; 0 is refused where no module is bought"),
    "module capacity": used("capacity that may be bought: the setting `modules` says how many"),
    "costs": noted("of pre-installed capacity, routing, setup and modules: nothing is bought here"),
    "demand id": noted("name of the demand"),
    "routing unit": used("how much capacity a unit of the demand takes"),
    "demand value": used("demand"),
    "max path length": used("links of a path at most: refused where stated, but for UNLIMITED"),
    "admissible paths": used("paths a demand may take: refused, as routes are free here"),
    "any other": noted("its name: keys of META, elements of XML"),
}
XML_TAGS = frozenset(
    {
        *("network", "meta", "granularity", "time", "unit", "origin"),
        *("networkStructure", "nodes", "node", "coordinates", "x", "y", "links", "link", "source", "target"),
        *("preInstalledModule", "additionalModules", "addModule", "capacity", "cost", "setupCost", "routingCost"),
        *("demands", "demand", "demandValue", "maxPathLength", "routingUnit"),
        *("admissiblePaths", "admissiblePath", "linkId"),
    }
)
XML_ATTRIBUTES = frozenset({"@id", "@version", "@coordinatesType", f"@{XSI}schemaLocation"})
META_KEYS = ("granularity", "time", "unit", "origin")


@dataclass
class Content:
    """A file: links (tail, head, capacity, modules, line), demands (source, sink, value, line)."""

    unit: str | None = None
    nodes: list[str] = field(default_factory=list)
    links: list[tuple[str, str, Fraction, tuple[Fraction, ...], int | None]] = field(default_factory=list)
    demands: list[tuple[str, str, Fraction, int | None]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


Refuse = Callable[[str, int | None, object, str], None]
_SECTION = re.compile(r"\s*([A-Z_]+)\s*\(\s*$")
_TOKEN = re.compile(r"[()]|[^\s()]+")


def import_sndlib(
    file: Annotated[Path, typer.Argument(help="Network of SNDlib, native (.txt) or XML.")],
    links: Annotated[str, typer.Option(help="directed, bidirected or undirected: the file does not say.")],
    demands: Annotated[str, typer.Option(help="directed or symmetric: the file does not say.")],
    modules: Annotated[int, typer.Option(min=0, help="Modules bought for each link, of the first kind it has.")] = 0,
    name: NameOption = None,
) -> Imported:
    """A network of SNDlib as an instance of kind routing: pre-installed capacities and modules, demands, in Gbit/s."""
    require_choice("--links", links, ("directed", "bidirected", "undirected"))
    require_choice("--demands", demands, ("directed", "symmetric"))
    if links == "undirected" and demands == "directed":
        text = "links that both directions share, and demands of one direction, are not covered"
        raise InputError([Problem(text, path="--links", value=links, allowed="undirected with symmetric demands")])
    problems: list[Problem] = []

    def refuse(message: str, line: int | None, value: object, allowed: str) -> None:
        problems.append(Problem(message, str(file), line, None, value_text(value), allowed))

    text = read_xml_text(file, MAX_TEXT)
    content = _xml(file, text, refuse) if text.lstrip().startswith("<") else _native(file, text, refuse)
    number = {node: at for at, node in enumerate(content.nodes)}
    unit = UNITS.get((content.unit or "GBITPERSEC").upper().replace("_", ""))
    if unit is None:
        refuse("an unknown unit", None, content.unit, ", ".join(UNITS))
    if len(number) < len(content.nodes):
        refuse("a node more than once", None, len(content.nodes) - len(number), "each once")
    ends = [(*link[:2], link[4]) for link in content.links] + [(*row[:2], row[3]) for row in content.demands]
    for tail, head, line in ends:
        if not {tail, head} <= number.keys():
            refuse("no such node", line, f"{tail} {head}", "nodes of the file")
    arcs: list[tuple[int, int, Fraction]] = []
    for tail, head, installed, offered, line in content.links:
        capacity = installed + (modules * offered[0] if offered else 0)
        if capacity == 0:
            allowed = "a pre-installed capacity, or --set modules=1: links are to be designed here"
            refuse(f"the link {tail} - {head} has no capacity yet", line, "0", allowed)
        elif {tail, head} <= number.keys():
            arcs.append((number[tail], number[head], capacity * (unit or 1)))
    raise_any(problems[:50])
    demand: dict[tuple[int, int], Fraction] = {}
    for source, sink, value, _ in content.demands:
        for pair in ((source, sink), (sink, source))[: 2 if demands == "symmetric" else 1]:
            at = number[pair[0]], number[pair[1]]
            demand[at] = demand.get(at, Fraction(0)) + value * (unit or 1)
    made = routing_instance(name or name_of(file), content.nodes, arcs, demand, links == "directed", str(file))
    return Imported(made.document, made.line, made.figures, (*made.notes, *_notes(content, links, demands, modules)))


def _notes(content: Content, links: str, demands: str, modules: int) -> Iterator[str]:
    yield f"links are {links}, demands {demands}: as stated beside the file, which does not say"
    if links == "undirected":
        yield "with symmetric demands, links that both directions share are as good as links of the same rate each way"
    if content.unit is None:
        yield "the file states no unit: capacities and demands are taken for Gbit/s, and their ratio is right in any"
    offered = sum(bool(row[3]) for row in content.links)
    if offered and not modules:
        yield f"{offered} links offer modules of capacity, none of which is bought (--set modules=1 buys one for each)"
    elif offered:
        yield f"{modules} modules of the first kind are bought for each of {offered} links"
    yield "not used: coordinates, link id, demand id, costs (nothing is bought here), granularity, time, origin"
    if content.unread:
        yield f"not used, and not known to this reader: {', '.join(content.unread)}"


def _native(file: Path, text: str, refuse: Refuse) -> Content:
    """Sections of the native form; `#` begins a comment.

    Raises:
        InputError: not that form.
    """
    if not text.lstrip().startswith("?SNDlib native format"):
        raise refusal("not a network of SNDlib", str(file), allowed="?SNDlib native format, or XML")
    content, section = Content(), ""
    for line, raw in enumerate(text.splitlines(), 1):
        stripped = raw.partition("#")[0].strip()
        opening = _SECTION.fullmatch(stripped)
        if opening and not section:
            section = opening[1]
        elif stripped == ")":
            section = ""
        elif stripped and not stripped.startswith("?"):
            _entry(content, section, stripped, line, refuse)
    return content


def _entry(content: Content, section: str, text: str, line: int, refuse: Refuse) -> None:
    """A line of a section."""
    cells = _TOKEN.findall(text)
    if section == "META":
        key, _, value = text.partition("=")
        if key.strip() == "unit":
            content.unit = value.strip()
        elif key.strip() not in META_KEYS:
            content.unread.append(key.strip())
    elif section == "NODES" and cells[1:2] in ([], ["("]):
        content.nodes.append(cells[0])
    elif section == "LINKS" and len(cells) >= 11 and (cells[1], cells[4], cells[9], cells[-1]) == ("(", ")", "(", ")"):
        numbers = [exact(cell) for cell in (cells[5], *cells[10:-1:2])]
        if any(number is None for number in numbers) or len(cells[10:-1]) % 2:
            refuse("not a link", line, text, "numbers, modules as capacity and cost")
        else:
            installed, *offered = [number for number in numbers if number is not None]
            content.links.append((cells[2], cells[3], installed, tuple(offered), line))
    elif section == "DEMANDS" and len(cells) == 8 and (cells[1], cells[4]) == ("(", ")"):
        _demand(content, cells[2], cells[3], cells[5], cells[6], cells[7], line, refuse)
    elif section == "ADMISSIBLE_PATHS":
        refuse("admissible paths", line, text, "routes that are free: an empty section")
    else:
        refuse(f"not understood in the section {section or 'of none'}", line, text, "META, NODES, LINKS, DEMANDS")


def _demand(
    content: Content, source: str, sink: str, unit: str, value: str, longest: str, line: int | None, refuse: Refuse
) -> None:
    factor, amount = exact(unit), exact(value)
    if factor is None or amount is None:
        refuse("not a demand", line, f"{unit} {value}", "a routing unit and a value, 0 or more")
    elif longest.upper() != "UNLIMITED":
        refuse("a longest path of its own for a demand", line, longest, "UNLIMITED")
    else:
        content.demands.append((source, sink, factor * amount, line))


def _xml(file: Path, text: str, refuse: Refuse) -> Content:
    """The XML form.

    Raises:
        InputError: not that form.
    """
    with parsing(str(file), "a network of SNDlib (XML)"):
        root = ElementTree.fromstring(text)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        if root.tag != "network":
            raise refusal("not a network of SNDlib", str(file), value=root.tag, allowed="network")
        content = Content(root.findtext("meta/unit"))
        content.unread = sorted({element.tag for element in root.iter()} - XML_TAGS)
        content.unread += sorted({f"@{key}" for element in root.iter() for key in element.attrib} - XML_ATTRIBUTES)
        content.nodes = [node.attrib["id"] for node in root.findall("networkStructure/nodes/node")]
        for link in root.findall("networkStructure/links/link"):
            installed = link.findtext("preInstalledModule/capacity", "0")
            numbers = [
                exact(text) for text in (installed, *(m.findtext("capacity", "") for m in link.iter("addModule")))
            ]
            if any(number is None for number in numbers):
                refuse("not a link", None, link.get("id"), "capacities, 0 or more")
                continue
            own, *offered = [number for number in numbers if number is not None]
            content.links.append((_text(link, "source"), _text(link, "target"), own, tuple(offered), None))
        for demand in root.findall("demands/demand"):
            unit, value, longest = (
                demand.findtext(tag, default)
                for tag, default in (("routingUnit", "1"), ("demandValue", ""), ("maxPathLength", "UNLIMITED"))
            )
            _demand(content, _text(demand, "source"), _text(demand, "target"), unit, value, longest, None, refuse)
            if demand.find("admissiblePaths/admissiblePath") is not None:
                refuse("admissible paths", None, demand.get("id"), "routes that are free")
    return content


def _text(element: ElementTree.Element, tag: str) -> str:
    return (element.findtext(tag) or "").strip()


IMPORTER: Importer = import_sndlib


def build_sndlib(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """The network and the demand of a routing, native, every arc a link with its capacity pre-installed.

    Raises:
        InputError: several demands, rates of which nobody says what they are in Gbit/s.
    """
    servers, arcs, pairs = routing_tables(solution, options)
    links, demands = ([(tail, head, decimal_text(rate)) for tail, head, rate in rows] for rows in (arcs, pairs))
    sections = {
        "META": ["unit = GBITPERSEC"],
        "NODES": [f"N{node} ( 0.0 0.0 )" for node in range(servers)],
        "LINKS": [f"L{at} ( N{tail} N{head} ) {rate} 0 0 0 ( )" for at, (tail, head, rate) in enumerate(links)],
        "DEMANDS": [
            f"D{at} ( N{source} N{sink} ) 1 {amount} UNLIMITED" for at, (source, sink, amount) in enumerate(demands)
        ],
        "ADMISSIBLE_PATHS": [],
    }
    lines = ["?SNDlib native format; type: network; version: 1.0", "# links and demands are directed"]
    for name, rows in sections.items():
        lines += ["", f"{name} (", *(f"  {row}" for row in rows), ")"]
    content = (servers, tuple(links), tuple(demands))
    files = ((f"{plain_name(solution.name)}.txt", "\n".join((*lines, "")).encode()),)
    return Export(files, content, SNDLIB_EXPORTER.limits)


SNDLIB_EXPORTER = Exporter(
    kinds=("routing",),
    makes="one native file: links with pre-installed capacities, and the demand, Gbit/s",
    limits=(
        "the format does not say that links and demands are directed: a comment does, --set "
        "links=directed,demands=directed reads them so",
        "parallel links are one with the sum of their capacities; no modules, costs, coordinates, names, routes",
    ),
    folder=False,
    build=build_sndlib,
)
