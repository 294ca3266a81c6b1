"""What ranks send each other in a program that was read."""

from __future__ import annotations

from fractions import Fraction

from topoopt.core.collective import ChunkProgram
from topoopt.formats.msccl.write import Traffic


def read_traffic(program: ChunkProgram) -> Traffic:
    """Of each pair of ranks the part of the vector that is sent."""
    sent: dict[tuple[int, int], int] = {}
    messages = program.messages
    for tail, head, units in zip(messages.tail.tolist(), messages.head.tolist(), messages.units.tolist(), strict=True):
        sent[tail, head] = sent.get((tail, head), 0) + units
    rows = tuple((*pair, Fraction(units, program.vector_units)) for pair, units in sorted(sent.items()))
    return program.collective.value, len(program.ranks), rows
