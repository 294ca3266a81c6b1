"""The sections `topology` and `demand` of network instances: their shape, and the arrays that they state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, Len
from pydantic import Discriminator, Field, SerializerFunctionWrapHandler, Strict, Tag, model_serializer

from topoopt.core.arrays import Floats, Ints
from topoopt.core.clos import ClosStatement, clos_fabric
from topoopt.core.data import STRICT
from topoopt.core.errors import InputError, Problem, raise_any
from topoopt.core.rated_network import PRESETS, RatedNetwork
from topoopt.core.topology import Topology, unreachable_pair
from topoopt.files.codec import MAX_SERVERS, FileModel, LatencyUs, Seed, is_none, or_text
from topoopt.files.demand_files import TRACE_ENDINGS, ServerNames, read_demand, read_trace
from topoopt.files.graph_files import ListedGraph, ListedLink, read_graph
from topoopt.files.issues import nearest_text, value_text
from topoopt.files.reader_fields import within
from topoopt.files.topology_families import DISTANCE_REGULAR, FAMILIES, MAX_ARCS, Arcs, family_arcs, family_text
from topoopt.workloads.demands import DEMAND_FAMILIES, LAWS, HotExperts, demand_matrix, hot_experts

MAX_LINKS = 64 * MAX_SERVERS
Server = Annotated[int, Field(ge=0, lt=MAX_SERVERS)]
Servers = Annotated[int, Field(ge=2, le=MAX_SERVERS)]
Degree = Annotated[int, Field(ge=1, le=MAX_SERVERS)]
Hops = Annotated[int, Field(ge=1, le=MAX_SERVERS)]
Amount = Annotated[float, Field(ge=0, le=1e12)]
Capacity = Annotated[float, Field(ge=1e-9, le=1e15)]
RateAttribute = Annotated[str, Field(min_length=1, max_length=200)] | None
RATE_ATTRIBUTE: Any = Field(
    default=None,
    exclude_if=is_none,
    description="attribute or column of links that is their rate; default: the one with a usual name (capacity, ...)",
)
# A row is a list in the file and a tuple once read; what is in it stays strict.
NodeName = Annotated[str, Field(min_length=1, max_length=200)]
ArcRow = Annotated[tuple[Server, Server], Strict(False)]
ArcRows = Annotated[list[ArcRow], Field(max_length=MAX_LINKS)]
_FAMILY_KEYS = "; ".join(f"{family.name}: {', '.join(family.needs)}" for family in FAMILIES.values())


LATER_KEYS = frozenset(
    {"loops", "graph", "modulus", "order", "twist", "generators", "of", "times", "copies", "factors"}
)
"""Of families, added after instances of others had been solved."""


class FamilyTopology(FileModel):
    """A topology by the name of its family."""

    family: str = Field(description=f"what each family needs: {_FAMILY_KEYS}", json_schema_extra={"enum": [*FAMILIES]})
    servers: Servers | None = Field(default=None, description="n")
    degree: Degree | None = Field(default=None, description="d, links of a server")
    dims: Annotated[list[Servers], Field(min_length=1, max_length=12)] | None = Field(
        default=None, description="servers along each axis of a torus; an axis of two has one link, not two"
    )
    dimension: int | None = Field(default=None, ge=1, le=12, description="of a hypercube")
    sides: Annotated[list[Annotated[int, Field(ge=1, lt=MAX_SERVERS)]], Field(min_length=2, max_length=2)] | None = (
        Field(default=None, description="servers on the two sides of a complete bipartite graph")
    )
    offsets: Annotated[list[Server], Field(min_length=1, max_length=MAX_SERVERS)] | None = Field(
        default=None, description="ring distances of a circulant; repeated ones are parallel links"
    )
    links: Literal["bidirectional", "unidirectional"] | None = Field(
        default=None, description="fibre pairs (default where the family allows it) or single fibres"
    )
    seed: Seed | None = Field(default=None, description="of a random regular graph; default: 0")
    loops: Literal["joined", "dropped"] | None = Field(
        default=None,
        description="links of a server to itself in Kautz and de Bruijn graphs: led round a ring of such servers "
        "(default), or left out",
    )
    graph: str | None = Field(
        default=None, description="name of a distance-regular graph", json_schema_extra={"enum": [*DISTANCE_REGULAR]}
    )
    modulus: int | None = Field(
        default=None, ge=1, le=MAX_SERVERS, description="m of the group Z_m x| Z_k of a Cayley or Haar graph"
    )
    order: int | None = Field(default=None, ge=1, le=MAX_SERVERS, description="k of it")
    twist: int | None = Field(default=None, ge=0, le=MAX_SERVERS, description="r of it, r^k = 1 modulo m")
    generators: Annotated[list[Server], Field(min_length=1, max_length=MAX_SERVERS)] | None = Field(
        default=None, description="of it: numbers k a + b of elements (a, b)"
    )
    of: FamilyTopology | None = Field(default=None, description="the smaller topology that is expanded")
    times: int | None = Field(default=None, ge=1, le=12, description="line graphs of line graphs; default: 1")
    copies: int | None = Field(default=None, ge=2, le=MAX_SERVERS, description="of every server")
    factors: Annotated[list[FamilyTopology], Field(min_length=2, max_length=12)] | None = Field(
        default=None, description="of a Cartesian product"
    )

    @model_serializer(mode="wrap")
    def _without_later_keys(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out those of LATER_KEYS that are not given, so that instances without them keep their identity."""
        return {key: value for key, value in dump(self).items() if value is not None or key not in LATER_KEYS}


