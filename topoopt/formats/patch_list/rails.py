"""What the controllers of the switches of rails set in a step: circuits by group, and the groups of each phase."""

from __future__ import annotations

from collections.abc import Iterable

from topoopt.core.cluster import Host
from topoopt.core.switching import CircuitGroup, RailTimetable
from topoopt.files.atomic import csv_text
from topoopt.formats.exporter import NOTES_FILE, Export, ExportOptions, notes_bytes, refuse
from topoopt.formats.hosts.server_names import numbered_servers

GROUPS_FILE, PHASES_FILE = "circuits.csv", "phases.csv"
GROUP_HEAD = ("group", "use", "rail", "port", "peer_port", "from_host", "from_interface", "to_host", "to_interface")
PHASE_HEAD = ("begin_ns", "end_ns", "lit", "being_set")


def rails_export(timetable: RailTimetable, options: ExportOptions) -> Export:
    """Circuits, phases, and both for people.

    Raises:
        InputError: names that cannot be written, or a previous solution: circuits of rails are all set anew.
    """
    if options.previous is not None:
        raise refuse("circuits of rails change inside a step", path="--previous", allowed="left out")
    hosts = numbered_servers(timetable.servers, timetable.rails * timetable.ports, options.hosts)
    phases = [
        (one.begin_ns, one.end_ns, _numbers(one.lit), _numbers(one.dark))
        for one in timetable.phases
    ]  # fmt: skip
    count = sum(len(one.circuits) for one in timetable.groups)
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
    content = tuple((one.use, frozenset(one.circuits)) for one in timetable.groups), timetable.phases
    return Export(files, content, notes)


def _numbers(groups: Iterable[int]) -> str:
    return " ".join(str(group + 1) for group in groups)


def _rows(timetable: RailTimetable, hosts: tuple[Host, ...]) -> Iterable[tuple[object, ...]]:
    """All circuits with the names of their ends."""
    for number, group in enumerate(timetable.groups):
        for circuit in group.circuits:
            ends = (_end(timetable, hosts, circuit.rail, port) for port in (circuit.port, circuit.peer))
            names = [name for end in ends for name in end]
            yield (number + 1, group.use.value, circuit.rail + 1, circuit.port + 1, circuit.peer + 1, *names)


def _end(timetable: RailTimetable, hosts: tuple[Host, ...], rail: int, port: int) -> tuple[str, str]:
    """Host and interface."""
    server, place = divmod(port, timetable.ports)
    host = hosts[server]
    return host.name, host.links[rail * timetable.ports + place].interface


def _lines(timetable: RailTimetable, hosts: tuple[Host, ...]) -> Iterable[str]:
    """Phases, then the circuits of the groups."""
    for number, one in enumerate(timetable.phases):
        yield f"Phase {number + 1}: {one.begin_ns} to {one.end_ns} ns"
        for word, groups in (("lit", one.lit), ("being set", one.dark)):
            yield from (f"  {word:<9} {_name(group, timetable.groups[group])}" for group in groups)
    for number, group in enumerate(timetable.groups):
        yield ""
        yield f"{_name(number, group)}: {len(group.circuits)} circuits"
        for circuit in group.circuits:
            names = [" ".join(_end(timetable, hosts, circuit.rail, port)) for port in (circuit.port, circuit.peer)]
            yield f"  rail {circuit.rail + 1}: {circuit.port + 1:>4} - {circuit.peer + 1:>4}    {names[0]} - {names[1]}"


def _name(number: int, group: CircuitGroup) -> str:
    return f"group {number + 1}, {group.use.value} of stage {' and '.join(map(str, group.stages))}"
