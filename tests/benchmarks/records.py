"""`python -m tests.benchmarks records`: figures that others hold the record for, and goals of this kind, row by row.

A row is a name, what a user would type for it, and a function that measures its figures, each beside its target. Times
are of the processor, on one core. A part of the product adds rows in a module `record_*.py`, and that to `RECORDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.benchmarks.figures import Figure


@dataclass(frozen=True)
class Record:
    """One row.

    Attributes:
        name: of the case; `records NAME` measures the rows whose names begin so.
        command: that gives the same figures.
        measure: what solves and checks it.
    """

    name: str
    command: str
    measure: Callable[[], Sequence[Figure]]


def records() -> tuple[Record, ...]:
    """All rows; modules are loaded here, as the other groups do not need them."""
    from tests.benchmarks.record_circuits import CIRCUITS
    from tests.benchmarks.record_collectives import COLLECTIVES
    from tests.benchmarks.record_joint import JOINT
    from tests.benchmarks.record_placement import PLACEMENT
    from tests.benchmarks.record_uniform import UNIFORM

    return (*UNIFORM, *PLACEMENT, *(Record(*row) for row in COLLECTIVES), *CIRCUITS, *JOINT)