class LinksTopology(FileModel):
    """A topology link by link."""

    links: ArcRows = Field(min_length=1, description="pairs of servers; a repeated pair is a parallel link")
    directed: bool = Field(default=True, description="false: every pair stands for a link in both directions")
    servers: Servers | None = Field(default=None, description="n; default: the highest number in use, plus one")
    capacities: Annotated[list[Capacity], Field(max_length=MAX_LINKS)] | None = Field(
        default=None, exclude_if=is_none, description="of each of links, in the unit of the demand; default: 1 each"
    )
    names: Annotated[list[NodeName], Field(max_length=MAX_SERVERS)] | None = Field(
        default=None, exclude_if=is_none, description="of all servers, which tables of demands may use"
    )
    degree: Degree | None = Field(default=None, description="most links out of, and into, a server; default: unchecked")


class FileTopology(FileModel):
    """A topology from a file: GraphML (.graphml), node-link JSON (.json), or a table of links (.csv, .txt)."""

    file: str = Field(min_length=1, max_length=1000, description="relative to the folder of this file")
    directed: bool | None = Field(default=None, description="default: what the file says; a list of links is directed")
    rate_attribute: RateAttribute = RATE_ATTRIBUTE
    servers: Servers | None = Field(default=None, description="n; default: what the file says")
    degree: Degree | None = Field(default=None, description="most links out of, and into, a server; default: unchecked")


UNIT = "capacity of one link (a unit of capacity where links have capacities), or Gbit/s"


class FamilyDemand(FileModel):
    """A generated demand."""

    family: str = Field(json_schema_extra={"enum": [*DEMAND_FAMILIES]})
    seed: Seed = Field(default=0, description="of the generator; nothing to do with the seed of the search")
    scale: float = Field(default=1.0, gt=0, le=1e12, description="mean demand of an ordered pair")
    unit: Literal["link", "gbps"] = Field(default="link", description=UNIT)


class MatrixDemand(FileModel):
    """A demand matrix in the file."""

    matrix: Annotated[list[Annotated[list[Amount], Field(max_length=MAX_SERVERS)]], Field(max_length=MAX_SERVERS)] = (
        Field(description="row i, column j: what server i sends to server j")
    )
    unit: Literal["link", "gbps"] = Field(default="link", description=UNIT)


class FileDemand(FileModel):
    """A demand matrix from a file: .csv, .npy or .parquet."""

    file: str = Field(min_length=1, max_length=1000, description="relative to the folder of this file")
    unit: Literal["link", "gbps"] = Field(default="link", description=UNIT)


def topology_shape(value: object) -> str:
    """Which shape of a topology is meant; the answer names the class."""
    if isinstance(value, FamilyTopology | LinksTopology | FileTopology):
        return type(value).__name__
    keys = value.keys() if isinstance(value, dict) else ()
    if "file" in keys and "family" not in keys:
        return "FileTopology"
    # `links` is a list of pairs here, and a word beside `family`.
    return "LinksTopology" if isinstance(value, dict) and "family" not in keys and "links" in keys else "FamilyTopology"


