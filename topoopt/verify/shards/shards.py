"""Shards that stand side by side under the optical switches: every circuit, port and server checked one by one.

Each circuit of each job is laid onto its switch: a transmit fibre at one interface, a receive fibre at another. Nothing
is taken from how shards are found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from topoopt.core.cluster import OpticalLayer, Shard, ShardShape
from topoopt.verify.laws.findings import Violation, ViolationLog, as_float, as_int, int_array

Fibre = tuple[int, int]
"""Plane and server of an interface."""


@dataclass(frozen=True)
class PlacedJob:
    """A job with the shape it asked for and the shard it was given."""

    name: str
    shape: ShardShape
    shard: Shard


@dataclass
class _Switches:
    """What is patched and set so far: owner of each server, user of each transmit and receive fibre."""

    table: list[list[int]]
    owner: dict[int, str] = field(default_factory=dict)
    sends: dict[Fibre, tuple[str, int]] = field(default_factory=dict)
    receives: dict[Fibre, tuple[str, int]] = field(default_factory=dict)


def layer_violations(layer: OpticalLayer) -> tuple[Violation, ...]:
    """Switches with more interfaces than ports, and tables that are none."""
    findings = ViolationLog()
    table = int_array(layer.switch_of, 2)
    ports = as_int(layer.switch_ports)
    if table is None or not table.size:
        findings.add("layer", "the table of switches has no rows of whole numbers")
    elif table.min() < 0:
        findings.add("layer", "a switch has a number below 0")
    else:
        patched = Counter((plane, switch) for plane, row in enumerate(table.tolist()) for switch in row)
        for (plane, switch), count in sorted(patched.items()):
            if ports is None or count > ports:
                findings.add(
                    "ports", f"switch {switch} of plane {plane}: {count} interfaces, {layer.switch_ports} ports"
                )
    if not 0.0 <= as_float(layer.switching_time_s) < float("inf"):
        findings.add("layer", f"switching time of {layer.switching_time_s} s")
    return findings.violations()


def shard_violations(layer: OpticalLayer, jobs: Iterable[PlacedJob]) -> tuple[Violation, ...]:
    """All laws that shards standing at one time break; empty when the switches can set all circuits at once.

    The laws: a server belongs to one job; every rank has a server; interfaces of a job have distinct planes; a circuit
    stays within one switch; an interface sends to one and receives from one at most; on switches that join ports in
    pairs, both directions are the same circuit; no switch has more interfaces than ports.
    """
    findings = ViolationLog()
    for violation in layer_violations(layer):
        findings.add(violation.code, violation.message)
    if not findings.clean:
        return findings.violations()
    switches = _Switches(layer.switch_of.tolist())
    for job in jobs:
        findings.guard("job", f"job {job.name}", lambda job=job: _lay(findings, switches, job))  # type: ignore[misc]
    if layer.paired:
        for (plane, server), (name, there) in sorted(switches.sends.items()):
            back = switches.sends.get((plane, there))
            if back is None or back[1] != server:
                findings.add("pair", f"job {name}: plane {plane}, circuit {server} to {there} has no way back")
    return findings.violations()


def _lay(findings: ViolationLog, switches: _Switches, job: PlacedJob) -> None:
    """Check a job by itself and set its circuits beside those of earlier jobs."""
    arcs = int_array(job.shape.arcs, 2)
    if arcs is None or not arcs.shape[1]:
        findings.add("shape", f"job {job.name}: the arcs are no table of whole numbers with a rank at least")
        return
    planes, n = len(switches.table), len(switches.table[0])
    servers, chosen = [as_int(s) for s in job.shard.servers], [as_int(p) for p in job.shard.planes]
    if len(servers) != arcs.shape[1]:
        findings.add("ranks", f"job {job.name}: {len(servers)} servers for {arcs.shape[1]} ranks")
    if len(chosen) != arcs.shape[0]:
        findings.add("planes", f"job {job.name}: {len(chosen)} planes for {arcs.shape[0]} interfaces")
    wrong_servers = [s for s in servers if s is None or not 0 <= s < n]
    wrong_planes = [p for p in chosen if p is None or not 0 <= p < planes]
    for server in wrong_servers:
        findings.add("servers", f"job {job.name}: there is no server {server}")
    for plane in wrong_planes:
        findings.add("planes", f"job {job.name}: there is no plane {plane}")
    for plane, count in Counter(chosen).items():
        if count > 1:
            findings.add("planes", f"job {job.name}: plane {plane} is given to {count} interfaces")
    for server in servers:
        if server is None:
            continue
        if server in switches.owner:
            findings.add("servers", f"server {server} belongs to job {switches.owner[server]} and to job {job.name}")
        switches.owner.setdefault(server, job.name)
    if len(servers) != arcs.shape[1] or len(chosen) != arcs.shape[0] or wrong_servers or wrong_planes:
        return
    at = [s for s in servers if s is not None]
    for plane, row in zip((p for p in chosen if p is not None), arcs.tolist(), strict=True):
        for rank, target in enumerate(row):
            if target == -1:
                continue
            if not 0 <= target < len(at):
                findings.add("shape", f"job {job.name}: rank {rank} sends to rank {target}, which is none")
                continue
            _set_circuit(findings, switches, job.name, plane, at[rank], at[target])


def _set_circuit(findings: ViolationLog, switches: _Switches, name: str, plane: int, tail: int, head: int) -> None:
    if tail == head:
        findings.add("circuit", f"job {name}: plane {plane}, server {tail} sends to itself")
    here, there = switches.table[plane][tail], switches.table[plane][head]
    if here != there:
        findings.add(
            "switch", f"job {name}: plane {plane}, server {tail} is at switch {here} and server {head} at {there}"
        )
    for fibres, end, other, word in (
        (switches.sends, tail, head, "sends to"),
        (switches.receives, head, tail, "receives from"),
    ):
        before = fibres.get((plane, end))
        if before is not None:
            findings.add(
                "interface",
                f"plane {plane}, server {end} {word} {before[1]} (job {before[0]}) and {other} (job {name})",
            )
        fibres.setdefault((plane, end), (name, other))
