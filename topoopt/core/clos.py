"""Clos fabrics as they are built: tiers of switches, planes and rails, their counts, and what a failure takes away.

A switch has R ports of one rate. A leaf has D links down to interfaces of servers and U up; every leaf of a pod has
equally many links to each of its spines, and every spine equally many to each core of its group (Al-Fares et al.,
SIGCOMM 2008, is the case of one link each). A plane is a whole fabric of its own, to which every interface has a port.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

from annotated_types import Ge, Gt, Le, Len

from topoopt.core.data import STRICT, Scalar
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.rated_network import RatedNetwork

TIERS = ("leaf", "spine", "core")
MOST_PORTS = 4096
GBPS_PER_GBYTES = 8

Ports = Annotated[int, Ge(1), Le(MOST_PORTS)]
Gbps = Annotated[float, Ge(0.001), Le(1e6)]
Ratio = Annotated[float, Ge(1), Le(1e3)]


@dataclass(frozen=True, kw_only=True)
class TierStatement:
    """One tier as a plan or an installation has it."""

    __pydantic_config__ = STRICT

    down: Ports
    """links down of one switch: to interfaces of servers, or to switches of the tier below"""
    up: Annotated[int, Ge(0), Le(MOST_PORTS)] = 0
    """links up of one switch; 0 at the top"""
    switches: Annotated[int, Ge(1), Le(2**20)] | None = None
    """of one plane; left out: as few as the ports allow"""


@dataclass(frozen=True, kw_only=True)
class ClosStatement:
    """A Clos fabric: what its servers and switches have. Counts follow, and are held against those stated."""

    __pydantic_config__ = STRICT

    servers: Annotated[int, Ge(1), Le(2**17)]
    degree: Annotated[int, Ge(1), Le(64)] = 1
    """interfaces of a server"""
    link_gbps: Annotated[Gbps, Gt(0)]
    """of an interface, each direction, all planes together"""
    radix: Ports | None = None
    """ports of a switch at `port_gbps`; may be left out where `tiers` lists them"""
    tiers: Annotated[int, Ge(1), Le(3)] | Annotated[tuple[TierStatement, ...], Len(1, 3)] | None = None
    """how many, or each from the leaves up; left out: the fewest that hold the servers"""
    planes: Annotated[int, Ge(1), Le(16)] = 1
    """fabrics side by side, to each of which an interface has a port of its share"""
    rails: bool = True
    """leaf j of a unit takes interface j of its servers; false: a leaf takes whole servers, in order"""
    oversubscription: Annotated[tuple[Ratio, ...], Len(1, 2), Scalar()] = (1.0,)
    """rate down over rate up of the leaves, and of the spines"""
    breakout: Annotated[int, Ge(1), Le(8)] = 1
    """links to servers that one port of a leaf is split into"""
    port_gbps: Gbps | None = None
    """of a port of a switch; left out: `breakout` times a link to a server"""
    copper: bool = False
    """cables between servers and leaves are copper, without transceivers"""
    server_module_ports: Annotated[int, Ge(1), Le(8)] = 1
    """ports of a server that one transceiver serves"""
    switch_module_ports: Annotated[int, Ge(1), Le(8)] = 1
    """ports of a switch that one transceiver serves: 2 for twin-port modules"""


@dataclass(frozen=True)
class ClosTier:
    """Switches of one tier of one plane.

    Attributes:
        switches: how many.
        down, up: links of one switch that there are ports for.
        links: cables between this tier and what is below, in use.
    """

    switches: int
    down: int
    up: int
    links: int


@dataclass(frozen=True)
class BlastRadius:
    """What the failure of one switch, or of a plane, takes away.

    Attributes:
        part: `leaf`, `spine`, `core` or `plane`.
        parts: how many of them there are, all planes together.
        interfaces, servers: that lose some of their rate.
        cut_off: servers that no interface joins to the fabric any more.
        kept: part of the rate that is left to them.
        of: what that rate leaves: a `server`, a `leaf` or a `pod`.
    """

    part: str
    parts: int
    interfaces: int
    servers: int
    cut_off: int
    kept: Fraction
    of: str


@dataclass(frozen=True)
class ClosFabric:
    """A fabric whose ports add up.

    Attributes:
        servers, degree, link_gbps: n servers of g interfaces of so many Gbit/s.
        planes: fabrics side by side; counts of `tiers` are those of one.
        radix: ports of the largest switch, in ports of `port_gbps`.
        port_gbps: of links between switches.
        breakout: links to servers that a port of a leaf is split into.
        rails: leaf j of a unit takes interface j of its servers.
        tiers: from the leaves up.
        pods: groups of leaves that have spines of their own.
        pod_leaves: leaves of a pod that is full.
        copper, server_module_ports, switch_module_ports: as in `ClosStatement`.
    """

    servers: int
    degree: int
    link_gbps: float
    planes: int
    radix: int
    port_gbps: float
    breakout: int
    rails: bool
    tiers: tuple[ClosTier, ...]
    pods: int
    pod_leaves: int
    copper: bool = False
    server_module_ports: int = 1
    switch_module_ports: int = 1

    @property
    def endpoints(self) -> int:
        """Interfaces of all servers."""
        return self.servers * self.degree

    @property
    def switches(self) -> int:
        """Switches of all tiers and planes."""
        return self.planes * sum(tier.switches for tier in self.tiers)

    @property
    def cables(self) -> tuple[int, ...]:
        """Cables below each tier, all planes together; one to several interfaces counts once."""
        return tuple(
            self.planes * (-(-tier.links // self.breakout) if level == 0 else tier.links)
            for level, tier in enumerate(self.tiers)
        )

    @property
    def leaf_members(self) -> tuple[int, ...]:
        """Interfaces on each leaf of a plane, in order."""
        down = self.tiers[0].down
        if not self.rails:
            return tuple(min(down, self.endpoints - first) for first in range(0, self.endpoints, down))
        units = [min(down, self.servers - first) for first in range(0, self.servers, down)]
        return tuple(members for members in units for _ in range(self.degree))

    @property
    def pod_sizes(self) -> tuple[int, ...]:
        """Leaves of each pod."""
        leaves = self.tiers[0].switches
        return tuple(min(self.pod_leaves, leaves - first) for first in range(0, leaves, self.pod_leaves))

    @property
    def oversubscription(self) -> tuple[Fraction, ...]:
        """Rate down over rate up of the switches of each tier but the highest."""
        ratios = []
        for level, tier in enumerate(self.tiers[:-1]):
            ratios.append(Fraction(tier.down, self.breakout if level == 0 else 1) / tier.up)
        return tuple(ratios)

    @property
    def bisection_gbps(self) -> float:
        """Half of the rate of the interfaces, or of the links between two tiers if these carry less."""
        between = [self.planes * tier.links * self.port_gbps for tier in self.tiers[1:]]
        return min([self.endpoints * self.link_gbps, *between]) / 2

    @property
    def even(self) -> bool:
        """Whether every switch has equally many links to each that it is joined to above."""
        return all(tier.up % count == 0 for tier, count in zip(self.tiers, self.above, strict=False))

    @property
    def above(self) -> tuple[int, ...]:
        """Switches that one of each tier but the highest is joined to."""
        if len(self.tiers) == 1:
            return ()
        spines = self.tiers[1].switches // self.pods
        return (spines,) if len(self.tiers) == 2 else (spines, self.tiers[2].switches // spines)

    @property
    def transceivers(self) -> dict[str, int]:
        """Modules at optical cables by the side of the switches or servers that they are in, all planes together."""
        module = self.switch_module_ports
        counts: dict[str, int] = {}
        if not self.copper:
            counts["server"] = self.servers * -(-self.degree * self.planes // self.server_module_ports)
            ports = [-(-members // self.breakout) for members in self.leaf_members]
            counts["leaf down"] = self.planes * sum(-(-used // module) for used in ports)
        for level, below in enumerate(self.tiers[:-1], start=1):
            counts[f"{TIERS[level - 1]} up"] = self.planes * below.switches * -(-below.up // module)
            down = sum(-(-used // module) * count for used, count in self._down_in_use(level))
            counts[f"{TIERS[level]} down"] = self.planes * down
        return counts

    def _down_in_use(self, level: int) -> Iterator[tuple[int, int]]:
        """Links down in use of switches of a tier above the leaves, and how many have so many."""
        tier = self.tiers[level]
        if level == 2 or not self.even:
            used, more = divmod(tier.links, tier.switches)
            yield from ((used + 1, more), (used, tier.switches - more))
            return
        spines = tier.switches // self.pods
        for leaves in self.pod_sizes:
            yield leaves * self.tiers[0].up // spines, spines

    def blast_radii(self) -> tuple[BlastRadius, ...]:
        """What the failure of the fullest switch of each tier takes away, and that of a plane if there are several.

        A leaf takes a port of each of its interfaces; a spine its share of the links up of every leaf of its pod; a
        core its share of the links up of every pod.
        """
        q, g = self.planes, self.degree
        members = max(self.leaf_members)
        of_server = 1 if self.rails else min(g, members)
        servers = members if self.rails else min(self.servers, -(-members // g))
        whole = q == 1 and of_server == g
        kept = 1 - Fraction(of_server, g * q)
        leaves = self.tiers[0].switches * q
        radii = [BlastRadius("leaf", leaves, members, servers, servers if whole else 0, kept, "server")]
        if len(self.tiers) > 1:
            count, spines = self.tiers[1].switches * q, self.tiers[1].switches // self.pods
            pod = sum(self.leaf_members[: self.pod_leaves])
            kept = 1 - Fraction(1, spines * q)
            radii.append(BlastRadius("spine", count, pod, -(-pod // g), 0, kept, "leaf"))
        if len(self.tiers) > 2:
            count = self.tiers[2].switches * q
            kept = 1 - Fraction(1, count)
            radii.append(BlastRadius("core", count, self.endpoints, self.servers, 0, kept, "pod"))
        if q > 1:
            kept = 1 - Fraction(1, q)
            radii.append(BlastRadius("plane", q, self.endpoints, self.servers, 0, kept, "server"))
        return tuple(radii)

    def network(self, server_gbytes_per_s: float | None = None, failed: str = "") -> RatedNetwork:
        """The fabric as ranks, leaves, a node for all spines of a pod, and another for all cores.

        All switches of a tier are joined alike, so equal parts of a flow over each of them are a flow on the fabric,
        and cuts of this network are those of the fabric. Planes are joined into one in the same way.

        Args:
            server_gbytes_per_s: rate of a rank into the switch of its server; None: servers have none.
            failed: one of the parts of `blast_radii`; the first leaf, spine, core or plane of the fabric is out.

        Returns:
            A rank for each interface, in the order of servers.

        Raises:
            InputError: the links of some switch cannot be spread evenly over those above it.
        """
        if not self.even:
            raise InputError([_uneven(self)])
        scale = Fraction(1, GBPS_PER_GBYTES)
        nic, port = Fraction(str(self.link_gbps)) * scale, Fraction(str(self.port_gbps)) * scale * self.planes
        kept = {radius.part: radius.kept for radius in self.blast_radii()}
        if failed == "plane":
            nic, port = nic * kept["plane"], port * kept["plane"]
        ranks = self.endpoints
        names = [f"gpu{rank}" for rank in range(ranks)] + [f"leaf{leaf}" for leaf in range(self.tiers[0].switches)]
        links: list[tuple[int, int, Fraction]] = []

        def join(lower: int, upper: int, rate: Fraction) -> None:
            if rate > 0:
                links.extend(((lower, upper, rate), (upper, lower, rate)))

        for rank, leaf in enumerate(self._leaf_of()):
            out = failed == "leaf" and leaf == 0
            join(rank, ranks + leaf, nic * (1 - Fraction(1, self.planes)) if out else nic)
        first_pod = len(names)
        if len(self.tiers) > 1:
            up = port * self.tiers[0].up
            for leaf in range(self.tiers[0].switches):
                pod = leaf // self.pod_leaves
                join(ranks + leaf, first_pod + pod, up * kept["spine"] if failed == "spine" and pod == 0 else up)
            names += [f"spines{pod}" for pod in range(self.pods)]
        if len(self.tiers) > 2:
            up = port * self.tiers[1].up * (self.tiers[1].switches // self.pods)
            for pod in range(self.pods):
                share = kept["core"] if failed == "core" else kept["spine"] if failed == "spine" and pod == 0 else 1
                join(first_pod + pod, len(names), up * share)
            names.append("cores")
        if server_gbytes_per_s is not None and self.degree > 1:
            inside, first = Fraction(str(server_gbytes_per_s)), len(names)
            for rank in range(ranks):
                join(rank, first + rank // self.degree, inside)
            names += [f"server{server}" for server in range(self.servers)]
        switches = [False] * ranks + [True] * (len(names) - ranks)
        return RatedNetwork.of_links(switches, links, names=names, origin=self.text)

    def _leaf_of(self) -> Iterator[int]:
        """Leaf of each interface, in the order of servers."""
        down = self.tiers[0].down
        for rank in range(self.endpoints):
            server, rail = divmod(rank, self.degree)
            yield server // down * self.degree + rail if self.rails else rank // down

    @property
    def text(self) -> str:
        """For people: `Clos fabric: 32 leaf and 16 spine switches`."""
        counts = [f"{tier.switches * self.planes} {name}" for tier, name in zip(self.tiers, TIERS, strict=False)]
        listed = counts[0] if len(counts) == 1 else f"{', '.join(counts[:-1])} and {counts[-1]}"
        planes = f" in {self.planes} planes" if self.planes > 1 else ""
        return f"Clos fabric: {listed} switches{planes}"


def _uneven(fabric: ClosFabric) -> Problem:
    pairs = zip(fabric.tiers, fabric.above, TIERS, strict=False)
    up, count, name = next((tier.up, count, name) for tier, count, name in pairs if tier.up % count)
    text = f"{up} links up of a {name} cannot be spread evenly over {count} switches above it"
    return Problem(text, path="tiers", value=str(count), allowed=f"divisors of {up}")


def clos_fabric(design: ClosStatement) -> ClosFabric:
    """The fabric that a statement describes, with as few switches as its ports allow where it says no number.

    Raises:
        InputError: ports that do not add up, with both numbers; rates that do not go with each other.
    """
    return _Design(design).fabric()


class _Design:
    """Tiers from the leaves up; each check refuses with its numbers.

    Args:
        design: what is to be built.
    """

    def __init__(self, design: ClosStatement) -> None:
        self.design = design
        host, split = Fraction(str(design.link_gbps)) / design.planes, design.breakout
        self.port_gbps = host * split if design.port_gbps is None else Fraction(str(design.port_gbps))
        self.listed = design.tiers if isinstance(design.tiers, tuple) else ()
        errors: list[Problem] = []
        if self.port_gbps != host * split:
            text = (
                f"an interface of {design.link_gbps:g} Gbit/s has ports of {float(host):g} in planes: {design.planes}, "
                f"and a port of a switch split by breakout: {split} has {float(self.port_gbps) / split:g}"
            )
            errors += _refused("port_gbps", text, f"{float(self.port_gbps):g}", f"{float(host * split):g}").problems
        if design.radix is None and not self.listed:
            errors += _refused("radix", "missing: ports of a switch", None, "a number, or tiers with links").problems
        self.radix = design.radix or max((self._ports(level) for level in range(len(self.listed))), default=1)
        for level, tier in enumerate(self.listed):
            if (used := self._ports(level)) > self.radix:
                text = f"a {TIERS[level]} with {tier.down} links down and {tier.up} up needs {used} ports"
                errors += _refused(f"tiers.{level}", text, str(used), f"at most {self.radix}").problems
            if (highest := level + 1 == len(self.listed)) == (tier.up > 0):
                text = "the highest tier has links up" if highest else "no links to the tier above"
                errors += _refused(f"tiers.{level}.up", text, str(tier.up), "0" if highest else "1 or more").problems
        raise_any(errors)

    def _ports(self, level: int) -> int:
        tier = self.listed[level]
        return (-(-tier.down // self.design.breakout) if level == 0 else tier.down) + tier.up

    def fabric(self) -> ClosFabric:
        """The tiers, as many as are stated or as few as hold the servers."""
        design = self.design.tiers
        if self.listed or isinstance(design, int):
            return self._of(len(self.listed) or int(design))  # type: ignore[arg-type]  # a number where none is listed
        for tiers in range(1, len(TIERS)):
            try:
                return self._of(tiers)
            except InputError:
                continue
        return self._of(len(TIERS))

    def _of(self, tiers: int) -> ClosFabric:
        design, breakout, half = self.design, self.design.breakout, self.radix // 2
        ratio = (*design.oversubscription, 1.0)
        if self.listed:
            down, up = self.listed[0].down, self.listed[0].up
        elif tiers == 1:
            down, up = self.radix * breakout, 0
        else:
            down, up = half * breakout, links_up(half, ratio[0])
        leaves = self._leaves(down)
        levels = [ClosTier(leaves, down, up, design.servers * design.degree)]
        pods, pod_leaves = 1, leaves
        if tiers == 1 and leaves > 1:
            text = f"{leaves} leaves of {down} links down have no switch above that joins them"
            raise _refused("tiers", text, "1", "2 or 3")
        top = self.listed[-1] if self.listed else TierStatement(down=self.radix)
        if tiers == 2:
            levels.append(self._joined(levels[0], "leaf", top, leaves, 1))
        if tiers == 3:
            above = TierStatement(down=half, up=links_up(half, ratio[1]))
            spine = self.listed[1] if self.listed else above
            pods, pod_leaves, spines = self._pods(levels[0], spine)
            levels.append(ClosTier(spines * pods, spine.down, spine.up, leaves * up))
            levels.append(self._joined(levels[1], "spine", top, pods, spines))
        return ClosFabric(
            servers=design.servers,
            degree=design.degree,
            link_gbps=design.link_gbps,
            planes=design.planes,
            radix=self.radix,
            port_gbps=float(self.port_gbps),
            breakout=breakout,
            rails=design.rails,
            tiers=tuple(levels),
            pods=pods,
            pod_leaves=pod_leaves,
            copper=design.copper,
            server_module_ports=design.server_module_ports,
            switch_module_ports=design.switch_module_ports,
        )

    def _leaves(self, down: int) -> int:
        """Leaves that hold all interfaces, a whole unit of them at a time where there are rails."""
        design = self.design
        interfaces, group = design.servers * design.degree, design.degree if design.rails else 1
        needed = group * -(-(design.servers if design.rails else interfaces) // down)
        count = self.listed[0].switches if self.listed else None
        if count is None or count == needed:
            return needed
        text = f"{design.servers} servers x {design.degree} = {interfaces} interfaces take {needed} leaves of {down}"
        text += f" links down, {count} have {count * down}"
        raise _refused("tiers.0.switches", text, str(count), str(needed))

    def _joined(self, lower: ClosTier, name: str, upper: TierStatement, below: int, groups: int) -> ClosTier:
        """The tier above: in each group every switch is joined to as many below.

        Args:
            lower: switches with links up.
            name: what they are.
            upper: the tier above; no number of switches: as few as are joined evenly.
            below: switches of a group that each of the tier above is joined to.
            groups: of switches that have none above in common.
        """
        links, level = lower.switches * lower.up, TIERS.index(name) + 1
        count = upper.switches
        if count is None:
            divisors = (item for item in range(1, lower.up + 1) if lower.up % item == 0)
            fewest = next((item for item in divisors if below * (lower.up // item) <= upper.down), None)
            if fewest is None:
                text = f"{below} {name} switches take a link each of a switch above, which has {upper.down}"
                raise _refused("radix", text, str(upper.down), f"{below} or more, or another tier")
            count = groups * fewest
        if links > count * upper.down:
            raise self._too_few(lower, name, upper, count)
        if count % groups:
            text = f"{count} {TIERS[level]} switches do not divide into {groups} groups, of a spine of each pod"
            raise _refused(f"tiers.{level}.switches", text, str(count), f"multiples of {groups}")
        return ClosTier(count, upper.down, 0, links)

    def _too_few(self, lower: ClosTier, name: str, upper: TierStatement, count: int) -> InputError:
        level = TIERS.index(name) + 1
        links, ports = lower.switches * lower.up, count * upper.down
        down = Fraction(lower.down, self.design.breakout if level == 1 else 1)
        text = (
            f"{lower.switches} {name} switches x {lower.up} links up = {links}, but {count} {TIERS[level]} switches x "
            f"{upper.down} links down = {ports}: {links - ports} links have no port"
        )
        allowed = f"{-(-links // upper.down)} switches of {upper.down} links, or {count} of {-(-links // count)}"
        if up := ports // lower.switches:
            ratios = f"{float(down / up):.4g}:1 in place of {float(down / lower.up):.4g}:1"
            allowed += f", or {up} links up of a {name}, which is {ratios}"
        return _refused(f"tiers.{level}", text, str(ports), allowed)

    def _pods(self, leaf: ClosTier, spine: TierStatement) -> tuple[int, int, int]:
        """Pods, leaves of a full one, and its spines: a link to each, unless a stated number says otherwise."""
        unit = self.design.degree if self.design.rails else 1
        options = []
        for several in (links for links in range(1, leaf.up + 1) if leaf.up % links == 0):
            most = spine.down // several
            if members := most // unit * unit or most:  # a unit wider than a pod is in several
                options.append((-(-leaf.switches // members), min(members, leaf.switches), leaf.up // several))
        count, links = spine.switches, leaf.switches * leaf.up
        if count is None:
            return options[0]
        if links > count * spine.down:
            raise self._too_few(leaf, "leaf", spine, count)
        for pods, members, spines in options:
            if pods * spines == count:
                return pods, members, spines
        allowed = ", ".join(map(str, sorted({pods * spines for pods, _, spines in options})))
        text = f"{leaf.switches} leaves of {leaf.up} links up do not form pods with so many spines"
        raise _refused("tiers.1.switches", text, str(count), allowed)


def _refused(path: str, text: str, value: str | None, allowed: str) -> InputError:
    return InputError([Problem(text, path=path, value=value, allowed=allowed)])


def fat_tree_arity(servers: int) -> int:
    """Smallest even k with k^3 / 4 >= servers."""
    k = 2
    while k**3 < 4 * servers:
        k += 2
    return k


def links_up(down: int, ratio: float) -> int:
    """Links up of a switch with so many links down, for an oversubscription of at most `ratio` (at least 1)."""
    return math.ceil(down / ratio * (1 - 1e-9))


def k_ary_tree(servers: int, rack_ratio: float = 1.0, aggregation_ratio: float = 1.0) -> ClosFabric:
    """The fat-tree of the least arity k that holds the servers, of which only racks and pods in use are built.

    Servers fill racks of k/2 and pods of k/2 racks, in order. A rack has ceil(k/2 / rack_ratio) links up, one to each
    aggregation switch of its pod; such a switch has ceil(k/2 / aggregation_ratio), each to a core of its own; core
    (a, i) joins aggregation switch a of all pods. A single rack needs nothing above it, a single pod no core (Al-Fares
    et al., SIGCOMM 2008).

    Args:
        servers: n, with one interface each.
        rack_ratio, aggregation_ratio: links down over links up, at least 1; rounded down to what whole links allow.
    """
    k = fat_tree_arity(servers)
    half = k // 2
    racks = -(-servers // half)
    pods = -(-racks // half)
    up = links_up(half, rack_ratio) if racks > 1 else 0
    above = links_up(half, aggregation_ratio) if pods > 1 else 0
    tiers = [ClosTier(racks, half, up, servers)]
    if up:
        tiers.append(ClosTier(pods * up, half, above, racks * up))
    if above:
        tiers.append(ClosTier(up * above, k, 0, pods * up * above))
    return ClosFabric(servers, 1, 1.0, 1, k, 1.0, 1, False, tuple(tiers), pods, min(half, racks))