def demand_shape(value: object) -> str:
    """Which shape of a demand is meant; the answer names the class."""
    if isinstance(value, FamilyDemand | MatrixDemand | FileDemand):
        return type(value).__name__
    keys = value.keys() if isinstance(value, dict) else ()
    if "family" in keys:
        return "FamilyDemand"
    return "MatrixDemand" if "matrix" in keys else "FileDemand" if "file" in keys else "FamilyDemand"


TopologySection = Annotated[
    Annotated[FamilyTopology, Tag("FamilyTopology")]
    | Annotated[LinksTopology, Tag("LinksTopology")]
    | Annotated[FileTopology, Tag("FileTopology")],
    Discriminator(topology_shape),
]


DemandSection = Annotated[
    Annotated[FamilyDemand, Tag("FamilyDemand")]
    | Annotated[MatrixDemand, Tag("MatrixDemand")]
    | Annotated[FileDemand, Tag("FileDemand")],
    Discriminator(demand_shape),
]


MOST_DEMAND = 1e12
"""In links; more has no meaning and leaves little of double precision."""

SHOWN = 20
"""Bad entries of a matrix listed one by one."""


@dataclass(frozen=True, eq=False)
class TopologyContent:
    """A topology, and what is worth telling about how it was read.

    Attributes:
        topology: what was read.
        notes: for people.
        names: of the servers, where they have other ones than their numbers.
        gbps: whether the rates of the topology are in Gbit/s.
    """

    topology: Topology
    notes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    gbps: bool = False


def _refuse(message: str, path: str | None, value: object = None, allowed: str | None = None) -> InputError:
    return InputError(
        [Problem(message, path=path, value=None if value is None else value_text(value), allowed=allowed)]
    )


def existing_file(folder: FilePath, name: str) -> FilePath:
    """A regular file that an instance names.

    Raises:
        InputError: there is none.
    """
    file = folder / name
    try:
        regular = file.is_file()
    except (OSError, ValueError):
        regular = False
    if not regular:
        raise _refuse("no such file", "file", name, "a file, relative to the folder of the instance file")
    return file


def topology_of(section: TopologySection, folder: FilePath, *, connected: bool = True) -> TopologyContent:
    """Build or read a topology.

    Raises:
        InputError: paths are relative to the section.
    """
    if isinstance(section, FamilyTopology):
        given = section.model_dump(exclude={"family"}, exclude_none=True)
        made = family_arcs(section.family, given, seed=0, max_servers=MAX_SERVERS)
        return TopologyContent(make_topology(made.servers, made.arcs, None, family_text(section.family, given)))
    if isinstance(section, LinksTopology):
        arcs = np.array(section.links, dtype=np.int64).reshape(-1, 2)
        n = section.servers or max(2, int(arcs.max()) + 1)
        rates = None if section.capacities is None else [Fraction(str(rate)) for rate in section.capacities]
        if rates is not None and len(rates) != len(arcs):
            raise _refuse("wrong number of capacities", "capacities", len(rates), f"{len(arcs)}, one for each of links")
        names = tuple(section.names or ())
        if names and (len(names) != n or len(set(names)) < n):
            raise _refuse("not a name for each server", "names", len(set(names)), f"{n} different names")
        ones = np.ones(len(arcs), dtype=np.int64)
        topology = _listed(n, arcs, ones, section, section.directed, "links", connected, rates)
        return TopologyContent(topology, names=names)
    return _from_file(section, folder, connected)


def _from_file(section: FileTopology, folder: FilePath, connected: bool) -> TopologyContent:
    graph = read_graph(existing_file(folder, section.file), rate_attribute=section.rate_attribute)
    if not graph.links:
        raise _refuse("no links in this file", "file", section.file)
    rows = np.array([link[:3] for link in graph.links], dtype=np.int64)
    n = section.servers or graph.servers or int(rows[:, :2].max()) + 1
    if graph.servers and section.servers and graph.servers != section.servers:
        raise _refuse("the file has another number of servers", "servers", section.servers, str(graph.servers))
    if not 2 <= n <= MAX_SERVERS:
        raise _refuse("this many servers", "file", n, f"2 to {MAX_SERVERS} servers")
    said = graph.directed if graph.directed is not None else True
    directed = said if section.directed is None else section.directed
    rates = [(link.rate or Fraction(0)) * link.parallel for link in graph.links] if graph.rate_attribute else None
    topology = _listed(n, rows[:, :2], rows[:, 2], section, directed, "file", connected, rates)
    return TopologyContent(topology, graph.notes, graph.names, graph.gbps)


