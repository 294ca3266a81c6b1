"""What the controller of the switch of a region sets before every step: circuits, port to port, and the changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from topoopt.core.arrays import NS_PER_S
from topoopt.core.cluster import Host
from topoopt.core.regional_circuits import PortPair, StepCircuits, SwitchedSteps
from topoopt.core.result import Result
from topoopt.drawing.format import counted
from topoopt.files.atomic import csv_text
from topoopt.formats.exporter import NOTES_FILE, Export, ExportOptions, notes_bytes, refuse
from topoopt.formats.hosts.server_names import numbered_servers

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

    Raises
    ------
    InputError
        Names cannot be written, or a previous solution is given: the first step sets all circuits.
    """
    if options.previous is not None:
        raise refuse("circuits of a region change from step to step", path="--previous", allowed="left out")
    figures = result.figures
    ports = figures.problem.ports
    hosts = numbered_servers(figures.problem.servers, max(1, *ports), options.hosts)
    switched = switched_steps(figures)
    rows = [(number + 1, *_row(ports, hosts, both)) for number, both in enumerate(switched.circuits)]
    steps = [
        (k, step.stall_ns, step.transfer_ns, _numbers(step.lit), _numbers(step.disconnect), _numbers(step.connect))
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
        ("patch-list.txt", "".join(f"{line}\n" for line in _lines(switched, rows)).encode()),
        (NOTES_FILE, notes_bytes("Circuits of the switch of a region", notes)),
    )
    return Export(files, switched, notes)


def _numbers(circuits: Iterable[int]) -> str:
    return " ".join(str(number + 1) for number in circuits)


def _row(ports: Sequence[int], hosts: tuple[Host, ...], both: PortPair) -> tuple[object, ...]:
    """Return two ports, and the host and interface at each."""
    endpoints: list[str] = []
    bounds = list(accumulate(ports))
    for port in both:
        server = sum(bound <= port for bound in bounds)
        endpoints += [hosts[server].name, hosts[server].links[port - (bounds[server] - ports[server])].interface]
    return (both[0] + 1, both[1] + 1, *endpoints)


def _lines(switched: SwitchedSteps, rows: list[tuple[object, ...]]) -> Iterable[str]:
    """Yield the steps with what changes before them."""
    for k, step in enumerate(switched.steps):
        changes = {"disconnect": step.disconnect, "connect": step.connect}
        counts = [f"{len(circuits)} to {change}" for change, circuits in changes.items() if circuits]
        yield f"Step {k}: {counted(len(step.lit), 'circuit')}; before it {', '.join(counts) or 'nothing changes'}"
        for change, circuits in changes.items():
            for number in circuits:
                _, port, peer, host, interface, peer_host, peer_interface = rows[number]
                yield f"  {change:<10} {port:>4} - {peer:>4}    {host} {interface} - {peer_host} {peer_interface}"
        yield ""
