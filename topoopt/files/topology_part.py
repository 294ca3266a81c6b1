"""The links of a topology in solution files."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field, Strict

from topoopt.core.arrays import Floats, Int32s
from topoopt.core.cluster import LinkDirection
from topoopt.core.topology import Topology
from topoopt.files.faults import Fault, Path
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.file_part import ArrayOf, FilePart, Listed, NameOf, is_none
from topoopt.files.solution_head import Text
from topoopt.files.topology_families import MAX_ARCS

MAX_RATE = 1e20
"""Capacity of a link in any unit."""

Server = Annotated[int, Field(ge=0, lt=MAX_SERVERS)]
ArcRow = Annotated[tuple[Server, Server, Annotated[int, Field(ge=1, le=MAX_ARCS)]], Strict(False)]  # tail, head, links
Arcs = Annotated[Int32s, ArrayOf(ArcRow, np.int32, (-1, 3), MAX_ARCS)]
Rates = Annotated[Floats, ArrayOf(Annotated[float, Field(gt=0, le=MAX_RATE)], np.float64, most=MAX_ARCS)]
Switches = Annotated[list[list[Annotated[int, Field(ge=-1, lt=MAX_SERVERS)]]], Field(max_length=64)]


MAX_PORTS = 1 << 27
"""Entries of the table interface x server."""


class LinksPart(FilePart):
    """A topology, whatever the order of its keys."""

    core = Topology

    servers: int = Field(ge=2, le=MAX_SERVERS)
    degree: int = Field(ge=1, le=MAX_ARCS)
    links: Annotated[LinkDirection, NameOf(LinkDirection)]

    @classmethod
    def attributes(cls, value: Topology) -> dict[str, Any]:
        """Links are counted with their arc."""
        rows = np.column_stack((value.arcs, value.multiplicity))
        return {**super().attributes(value), "arcs": rows, "switches": value.switches.tolist()}

    def arguments(self) -> dict[str, Any]:
        """Arrays of links and switches; null stands for dark ones."""
        stated = super().arguments()
        rows, switches = stated["arcs"], stated["switches"]
        dark = np.full((self.degree, self.servers), -1, dtype=np.int32)
        return {
            **stated,
            "arcs": np.ascontiguousarray(rows[:, :2]),
            "multiplicity": np.ascontiguousarray(rows[:, 2]),
            "switches": np.array(switches, dtype=np.int32).reshape(dark.shape) if switches else dark,
        }


class TopologyPart(LinksPart):
    """Arcs, and the permutation of every switch where there are any."""

    origin: Text
    offsets: Annotated[Listed[Server], Field(max_length=MAX_SERVERS)]
    switches: Switches | None
    arcs: Arcs
    rates: Rates | None = Field(default=None, exclude_if=is_none)

    @classmethod
    def attributes(cls, value: Topology) -> dict[str, Any]:
        """Dark switches are null."""
        lit = bool((value.switches >= 0).any())
        stated = super().attributes(value)
        return stated if lit else {**stated, "switches": None}


def topology_faults(topology: TopologyPart, path: Path = ("topology",)) -> list[Fault]:
    """What the schema cannot state about the links of a solution."""
    n, ends = topology.servers, topology.arcs[:, :2]
    faults = []
    for index in np.flatnonzero((ends >= n).any(axis=1)).tolist():
        tail, head = ends[index].tolist()
        faults.append(Fault((*path, "arcs", index), "no such server", f"{tail} -> {head}", f"0 to {n - 1}"))
    if len(np.unique(ends, axis=0)) < len(ends):
        faults.append(Fault((*path, "arcs"), "an arc more than once", allowed="each arc once, with its links"))
    if topology.rates is not None and len(topology.rates) != len(ends):
        faults.append(Fault((*path, "rates"), "wrong length", str(len(topology.rates)), f"{len(ends)}, one an arc"))
    if topology.degree * n > MAX_PORTS:
        faults.append(Fault((*path, "degree"), "too large", str(topology.degree), f"at most {MAX_PORTS // n}"))
    if topology.switches is not None and (
        len(topology.switches) != topology.degree or any(len(row) != n for row in topology.switches)
    ):
        allowed = f"{topology.degree} rows of {n}"
        faults.append(Fault((*path, "switches"), "wrong size", allowed=allowed))
    for index, row in enumerate(topology.switches or ()):
        if max(row, default=-1) >= n:
            faults.append(Fault((*path, "switches", index), "no such server", str(max(row)), f"-1 to {n - 1}"))
    return faults