def _listed(
    n: int,
    pairs: Arcs,
    counts: Ints,
    section: LinksTopology | FileTopology,
    directed: bool,
    key: str,
    connected: bool,
    rates: Sequence[Fraction] | None = None,
) -> Topology:
    """Links as listed, with all that may be wrong with them."""
    if int(counts.sum()) * (1 if directed else 2) > MAX_ARCS:
        raise _refuse("too many links", key, int(counts.sum()), f"at most {MAX_ARCS} links")
    problems = []
    where = [f"{key}[{k}]" if key == "links" else key for k in range(min(len(pairs), 100_000))]
    for k in np.flatnonzero((pairs >= n).any(axis=1))[:SHOWN].tolist():
        problems.append(Problem("unknown server", path=where[k], value=str(pairs[k].tolist()), allowed=f"0 to {n - 1}"))
    for k in np.flatnonzero(pairs[:, 0] == pairs[:, 1])[:SHOWN].tolist():
        message = "a link from a server to itself"
        problems.append(Problem(message, path=where[k], value=str(pairs[k].tolist()), allowed="two different servers"))
    raise_any(problems)
    arcs = np.repeat(pairs, counts, axis=0)
    if not directed:
        arcs = np.concatenate((arcs, arcs[:, ::-1]))
    origin = "links of the instance" if key == "links" else "file of the instance"
    topology = make_topology(n, arcs, section.degree, origin, connected=connected)
    return topology if rates is None else _rated(topology, pairs, rates, directed)


def _rated(topology: Topology, pairs: Arcs, rates: Sequence[Fraction], directed: bool) -> Topology:
    """The topology with capacities; those of parallel links add up exactly."""
    summed: dict[tuple[int, int], Fraction] = {}
    for (tail, head), rate in zip(pairs.tolist(), rates, strict=True):
        for arc in [(tail, head)] if directed else [(tail, head), (head, tail)]:
            summed[arc] = summed.get(arc, Fraction(0)) + rate
    capacity = np.array([float(summed[tail, head]) for tail, head in topology.arcs.tolist()])
    return replace(topology, rates=capacity, offsets=topology.offsets if len(set(capacity.tolist())) == 1 else ())


def make_topology(n: int, arcs: Arcs, degree: int | None, origin: str, *, connected: bool = True) -> Topology:
    """Topology of unit arcs; equal ones become parallel links, `degree` None: the largest in use.

    Switches are left dark: a given topology need not be one of optical switches.

    Raises:
        InputError: a server has more links than `degree`; some server cannot reach another, and must (`connected`).
    """
    topology = Topology.of_arcs(n, arcs, degree=degree, origin=origin)
    problems = topology.degree_problems()
    apart = unreachable_pair(n, topology.arcs.astype(np.int64)) if connected else None
    if apart is not None:
        problems.append(Problem(f"the topology is not connected: no way from server {apart[0]} to server {apart[1]}"))
    raise_any(problems)
    return topology


def demand_of(section: DemandSection, server_names: ServerNames, folder: FilePath, link_gbps: float | None) -> Floats:
    """float64[n, n], demand in units of the capacity of one link.

    Args:
        section: where it comes from.
        server_names: the servers.
        folder: of the instance.
        link_gbps: rate of a link, or of one unit of capacity; None where it is not known.

    Raises:
        InputError: paths are relative to the section.
    """
    servers = server_names.servers
    if isinstance(section, FamilyDemand):
        if section.family not in DEMAND_FAMILIES:
            allowed = nearest_text(section.family, DEMAND_FAMILIES)
            raise _refuse("no such family of demand", "family", section.family, allowed)
        demand = demand_matrix(section.family, servers, seed=section.seed) * section.scale
    elif isinstance(section, MatrixDemand):
        demand = matrix_rows(section.matrix, servers)
    else:
        file = existing_file(folder, section.file)
        demand = read_demand(file).placed(server_names, str(file))
    key = "matrix" if isinstance(section, MatrixDemand) else "file" if isinstance(section, FileDemand) else None
    return in_links(demand, servers, section.unit, key, link_gbps)


