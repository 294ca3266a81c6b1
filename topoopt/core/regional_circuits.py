"""Kind `regional-circuits`: circuits of an optical switch for all-to-all traffic, beside an electrical network."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.search_settings import SearchSettings
from topoopt.core.stated import Stated

Pair = tuple[int, int]
"""Two servers, the smaller number first."""


@dataclass(frozen=True, eq=False, repr=False)
class RegionalCircuitsProblem(Stated):
    """How many circuits shall join each pair of the servers of a region in each step, so that all steps take least.

    A circuit takes a port of the optical switch at both ends and carries its rate in each direction at the same time.
    A pair with circuits sends over them alone, a pair without over the electrical network, whose interfaces of a server
    are shared by all such pairs; with `split` what circuits cannot carry in time goes over the electrical network too.
    Steps follow each other. Circuits may be set anew before a step: that takes the delay of the switch, less the window
    in which the circuits are idle anyway. Those of the first step are set beforehand.

    Attributes:
        name: of the instance.
        servers: n.
        ports: n numbers, circuits that may end at each server.
        circuit_rate: bytes a second of a circuit, in each direction.
        electrical_rate: bytes a second of the electrical interfaces of a server together, in each direction.
        demands: float64[K, n, n], bytes from server to server in each step; zero diagonals.
        split: a pair with circuits may use the electrical network as well.
        delay_s: of the optical switch.
        windows_s: K numbers, seconds before each step that hide the delay.
    """

    name: str
    servers: int
    ports: tuple[int, ...]
    circuit_rate: float
    electrical_rate: float
    demands: Floats
    split: bool = False
    delay_s: float = 0.0
    windows_s: tuple[float, ...] = ()
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "regional-circuits"

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs that send in any step, ascending."""
        sent = self.demands.sum(axis=0)
        one, other = np.nonzero(np.triu(sent + sent.T, 1))
        return tuple(zip(one.tolist(), other.tolist(), strict=True))

    @cached_property
    def stalls_s(self) -> tuple[float, ...]:
        """K numbers: what setting circuits anew before each step costs; nothing before the first."""
        return tuple(max(0.0, self.delay_s - window) if k else 0.0 for k, window in enumerate(self.windows_s))
