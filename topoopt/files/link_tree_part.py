"""Shape of a proof by a tree over the links, in solution files of every kind that has one."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from topoopt.core.arrays import Ints
from topoopt.core.link_tree import LARGEST, MOST_CASES, LinkTree
from topoopt.files.faults import Fault, Path
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.file_part import ArrayOf, FilePart
from topoopt.files.topology_part import Server

Row = Annotated[list[Annotated[int, Field(ge=0, le=LARGEST)]], Field(max_length=MAX_SERVERS)]
Table = Annotated[list[Row], Field(max_length=MAX_SERVERS)]


class LinkTreePart(FilePart):
    """A tree over the links of servers, one after another, and what closes its leaves."""

    core = LinkTree

    order: Annotated[Ints, ArrayOf(Server, np.int64, most=MAX_SERVERS)] = Field(
        description="servers, as links are chosen"
    )
    multipliers: Annotated[Ints, ArrayOf(Table, np.int64, most=MOST_CASES)] = Field(
        description="tables of n rows of n: lengths of all ordered pairs, and on the diagonal prices of interfaces; at "
        "every leaf one of them proves the bound by linear-programming duality"
    )


def link_tree_faults(part: LinkTreePart, servers: int, path: Path) -> list[Fault]:
    """What the shape cannot state: tables and order that fit the servers."""
    faults = []
    if part.multipliers.shape[1:] != (servers, servers):
        faults.append(Fault((*path, "multipliers"), "wrong size", allowed=f"tables of {servers} rows of {servers}"))
    if sorted(part.order.tolist()) != list(range(servers)):
        faults.append(Fault((*path, "order"), "wrong servers", allowed=f"0 to {servers - 1}, each once"))
    return faults
