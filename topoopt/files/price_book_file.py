"""Price-book files: read, everything wrong with them said at once."""

from __future__ import annotations

import os
from dataclasses import replace

from pydantic import ValidationError

from topoopt.core.price_book import OCS_PORT, PATCH_PANEL_PORT, RATED_PARTS, PriceBook, price_book
from topoopt.files.documents import parse_document
from topoopt.files.faults import Fault
from topoopt.files.findings import Findings
from topoopt.files.price_book_schema import PriceBookFile
from topoopt.files.schema_faults import schema_faults


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
        findings.add(_named(fault) for fault in schema_faults(PriceBookFile, error))
    findings.add(_faults(document.data))
    findings.refuse(document)
    if file is None:
        raise AssertionError("a price book was neither read nor refused")
    return price_book(file.model_dump())


def _named(fault: Fault) -> Fault:
    """The fault in the words of a price book."""
    if len(fault.path) == 2 and fault.path[0] == "parts" and fault.message.startswith("unknown key"):
        return replace(fault, message="unknown part")
    if len(fault.path) == 3 and fault.path[2] == "unit" and fault.message != "missing":
        return replace(fault, message="wrong unit")
    return fault


def _faults(data: object) -> list[Fault]:
    """What the schema cannot state, of as much as can be read."""
    faults: list[Fault] = []
    parts = data.get("parts") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(parts, dict):
        return faults
    listed = {name: rates for name in RATED_PARTS if (rates := _rates(parts.get(name))) is not None}
    every = sorted({rate for rates in listed.values() for rate in rates})
    for name, rates in listed.items():
        where = ("parts", name, "by_rate")
        faults += [
            Fault((*where, index), "the same rate twice", f"{rate:g}", "each rate once")
            for index, rate in enumerate(rates)
            if rate in rates[:index]
        ]
        missing = [rate for rate in every if rate not in rates]
        if missing:
            text = "missing rate" if len(missing) == 1 else "missing rates"
            value = ", ".join(f"{rate:g}" for rate in missing)
            faults.append(Fault(where, f"{text} {value} Gbit/s", allowed="the same rates for all rated parts"))
    length = parts["fibre"].get("length_m") if isinstance(parts.get("fibre"), dict) else None
    if isinstance(length, dict):
        least, most = length.get("least"), length.get("most")
        if isinstance(least, int | float) and isinstance(most, int | float) and least > most:
            where = ("parts", "fibre", "length_m")
            faults.append(Fault(where, "least is above most", f"{least:g} to {most:g}", "least <= most"))
    devices = data.get("devices")
    if devices is None or isinstance(devices, dict):
        priced = [entry.get("port_part") for entry in (devices or {}).values() if isinstance(entry, dict)]
        for part in (PATCH_PANEL_PORT, OCS_PORT):
            if part not in priced:
                text = f"no device with ports of {part}"
                faults.append(Fault(("devices",), text, allowed=f"a device with port_part: {part}"))
    return faults


def _rates(part: object) -> list[float] | None:
    """Rates of a part, None where they cannot be read."""
    rows = part.get("by_rate") if isinstance(part, dict) else None
    if not isinstance(rows, list):
        return None
    rates = [row.get("gbps") if isinstance(row, dict) else None for row in rows]
    if not all(isinstance(rate, int | float) and not isinstance(rate, bool) for rate in rates):
        return None
    return [float(rate) for rate in rates if rate is not None]
