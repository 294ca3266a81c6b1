"""What the controller of the switch of a region sets before every step: circuits, port to port, and the changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate

from topoopt.core.host_rates import Host
from topoopt.core.regional_circuits_solution import RegionalCircuitsSolution
from topoopt.core.step_circuits import PortPair, StepCircuits, SwitchedSteps
from topoopt.core.units import NS_PER_S
from topoopt.drawing.format import counted
from topoopt.files.table_and_plot import csv_text
from topoopt.formats.exporter import NOTES_FILE, Export, ExportOptions, notes_bytes, refuse
from topoopt.formats.hosts.server_names import numbered_servers

CIRCUITS_FILE, STEPS_FILE = "circuits.csv", "steps.csv"
CIRCUIT_HEAD = ("circuit", "port", "peer_port", "from_host", "from_interface", "to_host", "to_interface")
STEP_HEAD = ("step", "stall_ns", "transfer_ns", "lit", "disconnect", "connect")

Servers = tuple[int, int]


def switched_steps(solution: RegionalCircuitsSolution) -> SwitchedSteps:
    """Ports of the circuits of every step: a circuit that the next step has as well stays where it is."""
    first = [0, *accumulate(solution.ports)][:-1]
    lit: dict[Servers, list[PortPair]] = {}
    numbers: dict[PortPair, int] = {}
    steps: list[StepCircuits] = []
    before: set[int] = set()
    for place, step in enumerate(solution.steps):
        wanted = {(each.one, each.other): each.count for each in solution.topologies[step.circuits]}
        lit = {pair: lit.get(pair, [])[:count] for pair, count in wanted.items()}
        taken = {port for pairs in lit.values() for both in pairs for port in both}
        free = [
            [port for port in range(begin, begin + count) if port not in taken]
            for begin, count in zip(first, solution.ports, strict=True)
        ]
        for (one, other), count in wanted.items():
            made = [(free[one].pop(0), free[other].pop(0)) for _ in range(count - len(lit[one, other]))]
            lit[one, other] += made
        now = {numbers.setdefault(both, len(numbers)) for pairs in lit.values() for both in pairs}
        gone = before - now if place else set()
        steps.append(
            StepCircuits(
                round(step.stall_s * NS_PER_S),
                round(step.transfer_s * NS_PER_S),
                tuple(sorted(now)),
                tuple(sorted(gone)),
                tuple(sorted(now - before)),
            )
        )
        before = now
    return SwitchedSteps(tuple(numbers), tuple(steps))


def steps_export(solution: RegionalCircuitsSolution, options: ExportOptions) -> Export:
    """Circuits, steps, and both for people.

    Raises:
        InputError: names that cannot be written, or a previous solution: the first step sets all circuits.
    """
    if options.previous is not None:
        raise refuse("circuits of a region change from step to step", path="--previous", allowed="left out")
    hosts = numbered_servers(solution.servers, max(1, *solution.ports), options.hosts)
    made = switched_steps(solution)
    rows = [(number + 1, *_row(solution, hosts, both)) for number, both in enumerate(made.circuits)]
    steps = [
        (place, one.stall_ns, one.transfer_ns, _numbers(one.lit), _numbers(one.disconnect), _numbers(one.connect))
        for place, one in enumerate(made.steps)
    ]
    changed = sum(bool(one.connect or one.disconnect) for one in made.steps[1:])
    notes = (
        f"one optical switch with {counted(sum(solution.ports), 'port')}; those of server 0 come first",
        f"{counted(len(made.circuits), 'circuit')}, {counted(len(steps), 'step')}, changes before {changed} of them",
        "circuits of the first step are set beforehand; others as soon as those that they cut are idle",
    )
    files = (
        (CIRCUITS_FILE, csv_text(CIRCUIT_HEAD, rows).encode()),
        (STEPS_FILE, csv_text(STEP_HEAD, steps).encode()),
        ("patch-list.txt", "".join(f"{line}\n" for line in _lines(made, rows)).encode()),
        (NOTES_FILE, notes_bytes("Circuits of the switch of a region", notes)),
    )
    return Export(files, made, notes)


def _numbers(circuits: Iterable[int]) -> str:
    return " ".join(str(number + 1) for number in circuits)


def _row(solution: RegionalCircuitsSolution, hosts: tuple[Host, ...], both: PortPair) -> tuple[object, ...]:
    """Ports, and the host and interface at each."""
    ends: list[str] = []
    bounds = list(accumulate(solution.ports))
    for port in both:
        server = sum(bound <= port for bound in bounds)
        place = port - (bounds[server] - solution.ports[server])
        ends += [hosts[server].name, hosts[server].links[place].interface]
    return (both[0] + 1, both[1] + 1, *ends)


def _lines(made: SwitchedSteps, rows: list[tuple[object, ...]]) -> Iterable[str]:
    """Steps with what changes before them."""
    for place, one in enumerate(made.steps):
        changes = Counter({"disconnect": len(one.disconnect), "connect": len(one.connect)})
        told = ", ".join(f"{count} to {word}" for word, count in changes.items() if count) or "nothing changes"
        yield f"Step {place}: {counted(len(one.lit), 'circuit')}; before it {told}"
        for word, circuits in (("disconnect", one.disconnect), ("connect", one.connect)):
            for number in circuits:
                _, port, peer, host, interface, other, far = rows[number]
                yield f"  {word:<10} {port:>4} - {peer:>4}    {host} {interface} - {other} {far}"
        yield ""
