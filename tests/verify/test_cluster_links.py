"""Loads of the links of a fat-tree that jobs share, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from topoopt.verify.shared_cluster.times import Tree, capacity_gbps, even_parts, link_parts

TREE = Tree(half=2, server_gbps=100.0, rack_ratio=1.0, pod_ratio=1.0, hashed=False, seed=0)
"""Sixteen servers, two a rack and four a pod."""


def on_any_path(**loads: float) -> dict[tuple[str, int, int, int], float]:
    """Loads by layer, direction and number, such as `rack_up_0`."""
    parts = {}
    for name, load in loads.items():
        layer, direction, number = name.split("_")
        parts[f"{layer} {direction}", int(number), -1, -1] = load
    return parts


def test_a_ring_of_two_pods() -> None:
    """Servers 0 and 5 send each other all: up and down through the racks 0 and 2 and the pods 0 and 1."""
    used = ("rack_up_0", "rack_down_0", "rack_up_2", "rack_down_2", "pod_up_0", "pod_down_0", "pod_up_1", "pod_down_1")
    assert link_parts(TREE, [0, 5], 1.0, 0.0) == on_any_path(**dict.fromkeys(used, 1.0))
    assert even_parts(TREE, np.array([0, 5]), 1.0, 0.0) == on_any_path(rack_up_0=1, rack_up_2=1, pod_up_0=1, pod_up_1=1)


def test_a_ring_in_one_pod() -> None:
    """Of 0, 1 and 2 only 1 -> 2 and 2 -> 0 leave their racks, and nothing the pod."""
    assert link_parts(TREE, [0, 1, 2], 1.0, 0.0) == on_any_path(rack_up_0=1, rack_down_1=1, rack_up_1=1, rack_down_0=1)


def test_pairs_share_what_a_server_sends() -> None:
    """Each of three servers sends half to either other one: 0 and 1 each half out of their rack, 4 all."""
    found = link_parts(TREE, [0, 1, 4], 0.0, 1.0)
    assert found == on_any_path(
        rack_up_0=1, rack_down_2=1, pod_up_0=1, pod_down_1=1, rack_up_2=1, rack_down_0=1, pod_up_1=1, pod_down_0=1
    )


def test_hashed_flows_take_one_uplink_of_each_layer() -> None:
    """The same loads in sum, over links that exist; of bundles and of single links the capacity differs."""
    hashed = replace(TREE, hashed=True, seed=7)
    found = link_parts(hashed, [0, 5], 1.0, 0.0)
    assert sorted((layer, number) for layer, number, _, _ in found) == sorted(
        (f"{layer} {way}", k) for layer, ks in (("rack", (0, 2)), ("pod", (0, 1))) for way in ("up", "down") for k in ks
    )
    assert all(0 <= up < 2 and (core == -1) == layer.startswith("rack") for layer, _, up, core in found)
    assert [capacity_gbps(tree, ("pod up", 0, 0, 0)) for tree in (TREE, hashed)] == pytest.approx([400.0, 100.0])