def in_links(demand: Floats, servers: int, unit: str, key: str | None, link_gbps: float | None) -> Floats:
    """A matrix in units of the capacity of one link, with all that may be wrong with it.

    Args:
        unit: `link` or `gbps`.
        key: where the matrix stands in its section.

    Raises:
        InputError: paths are relative to the section.
    """
    check_demand(demand, servers, key)
    if unit == "gbps":
        if link_gbps is None:
            raise _refuse("a demand in gbps needs the rate of a link", "unit", unit, "link_gbps beside demand")
        demand = demand / link_gbps
    if demand.max() > MOST_DEMAND:
        raise _refuse("too much demand", key, float(demand.max()), f"at most {MOST_DEMAND:g} links")
    return np.ascontiguousarray(demand)


def matrix_rows(matrix: list[list[float]], servers: int) -> Floats:
    """float64[n, n] of the rows in a file.

    Raises:
        InputError: not n rows of n.
    """
    bad = [k for k, row in enumerate(matrix) if len(row) != servers]
    if len(matrix) != servers or bad:
        shape = f"{len(matrix)} rows" if not bad else f"{len(matrix)} rows, row {bad[0]} of {len(matrix[bad[0]])}"
        raise _refuse("wrong size of the demand matrix", "matrix", shape, f"{servers} rows of {servers}")
    return np.array(matrix, dtype=np.float64)


def check_demand(demand: Floats, servers: int, key: str | None) -> None:
    """Raise InputError with everything that may be wrong with a matrix; `key`: where it stands in the section."""
    if demand.shape != (servers, servers):
        size = " x ".join(str(extent) for extent in demand.shape)
        raise _refuse("wrong size of the demand matrix", key, size, f"{servers} x {servers}")
    own = np.eye(servers, dtype=bool)
    problems = []
    for message, bad, allowed in (
        ("not a finite number", ~np.isfinite(demand), "a finite number, not negative"),
        ("negative demand", demand < 0, "a finite number, not negative"),
        ("demand of a server for itself", (demand != 0) & own & np.isfinite(demand), "0 on the diagonal"),
    ):
        listed = np.argwhere(bad)
        for i, j in listed[:SHOWN].tolist():
            path = f"matrix[{i}][{j}]" if key == "matrix" else key
            pair = "" if key == "matrix" else f" from server {i} to server {j}"
            problems.append(Problem(message + pair, path=path, value=repr(float(demand[i, j])), allowed=allowed))
        if len(listed) > SHOWN:
            problems.append(Problem(f"{message}: {len(listed) - SHOWN} more", path=key))
    if not problems and not demand.any():
        problems.append(Problem("no demand at all", path=key, allowed="at least one positive entry"))
    raise_any(problems)


MAX_RATED_LINKS = 200_000
GBPS_PER_GBYTES = 8
LinkRate = Annotated[float, Field(ge=1e-6, le=1e6)]
RatedRow = Annotated[tuple[Server, Server, LinkRate], Strict(False)]


class PresetNetwork(FileModel):
    """A machine by name."""

    preset: str = Field(description="machine", json_schema_extra={"enum": [*PRESETS]})
    boxes: int = Field(default=1, ge=1, le=MAX_SERVERS, description="how many of them")


class FamilyNetwork(FamilyTopology):
    """A family of topologies, all links of one rate."""

    link_gbytes_per_s: LinkRate = Field(default=1.0, description="rate of a link, GB/s (1e9 bytes a second)")


class LinksNetwork(FileModel):
    """A network link by link."""

    links: Annotated[list[RatedRow], Field(min_length=1, max_length=MAX_RATED_LINKS)] = Field(
        description="rows of tail, head, GB/s; parallel links add up"
    )
    directed: bool = Field(default=True, description="false: every row stands for a link in both directions")
    nodes: Servers | None = Field(default=None, description="default: the highest number in use, plus one")
    switches: Annotated[list[Server], Field(max_length=MAX_SERVERS)] = Field(
        default_factory=list, description="numbers of the nodes that do not compute"
    )
    names: Annotated[list[NodeName], Field(max_length=MAX_SERVERS)] | None = Field(
        default=None, exclude_if=is_none, description="of all nodes; default: their numbers"
    )
    latencies_us: Annotated[list[LatencyUs], Field(max_length=MAX_RATED_LINKS)] | None = Field(
        default=None, exclude_if=is_none, description="us of each row of links; default: latency_us.link for all"
    )


