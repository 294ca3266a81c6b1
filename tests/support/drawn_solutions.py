"""Solutions of several kinds with any figures that a file can hold, drawn by hypothesis; only their sizes fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from topoopt.core.allocation_solution import AllocationSolution, DestinationRate, PriceCertificate, TransferRate
from topoopt.core.cluster import LinkDirection
from topoopt.core.hierarchy import Block, Fleet
from topoopt.core.hierarchy_solution import (
    BandwidthCertificate,
    CollectiveTime,
    DesignProof,
    GroupShare,
    HierarchicalSolution,
    JobTime,
    ParetoPoint,
    PathWeight,
)
from topoopt.core.hierarchy_workload import Collective
from topoopt.core.placement import (
    Communication,
    Device,
    Latency,
    Link,
    RateAllocation,
    Schedule,
    Server,
    Sharing,
    StageShape,
    Throughput,
)
from topoopt.core.placement_solution import DeviceLoad, LinkShare, PlacementSolution, TensorTransfer
from topoopt.core.proofs import Argument, Bound
from topoopt.core.solution import CheckResult, Objective
from topoopt.core.topology import Topology
from topoopt.core.verdict import Status, StopReason

amounts = st.floats(0, 1e30)
numbers = st.floats(-1e30, 1e30)
times = st.floats(1e-3, 1e9)
positive = st.floats(1e-300, 1e30)
texts = st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=8)
names = st.text("abcz.-_", min_size=1, max_size=8).map(lambda name: f"x{name}")
bounds = st.builds(Bound, numbers, st.sampled_from(Argument))


def tuples(entries: st.SearchStrategy[Any], low: int = 0, high: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    """Tuples of so many entries."""
    return st.lists(entries, min_size=low, max_size=high).map(tuple)


def arrays(entries: st.SearchStrategy[Any], size: int, dtype: type[np.generic]) -> st.SearchStrategy[NDArray[Any]]:
    """Arrays of one size."""
    return st.lists(entries, min_size=size, max_size=size).map(lambda values: np.array(values, dtype=dtype))


def heads() -> dict[str, st.SearchStrategy[Any]]:
    """What solutions of all kinds have."""
    return {
        "name": texts,
        "status": st.sampled_from(Status),
        "stopped_by": st.sampled_from(StopReason),
        "objective": st.builds(Objective, texts, numbers, texts),
        "bound": bounds,
        "claimed_bound": st.none() | bounds,
        "check": st.builds(CheckResult, st.booleans(), tuples(texts)),
        "seed": st.integers(0, 2**63 - 1),
        "method": texts,
        "instance_sha256": st.just("0" * 64),
        "versions": st.dictionaries(texts, texts, max_size=3).map(lambda table: tuple(table.items())),
        "notes": tuples(texts),
    }


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Any arcs, with switches that are dark or lit."""
    n, d = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    pairs = sorted(draw(st.sets(st.tuples(*[st.integers(0, n - 1)] * 2), min_size=1, max_size=n * n)))
    counts = draw(arrays(st.integers(1, 1000), len(pairs), np.int32))
    switches = draw(arrays(st.integers(-1, n - 1), d * n, np.int32)).reshape(d, n)
    return Topology(
        servers=n,
        degree=d,
        links=draw(st.sampled_from(LinkDirection)),
        arcs=np.array(pairs, dtype=np.int32),
        multiplicity=counts,
        switches=switches,
        offsets=draw(tuples(st.integers(0, n - 1))),
        origin=draw(texts),
    )


@st.composite
def allocations(draw: st.DrawFn) -> AllocationSolution:
    """Rates over a topology."""
    topology = draw(topologies())
    n, m = topology.servers, len(topology.arcs)
    server = st.integers(0, n - 1)
    transfers = draw(
        tuples(
            st.builds(TransferRate, texts, server, server, tuples(amounts, 1), st.none() | amounts, tuples(texts)),
            1,
        )
    )

    def certificates() -> st.SearchStrategy[PriceCertificate]:
        index, size = st.integers(0, len(transfers) - 1), draw(st.integers(0, 3))
        return st.builds(
            PriceCertificate,
            arrays(index, size, np.int64),
            arrays(st.integers(0, m + 2 * n - 1), size, np.int64),
            arrays(amounts, size, np.float64),
            arrays(index, size, np.int64),
            arrays(amounts, size, np.float64),
        )

    return draw(
        st.builds(
            AllocationSolution,
            **heads(),
            goal=st.sampled_from(["max-min", "weighted", "min-guarantee", "completion-time"]),
            surplus=st.sampled_from(["max-min", "sum"]),
            topology=st.just(topology),
            capacity_gbps=arrays(positive, m, np.float64),
            transfers=st.just(transfers),
            servers=tuples(st.builds(DestinationRate, server, server, tuples(st.tuples(server, amounts)))),
            certificates=tuples(certificates(), 0, 2),
        )
    )


