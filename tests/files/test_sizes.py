"""A size in an instance file is a number of bytes, or text with its unit; nothing else is taken for one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from topoopt.files.codec import Bytes, adapter
from topoopt.files.sections import FileTraffic
from topoopt.kinds import KINDS
from topoopt.kinds.allocation.read import TransferStatement
from topoopt.kinds.files import json_schema
from topoopt.kinds.hierarchy.read import CommunicationFile

TAKE: TypeAdapter[int] = TypeAdapter(Bytes)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1 MB", 10**6), ("1.5 kB", 1500), ("4GiB", 4 * 2**30), ("2 KiB", 2048), ("7B", 7), (12, 12), (0, 0)],
)
def test_units_by_hand(text: object, size: int) -> None:
    """Powers of 1000 and of 1024."""
    assert TAKE.validate_python(text, strict=True) == size


@pytest.mark.parametrize("text", ["100", "1 mb", "1 Mbit", "-1 MB", "1e3 B", "MB", "", "0.1 B", "2000000 TB", 1.5])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValidationError):
        TAKE.validate_python(text, strict=True)


@pytest.mark.parametrize(
    ("shape", "document", "field"),
    [
        (TransferStatement, {"source": 0, "destination": 1, "bytes": "2 GB"}, "bytes"),
        (CommunicationFile, {"collective": "all-reduce", "bytes": "2 GB"}, "bytes"),
        (FileTraffic, {"file": "x.csv", "scale": "2 GB"}, "scale"),
    ],
)
def test_kinds_take_units(shape: Any, document: dict[str, Any], field: str) -> None:
    """Integers and floats of bytes alike."""
    read = adapter(shape).validate_python(document, strict=False)
    assert getattr(read, field) == 2 * 10**9


def test_every_field_of_bytes_takes_units() -> None:
    """Of all kinds: what is named bytes, and is no count of bytes an element, takes text."""
    left = []
    for kind in KINDS:
        document = json_schema(kind)
        for shape in (document, *document.get("$defs", {}).values()):
            for name, field in shape.get("properties", {}).items():
                if (name == "bytes" or name.endswith("_bytes")) and name not in ELEMENTS and "string" not in str(field):
                    left.append(f"{kind}: {shape.get('title')}.{name}")
    assert left == []


ELEMENTS = ("element_bytes", "parameter_bytes", "activation_bytes")
"""Bytes of one number, of a few digits."""
