"""The checker of fabric networks takes a good one and names what is broken in bad ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from topoopt.verify.laws.networks import check_network


@dataclass(frozen=True)
class Flat:
    """The arrays of a network, put down by hand."""

    servers: int
    link_ends: NDArray[np.int32]
    link_rate: NDArray[np.float64]
    pair_ptr: NDArray[np.int64]
    path_share: NDArray[np.float64]
    path_ptr: NDArray[np.int64]
    path_link: NDArray[np.int32]
    groups: tuple[tuple[int, ...], ...]
    group_ptr: NDArray[np.int64]
    ring_share: NDArray[np.float64]
    ring_ptr: NDArray[np.int64]
    member_ptr: NDArray[np.int64]
    member_link: NDArray[np.int32]


TRIANGLE = Flat(
    servers=3,
    link_ends=np.array([[0, 1], [1, 2], [2, 0], [1, 0], [2, 1], [0, 2]], dtype=np.int32),
    link_rate=np.full(6, 10.0),
    pair_ptr=np.array([0, 0, 1, 2, 3, 3, 4, 5, 6, 6]),
    path_share=np.ones(6),
    path_ptr=np.array([0, 1, 2, 3, 4, 5, 7]),
    path_link=np.array([0, 5, 3, 1, 2, 2, 0], dtype=np.int32),
    groups=((0, 1, 2),),
    group_ptr=np.array([0, 1]),
    ring_share=np.ones(1),
    ring_ptr=np.array([0, 3]),
    member_ptr=np.array([0, 1, 2, 3]),
    member_link=np.array([0, 1, 2], dtype=np.int32),
)
"""Three servers, all joined both ways; 2 -> 1 goes over 0; one ring."""


def codes(network: Any, **wishes: Any) -> set[str]:
    """Codes of what is wrong."""
    settings = {"servers": 3, "groups": ((0, 1, 2),), "server_bytes_per_ms": 20.0, "interface_bytes_per_ms": 10.0}
    return {violation.code for violation in check_network(network, **{**settings, **wishes})}


def array(values: list[Any], like: NDArray[Any]) -> NDArray[Any]:
    """An array of the same type."""
    return np.array(values, dtype=like.dtype)


def changed(name: str, place: Any, value: Any) -> Flat:
    """One entry of one array replaced."""
    copy = getattr(TRIANGLE, name).copy()
    copy[place] = value
    return replace(TRIANGLE, **{name: copy})


def test_a_good_network_passes() -> None:
    """Nothing is said about the triangle."""
    assert codes(TRIANGLE) == set()


@pytest.mark.parametrize(
    ("network", "code"),
    [
        (changed("link_rate", 0, -1.0), "network-rate"),
        (changed("link_rate", 0, float("nan")), "network-rate"),
        (changed("link_rate", 0, 12.0), "network-one-way"),
        (changed("link_rate", [0, 3], 15.0), "network-interfaces"),
        (changed("link_ends", 5, (0, 0)), "network-loop"),
        (changed("link_ends", 5, (0, 1)), "network-repeated"),
        (changed("path_link", 0, 1), "network-path"),
        (changed("path_link", 6, 1), "network-path"),
        (changed("path_share", 2, 0.5), "network-share"),
        (changed("pair_ptr", 2, 0), "network-unreached"),
        (changed("member_link", 1, 5), "network-ring-order"),
        (changed("member_link", 1, 3), "network-ring-open"),
        (changed("ring_share", 0, 0.9), "network-ring-share"),
        (replace(TRIANGLE, servers=4), "network-servers"),
        (replace(TRIANGLE, link_rate=np.full(5, 10.0)), "network-links"),
        (changed("path_link", 0, 99), "network-shape"),
    ],
)
def test_what_is_broken_is_named(network: Flat, code: str) -> None:
    """One thing wrong, one law broken (others may follow from it), and never a crash."""
    assert code in codes(network)


def test_too_many_interfaces_and_missing_rings() -> None:
    """A server of less rate than its links, a group without rings, a switch among direct links."""
    assert "network-interfaces" in codes(TRIANGLE, server_bytes_per_ms=19.0)
    assert codes(TRIANGLE, groups=((0, 1, 2), (0, 1))) == {"network-no-ring"}
    assert "network-interfaces" in codes(TRIANGLE, interface_bytes_per_ms=4.0)
    star = changed("link_ends", [1, 4], [(1, 3), (3, 1)])
    assert "network-switch" in codes(star)


def test_one_way_links_where_allowed() -> None:
    """A link without one back is an error only where interfaces are patched in pairs."""
    ring = replace(
        TRIANGLE,
        link_ends=TRIANGLE.link_ends[:3],
        link_rate=TRIANGLE.link_rate[:3],
        path_ptr=array([0, 1, 3, 5, 6, 7, 9], TRIANGLE.path_ptr),
        path_link=array([0, 0, 1, 1, 2, 1, 2, 2, 0], TRIANGLE.path_link),
    )
    assert codes(ring, symmetric=False) == set()
    assert codes(ring) == {"network-one-way"}