class FileNetwork(FileModel):
    """A network from a file: GraphML or node-link JSON (edges with `rate`, nodes with `role`), or a table of links."""

    file: str = Field(min_length=1, max_length=1000, description="relative to the folder of this file")
    rate_attribute: RateAttribute = RATE_ATTRIBUTE


class ClosNetwork(FileModel):
    """A Clos fabric, by what its servers and switches have."""

    clos: ClosStatement
    server_gbytes_per_s: LinkRate | None = Field(
        default=None, description="rate of a rank into a switch inside its server, GB/s; null: servers have none"
    )


def network_shape(value: object) -> str:
    """Which shape is meant; the answer names the class."""
    if isinstance(value, PresetNetwork | FamilyNetwork | LinksNetwork | FileNetwork | ClosNetwork):
        return type(value).__name__
    keys = value.keys() if isinstance(value, dict) else ()
    if "preset" in keys:
        return "PresetNetwork"
    if "clos" in keys:
        return "ClosNetwork"
    if "family" in keys:
        return "FamilyNetwork"
    return "LinksNetwork" if "links" in keys else "FileNetwork" if "file" in keys else "PresetNetwork"


RatedSection = Annotated[
    Annotated[PresetNetwork, Tag("PresetNetwork")]
    | Annotated[FamilyNetwork, Tag("FamilyNetwork")]
    | Annotated[LinksNetwork, Tag("LinksNetwork")]
    | Annotated[FileNetwork, Tag("FileNetwork")]
    | Annotated[ClosNetwork, Tag("ClosNetwork")],
    Discriminator(network_shape),
]


def network_of(
    section: RatedSection, folder: FilePath, latency_us: float = 0.0, note: Callable[[str], None] | None = None
) -> RatedNetwork:
    """Build or read a network.

    Args:
        section: where it comes from.
        folder: of the file that names another one.
        latency_us: of a link, where a file states none.
        note: takes what is worth telling of how a file was read.

    Raises:
        InputError: paths are relative to the section.
    """
    if isinstance(section, PresetNetwork):
        return _preset(section, latency_us)
    if isinstance(section, ClosNetwork):
        return _clos(section, latency_us, note)
    if isinstance(section, FamilyNetwork):
        given = section.model_dump(exclude={"family", "link_gbytes_per_s"}, exclude_none=True)
        made = family_arcs(section.family, given, seed=0, max_servers=MAX_SERVERS)
        rate = Fraction(str(section.link_gbytes_per_s))
        links = [(tail, head, rate) for tail, head in made.arcs.tolist()]
        return checked([False] * made.servers, links, latency_us, (), family_text(section.family, given))
    if isinstance(section, LinksNetwork):
        return _of_links(section, latency_us)
    graph = read_graph(
        existing_file(folder, section.file),
        "rates",
        rate_attribute=section.rate_attribute,
        latency_us=latency_us or None,
    )
    if note is not None:
        for text in graph.notes:
            note(text)
    return _of_file(graph, FilePath(section.file).name, latency_us)


def _of_links(section: LinksNetwork, latency_us: float) -> RatedNetwork:
    rows, latencies, names = section.links, section.latencies_us, section.names
    n = section.nodes or max(max(row[:2]) for row in rows) + 1
    problems = [
        Problem("no such node", path=key, value=str(node), allowed=f"0 to {n - 1}")
        for key, nodes in (("links", {end for row in rows for end in row[:2]}), ("switches", section.switches))
        for node in sorted(nodes)
        if node >= n
    ]
    problems += [
        Problem(f"wrong number of {key}", path=key, value=str(len(listed)), allowed=f"{count}, one for each {what}")
        for key, listed, count, what in (("names", names, n, "node"), ("latencies_us", latencies, len(rows), "link"))
        if listed is not None and len(listed) != count
    ]
    raise_any(problems[:20])
    links = tuple(
        ListedLink(tail, head, 1, Fraction(str(rate)) * GBPS_PER_GBYTES, None if latencies is None else latencies[row])
        for row, (tail, head, rate) in enumerate(rows)
    )
    switches = set(section.switches)
    is_switch = tuple(node in switches for node in range(n))
    graph = ListedGraph(n, links, section.directed, tuple(names or ()), is_switch)
    return _of_file(graph, "links of the instance", latency_us)


