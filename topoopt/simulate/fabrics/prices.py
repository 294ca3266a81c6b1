"""Component prices, and the fat-tree that costs as much as a direct-connect network.

Prices are those of the TopoOpt paper's appendix (NSDI'23, prices of about 2021), quoted from memory: good for a ratio
of two networks, not for buying one. Counting rules: `interface_cost_usd` and `fat_tree_cost_usd`.
"""

from __future__ import annotations

import numpy as np

RATE_GBPS = (10.0, 25.0, 40.0, 100.0, 200.0)
TRANSCEIVER_USD = (20.0, 39.0, 39.0, 99.0, 198.0)
NIC_USD = (185.0, 185.0, 354.0, 678.0, 815.0)
SWITCH_PORT_USD = (94.0, 144.0, 144.0, 187.0, 374.0)
PATCH_PANEL_PORT_USD = 100.0
OPTICAL_SWITCH_PORT_USD = 520.0
ONE_BY_TWO_SWITCH_USD = 25.0
FIBRE_USD = 150.0
"""0.30 USD/m, lengths uniform over 0 to 1000 m."""


def _by_rate(gbps: float, usd: tuple[float, ...]) -> float:
    """Piecewise linear between listed rates, proportional to the rate beyond them."""
    if gbps < RATE_GBPS[0]:
        return usd[0] * gbps / RATE_GBPS[0]
    if gbps > RATE_GBPS[-1]:
        return usd[-1] * gbps / RATE_GBPS[-1]
    return float(np.interp(gbps, RATE_GBPS, usd))


def interface_cost_usd(link_gbps: float, *, optical_circuit_switch: bool = False) -> float:
    """Cost of one direct-connect interface: NIC, transceiver, fibre and its switching.

    Switching is a 1x2 mechanical switch and two patch-panel ports (one active and one pre-provisioned plane), or one
    port of an optical circuit switch.
    """
    switching = OPTICAL_SWITCH_PORT_USD if optical_circuit_switch else ONE_BY_TWO_SWITCH_USD + 2 * PATCH_PANEL_PORT_USD
    return _by_rate(link_gbps, NIC_USD) + _by_rate(link_gbps, TRANSCEIVER_USD) + FIBRE_USD + switching


_FAT_TREE_USD = tuple(
    nic + 6 * transceiver + 5 * port + 3 * FIBRE_USD
    for nic, transceiver, port in zip(NIC_USD, TRANSCEIVER_USD, SWITCH_PORT_USD, strict=True)
)


def fat_tree_cost_usd(nic_gbps: float) -> float:
    """Cost per server of a full-bisection three-tier fat-tree.

    One NIC, 6 transceivers, 5 switch ports and 3 fibres: host to top-of-rack, and two switch layers above it.
    """
    return _by_rate(nic_gbps, _FAT_TREE_USD)


def cost_equivalent_fat_tree_gbps(degree: int, link_gbps: float) -> float:
    """NIC rate at which a fat-tree costs as much per server as `degree` patch-panel interfaces of `link_gbps`.

    Capped at degree * link_gbps: a fat-tree that costs less for the same rate is not made faster.
    """
    budget = degree * interface_cost_usd(link_gbps)
    if budget <= _FAT_TREE_USD[0]:
        gbps = RATE_GBPS[0] * budget / _FAT_TREE_USD[0]
    elif budget >= _FAT_TREE_USD[-1]:
        gbps = RATE_GBPS[-1] * budget / _FAT_TREE_USD[-1]
    else:
        gbps = float(np.interp(budget, _FAT_TREE_USD, RATE_GBPS))
    return min(gbps, degree * link_gbps)
