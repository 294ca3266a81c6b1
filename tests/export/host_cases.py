"""Rates of hosts for tests, written out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np

GBIT = 10**9


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