@st.composite
def hierarchies(draw: st.DrawFn) -> HierarchicalSolution:
    """Bandwidths of some dimensions, with certificates."""
    count = draw(st.integers(1, 4))
    index = st.integers(0, 9)
    rows, words = tuples(amounts, count, count), tuples(texts, count, count)
    collectives = st.sampled_from(Collective)
    certificates = st.builds(
        BandwidthCertificate,
        tuples(st.builds(PathWeight, index, amounts, tuples(index))),
        tuples(st.builds(GroupShare, index, index, collectives, rows)),
        st.dictionaries(texts, numbers, max_size=3).map(lambda table: tuple(table.items())),
    )
    return draw(
        st.builds(
            HierarchicalSolution,
            **heads(),
            design=index,
            design_name=texts,
            designs=st.integers(1, 100),
            dimensions=words,
            blocks=tuples(st.sampled_from(list(Block)), count, count),
            sizes=tuples(st.integers(1, 2**62), count, count),
            bandwidth_gbytes_per_s=rows,
            cost_usd=st.none() | st.floats(1e-3, 1e9),
            equal_cost_usd=st.none() | st.floats(0, 1e9),
            fleet=st.sampled_from(Fleet),
            # Kept where the quotients of their times are in range.
            jobs=tuples(st.builds(JobTime, texts, times, times, amounts, times), 1),
            collectives=tuples(st.builds(CollectiveTime, texts, texts, collectives, amounts, rows)),
            gain_ns=rows,
            marginal_ns=st.none() | rows,
            proofs=tuples(st.builds(DesignProof, index, certificates, st.booleans())),
            pareto=tuples(
                st.builds(
                    ParetoPoint, amounts, amounts, amounts, rows, bounds, st.none() | certificates, st.none() | bounds
                ),
                0,
                2,
            ),
        )
    )


@st.composite
def placements(draw: st.DrawFn) -> PlacementSolution:
    """Operators on the devices of some servers, with and without the columns of latency."""
    servers = draw(
        tuples(
            st.builds(
                Server,
                names,
                tuples(st.builds(Link, names, st.floats(0.001, 1e6)), 1, 2),
                st.none() | st.floats(0.001, 1e6),
            ),
            1,
        )
    )
    classes = ("gpu", "cpu")
    server = st.integers(0, len(servers) - 1)
    memory = st.integers(0, 10**18)
    devices = draw(tuples(st.builds(Device, names, server, st.integers(0, 1), st.none() | memory, st.booleans()), 1))
    loads = draw(
        tuples(
            st.builds(DeviceLoad, amounts, amounts, amounts, amounts, memory),
            len(devices),
            len(devices),
        )
    )
    operators = draw(tuples(names, 1))
    size, device = len(operators), st.integers(0, len(devices) - 1)
    throughput = st.builds(
        Throughput,
        st.sampled_from(Schedule),
        st.sampled_from(Communication),
        st.sampled_from(StageShape),
        st.integers(1, 16),
    )
    latency = st.builds(Latency, st.sampled_from(Sharing), st.sampled_from(RateAllocation))
    return draw(
        st.builds(
            PlacementSolution,
            **heads(),
            settings=throughput | latency,
            servers=st.just(servers),
            devices=st.just(devices),
            classes=st.just(classes),
            operators=st.just(operators),
            device=arrays(device, size, np.int32),
            loads=st.just(loads),
            stage=st.none() | arrays(st.integers(0, 9), size, np.int32),
            start_ms=st.none() | arrays(numbers, size, np.float64),
            end_ms=st.none() | arrays(numbers, size, np.float64),
            transfers=tuples(st.builds(TensorTransfer, st.integers(0, 9), device, numbers, numbers)),
            link_shares=tuples(st.builds(LinkShare, server, server, st.just(0), amounts)),
        )
    )
