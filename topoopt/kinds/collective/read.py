"""Instances of kind `collective`: what a user writes, and the problem that it states."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Ge, Le, Len, Lt
from pydantic import Field

from topoopt.core.collective import CollectiveOp, CollectiveProblem
from topoopt.core.data import MAX_BYTES, MAX_SERVERS, STRICT, FileName, Pattern, SchemaVersion
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import SearchSettings
from topoopt.files import codec
from topoopt.files.codec import is_none
from topoopt.files.documents import Document, canonical_sha256
from topoopt.files.issues import Issue
from topoopt.files.reader_fields import Findings, within
from topoopt.files.sections import ClosNetwork, FileNetwork, RatedSection, network_of

ROOTED = ("broadcast", "reduce")
UNITS = {"B": 1, **{f"{letter}B": 1000 ** (power + 1) for power, letter in enumerate("kMGT")}, "KB": 1000}
UNITS |= {f"{letter}iB": 1024 ** (power + 1) for power, letter in enumerate("KMGT")} | {"kiB": 1024}

LatencyUs = Annotated[float, Ge(0), Le(1e6)]
GroupShare = Annotated[int, Ge(1), Le(1_000_000)]
MemberRank = Annotated[int, Ge(0), Lt(MAX_SERVERS)]
SizeText = Annotated[str, Pattern(r"^[0-9]+(\.[0-9]+)? ?(B|[kKMGT]i?B)$"), Len(0, 40)]


@dataclass(frozen=True, kw_only=True)
class LatencyStatement:
    """What a message takes besides its bytes."""

    __pydantic_config__ = STRICT

    link: LatencyUs = 0.0
    """us on each link"""
    message: LatencyUs = 0.0
    """us of each message, whatever its way"""


@dataclass(frozen=True, kw_only=True)
class SwitchStatement:
    """What switches can do."""

    __pydantic_config__ = STRICT

    multicast: bool = False
    """they copy a message to several links"""


@dataclass(frozen=True, kw_only=True)
class ScheduleLimits:
    """What a schedule may come to."""

    __pydantic_config__ = STRICT

    trees_per_root: Annotated[int, Ge(1), Le(256)] | None = None
    """as the best rate needs, by default"""
    steps: Annotated[int, Ge(1), Le(100_000)] | None = None
    """synchronous rounds"""


@dataclass(frozen=True, kw_only=True)
class CollectiveInstance:
    """A collective on a network with switches and rates."""

    __pydantic_config__ = STRICT

    schema_version: SchemaVersion = 1
    kind: Literal["collective"] = "collective"
    name: FileName = "collective"
    topology: Annotated[RatedSection | None, Field(exclude_if=is_none)] = None
    """ranks, switches and links"""
    fabric: Annotated[ClosNetwork | None, Field(exclude_if=is_none)] = None
    """in place of `topology`: a Clos fabric"""
    collective: Literal["allreduce", "allgather", "reduce-scatter", "all-to-all", "broadcast", "reduce"]
    bytes: int | SizeText
    """the whole vector: a number of bytes, or text like 1GiB or 16 MB"""
    root: Annotated[int, Ge(0), Lt(MAX_SERVERS)] = 0
    """rank of a broadcast or reduction"""
    latency_us: LatencyStatement = LatencyStatement()
    switches: SwitchStatement = SwitchStatement()
    relaying: bool = True
    """ranks pass on what is not for them, or not from them"""
    members: tuple[MemberRank, ...] | None = None
    """ranks that take part, by their numbers; the others only forward; by default all take part"""
    groups: (
        Annotated[tuple[Annotated[tuple[MemberRank, ...], Len(2, MAX_SERVERS)], ...], Len(1, MAX_SERVERS)] | None
    ) = None
    """process groups that run the collective at once, each on a vector of its own: disjoint"""
    shares: Annotated[tuple[GroupShare, ...], Len(1, MAX_SERVERS)] | None = None
    """with `groups`: how many times `bytes` the vector of each group has; by default once"""
    objective: Literal["time", "throughput", "latency", "pareto"] = "time"
    """least time, most bytes a second without latencies, fewest steps, or least time by size"""
    limits: ScheduleLimits = ScheduleLimits()
    search: SearchSettings = SearchSettings()  # noqa: RUF009 - frozen


def size_bytes(value: int | str) -> int | None:
    """Return the bytes of a number, or of a text like `1.5 GiB`; None if they are not whole, or out of range."""
    if isinstance(value, str):
        digits = value.rstrip("kKMGTiB ")
        exact = Fraction(digits) * UNITS.get(value[len(digits) :].strip(), 0)
        value = int(exact) if exact.denominator == 1 else 0
    return value if 1 <= value <= MAX_BYTES else None


def resolve(document: Document) -> CollectiveProblem:
    """Return the problem that an instance states.

    Raises:
        InputError: all errors of the file, as far as one error does not hide another.
    """
    findings = Findings()
    instance = findings.shaped(CollectiveInstance, document)
    folder = Path(document.file).parent
    size = size_bytes(instance.bytes)
    if size is None:
        findings.add([Issue(("bytes",), "not a size", str(instance.bytes), f"1 to {MAX_BYTES} whole bytes")])
    if instance.root and instance.collective not in ROOTED:
        text = f"plays no part for {instance.collective}"
        findings.add([Issue(("root",), text, str(instance.root), "with broadcast, reduce")])
    latency_us = instance.latency_us.link
    section: RatedSection | None = instance.topology or instance.fabric
    where = "fabric" if instance.topology is None else "topology"
    if section is None or (instance.topology and instance.fabric):
        text = "missing: the network" if section is None else "one network alone"
        findings.add([Issue((where,), text, None, "topology, or fabric: {clos: ...}")])
    network = None
    if section is not None:
        network = findings.attempt(
            lambda: within(where, lambda: network_of(section, folder, latency_us, findings.note)), (where,)
        )
    groups: tuple[tuple[int, ...], ...] = ()
    if network is not None:
        findings.add(_group_issues(instance, len(network.ranks)))
        if not findings.issues:
            network, groups = _with_groups(instance, network)
    if network is not None and instance.root >= len(network.ranks):
        findings.add([Issue(("root",), "no such rank", str(instance.root), f"0 to {len(network.ranks) - 1}")])
    findings.refuse(document)
    assert network is not None
    assert size is not None
    clos = section if isinstance(section, ClosNetwork) else None
    return CollectiveProblem(
        name=instance.name,
        network=network,
        collective=CollectiveOp(instance.collective),
        vector_bytes=size,
        root=instance.root,
        message_us=instance.latency_us.message,
        multicast=instance.switches.multicast,
        relaying=instance.relaying,
        objective=instance.objective,
        groups=groups,
        shares=() if set(instance.shares or (1,)) == {1} else instance.shares or (),
        trees_per_root=instance.limits.trees_per_root,
        steps=instance.limits.steps,
        search=instance.search,
        sha256=_identity(instance, network),
        notes=tuple(findings.notes),
        fabric=None if clos is None else clos.clos,
        server_gbytes_per_s=None if clos is None else clos.server_gbytes_per_s,
    )


def _group_issues(instance: CollectiveInstance, ranks: int) -> list[Issue]:
    """What is wrong with members and process groups."""
    issues = []
    rows = [("members", instance.members)] if instance.members is not None else []
    rows += [(f"groups.{index}", group) for index, group in enumerate(instance.groups or ())]
    for path, members in rows:
        where = tuple(int(part) if part.isdecimal() else part for part in path.split("."))
        if len(members) < 2 or len(set(members)) < len(members) or max(members) >= ranks:
            allowed = f"two or more different ranks from 0 to {ranks - 1}"
            issues.append(Issue(where, "not a group of ranks", str(list(members)), allowed))
    if instance.shares is not None and len(instance.shares) != len(instance.groups or ()):
        allowed = f"one for each of {len(instance.groups or ())} groups"
        issues.append(Issue(("shares",), "not the shares of groups", str(list(instance.shares)), allowed))
    if instance.groups is None:
        return issues
    everyone = [rank for group in instance.groups for rank in group]
    if len(set(everyone)) < len(everyone):
        text = "process groups that share a rank"
        issues.append(Issue(("groups",), text, f"{len(instance.groups)} groups", "disjoint groups"))
    barred = {
        "members": instance.members is not None,
        "collective": instance.collective in ROOTED,
        "switches": instance.switches.multicast,
        "relaying": not instance.relaying,
        "limits": instance.limits.trees_per_root is not None,
    }
    for path, given in barred.items():
        if given:
            allowed = "groups with relaying, and without members, a root, multicast or trees_per_root"
            issues.append(Issue((path,), "does not go with groups", str(getattr(instance, path)), allowed))
    return issues


def _with_groups(
    instance: CollectiveInstance, network: RatedNetwork
) -> tuple[RatedNetwork, tuple[tuple[int, ...], ...]]:
    """The network whose ranks are the members, and the nodes of every process group, ascending."""
    nodes = network.ranks
    if instance.members is not None:
        return network.with_members(nodes[list(instance.members)]), ()
    groups = tuple(tuple(sorted(nodes[list(group)].tolist())) for group in instance.groups or ())
    if not groups:
        return network, ()
    return network.with_members([node for group in groups for node in group]), groups


def _identity(instance: CollectiveInstance, network: RatedNetwork) -> str:
    """Return the hash of an instance with its defaults written out; files count by content, not by name."""
    document = codec.plain(instance)
    for name in ("members", "groups", "shares"):
        if document[name] is None:
            del document[name]
    if isinstance(instance.topology, FileNetwork):
        rows = [[*arc, units] for arc, units in zip(network.arcs.tolist(), network.units.tolist(), strict=True)]
        document["topology"] = {
            "links": rows,
            "unit": str(network.unit_gbytes_per_s),
            "switches": network.is_switch.tolist(),
            "names": list(network.names),
        }
        if (network.latency_us != instance.latency_us.link).any():  # those of the file
            document["topology"]["latency_us"] = network.latency_us.tolist()
    return canonical_sha256(document)
