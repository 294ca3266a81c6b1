"""Shape of solution files of kind `collective`. Long tables are rows of plain lists; comments name their columns."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, Strict

from topoopt.core.allreduce_bound import AllReduceProof, WeightedSet
from topoopt.core.arrays import Bools, Ints
from topoopt.core.collective import CollectiveOp
from topoopt.core.collective_solution import BestBySize, CollectiveProof, CollectiveSolution, CollectiveTimes
from topoopt.core.rated_network import MOST_UNITS, RatedNetwork
from topoopt.files.fields import MAX_BYTES, LatencyUs
from topoopt.files.file_part import ArrayOf, FilePart, Listed, NameOf, built, is_empty, is_none
from topoopt.files.schedule_part import MAX_NODES, MAX_SENDS, Node, SchedulePart
from topoopt.files.solution_head import Amount, Notes, Sha256, SolutionHeadFile, Text, TitleFile, Versions

MAX_ARCS = 400_000

Rational = Annotated[str, Field(pattern=r"^-?[0-9]{1,30}(/[0-9]{1,30})?$")]
LinkRow = Annotated[
    tuple[Node, Node, Annotated[int, Field(ge=1, le=MOST_UNITS)], LatencyUs], Strict(False)
]  # tail, head, rate in units, us


def exact(text: str) -> Fraction:
    """The number of a text like 3/2; 0 where its denominator is."""
    above, _, below = text.partition("/")
    return Fraction(int(above), int(below or 1)) if int(below or 1) else Fraction(0)


class NetworkPart(FilePart):
    """Nodes, switches and links."""

    core = RatedNetwork

    origin: Text
    unit_gbytes_per_s: Rational
    names: Annotated[Listed[Text], Field(min_length=2, max_length=MAX_NODES)]
    switches: Annotated[Listed[Node], Field(max_length=MAX_NODES)]
    links: Annotated[Listed[LinkRow], Field(min_length=1, max_length=MAX_ARCS)]

    @classmethod
    def attributes(cls, value: RatedNetwork) -> dict[str, Any]:
        """Each link with its rate and latency."""
        columns = (value.arcs[:, 0], value.arcs[:, 1], value.units, value.latency_us)
        return {
            "origin": value.origin,
            "unit_gbytes_per_s": str(value.unit_gbytes_per_s),
            "names": value.names,
            "switches": tuple(np.flatnonzero(value.is_switch).tolist()),
            "links": list(zip(*(column.tolist() for column in columns), strict=True)),
        }

    def arguments(self) -> dict[str, Any]:
        """Arrays of links."""
        switch: Bools = np.zeros(len(self.names), dtype=np.bool_)
        switch[[node for node in self.switches if node < len(switch)]] = True
        return {
            "is_switch": switch,
            "arcs": np.array([row[:2] for row in self.links], dtype=np.int32),
            "units": np.array([row[2] for row in self.links], dtype=np.int64),
            "unit_gbytes_per_s": exact(self.unit_gbytes_per_s),
            "latency_us": np.array([row[3] for row in self.links]),
            "names": self.names,
            "origin": self.origin,
        }


class WeightedSetPart(FilePart):
    """A set of nodes with its multiplier."""

    core = WeightedSet

    nodes: Annotated[Listed[Node], Field(max_length=MAX_NODES)]
    weight: Rational

    @classmethod
    def attributes(cls, value: WeightedSet) -> dict[str, Any]:
        """Fractions as text."""
        return {"nodes": value.nodes, "weight": str(value.weight)}

    def arguments(self) -> dict[str, Any]:
        """Fractions again."""
        return {"nodes": self.nodes, "weight": exact(self.weight)}


class AllReduceProofPart(FilePart):
    """Multipliers of the program over roots."""

    core = AllReduceProof

    broadcast: Annotated[Listed[WeightedSetPart], Field(max_length=MAX_ARCS)]
    reduce: Annotated[Listed[WeightedSetPart], Field(max_length=MAX_ARCS)]
    broadcast_potential: Annotated[Listed[Rational], Field(max_length=MAX_NODES)]
    reduce_potential: Annotated[Listed[Rational], Field(max_length=MAX_NODES)]

    @classmethod
    def attributes(cls, value: AllReduceProof) -> dict[str, Any]:
        """Fractions as text."""
        stated = super().attributes(value)
        texts = {key: tuple(map(str, stated[key])) for key in ("broadcast_potential", "reduce_potential")}
        return {**stated, **texts}

    def arguments(self) -> dict[str, Any]:
        """Fractions again."""
        stated = super().arguments()
        texts = {key: tuple(map(exact, stated[key])) for key in ("broadcast_potential", "reduce_potential")}
        return {**stated, **texts}


class TimesPart(FilePart):
    """What the schedule takes, us; what the objective says is left out."""

    core = CollectiveTimes

    makespan_us: Amount
    step_us: Amount | None = Field(default=None, exclude_if=is_none, description="unless the objective is this time")
    busy_us: Amount | None = Field(default=None, exclude_if=is_none, description="unless the objective is algbw")


class CollectiveProofPart(FilePart):
    """What limits any schedule."""

    core = CollectiveProof

    cut: Annotated[Listed[Node], Field(max_length=MAX_NODES)]
    allreduce: AllReduceProofPart | None = Field(default=None, exclude_if=is_none)
    lengths: Annotated[Ints, ArrayOf(Annotated[int, Field(ge=0, le=MOST_UNITS)], np.int64, most=MAX_ARCS)] | None = (
        Field(default=None, exclude_if=is_none, description="of each link, for an all-to-all")
    )


class FrontPart(FilePart):
    """What is best for which size."""

    core = BestBySize

    from_bytes: Annotated[int, Field(ge=1, le=1 << 60)]
    method: Text
    pieces: Annotated[int, Field(ge=1, le=MAX_SENDS)]
    steps: Annotated[int, Field(ge=1, le=MAX_SENDS)]
    latency_us: Amount
    us_per_mbyte: Amount


class AskedCollective(TitleFile):
    """What the instance asks for."""

    collective: Annotated[CollectiveOp, NameOf(CollectiveOp)]
    vector_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES)]
    root: Node
    message_us: LatencyUs
    multicast: bool
    relaying: bool


class CollectiveSolutionFile(SolutionHeadFile, AskedCollective):
    """Result of `topoopt solve` on an instance of kind `collective`."""

    core = CollectiveSolution

    kind: Literal["collective-solution"]
    instance_sha256: Sha256
    versions: Versions
    notes: Notes
    times: TimesPart
    network: NetworkPart
    front: Annotated[Listed[FrontPart], Field(max_length=10_000)] = Field(
        default=(), exclude_if=is_empty, description="best for which size of the vector, objective pareto"
    )
    proof: CollectiveProofPart
    schedule: SchedulePart

    def arguments(self) -> dict[str, Any]:
        """Parts of the network, the schedule and the proof are made again."""
        return {key: built(value) for key, value in super().arguments().items()}
