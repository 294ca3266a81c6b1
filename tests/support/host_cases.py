"""Rates of hosts for tests, written out by hand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import numpy as np

from topoopt.core.cluster import LinkDirection
from topoopt.core.topology import Topology
from topoopt.formats.exporter import Export

GBIT = 10**9


def text(export: Export, name: str) -> str:
    """One file of an export."""
    return dict(export.files)[name].decode()


def applied(export: Export, name: str) -> list[str]:
    """What one script applies."""
    found = re.search(r"apply_host\(\) \{\n(.*?)\n\}\n", text(export, name), re.DOTALL)
    assert found is not None
    return [line.strip() for line in found[1].splitlines()]


def placed(
    links: Mapping[str, Mapping[str, float]], shares: Mapping[tuple[str, str, int], float], name: str = "job"
) -> SimpleNamespace:
    """A placement solution: Gbit/s of the links by server, shares by source, target and number of the link."""
    number = {server: index for index, server in enumerate(links)}
    rates = np.zeros((len(links), len(links)))
    for (source, target, _), gbps in shares.items():
        rates[number[source], number[target]] += gbps
    return SimpleNamespace(
        kind="placement",
        name=name,
        servers=[
            SimpleNamespace(name=server, links=[SimpleNamespace(name=k, gbps=v) for k, v in own.items()])
            for server, own in links.items()
        ],
        rates_gbps=rates,
        link_shares=[
            SimpleNamespace(source=number[source], target=number[target], link=link, gbps=gbps)
            for (source, target, link), gbps in shares.items()
        ],
    )


def allocated(
    servers: int,
    links: Sequence[tuple[int, int]],
    gbps: float,
    rates: Mapping[tuple[int, int], Sequence[tuple[int, float]]],
) -> SimpleNamespace:
    """An allocation solution: links as ordered pairs, repeated for parallel ones; next hops by server, destination."""
    distinct = sorted(set(links))
    count = np.array([list(links).count(pair) for pair in distinct], dtype=np.int32)
    topology = Topology(
        servers=servers,
        degree=servers,
        links=LinkDirection.UNIDIRECTIONAL,
        arcs=np.array(distinct, dtype=np.int32).reshape(-1, 2),
        multiplicity=count,
        switches=np.zeros((0, servers), dtype=np.int32),
    )
    return SimpleNamespace(
        kind="allocation",
        name="job",
        topology=topology,
        capacity_gbps=count * gbps,
        servers=[
            SimpleNamespace(server=server, destination=destination, next_hops=tuple(hops))
            for (server, destination), hops in rates.items()
        ],
    )


def worked_example(scale: float = 1.0) -> SimpleNamespace:
    """Three servers, two links of 10 Gbit/s each: A->B 14, A->C 6, B->A 3, B->C 9, C->A 2, C->B 1, packed by hand."""
    shares = {
        ("A", "B", 0): 4,
        ("A", "C", 0): 6,
        ("A", "B", 1): 10,
        ("B", "A", 0): 3,
        ("B", "C", 1): 9,
        ("C", "A", 0): 2,
        ("C", "B", 0): 1,
    }
    links = {server: {"eth1": 10 * scale, "eth2": 10 * scale} for server in "ABC"}
    return placed(links, {key: scale * value for key, value in shares.items()})
