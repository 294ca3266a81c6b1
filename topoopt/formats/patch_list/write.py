"""What a technician or a switch controller has to set: the circuits of every optical switch, or the changes only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from topoopt.core.cluster import Host, LinkDirection
from topoopt.core.result import Result
from topoopt.core.topology import Topology
from topoopt.files.atomic import csv_text
from topoopt.formats.exporter import NOTES_FILE, Export, Exporter, ExportOptions, notes_bytes, refuse
from topoopt.formats.graphml.graphs import written_topology
from topoopt.formats.hosts.server_names import named_servers
from topoopt.formats.patch_list.pods import pods_export
from topoopt.formats.patch_list.rails import rails_export
from topoopt.formats.patch_list.steps import steps_export

Circuit = tuple[int, int, int]
"""Optical switch, input port, output port; all count from 1."""

HEAD = ("switch", "input", "output", "from_host", "from_interface", "to_host", "to_interface")


def circuits_of(topology: Topology) -> set[Circuit]:
    """Circuits of all switches; port p of a switch is that of server p - 1."""
    rows, servers = np.nonzero(topology.switches >= 0)
    heads = topology.switches[rows, servers]
    table = np.stack((rows, servers, heads), axis=1) + 1
    return {(switch, into, out) for switch, into, out in table.tolist()}


def build(solution: Result[Any, Any], options: ExportOptions) -> Export:
    """Circuits as CSV and as text; with a previous solution what to disconnect and to connect as well.

    Raises:
        InputError: names that cannot be written, a previous solution of another cluster, no links between servers.
    """
    if solution.kind == "regional-circuits":
        return steps_export(solution, options)
    if options.timetable is not None:
        return rails_export(options.timetable, options)
    if options.pods is not None:
        return pods_export(options.pods, options)
    topology = written_topology(solution, options)
    hosts = named_servers(topology, options.hosts)
    circuits = circuits_of(topology)
    text = [*_lines("Circuits", circuits, hosts)]
    files = [("circuits.csv", circuits_csv(circuits, hosts))]
    content: dict[str, frozenset[Circuit]] = {"circuits": frozenset(circuits)}
    notes = [*LIMITS, *_duplex(topology)]
    if options.previous is not None:
        before = _previous(topology, options.previous)
        gone, new = before - circuits, circuits - before
        files += [("disconnect.csv", circuits_csv(gone, hosts)), ("connect.csv", circuits_csv(new, hosts))]
        text = [*_lines("Disconnect", gone, hosts), *_lines("Connect", new, hosts), *text]
        content |= {"disconnect": frozenset(gone), "connect": frozenset(new)}
        notes.append(f"{len(gone)} circuits to disconnect, {len(new)} to connect, {len(before & circuits)} stay")
    files += [("patch-list.txt", ("\n".join(text) + "\n").encode())]
    files.append((NOTES_FILE, notes_bytes(f"Circuits of {topology.degree} optical switches", tuple(notes))))
    return Export(tuple(files), content, tuple(notes))


def _previous(topology: Topology, previous: Topology) -> set[Circuit]:
    if previous.switches.shape != topology.switches.shape:
        value, allowed = (f"{one.servers} servers with {one.degree} interfaces" for one in (previous, topology))
        raise refuse("the previous solution is for another cluster", path="--previous", value=value, allowed=allowed)
    return circuits_of(previous)


def circuits_csv(circuits: Iterable[Circuit], hosts: tuple[Host, ...]) -> bytes:
    """Table of circuits with the names of their ends."""
    rows = []
    for switch, into, out in sorted(circuits):
        ends = [(hosts[port - 1].name, hosts[port - 1].links[switch - 1].interface) for port in (into, out)]
        rows.append((switch, into, out, *ends[0], *ends[1]))
    return csv_text(HEAD, rows).encode()


def _lines(title: str, circuits: set[Circuit], hosts: tuple[Host, ...]) -> Iterable[str]:
    yield f"{title}: {len(circuits)}"
    for number in sorted({circuit[0] for circuit in circuits}):
        yield ""
        yield f"  optical switch {number}"
        for _, into, out in sorted(circuit for circuit in circuits if circuit[0] == number):
            names = [f"{hosts[port - 1].name} {hosts[port - 1].links[number - 1].interface}" for port in (into, out)]
            yield f"    in {into:>4} -> out {out:>4}    {names[0]} -> {names[1]}"
    yield ""


def _duplex(topology: Topology) -> list[str]:
    own = np.arange(topology.servers)
    back = [row for row in topology.switches if (row[row[row >= 0]] == own[row >= 0]).all()]
    apart = topology.degree - len(back)
    if apart == 0:
        return ["every interface sends to and receives from the same interface: duplex patch cords do"]
    text = (
        f"{apart} of {topology.degree} switches need the two fibres of an interface apart: it sends to one server and "
    )
    text += "receives from another"
    if topology.links is LinkDirection.BIDIRECTIONAL:
        text += f"; {_why_apart(topology)}"
    return [text]


def _why_apart(topology: Topology) -> str:
    """Why duplex patch cords do not do, and how many spare interfaces a server would mend it (Vizing 1964)."""
    links, spare = int(topology.multiplicity.sum()) // 2, int(topology.multiplicity.max(initial=1))
    why = "no split of the links into a matching a switch was found"
    if links > topology.degree * (topology.servers // 2):
        why = "a switch of duplex cords leaves one of an odd number of servers dark, and no interface is spare"
    return f"{why}; with {spare} more at each server, on as many more switches, duplex cords do"


LIMITS = (
    "optical switch j takes interface j of every server: the transmit fibre of the server with number p at input "
    "p + 1, the receive fibre at output p + 1",
    "interfaces of a torus are two for each axis, and share the rate of a server",
    "switches with fewer ports than servers are not divided: `topoopt cost` says whether they can be",
)

EXPORTER = Exporter(
    kinds=("co-optimisation", "llm-training", "regional-circuits", "routing", "topology"),
    makes="circuits.csv and patch-list.txt: port to port of every optical switch; with --previous the changes only; "
    "of photonic-rails phases.csv beside them: which circuits are lit, and which are being set, from when to when; of "
    "pod-circuits pod-circuits.csv in place of them; of regional-circuits steps.csv: which circuits every step has, "
    "and what is cut and set before it",
    limits=(
        *LIMITS,
        "of photonic-rails: the p ports of server number s on a rail are ports s p + 1 to s p + p of its switch; both "
        "directions of a circuit use the same two ports; times count from the begin of a step that follows itself",
        "of pod-circuits: ports of all pods on one optical switch or patch panel, both directions of a circuit on the "
        "same two",
    ),
    folder=True,
    build=build,
)
