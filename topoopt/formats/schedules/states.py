"""What ranks have before and after a collective, chunk by chunk, in the numbering of input and output buffers."""

from __future__ import annotations

from collections.abc import Iterator

from topoopt.core.collective import ALL_RANKS, CollectiveOp

SHARED = frozenset({CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER, CollectiveOp.ALL_TO_ALL})
"""Those whose vector has an equal share of every rank."""

NAMES = {
    "allreduce": CollectiveOp.ALLREDUCE,
    "allgather": CollectiveOp.ALLGATHER,
    "reducescatter": CollectiveOp.REDUCE_SCATTER,
    "alltoall": CollectiveOp.ALL_TO_ALL,
    "broadcast": CollectiveOp.BROADCAST,
    "reduce": CollectiveOp.REDUCE,
}


def collective_named(text: str) -> CollectiveOp | None:
    """The collective that a name of any spelling means: all_gather, AllGather, all-gather(n=8)."""
    plain = "".join(letter for letter in text.partition("(")[0].lower() if letter.isalpha())
    return NAMES.get(plain)


def parameters_of(text: str) -> dict[str, str]:
    """Parameters in a name such as Broadcast(n=8,root=0)."""
    rows = [one.partition("=") for one in text.partition("(")[2].removesuffix(")").split(",") if one.strip()]
    return {key.strip(): value.strip() for key, _, value in rows}


def inputs(collective: CollectiveOp, ranks: int, chunks: int, root: int) -> Iterator[tuple[int, int, int]]:
    """Rows (rank, chunk of its input, label); `chunks` of the whole vector, in an All-to-All of that of each rank."""
    share = chunks // ranks
    for rank in range(ranks):
        if collective is CollectiveOp.ALLGATHER:
            yield from ((rank, chunk, rank * share + chunk) for chunk in range(share))
        elif collective is CollectiveOp.ALL_TO_ALL:
            yield from ((rank, chunk, rank * chunks + chunk) for chunk in range(chunks))
        elif collective is not CollectiveOp.BROADCAST or rank == root:
            yield from ((rank, chunk, chunk) for chunk in range(chunks))


def outputs(collective: CollectiveOp, ranks: int, chunks: int, root: int) -> Iterator[tuple[int, int, int, int]]:
    """Rows (rank, chunk of its output, label, whose part or ALL_RANKS)."""
    share = chunks // ranks
    for rank in range(ranks):
        if collective is CollectiveOp.ALLGATHER:
            yield from ((rank, chunk, chunk, chunk // share) for chunk in range(chunks))
        elif collective is CollectiveOp.ALL_TO_ALL:
            for source in range(ranks):
                first = source * chunks + rank * share
                yield from ((rank, source * share + own, first + own, source) for own in range(share))
        elif collective is CollectiveOp.REDUCE_SCATTER:
            yield from ((rank, chunk, rank * share + chunk, ALL_RANKS) for chunk in range(share))
        elif collective is CollectiveOp.ALLREDUCE:
            yield from ((rank, chunk, chunk, ALL_RANKS) for chunk in range(chunks))
        elif collective is CollectiveOp.BROADCAST:
            yield from ((rank, chunk, chunk, root) for chunk in range(chunks))
        elif rank == root:
            yield from ((rank, chunk, chunk, ALL_RANKS) for chunk in range(chunks))
