"""What exports say of a plan whose transfers go before AllReduces: two classes of traffic are the operator's to set."""

from __future__ import annotations

from topoopt.core.cluster import Cluster, LinkSharing

IN_NCCL = "nothing here sets that; --to nccl-topology writes the traffic class of NCCL (nccl.conf)"


def class_notes(cluster: Cluster, how: str = IN_NCCL) -> tuple[str, ...]:
    """A note that the time of the plan counts on it, and how it is had; none where transfers do not go first."""
    if cluster.link_sharing is not LinkSharing.TRANSFERS_FIRST:
        return ()
    return (f"the time of the plan counts on transfers that go before AllReduces: {how}",)