def _of_file(graph: ListedGraph, name: str, latency_us: float) -> RatedNetwork:
    """The network of a file, with its own latencies where it states them."""
    links: list[tuple[int, int, Fraction]] = []
    latency: dict[tuple[int, int], float] = {}
    for link in graph.links:
        ends = link.tail, link.head
        for arc in (ends,) if graph.directed is not False else (ends, ends[::-1]):
            links.append((*arc, (link.rate or Fraction(0)) * link.parallel / GBPS_PER_GBYTES))
            if link.latency_us is not None and latency.setdefault(arc, link.latency_us) != link.latency_us:
                shown = f"{latency[arc]:g} and {link.latency_us:g} us"
                raise InputError([Problem("parallel links of different latency", value=shown)])
    network = checked(graph.is_switch, tuple(links), latency_us, graph.names, name)
    if not latency:
        return network
    return replace(network, latency_us=np.array([latency[tail, head] for tail, head in network.arcs.tolist()]))


MAX_RANKS = 8192


def _clos(section: ClosNetwork, latency_us: float, note: Callable[[str], None] | None) -> RatedNetwork:
    """One rank for each interface; a switch stands for all spines of a pod, another for all cores."""
    design = section.clos
    if design.servers * design.degree > MAX_RANKS:
        value = f"{design.servers} x {design.degree}"
        raise InputError([Problem("too many ranks", path="clos", value=value, allowed=f"{MAX_RANKS} interfaces")])
    if design.degree == 1 and section.server_gbytes_per_s is not None:
        text, allowed = "plays no part, as a server has one interface", "null"
        value = f"{section.server_gbytes_per_s:g}"
        raise InputError([Problem(text, path="server_gbytes_per_s", value=value, allowed=allowed)])
    fabric = within("clos", lambda: clos_fabric(design))
    network = within("clos", lambda: fabric.network(section.server_gbytes_per_s))
    if note is not None:
        note(f"{fabric.text}; every rank has one interface; switches joined alike count as one of their joint rate")
    return replace(network, latency_us=np.full(len(network.arcs), latency_us))


def _preset(section: PresetNetwork, latency_us: float) -> RatedNetwork:
    if section.preset not in PRESETS:
        allowed = nearest_text(section.preset, PRESETS)
        raise InputError([Problem("no such machine", path="preset", value=section.preset, allowed=allowed)])
    build, max_boxes = PRESETS[section.preset]
    if section.boxes > max_boxes:
        allowed = f"1 to {max_boxes} of {section.preset}"
        raise InputError([Problem("too many boxes", path="boxes", value=str(section.boxes), allowed=allowed)])
    machine = build(section.boxes)
    return replace(machine, latency_us=np.full(len(machine.arcs), latency_us))


def checked(
    is_switch: list[bool] | tuple[bool, ...],
    links: list[tuple[int, int, Fraction]] | tuple[tuple[int, int, Fraction], ...],
    latency_us: float,
    names: tuple[str, ...],
    origin: str,
) -> RatedNetwork:
    """A network on which collectives can run.

    Raises:
        InputError: fewer than two ranks, rates without a common unit, ranks that cannot reach each other.
    """
    if len(is_switch) - sum(is_switch) < 2:
        raise InputError([Problem("fewer than two nodes that compute", allowed="two or more ranks")])
    try:
        network = RatedNetwork.of_links(is_switch, links, latency_us=latency_us, names=names, origin=origin)
    except ValueError as error:
        raise InputError([Problem(str(error), path="links")]) from None
    apart = network.unreachable()
    if apart is not None:
        text = f"no way from {network.names[apart[0]]} to {network.names[apart[1]]}"
        parts = _parts(network)
        if len(parts) > 1:
            text += f": {len(parts)} parts that no links join"
        shown = "; ".join(", ".join(part) for part in parts[:4]) if len(parts) > 1 else None
        raise InputError([Problem(text, value=shown, allowed="every rank reaches every other")])
    return network


def _parts(network: RatedNetwork) -> list[list[str]]:
    """Names of the ranks of each part that links join in either direction."""
    part = np.arange(network.nodes)
    tails, heads = network.arcs[:, 0], network.arcs[:, 1]
    while True:
        least = np.minimum(part[tails], part[heads])
        lower = part.copy()
        np.minimum.at(lower, tails, least)
        np.minimum.at(lower, heads, least)
        if np.array_equal(lower, part):
            break
        part = lower
    ranks = network.ranks
    return [[network.names[rank] for rank in ranks[part[ranks] == root]] for root in np.unique(part[ranks])]


