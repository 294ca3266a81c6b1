"""Shape of price-book files; `description` says what a field means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from topoopt.files.fields import FileModel, FileName, Label, SchemaVersion

MAX_RATES = 100
MAX_DEVICES = 100

Usd = Annotated[float, Field(ge=0, le=1e9)]
Watts = Annotated[float, Field(ge=0, le=1e6)]
Gbps = Annotated[float, Field(ge=0.001, le=1e6)]
Metres = Annotated[float, Field(ge=0, le=1e6)]
Text = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")]
Power = Annotated[Watts | None, Field(description="W of one piece, or null where no public source says")]


class QuoteFile(FileModel):
    """Price at one rate."""

    gbps: Gbps
    usd: Usd
    watts: Power = None


class RatedPartFile(FileModel):
    """A part that is priced by rate."""

    unit: Literal["each"]
    source: Text
    power_source: Text | None = None
    by_rate: Annotated[list[QuoteFile], Field(min_length=1, max_length=MAX_RATES)]


class RatedPortFile(RatedPartFile):
    """A port that is priced by rate."""

    unit: Literal["port"]  # type: ignore[assignment]  # narrower


class PricedPartFile(FileModel):
    """What parts with one price have."""

    source: Text
    power_source: Text | None = None
    usd: Usd
    watts: Power = None


class PortFile(PricedPartFile):
    """A port of an optical device."""

    unit: Literal["port"]


class PieceFile(PricedPartFile):
    """A part with one price."""

    unit: Literal["each"]


class LengthFile(FileModel):
    """Lengths of fibres."""

    distribution: Literal["uniform"] = "uniform"
    least: Metres
    most: Metres


class FibreFile(PricedPartFile):
    """Fibre pairs by the metre."""

    unit: Literal["metre"]
    length_m: LengthFile


class PartsFile(FileModel):
    """All parts; every one of them is needed."""

    transceiver: RatedPartFile
    nic: RatedPartFile
    switch_port: RatedPortFile = Field(description="of an electrical switch")
    patch_panel_port: PortFile
    ocs_port: PortFile = Field(description="of an optical circuit switch")
    one_by_two_switch: PieceFile = Field(description="mechanical 1x2 optical switch")
    fibre: FibreFile


class PricedDeviceFile(FileModel):
    """An optical device."""

    ports: Annotated[int, Field(ge=2, le=1_000_000)]
    switching_time_s: Annotated[float, Field(ge=0, le=1e6)] | None = None
    port_part: Literal["patch_panel_port", "ocs_port"] | None = Field(
        default=None, description="the part that prices a port of it"
    )
    note: Label | None = None
    source: Text


class PriceBookFile(FileModel):
    """Prices and power of the parts of a network, in US dollars."""

    schema_version: SchemaVersion
    kind: Literal["price-book"]
    name: FileName
    dated: Label = Field(description="when the prices held")
    currency: Literal["USD"]
    parts: PartsFile
    devices: Annotated[dict[FileName, PricedDeviceFile], Field(max_length=MAX_DEVICES)] = Field(default={})
