"""A fabric in an instance file: its name, alone or with settings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from topoopt.core.job import FabricChoice
from topoopt.files.fields import MAX_SERVERS, Label, Rate
from topoopt.files.file_part import FilePart, Listed


class FabricChoicePart(FilePart):
    """A fabric to compare with, by its name alone or with settings; one that is null is as the fabric has it."""

    core = FabricChoice

    fabric: Label = Field(description="ideal-switch, fat-tree, oversubscribed-fat-tree, torus-2d, hypercube, ...")
    label: Label | None = Field(None, description="what it is called in results; null: the name of the fabric")
    nic_gbps: Rate | None = Field(None, description="rate of the one NIC of a server, Gbit/s")
    oversubscription: float | None = Field(None, ge=1, le=1000, description="downlink over uplink bandwidth")
    layer: Literal["rack", "aggregation"] | None = Field(None, description="switches that are oversubscribed")
    shape: Annotated[Listed[Annotated[int, Field(ge=1, le=MAX_SERVERS)]], Field(min_length=1, max_length=8)] | None = (
        Field(None, description="servers along each axis of a torus")
    )
    ecmp: Literal["hashed", "spread", "sprayed"] | None = Field(
        None, description="equal-cost paths of a pair in a fat-tree: one by chance, one by target, or all alike"
    )

    def arguments(self) -> dict[str, Any]:
        """No label is an empty one."""
        return {**super().arguments(), "label": self.label or ""}


def _by_name(value: object) -> object:
    return {"fabric": value} if isinstance(value, str) else value


FabricEntry = Annotated[FabricChoicePart, BeforeValidator(_by_name, json_schema_input_type=FabricChoicePart | str)]
