"""Shape of solution files of the kinds `routing` and `topology`."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import Discriminator, Field, Strict, Tag

from topoopt.core.arrays import Floats
from topoopt.core.network import (
    AdaptedRouting,
    CommonRouting,
    EnumerationProof,
    LayerPrices,
    LengthCertificate,
    SourceFlow,
)
from topoopt.core.network_solution import LinkFailure, NetworkSolution, Robustness, RoutedNetwork
from topoopt.files.fields import MAX_SERVERS, FileModel, Rate
from topoopt.files.file_part import FilePart, built, is_none
from topoopt.files.link_tree_part import LinkTreePart
from topoopt.files.solution_head import (
    Amount,
    BoundFile,
    Notes,
    Number,
    ReachedFile,
    Sha256,
    SolutionHeadFile,
    Versions,
)
from topoopt.files.topology_families import MAX_ARCS
from topoopt.files.topology_part import Server, TopologyPart
from topoopt.kinds.network.block_tree_part import BlockTreePart
from topoopt.kinds.network.relay_prices_part import RelayCasesPart, RelayPricesPart
from topoopt.kinds.network.schema import MAX_STEPS

Value = TypeVar("Value")
Arc = Annotated[int, Field(ge=0, lt=MAX_ARCS)]
Pair = Annotated[tuple[Server, Server], Strict(False)]
FlowRow = Annotated[tuple[list[Arc], list[Amount]], Strict(False)]  # arcs, amount on each
FlowRows = Annotated[list[FlowRow], Field(max_length=MAX_ARCS)]
ArcValues = Annotated[list[Amount], Field(max_length=MAX_ARCS)]
Prices = Annotated[list[Amount], Field(max_length=MAX_SERVERS)]
PerDemand = Annotated[list[Value], Field(min_length=1, max_length=MAX_STEPS)]


def flow_rows(flow: Floats) -> list[tuple[list[int], list[float]]]:
    """Of each row of a table over arcs: the arcs that are not 0, and their values."""
    used = [np.flatnonzero(row) for row in flow]
    return [(arcs.tolist(), row[arcs].tolist()) for arcs, row in zip(used, flow, strict=True)]


def flow_table(rows: list[tuple[list[int], list[float]]], arcs: int) -> Floats:
    """float64[rows, arcs] of valid rows."""
    flow = np.zeros((len(rows), arcs))
    for place, (used, amounts) in enumerate(rows):
        flow[place, used] = amounts
    return flow


class AdaptedPart(FilePart):
    """A routing for each demand."""

    core = AdaptedRouting

    mode: Literal["adapted"]
    flows: PerDemand[FlowRows] = Field(
        description="a row for each source: arcs, and the amount on each; or that of source 0 alone, where every "
        "server has the same arcs and sends the same, seen from itself"
    )
    boxes: PerDemand[Annotated[list[Annotated[int, Field(ge=1)]], Field(max_length=16)]] | None = Field(
        default=None,
        description="sizes of the box in which servers see others, where a flow is one row: places of a torus, the "
        "last dimension fastest; none: the ring of all servers",
    )
    hop_flows: PerDemand[Annotated[list[FlowRows], Field(max_length=MAX_SERVERS)]] | None = Field(
        default=None, description="under a hop limit: what goes over hop 1, 2, ... of its way, as a flow each"
    )
    lengths: PerDemand[ArcValues] = Field(
        description="one for each arc; they prove the bound of the routing by linear-programming duality"
    )

    @classmethod
    def attributes(cls, value: AdaptedRouting) -> dict[str, Any]:
        """Flows are rows of what is not 0."""
        hops = [[flow_rows(part) for part in flow.by_hop] for flow in value.flows if flow.by_hop is not None]
        return {
            "mode": "adapted",
            "flows": [flow_rows(flow.flow) for flow in value.flows],
            "boxes": [list(flow.dims) for flow in value.flows] if any(flow.dims for flow in value.flows) else None,
            "hop_flows": hops or None,
            "lengths": [proof.lengths.tolist() for proof in value.certificates],
        }

    def arguments(self) -> dict[str, Any]:
        """Tables of flows."""
        m = len(self.lengths[0])
        hops = self.hop_flows or [[] for _ in self.flows]
        parts = [np.array([flow_table(rows, m) for rows in each]) if each else None for each in hops]
        boxes = self.boxes or [[] for _ in self.flows]
        flows = zip(self.flows, parts, boxes, strict=True)
        return {
            "flows": tuple(SourceFlow(flow_table(rows, m), part, tuple(box)) for rows, part, box in flows),
            "certificates": tuple(LengthCertificate(np.array(row, dtype=np.float64)) for row in self.lengths),
        }


class CommonPart(FilePart):
    """One routing for all demands."""

    core = CommonRouting

    mode: Literal["common"]
    pairs: Annotated[list[Pair], Field(max_length=MAX_ARCS)]
    amounts: PerDemand[ArcValues] = Field(description="demand of each pair")
    split: FlowRows = Field(description="a row for each pair: arcs, and the part of its traffic over each")
    prices: PerDemand[ArcValues] = Field(description="one for each arc; they prove the bound of the routing")

    @classmethod
    def attributes(cls, value: CommonRouting) -> dict[str, Any]:
        """The split is rows of what is not 0."""
        tables = {name: getattr(value, name).tolist() for name in ("pairs", "amounts", "prices")}
        return {"mode": "common", **tables, "split": flow_rows(value.split)}

    def arguments(self) -> dict[str, Any]:
        """Tables."""
        prices = np.array(self.prices, dtype=np.float64)
        return {
            "pairs": np.array(self.pairs, dtype=np.int64).reshape(-1, 2),
            "amounts": np.array(self.amounts, dtype=np.float64),
            "split": flow_table(self.split, prices.shape[1]),
            "prices": prices,
        }


def routing_shape(value: object) -> str:
    """Which shape of a routing is meant; the answer names the class."""
    mode = value.get("mode") if isinstance(value, dict) else getattr(value, "mode", None)
    return "CommonPart" if mode == "common" or isinstance(value, CommonRouting) else "AdaptedPart"


RoutingPart = Annotated[
    Annotated[AdaptedPart, Tag("AdaptedPart")] | Annotated[CommonPart, Tag("CommonPart")], Discriminator(routing_shape)
]


class ListedNetworkFile(FileModel):
    """A network that a bound by enumeration rests on."""

    heads: list[list[Server]]
    lengths: list[ArcValues]


FailureRow = Annotated[tuple[Server, Server, FlowRows], Strict(False)]  # tail, head, flow of each source


class LayerPricesPart(FilePart):
    """What a layered Moore bound rests on."""

    core = LayerPrices

    alpha: list[Prices]
    beta: list[Prices]

    @classmethod
    def attributes(cls, value: LayerPrices) -> dict[str, Any]:
        """Rows of prices."""
        return {"alpha": value.alpha.tolist(), "beta": value.beta.tolist()}

    def arguments(self) -> dict[str, Any]:
        """Tables; of no layer they have no servers, either."""
        return {
            name: np.array(rows, dtype=np.float64) if rows else np.zeros((0, 0))
            for name, rows in (("alpha", self.alpha), ("beta", self.beta))
        }


class RobustnessPart(FilePart):
    """How the topology stands the failure of any single link, and what that costs."""

    core = Robustness

    worst_theta: Amount
    worst_link: Pair
    bound: BoundFile
    within_percent: Amount | None
    nominal_theta: Amount
    nominal_worst_theta: Amount | None
    claimed_bound: BoundFile | None = Field(default=None, exclude_if=is_none)
    failures: Annotated[list[FailureRow], Field(max_length=MAX_ARCS)] = Field(
        default=[], description="a routing while each link is dark; none where they are too many"
    )
    lengths: ArcValues | None = Field(
        default=None, description="of the arcs; prove that no routing after the failure of worst_link is better"
    )

    @classmethod
    def attributes(cls, value: Robustness) -> dict[str, Any]:
        """Flows are rows of what is not 0."""
        lengths = None if value.lengths is None else value.lengths.tolist()
        failures = [(*each.link, flow_rows(each.flow)) for each in value.failures]
        return {**super().attributes(value), "failures": failures, "lengths": lengths}

    def arguments(self) -> dict[str, Any]:
        """Tables of flows."""
        lengths = None if self.lengths is None else np.array(self.lengths, dtype=np.float64)
        arcs = 0 if lengths is None else len(lengths)
        failures = tuple(LinkFailure((tail, head), flow_table(rows, arcs)) for tail, head, rows in self.failures)
        return {**super().arguments(), "failures": failures, "lengths": lengths}


class RoutingBoundFile(ReachedFile):
    """What is proven on this topology alone."""

    routing_bound: Number | None = Field(
        default=None,
        exclude_if=is_none,
        description="of kind topology: no routing of these links is better; of a given topology that is the bound",
    )


class NetworkSolutionFile(SolutionHeadFile, RoutingBoundFile):
    """Result of `topoopt solve` on an instance of kind `routing` or `topology`."""

    core = NetworkSolution

    kind: Literal["routing-solution", "topology-solution"]
    robustness: RobustnessPart | None = Field(default=None, description="of method robust")
    link_gbps: Rate | None = Field(default=None, description="rate of one link, Gbit/s; null where none was given")
    instance_sha256: Sha256
    versions: Versions
    notes: Notes
    topology: TopologyPart
    routing: RoutingPart
    enumeration: Annotated[list[ListedNetworkFile], Field(max_length=10_000)] | None = Field(
        default=None, description="all networks with few hops, each with lengths of its links that bound theta on it"
    )
    tree: LinkTreePart | None = Field(
        default=None, exclude_if=is_none, description="what a bound by branch and bound rests on"
    )
    blocks: BlockTreePart | None = Field(
        default=None, exclude_if=is_none, description="the same, by the links around every server at each node"
    )
    layer_prices: LayerPricesPart | None = Field(
        default=None, exclude_if=is_none, description="prices of rows and columns of the demand, for each layer of hops"
    )
    relay_prices: RelayPricesPart | None = Field(
        default=None, exclude_if=is_none, description="prices that bound theta by the links around every server"
    )
    relay_cases: RelayCasesPart | None = Field(
        default=None, exclude_if=is_none, description="the same, in cases by the number of links between two servers"
    )

    @classmethod
    def attributes(cls, value: Any) -> dict[str, Any]:
        """What is of the network stands beside the rest."""
        proof = value.network.enumeration
        rows = None if proof is None else zip(proof.heads.tolist(), proof.lengths.tolist(), strict=True)
        return {
            **super().attributes(value),
            **{name: getattr(value.network, name) for name in _NETWORK},
            "routing_bound": value.network.routing_bound if value.kind == "topology" else None,
            "enumeration": None if rows is None else [{"heads": heads, "lengths": lengths} for heads, lengths in rows],
        }

    def arguments(self) -> dict[str, Any]:
        """The network, with its proofs."""
        shape = (-1, self.topology.servers, self.topology.degree)
        proof = None
        if self.enumeration is not None:
            heads = np.array([each.heads for each in self.enumeration], dtype=np.int64)
            lengths = np.array([each.lengths for each in self.enumeration], dtype=np.float64)
            proof = EnumerationProof(heads.reshape(shape), lengths.reshape(shape))
        parts = {name: built(getattr(self, name)) for name in _NETWORK}
        bound = self.bound.value if self.routing_bound is None else self.routing_bound
        network = RoutedNetwork(**{**parts, "routing_bound": bound, "enumeration": proof})
        return {**super().arguments(), "network": network}


_NETWORK = tuple(field.name for field in fields(RoutedNetwork))
