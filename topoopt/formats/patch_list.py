"""A technician or a switch controller sets the circuits of every optical switch, once, by changes, or step by step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from topoopt.core.arrays import MIB, NS_PER_S
from topoopt.core.cluster import Host, LinkDirection
from topoopt.core.errors import Problem, raise_any
from topoopt.core.llm_training_plan import PodCircuits
from topoopt.core.regional_circuits import PortPair, StepCircuits, SwitchedSteps
from topoopt.core.result import Result
from topoopt.core.switching import CircuitGroup, RailTimetable
from topoopt.core.topology import Topology
from topoopt.files.atomic import csv_text
from topoopt.files.documents import Limits, load_document
from topoopt.files.issues import value_text
from topoopt.files.reader_fields import FieldTable, noted, used
from topoopt.files.untrusted import refusal
from topoopt.formats.hosts import named_servers, numbered_servers
from topoopt.formats.table import (
    NOTES_FILE,
    Export,
    Exporter,
    ExportOptions,
    json_bytes,
    notes_bytes,
    refuse,
    written_topology,
)
from topoopt.page.text import counted

Circuit = tuple[int, int, int]


PODS_FILE = "pod-circuits.csv"
PODS_HEAD = ("switch_port", "peer_switch_port", "pod", "port", "peer_pod", "peer_port")

PodCircuit = tuple[int, int, int, int, int, int]
"""Ports of the switch, then pod and port of either end; ports count from 1, pods from 0."""


def pods_export(plan: PodCircuits, options: ExportOptions) -> Export:
    """Circuits as a table and for people; a pod's ports are taken in the order of its peers.

    Raises:
        InputError: names of servers, or a previous solution, for pods that have neither.
    """
    if options.previous is not None:
        raise refuse("changes of circuits between pods are not told", path="--set previous", allowed="left out")
    if options.hosts:
        raise refuse("pods have numbers, not the names of servers", path="--set hosts", allowed="left out")
    circuits = pod_circuits(plan)
    saved = ", ".join(f"pod {pod} {count}" for pod, count in enumerate(plan.ports_saved) if count) or "none"
    notes = (
        f"{plan.pods} pods of {plan.settings.gpus} GPUs with {plan.settings.ports} ports each: port p of pod k is port "
        "k times these plus p of the switch",
        f"{len(circuits)} circuits of {plan.settings.circuit_gbps:g} Gbit/s in each direction; ports saved: {saved}",
        "pod = stage x pods of a stage + place; ranks of a pod follow each other by tensor, context, data",
    )
    files = (
        (PODS_FILE, csv_text(PODS_HEAD, circuits).encode()),
        ("patch-list.txt", "".join(f"{line}\n" for line in pod_lines(circuits)).encode()),
        (NOTES_FILE, notes_bytes(f"Circuits between {plan.pods} pods", notes)),
    )
    return Export(files, frozenset(circuits), notes)


def pod_circuits(plan: PodCircuits) -> list[PodCircuit]:
    """All circuits, by pair; each takes the next port at both ends."""
    ports, taken, circuits = plan.settings.ports, [0] * plan.pods, list[PodCircuit]()
    for *pair, count in plan.links:
        for _ in range(count):
            ends = []
            for pod in pair:
                taken[pod] += 1
                ends.append((pod * ports + taken[pod], pod, taken[pod]))
            (near_end, *near), (other, *far) = ends
            circuits.append((near_end, other, near[0], near[1], far[0], far[1]))
    return circuits


def pod_lines(circuits: list[PodCircuit]) -> Iterable[str]:
    yield f"Circuits: {len(circuits)}"
    for near, other, pod, port, peer, peer_port in circuits:
        yield f"  {near:>5} - {other:>5}    pod {pod} port {port} - pod {peer} port {peer_port}"


GROUPS_FILE, PHASES_FILE = "circuits.csv", "phases.csv"
GROUP_HEAD = ("group", "use", "rail", "port", "peer_port", "from_host", "from_interface", "to_host", "to_interface")
PHASE_HEAD = ("begin_ns", "end_ns", "lit", "being_set")


def rails_export(timetable: RailTimetable, options: ExportOptions) -> Export:
    """Circuits, phases, and both for people.

    Raises:
        InputError: names that cannot be written, or a previous solution: circuits of rails are all set anew.
    """
    if options.previous is not None:
        raise refuse("circuits of rails change inside a step", path="--set previous", allowed="left out")
    hosts = numbered_servers(timetable.servers, timetable.rails * timetable.ports, options.hosts)
    phases = [
        (phase.begin_ns, phase.end_ns, _numbers(phase.lit), _numbers(phase.dark))
        for phase in timetable.phases
    ]  # fmt: skip
    count = sum(len(phase.circuits) for phase in timetable.groups)
    notes = (
        f"{timetable.rails} optical switches, one a rail, each with {timetable.servers * timetable.ports} ports",
        f"{count} circuits in {len(timetable.groups)} groups, {len(phases)} phases of a step of "
        f"{timetable.step_ns} ns; a circuit takes {timetable.delay_ns} ns to set",
        "replicas run in step; what lags behind its phase waits for circuits that are cut without looking",
    )
    files = (
        (GROUPS_FILE, csv_text(GROUP_HEAD, _rows(timetable, hosts)).encode()),
        (PHASES_FILE, csv_text(PHASE_HEAD, phases).encode()),
        ("patch-list.txt", "".join(f"{line}\n" for line in _lines(timetable, hosts)).encode()),
        (NOTES_FILE, notes_bytes(f"Circuits of {timetable.rails} rails", notes)),
    )
    content = tuple((phase.use, frozenset(phase.circuits)) for phase in timetable.groups), timetable.phases
    return Export(files, content, notes)


def _numbers(groups: Iterable[int]) -> str:
    return " ".join(str(group + 1) for group in groups)


def _rows(timetable: RailTimetable, hosts: tuple[Host, ...]) -> Iterable[tuple[object, ...]]:
    for number, group in enumerate(timetable.groups):
        for rail, *ports in group.circuits:
            names = [name for port in ports for name in _end(timetable, hosts, rail, port)]
            yield (number + 1, group.use.value, rail + 1, *(port + 1 for port in ports), *names)


def _end(timetable: RailTimetable, hosts: tuple[Host, ...], rail: int, port: int) -> tuple[str, str]:
    server, index = divmod(port, timetable.ports)
    host = hosts[server]
    return host.name, host.links[rail * timetable.ports + index].interface


def _lines(timetable: RailTimetable, hosts: tuple[Host, ...]) -> Iterable[str]:
    for number, phase in enumerate(timetable.phases):
        yield f"Phase {number + 1}: {phase.begin_ns} to {phase.end_ns} ns"
        for word, groups in (("lit", phase.lit), ("being set", phase.dark)):
            yield from (f"  {word:<9} {_name(group, timetable.groups[group])}" for group in groups)
    for number, group in enumerate(timetable.groups):
        yield ""
        yield f"{_name(number, group)}: {len(group.circuits)} circuits"
        for rail, port, peer in group.circuits:
            names = [" ".join(_end(timetable, hosts, rail, end)) for end in (port, peer)]
            yield f"  rail {rail + 1}: {port + 1:>4} - {peer + 1:>4}    {names[0]} - {names[1]}"


def _name(number: int, group: CircuitGroup) -> str:
    return f"group {number + 1}, {group.use.value} of stage {' and '.join(map(str, group.stages))}"


CIRCUITS_FILE, STEPS_FILE = "circuits.csv", "steps.csv"
CIRCUIT_HEAD = ("circuit", "port", "peer_port", "from_host", "from_interface", "to_host", "to_interface")
STEP_HEAD = ("step", "stall_ns", "transfer_ns", "lit", "disconnect", "connect")

Servers = tuple[int, int]


def switched_steps(figures: Any) -> SwitchedSteps:
    """Return the ports of the circuits of every step; a circuit that the next step has as well stays where it is."""
    problem, topologies = figures.problem, figures.plan.topologies
    first = [0, *accumulate(problem.ports)][:-1]
    lit: dict[Servers, list[PortPair]] = {}
    numbers: dict[PortPair, int] = {}
    steps: list[StepCircuits] = []
    previous: set[int] = set()
    for k, step in enumerate(figures.steps):
        target = {(server, peer): count for server, peer, count in topologies[step.circuits]}
        lit = {pair: lit.get(pair, [])[:count] for pair, count in target.items()}
        used = {port for pairs in lit.values() for both in pairs for port in both}
        free = [
            [port for port in range(start, start + count) if port not in used]
            for start, count in zip(first, problem.ports, strict=True)
        ]
        for (server, peer), count in target.items():
            added = [(free[server].pop(0), free[peer].pop(0)) for _ in range(count - len(lit[server, peer]))]
            lit[server, peer] += added
        current = {numbers.setdefault(both, len(numbers)) for pairs in lit.values() for both in pairs}
        steps.append(
            StepCircuits(
                round(step.stall_s * NS_PER_S),
                round(step.transfer_s * NS_PER_S),
                tuple(sorted(current)),
                tuple(sorted(previous - current if k else set())),
                tuple(sorted(current - previous)),
            )
        )
        previous = current
    return SwitchedSteps(tuple(numbers), tuple(steps))


def steps_export(result: Result[Any, Any], options: ExportOptions) -> Export:
    """Return the files of circuits, of steps, and of both for people.

    Raises:
        InputError: names cannot be written, or a previous solution is given: the first step sets all circuits.
    """
    if options.previous is not None:
        raise refuse("circuits of a region change from step to step", path="--set previous", allowed="left out")
    figures = result.figures
    ports = figures.problem.ports
    hosts = numbered_servers(figures.problem.servers, max(1, *ports), options.hosts)
    switched = switched_steps(figures)
    rows = [(number + 1, *_step_row(ports, hosts, both)) for number, both in enumerate(switched.circuits)]
    steps = [
        (
            k,
            step.stall_ns,
            step.transfer_ns,
            _circuit_numbers(step.lit),
            _circuit_numbers(step.disconnect),
            _circuit_numbers(step.connect),
        )
        for k, step in enumerate(switched.steps)
    ]
    changed = sum(bool(step.connect or step.disconnect) for step in switched.steps[1:])
    circuits = counted(len(switched.circuits), "circuit")
    notes = (
        f"one optical switch with {counted(sum(ports), 'port')}; those of server 0 come first",
        f"{circuits}, {counted(len(steps), 'step')}, changes before {changed} of them",
        "circuits of the first step are set beforehand; others as soon as those that they cut are idle",
    )
    files = (
        (CIRCUITS_FILE, csv_text(CIRCUIT_HEAD, rows).encode()),
        (STEPS_FILE, csv_text(STEP_HEAD, steps).encode()),
        ("patch-list.txt", "".join(f"{line}\n" for line in _step_lines(switched, rows)).encode()),
        (NOTES_FILE, notes_bytes("Circuits of the switch of a region", notes)),
    )
    return Export(files, switched, notes)


def _circuit_numbers(circuits: Iterable[int]) -> str:
    return " ".join(str(number + 1) for number in circuits)


def _step_row(ports: Sequence[int], hosts: tuple[Host, ...], both: PortPair) -> tuple[object, ...]:
    endpoints: list[str] = []
    bounds = list(accumulate(ports))
    for port in both:
        server = sum(bound <= port for bound in bounds)
        endpoints += [hosts[server].name, hosts[server].links[port - (bounds[server] - ports[server])].interface]
    return (both[0] + 1, both[1] + 1, *endpoints)


def _step_lines(switched: SwitchedSteps, rows: list[tuple[object, ...]]) -> Iterable[str]:
    for k, step in enumerate(switched.steps):
        changes = {"disconnect": step.disconnect, "connect": step.connect}
        counts = [f"{len(circuits)} to {change}" for change, circuits in changes.items() if circuits]
        yield f"Step {k}: {counted(len(step.lit), 'circuit')}; before it {', '.join(counts) or 'nothing changes'}"
        for change, circuits in changes.items():
            for number in circuits:
                _, port, peer, host, interface, peer_host, peer_interface = rows[number]
                yield f"  {change:<10} {port:>4} - {peer:>4}    {host} {interface} - {peer_host} {peer_interface}"
        yield ""


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
    text = [*_patch_lines("Circuits", circuits, hosts)]
    files = [("circuits.csv", circuits_csv(circuits, hosts))]
    content: dict[str, frozenset[Circuit]] = {"circuits": frozenset(circuits)}
    notes = [*LIMITS, *_duplex(topology)]
    if options.previous is not None:
        before = _previous(topology, options.previous)
        gone, new = before - circuits, circuits - before
        files += [("disconnect.csv", circuits_csv(gone, hosts)), ("connect.csv", circuits_csv(new, hosts))]
        text = [*_patch_lines("Disconnect", gone, hosts), *_patch_lines("Connect", new, hosts), *text]
        content |= {"disconnect": frozenset(gone), "connect": frozenset(new)}
        notes.append(f"{len(gone)} circuits to disconnect, {len(new)} to connect, {len(before & circuits)} stay")
    files += [("patch-list.txt", ("\n".join(text) + "\n").encode())]
    files.append((NOTES_FILE, notes_bytes(f"Circuits of {topology.degree} optical switches", tuple(notes))))
    return Export(tuple(files), content, tuple(notes))


def _previous(topology: Topology, previous: Topology) -> set[Circuit]:
    if previous.switches.shape != topology.switches.shape:
        value, allowed = (
            f"{design.servers} servers with {design.degree} interfaces" for design in (previous, topology)
        )
        raise refuse(
            "the previous solution is for another cluster", path="--set previous", value=value, allowed=allowed
        )
    return circuits_of(previous)


def circuits_csv(circuits: Iterable[Circuit], hosts: tuple[Host, ...]) -> bytes:
    """Table of circuits with the names of their ends."""
    rows = []
    for switch, into, out in sorted(circuits):
        ends = [(hosts[port - 1].name, hosts[port - 1].links[switch - 1].interface) for port in (into, out)]
        rows.append((switch, into, out, *ends[0], *ends[1]))
    return csv_text(HEAD, rows).encode()


def _patch_lines(title: str, circuits: set[Circuit], hosts: tuple[Host, ...]) -> Iterable[str]:
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
    makes="circuits.csv and patch-list.txt: port to port of every optical switch; with previous the changes; "
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


CONNECTS, PORTS = "OCS_CROSS_CONNECT", "OCS_PORT"
MAX_TEXT = 64 * MIB
SONIC_FIELDS: FieldTable = {
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
    raise_any(problems[:50])
    others = {str(key) for key in tables} - {CONNECTS}
    entries = [entry for entry in table.values() if isinstance(entry, dict)]
    others |= {f"{CONNECTS}.*.{key}" for entry in entries for key in entry if key not in ("a_side", "b_side")}
    return frozenset(pairs), (f"not compared, of {file.name}: {', '.join(sorted(others))}",) if others else ()


def build_sonic(solution: Result[Any, Any], options: ExportOptions) -> Export:
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
    notes = [*SONIC.limits, *unread]
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


SONIC = Exporter(
    kinds=("co-optimisation", "llm-training", "topology"),
    makes="ocsN.json for each optical switch: CONFIG_DB of SONiC with its ports and cross-connects; with previous or "
    "--against ocsN.changes.json: what is removed, then added",
    limits=(
        "optical switch j takes interface j of every server: the transmit fibre of server number p is port p + 1 of "
        "side A, its receive fibre port p + 1 of side B",
        "SONiC's tables for optical switches are those of its design of 2026; no switch has run these files",
    ),
    folder=True,
    build=build_sonic,
    compares=True,
)
