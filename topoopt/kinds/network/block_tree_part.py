"""A tree over the links with prices at every node, as a part of solution files."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from topoopt.core.arrays import Ints
from topoopt.core.block_tree import DEGREE, LARGEST, MOST_NODES, BlockTree
from topoopt.files.faults import Fault, Path
from topoopt.files.fields import MAX_SERVERS
from topoopt.files.file_part import ArrayOf, FilePart
from topoopt.files.solution_head import Amount

Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Signed = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Number = Annotated[int, Field(ge=-1, lt=MOST_NODES)]
Heads = Annotated[list[Number], Field(max_length=DEGREE)]
Table = Annotated[list[Annotated[list[Whole], Field(max_length=MAX_SERVERS)]], Field(max_length=MAX_SERVERS)]
SignedTable = Annotated[list[Annotated[list[Signed], Field(max_length=MAX_SERVERS)]], Field(max_length=MAX_SERVERS)]


class BlockTreePart(FilePart):
    """Nodes of a tree over the links of servers, each with what closes it, or the server that divides it."""

    core = BlockTree

    theta: Amount = Field(description="what is proven of every topology")
    parent: Annotated[Ints, ArrayOf(Number, np.int64, most=MOST_NODES)] = Field(
        description="number of the node that each is a choice of; -1 of the root"
    )
    heads: Annotated[Ints, ArrayOf(Heads, np.int64, most=MOST_NODES)] = Field(
        description="where the links of the server lead that divides the parent"
    )
    server: Annotated[Ints, ArrayOf(Number, np.int64, most=MOST_NODES)] = Field(
        description="that divides the node; -1 of a node that is closed"
    )
    bar: Annotated[Ints, ArrayOf(Whole, np.int64, most=MOST_NODES)] = Field(
        description="length of links that no topology of the node has"
    )
    price: Annotated[Ints, ArrayOf(Table, np.int64, most=MOST_NODES)] = Field(
        description="of every node: of a unit of flow over each link; rows are servers that links come from"
    )
    relief: Annotated[Ints, ArrayOf(Table, np.int64, most=MOST_NODES)] = Field(
        description="what a unit of each demand is excused for going over one link or two"
    )
    shift: Annotated[Ints, ArrayOf(SignedTable, np.int64, most=MOST_NODES)] = Field(
        description="of the worth of each link from its tail to its head, demand in units of its mean"
    )


def block_tree_faults(part: BlockTreePart, servers: int, path: Path) -> list[Fault]:
    """What the shape cannot state: as much of everything as there are nodes, and tables that fit the servers."""
    count = len(part.parent)
    shapes = {
        **dict.fromkeys(("server", "bar"), (count,)),
        "heads": (count, DEGREE),
        **dict.fromkeys(("price", "relief", "shift"), (count, servers, servers)),
    }
    return [
        Fault((*path, name), "wrong size", allowed=" x ".join(map(str, shape)))
        for name, shape in shapes.items()
        if getattr(part, name).shape != shape
    ]
