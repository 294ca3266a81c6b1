"""Devices and circuits: what fits on patch panels and optical circuit switches, against a search over all circuits."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from topoopt.core.price_book import OCS_PORT, PATCH_PANEL_PORT, PricedDevice
from topoopt.costs import cabling_of, default_price_book, devices_needed


def device(part: str, ports: int | None = None) -> PricedDevice:
    """A device of the shipped book, or one like it of so many ports."""
    found = default_price_book().device(part)
    assert found is not None
    return found if ports is None else replace(found, ports=ports)


def rings(servers: int, *offsets: int) -> NDArray[np.int32]:
    """A plane for each ring distance."""
    return np.array([(np.arange(servers) + p) % servers for p in offsets], dtype=np.int32)


@pytest.mark.parametrize(
    ("part", "servers", "per_plane", "devices", "cabled"),
    [
        (PATCH_PANEL_PORT, 128, 1, 1, True),  # 4 planes of 128 on one panel of 1008
        (PATCH_PANEL_PORT, 432, 1, 2, True),
        (PATCH_PANEL_PORT, 1008, 1, 4, True),
        (PATCH_PANEL_PORT, 1009, 2, 8, False),
        (OCS_PORT, 384, 1, 4, True),
        (OCS_PORT, 432, 2, 8, False),
    ],
)
def test_rings_over_all_servers_need_one_device_a_plane(
    part: str, servers: int, per_plane: int, devices: int, cabled: bool
) -> None:
    """Full rings on 1008 or 384 ports, and on one server more."""
    found = cabling_of(device(part), servers, 4, rings(servers, 1, servers - 1, 5, servers - 5))
    assert (found.devices_per_plane, found.devices, found.cabled) == (per_plane, devices, cabled)
    assert bool(found.reason) is not cabled
    if not cabled:
        assert "no order of the servers helps" in found.reason


def test_without_circuits_nothing_is_promised() -> None:
    """An instance has no circuits yet: one device can hold any, several are neither refused nor promised."""
    assert cabling_of(device(OCS_PORT), 384, 2, None).cabled is True
    found = cabling_of(device(OCS_PORT), 385, 2, None)
    assert found.cabled is None
    assert "2 clusters" in found.reason


def test_circuits_within_blocks_are_cabled() -> None:
    """Two rings of 4 on two devices of 4 ports; interleaved they would need another order, which is said."""
    inside = np.array([[1, 2, 3, 0, 5, 6, 7, 4]], dtype=np.int32)
    assert cabling_of(device(OCS_PORT, 4), 8, 1, inside).cabled is True
    found = cabling_of(device(OCS_PORT, 4), 8, 1, rings(8, 2))
    assert (found.cabled, found.crossing, found.longest, found.reordered) == (False, 4, 4, 2)
    assert "another order, plane by plane, they fit on 2 devices" in found.reason
    # Rings of 3, 3 and 2 on devices of 4 ports: no two of them share one.
    three = np.array([[3, 4, 5, 6, 7, 2, 0, 1]], dtype=np.int32)
    assert cabling_of(device(OCS_PORT, 4), 8, 1, three).reordered == 3


@given(
    servers=st.integers(2, 40),
    ports=st.integers(2, 40),
    degree=st.integers(1, 3),
    dark=st.floats(0, 0.5),
    seed=st.integers(0, 10**6),
)
@settings(max_examples=80)
def test_circuits_of_random_planes(servers: int, ports: int, degree: int, dark: float, seed: int) -> None:
    """Crossing circuits are those counted one by one, the longest ring or chain is the largest component."""
    rng = np.random.default_rng(seed)
    switches = np.array([rng.permutation(servers) for _ in range(degree)], dtype=np.int32)
    switches[rng.random(switches.shape) < dark] = -1
    found = cabling_of(device(OCS_PORT, ports), servers, degree, switches)
    crossing = sum(
        int(head) >= 0 and tail // ports != int(head) // ports for row in switches for tail, head in enumerate(row)
    )
    assert found.cabled is (crossing == 0)
    if found.devices_per_plane > 1:
        assert found.crossing == crossing
        graphs = [nx.Graph([(i, int(row[i])) for i in range(servers) if row[i] >= 0]) for row in switches]
        for graph in graphs:
            graph.add_nodes_from(range(servers))
        assert (found.reordered is None) == (found.longest is not None and found.longest > ports)
        assert found.reordered is None or found.reordered >= found.devices_per_plane
        assert found.longest == max(len(part) for graph in graphs for part in nx.connected_components(graph))


@given(servers=st.integers(1, 60), planes=st.integers(1, 9), ports=st.integers(1, 60))
@settings(max_examples=80)
def test_devices_hold_all_planes(servers: int, planes: int, ports: int) -> None:
    """Enough ports for all planes, none of which is split without need; one device fewer would not do."""
    needed = devices_needed(servers, planes, ports)
    if servers > ports:
        assert needed == planes * -(-servers // ports)
    else:
        each = ports // servers
        assert (needed - 1) * each < planes <= needed * each
