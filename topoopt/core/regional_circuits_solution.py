"""The solution of kind `regional-circuits`: circuits of every step, its times, and what proves that none are faster."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from topoopt.core.columns import Columns
from topoopt.core.dag_topology_solution import PairCircuits, Split
from topoopt.core.shown import Shown
from topoopt.core.solution import SolutionHead


@dataclass(frozen=True)
class CircuitStep:
    """A step.

    Attributes:
        circuits: number of the topology that it has.
        stall_s: what it waits for circuits that are set anew.
        transfer_s: from its first byte to its last.
        switch_s: what its transfers take at least if all interfaces lead into one electrical switch that nothing fills.
    """

    circuits: int
    stall_s: float
    transfer_s: float
    switch_s: float


@dataclass(frozen=True, eq=False, repr=False)
class StepsProof(Shown):
    """Why no circuits that stay over some steps carry them in less than `bound_s`.

    The demands of these steps are added. Boxes of circuits (pairs in ascending order) are split as in `tree`; in each
    closed one the multipliers show that no choice keeps ports and electrical interfaces.

    Attributes:
        first, last: steps, both included.
        bound_s: seconds of transfers of these steps together.
        tree: splits in the order in which boxes are walked.
        multipliers: for every closed box 3 n numbers: of ports, of what leaves, of what reaches each server.
    """

    first: int
    last: int
    bound_s: float
    tree: tuple[Split, ...]
    multipliers: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class RegionalCircuitsSolution(SolutionHead):
    """Result of `topoopt solve` on an instance of kind `regional-circuits`.

    Attributes, besides those of `SolutionHead`:
        objective: `communication_time`, s: transfers and stalls of all steps.
        servers, ports: of the instance.
        topologies: circuits by pair, ascending, for each different choice.
        steps: in order.
        proofs: what limits any circuits.
    """

    servers: int
    ports: tuple[int, ...]
    topologies: tuple[tuple[PairCircuits, ...], ...]
    steps: tuple[CircuitStep, ...]
    proofs: tuple[StepsProof, ...]

    kind: str = field(default="regional-circuits", init=False)

    @property
    def switchings(self) -> int:
        """How often circuits are set anew."""
        chosen = [step.circuits for step in self.steps]
        return sum(one != other for one, other in pairwise(chosen))

    @property
    def transfer_s(self) -> float:
        """Of all steps."""
        return sum(step.transfer_s for step in self.steps)

    @property
    def stall_s(self) -> float:
        """Of all steps."""
        return sum(step.stall_s for step in self.steps)

    @property
    def switch_s(self) -> float:
        """What all steps take at least on one electrical switch with all interfaces."""
        return sum(step.switch_s for step in self.steps)

    def columns(self) -> dict[str, Columns]:
        """As of all solutions; `links` are the circuits of all topologies."""
        listed = [(place, each) for place, topology in enumerate(self.topologies) for each in topology]
        links: Columns = {
            "topology": [place for place, _ in listed],
            "one": [each.one for _, each in listed],
            "other": [each.other for _, each in listed],
            "circuits": [each.count for _, each in listed],
        }
        return {**super().columns(), "links": links}
