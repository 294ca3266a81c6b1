"""What the execution traces of a job say about its network: collectives with groups, point-to-point bytes, compute."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.arrays import Floats, Ints
from topoopt.formats.chakra.content import CommType


@dataclass(frozen=True)
class CollectiveUse:
    """Equal calls of one collective.

    Attributes:
        collective: which.
        members: ranks of the group, ascending.
        size_bytes: buffer of every rank; of an all-gather the shard a rank starts with.
        calls: how often each member takes part, in the order of `members`.
        involved_dims: dimensions of the network it runs in, as the trace says; empty: all.
    """

    collective: CommType
    members: tuple[int, ...]
    size_bytes: int
    calls: tuple[int, ...]
    involved_dims: tuple[bool, ...] = ()


@dataclass(frozen=True, eq=False)
class TraceContent:
    """All ranks together.

    Attributes:
        name: common part of the file names.
        ranks: n.
        nodes: of all files.
        uses: ordered by collective, members, size.
        sent_bytes: int64[n, n], bytes of point-to-point sends.
        compute_us: int64[n], time of the compute nodes of every rank.
        operations: float64[n], operations of compute nodes that state no time.
        notes: what was assumed, for people.
    """

    name: str
    ranks: int
    nodes: int
    uses: tuple[CollectiveUse, ...]
    sent_bytes: Ints
    compute_us: Ints
    operations: Floats
    notes: tuple[str, ...] = ()

    def comparable(self) -> tuple[object, ...]:
        """Everything but name and notes, as plain data that `==` compares."""
        return (
            self.ranks,
            self.nodes,
            self.uses,
            self.sent_bytes.tolist(),
            self.compute_us.tolist(),
            self.operations.tolist(),
        )
