"""What an instance asks of a fabric, with what the fabric has by itself filled in."""

from __future__ import annotations

from dataclasses import dataclass

from topoopt.core.job import BaselineSettings, FabricChoice

RACK, AGGREGATION = "rack", "aggregation"
HASHED, SPREAD, SPRAYED = "hashed", "spread", "sprayed"


@dataclass(frozen=True)
class AskedFabric:
    """A fabric and its settings.

    Attributes:
        kind: which fabric.
        nic_gbps: rate of the one NIC of a server; None: the fabric's own.
        ratio: downlink over uplink bandwidth of the switches of `layer`; 1: full bisection.
        layer: `rack` or `aggregation`.
        shape: sides of a torus; None: the most even ones.
        ecmp: paths of a pair in a fat-tree: `HASHED`, `SPREAD` or `SPRAYED`.
    """

    kind: str
    nic_gbps: float | None
    ratio: float
    layer: str
    shape: tuple[int, ...] | None
    ecmp: str = HASHED


def asked_fabric(choice: FabricChoice, settings: BaselineSettings) -> AskedFabric:
    """The plain fat-tree takes what the choice leaves open from the settings; the oversubscribed one is 2:1."""
    nic, ratio = choice.nic_gbps, choice.oversubscription
    if choice.fabric == "fat-tree":
        nic = settings.fat_tree_gbps if nic is None else nic
        ratio = settings.fat_tree_oversubscription if ratio is None else ratio
    elif choice.fabric == "oversubscribed-fat-tree":
        ratio = 2.0 if ratio is None else ratio
    full = 1.0 if ratio is None else ratio
    return AskedFabric(choice.fabric, nic, full, choice.layer or RACK, choice.shape, choice.ecmp or HASHED)
