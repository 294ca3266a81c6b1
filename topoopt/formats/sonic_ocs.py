"""Cross-connects of optical switches as SONiC's CONFIG_DB has them, and how they differ from those that are set.

A port `1A` takes a transmit fibre, a port `2B` gives a receive fibre, and a cross-connect joins an A and a B port; a
duplex link takes two of them. A port is in at most one, so what goes is removed before what comes is added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from topoopt.core.arrays import MIB
from topoopt.core.cluster import Host
from topoopt.core.errors import InputError, Problem
from topoopt.core.result import Result
from topoopt.files.documents import Limits, load_document
from topoopt.files.issues import value_text
from topoopt.files.reader_fields import FieldTable, noted, used
from topoopt.files.untrusted import refusal
from topoopt.formats.exporter import (
    NOTES_FILE,
    Export,
    Exporter,
    ExportOptions,
    json_bytes,
    notes_bytes,
    refuse,
    written_topology,
)
from topoopt.formats.hosts import named_servers
from topoopt.formats.patch_list import Circuit, circuits_of

CONNECTS, PORTS = "OCS_CROSS_CONNECT", "OCS_PORT"
MAX_TEXT = 64 * MIB
FIELDS: FieldTable = {
    f"{CONNECTS}.*.a_side": used("port of the transmit fibre, as 1A"),
    f"{CONNECTS}.*.b_side": used("port of the receive fibre, as 2B"),
    PORTS: noted("labels and states of ports"),
    "any other": noted("its name: other tables of the switch"),
}
Pair = tuple[int, int]
"""Ports of an A and a B side, from 1."""


def config_db(pairs: Iterable[Pair], labels: Mapping[str, str]) -> dict[str, Any]:
    """Tables of a switch: its ports in use with their labels, and its cross-connects."""
    pairs = sorted(pairs)
    used_ports = [f"{a}A" for a, _ in pairs] + [f"{b}B" for b in sorted(b for _, b in pairs)]
    connects = {f"{a}A-{b}B": {"a_side": f"{a}A", "b_side": f"{b}B"} for a, b in pairs}
    return {PORTS: {port: {"label": labels[port], "state": "normal"} for port in used_ports}, CONNECTS: connects}


def read_config_db(file: Path) -> tuple[frozenset[Pair], tuple[str, ...]]:
    """Cross-connects that a CONFIG_DB has, and what of it was not read.

    Raises:
        InputError: no table of cross-connects, sides that are none, a port in two of them.
    """
    data = load_document(file, Limits(json_bytes=MAX_TEXT)).data
    tables = data if isinstance(data, dict) else {}
    table = tables.get(CONNECTS)
    if not isinstance(table, dict):
        raise refusal("no cross-connects", str(file), value=data, allowed=f"CONFIG_DB of SONiC with {CONNECTS}")
    pairs, problems = set[Pair](), list[Problem]()
    for name, entry in table.items():
        sides = [entry.get(key) if isinstance(entry, dict) else None for key in ("a_side", "b_side")]
        ports = [
            re.fullmatch(r"([1-9][0-9]{0,5})" + letter, str(side)) for side, letter in zip(sides, "AB", strict=True)
        ]
        if ports[0] is None or ports[1] is None:
            problems.append(
                Problem("no cross-connect", str(file), None, name, value_text(sides), "a_side 1A, b_side 2B")
            )
            continue
        pairs.add((int(ports[0][1]), int(ports[1][1])))
    for side, letter in enumerate("AB"):
        ends = [pair[side] for pair in pairs]
        twice = sorted({end for end in ends if ends.count(end) > 1})
        problems += [
            Problem("a port in two cross-connects", str(file), None, CONNECTS, f"{end}{letter}", "one") for end in twice
        ]
    if problems:
        raise InputError(problems[:50])
    others = {str(key) for key in tables} - {CONNECTS}
    entries = [entry for entry in table.values() if isinstance(entry, dict)]
    others |= {f"{CONNECTS}.*.{key}" for entry in entries for key in entry if key not in ("a_side", "b_side")}
    return frozenset(pairs), (f"not compared, of {file.name}: {', '.join(sorted(others))}",) if others else ()


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """A CONFIG_DB for each optical switch; with a previous solution, or with what is set, the changes as well.

    Raises:
        InputError: no circuits, another number of switches than files that are compared, files that cannot be read.
    """
    topology = written_topology(solution, options)
    circuits = circuits_of(topology)
    if not circuits:
        raise refuse("the solution has no circuits of optical switches", allowed="a topology that was planned")
    hosts = named_servers(topology, options.hosts)
    wanted = _by_switch(circuits, topology.degree)
    before: dict[int, frozenset[Pair]] | None = None
    unread: tuple[str, ...] = ()
    if options.against is not None and options.previous is not None:
        raise refuse("both what is set and a previous solution", path="--against", allowed="one of them")
    if options.previous is not None:
        if options.previous.switches.shape != topology.switches.shape:
            raise refuse("the previous solution is for another cluster", path="--set previous")
        before = _by_switch(circuits_of(options.previous), topology.degree)
    elif options.against is not None:
        before, unread = _present(options.against, topology.degree)
    files, changes = list[tuple[str, bytes]](), list[dict[str, Any]]()
    for switch, pairs in wanted.items():
        files.append((f"ocs{switch}.json", json_bytes(config_db(pairs, _labels(pairs, hosts, switch)))))
        if before is not None:
            gone, new = (sorted(side) for side in (before[switch] - pairs, pairs - before[switch]))
            change = {
                "switch": switch,
                "remove": [f"{a}A-{b}B" for a, b in gone],
                "add": [f"{a}A-{b}B" for a, b in new],
                "stay": len(pairs & before[switch]),
            }
            changes.append(change)
            files.append((f"ocs{switch}.changes.json", json_bytes(change)))
    notes = [*EXPORTER.limits, *unread]
    if before is not None:
        totals = [sum(len(change[key]) for change in changes) for key in ("remove", "add")]
        notes.append(
            f"{totals[0]} cross-connects to remove, then {totals[1]} to add; {sum(c['stay'] for c in changes)} stay"
        )
    files.append((NOTES_FILE, notes_bytes(f"Cross-connects of {topology.degree} optical switches", tuple(notes))))
    content = {"connects": wanted, "changes": tuple(changes)}
    return Export(tuple(files), content, tuple(notes), {"changes": changes} if before is not None else {})


def _by_switch(circuits: Iterable[Circuit], switches: int) -> dict[int, frozenset[Pair]]:
    made: dict[int, set[Pair]] = {switch: set() for switch in range(1, switches + 1)}
    for switch, into, out in circuits:
        made[switch].add((into, out))
    return {switch: frozenset(pairs) for switch, pairs in made.items()}


def _present(against: Path, switches: int) -> tuple[dict[int, frozenset[Pair]], tuple[str, ...]]:
    """Cross-connects of `ocs1.json`, ... in a folder, or of the one switch in a file, and what was not read."""
    if against.is_dir():
        read = {switch: read_config_db(against / f"ocs{switch}.json") for switch in range(1, switches + 1)}
        unread = tuple(dict.fromkeys(note for _, notes in read.values() for note in notes))
        return {switch: pairs for switch, (pairs, _) in read.items()}, unread
    if switches > 1:
        allowed = f"a folder with ocs1.json to ocs{switches}.json"
        raise refuse("one file for several optical switches", path="--against", value=str(against), allowed=allowed)
    pairs, notes = read_config_db(against)
    return {1: pairs}, notes


def _labels(pairs: Iterable[Pair], hosts: tuple[Host, ...], switch: int) -> dict[str, str]:
    """Host and interface at every port of a switch."""
    names = [f"{host.name} {host.links[switch - 1].interface}" for host in hosts]
    ports = {port for pair in pairs for port in pair}
    return {f"{port}{side}": f"{names[port - 1]} {word}" for port in ports for side, word in (("A", "tx"), ("B", "rx"))}


EXPORTER = Exporter(
    kinds=("co-optimisation", "llm-training", "topology"),
    makes="ocsN.json for each optical switch: CONFIG_DB of SONiC with its ports and cross-connects; with previous or "
    "--against ocsN.changes.json: what is removed, then added",
    limits=(
        "optical switch j takes interface j of every server: the transmit fibre of server number p is port p + 1 of "
        "side A, its receive fibre port p + 1 of side B",
        "SONiC's tables for optical switches are those of its design of 2026; no switch has run these files",
    ),
    folder=True,
    build=build,
    compares=True,
)
