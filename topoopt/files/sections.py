"""The sections `topology` and `demand` of network instances: from what the file says to arrays, all faults together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path as FilePath

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.reachability import unreachable_pair
from topoopt.core.topology import Topology
from topoopt.files.demand_files import read_demand
from topoopt.files.demand_tables import ServerNames
from topoopt.files.faults import nearest_text, value_text
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.graph_files import read_graph
from topoopt.files.network_sections import (
    DemandSection,
    FamilyDemand,
    FamilyTopology,
    FileDemand,
    FileTopology,
    LinksTopology,
    MatrixDemand,
    TopologySection,
)
from topoopt.files.topology_builders import Arcs
from topoopt.files.topology_families import MAX_ARCS, family_arcs, family_text
from topoopt.workloads.demand_matrices import DEMAND_FAMILIES, demand_matrix

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
        return TopologyContent(
            _listed(n, arcs, np.ones(len(arcs), dtype=np.int64), section, section.directed, "links", connected, rates)
        )
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
    if problems:
        raise InputError(problems)
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
    if problems:
        raise InputError(problems)
    return topology


def demand_of(section: DemandSection, known: ServerNames, folder: FilePath, link_gbps: float | None) -> Floats:
    """float64[n, n], demand in units of the capacity of one link.

    Args:
        section: where it comes from.
        known: the servers.
        folder: of the instance.
        link_gbps: rate of a link, or of one unit of capacity; None where it is not known.

    Raises:
        InputError: paths are relative to the section.
    """
    servers = known.servers
    if isinstance(section, FamilyDemand):
        if section.family not in DEMAND_FAMILIES:
            allowed = nearest_text(section.family, DEMAND_FAMILIES)
            raise _refuse("no such family of demand", "family", section.family, allowed)
        demand = demand_matrix(section.family, servers, seed=section.seed) * section.scale
    elif isinstance(section, MatrixDemand):
        demand = matrix_rows(section.matrix, servers)
    else:
        file = existing_file(folder, section.file)
        demand = read_demand(file).placed(known, str(file))
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
            place = "" if key == "matrix" else f" from server {i} to server {j}"
            problems.append(Problem(message + place, path=path, value=repr(float(demand[i, j])), allowed=allowed))
        if len(listed) > SHOWN:
            problems.append(Problem(f"{message}: {len(listed) - SHOWN} more", path=key))
    if not problems and not demand.any():
        problems.append(Problem("no demand at all", path=key, allowed="at least one positive entry"))
    if problems:
        raise InputError(problems)
