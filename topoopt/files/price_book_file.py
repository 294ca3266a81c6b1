"""Price-book files: their shape, and a reader that says everything wrong at once."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from topoopt.core.price_book import OCS_PORT, PATCH_PANEL_PORT, RATED_PARTS, PriceBook, price_book
from topoopt.files.codec import FileModel, FileName, Label, SchemaVersion, schema_issues
from topoopt.files.documents import parse_document
from topoopt.files.issues import Issue
from topoopt.files.reader_fields import Findings

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
    """An optical device, or an electrical switch whose ports whole fat-trees are built of."""

    ports: Annotated[int, Field(ge=2, le=1_000_000)]
    switching_time_s: Annotated[float, Field(ge=0, le=1e6)] | None = None
    port_part: Literal["patch_panel_port", "ocs_port", "switch_port"] | None = Field(
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


def read_price_book(path: str | os.PathLike[str]) -> PriceBook:
    """A book from a file (YAML or JSON).

    Raises:
        InputError: everything wrong with it: unknown or missing parts, wrong units, prices below 0, a rate that one
            part is listed at and another is not, no device with priced ports.
    """
    document = parse_document(path)
    findings = Findings()
    file: PriceBookFile | None = None
    try:
        file = PriceBookFile.model_validate(document.data)
    except ValidationError as error:
        findings.add(_named(issue) for issue in schema_issues(PriceBookFile, error))
    findings.add(_issues(document.data))
    findings.refuse(document)
    if file is None:
        raise AssertionError("a price book was neither read nor refused")
    return price_book(file.model_dump())


def _named(issue: Issue) -> Issue:
    if len(issue.path) == 2 and issue.path[0] == "parts" and issue.message.startswith("unknown key"):
        return replace(issue, message="unknown part")
    if len(issue.path) == 3 and issue.path[2] == "unit" and issue.message != "missing":
        return replace(issue, message="wrong unit")
    return issue


def _issues(data: object) -> list[Issue]:
    issues: list[Issue] = []
    parts = data.get("parts") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(parts, dict):
        return issues
    listed = {name: rates for name in RATED_PARTS if (rates := _rates(parts.get(name))) is not None}
    every = sorted({rate for rates in listed.values() for rate in rates})
    for name, rates in listed.items():
        where = ("parts", name, "by_rate")
        issues += [
            Issue((*where, index), "the same rate twice", f"{rate:g}", "each rate once")
            for index, rate in enumerate(rates)
            if rate in rates[:index]
        ]
        missing = [rate for rate in every if rate not in rates]
        if missing:
            text = "missing rate" if len(missing) == 1 else "missing rates"
            value = ", ".join(f"{rate:g}" for rate in missing)
            issues.append(Issue(where, f"{text} {value} Gbit/s", allowed="the same rates for all rated parts"))
    length = parts["fibre"].get("length_m") if isinstance(parts.get("fibre"), dict) else None
    if isinstance(length, dict):
        least, most = length.get("least"), length.get("most")
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
            where = ("parts", "fibre", "length_m")
            issues.append(Issue(where, "least is above most", f"{least:g} to {most:g}", "least <= most"))
    devices = data.get("devices")
    if devices is None or isinstance(devices, dict):
        priced = [entry.get("port_part") for entry in (devices or {}).values() if isinstance(entry, dict)]
        for part in (PATCH_PANEL_PORT, OCS_PORT):
            if part not in priced:
                text = f"no device with ports of {part}"
                issues.append(Issue(("devices",), text, allowed=f"a device with port_part: {part}"))
    return issues


def _rates(part: object) -> list[float] | None:
    rows = part.get("by_rate") if isinstance(part, dict) else None
    if not isinstance(rows, list):
        return None
    rates = [row.get("gbps") if isinstance(row, dict) else None for row in rows]
    if not all(isinstance(rate, int | float) and not isinstance(rate, bool) for rate in rates):
        return None
    return [float(rate) for rate in rates if rate is not None]