MOST_SERVERS = 128
MOST_STEPS = 200

_SCALE = Annotated[float, Gt(0), Le(1e18)]
Scale = Annotated[_SCALE, or_text(_SCALE)]
Row = Annotated[tuple[Annotated[float, Ge(0), Le(1e18)], ...], Len(0, MOST_SERVERS)]


@dataclass(frozen=True, kw_only=True)
class MatrixTraffic:
    """One step, in the file."""

    __pydantic_config__ = STRICT

    matrix: Annotated[tuple[Row, ...], Len(0, MOST_SERVERS)]
    """row i, column j: bytes that server i sends to server j"""


@dataclass(frozen=True, kw_only=True)
class FileTraffic:
    """Steps from a file of one's own: .csv and .parquet hold one matrix, .npy and .npz one or a stack of them."""

    __pydantic_config__ = STRICT

    file: Annotated[str, Len(1, 1000)]
    """relative to the folder of this file"""
    scale: Scale = 1.0
    """bytes of a unit in the file, e.g. those of a token"""


@dataclass(frozen=True, kw_only=True)
class HotExpertsTraffic:
    """Generated: all-to-all traffic of a mixture of experts whose hot experts move from step to step."""

    __pydantic_config__ = STRICT

    family: Literal["hot-experts"]
    steps: Annotated[int, Ge(1), Le(MOST_STEPS)]
    seed: Annotated[int, Ge(0), Le(2**63 - 1)] = 0
    """of the generator; nothing to do with the seed of the search"""
    experts_per_server: Annotated[int, Ge(1), Le(1024)] = 1
    law: Annotated[str, Field(json_schema_extra={"enum": [*LAWS]})] = "zipf"
    """popularity of experts"""
    skew: Annotated[float, Gt(0), Le(1000)] = 1.0
    """exponent of Zipf, concentration of Dirichlet"""
    affinity: Annotated[float, Ge(0), Le(1)] = 0.0
    """part of a server's tokens with a law of their own"""
    scale: Scale
    """mean bytes of an ordered pair in a step"""


def traffic_shape(value: object) -> str:
    """Return the name of the class that an entry of the demands is meant for."""
    if isinstance(value, MatrixTraffic | FileTraffic | HotExpertsTraffic):
        return type(value).__name__
    keys = value.keys() if isinstance(value, dict) else ()
    if "family" in keys:
        return "HotExpertsTraffic"
    return "FileTraffic" if "file" in keys else "MatrixTraffic"


Traffic = Annotated[
    Annotated[MatrixTraffic, Tag("MatrixTraffic")]
    | Annotated[FileTraffic, Tag("FileTraffic")]
    | Annotated[HotExpertsTraffic, Tag("HotExpertsTraffic")],
    Discriminator(traffic_shape),
]


def matrices_of(entry: MatrixTraffic | FileTraffic | HotExpertsTraffic, names: ServerNames, folder: FilePath) -> Floats:
    """Return float64[k, n, n], the matrices of an entry.

    Args:
        entry: what the instance says.
        names: of the servers.
        folder: of the instance.

    Raises:
        InputError: everything that is wrong with it; paths are relative to the entry.
    """
    servers = names.servers
    if isinstance(entry, HotExpertsTraffic):
        settings = HotExperts(entry.steps, entry.experts_per_server, entry.law, entry.skew, entry.affinity)
        return hot_experts(servers, settings, seed=entry.seed) * entry.scale
    if isinstance(entry, MatrixTraffic):
        matrix = matrix_rows([list(row) for row in entry.matrix], servers)
        check_demand(matrix, servers, "matrix")
        return matrix[None]
    path = existing_file(folder, entry.file)
    stacked = path.suffix.lower() in TRACE_ENDINGS
    stack = read_trace(path) if stacked else read_demand(path).placed(names, str(path))[None]
    problems: list[Problem] = []
    for matrix in stack:
        try:
            check_demand(matrix, servers, "file")
        except InputError as error:
            problems += error.problems
    raise_any(problems)
    return np.asarray(stack * entry.scale)
