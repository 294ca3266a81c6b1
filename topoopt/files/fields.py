"""Field types and parts of files: strict, bounded, every number finite; the section `search` is one.

A value of core goes into a model as it is (`Model.model_validate(value)`), and `build` makes it again of what a file
states. Fields of the same name hold the same thing; a part that is to look different in the file overrides
`attributes` and `arguments`. The annotated types here are lists in the file, and tuples, arrays or objects of core once
read.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from topoopt.core.arrays import bytes_of

MAX_SERVERS = 4096
"""n; tables of ordered pairs take n^2 entries."""

MAX_OPERATORS = 20_000
MAX_COUNT = 10**13
"""Elements of one tensor, so that their bytes stay far inside 64-bit integers."""

MAX_SAMPLES = 2**40
MAX_MS = 1e9
MAX_BYTES = 10**18


class FileModel(BaseModel):
    """A mapping in a file: no unknown keys, no conversion of types, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True, hide_input_in_errors=True)


# Not Literal[1]: that would take true and 1.0 for 1.
SchemaVersion = Annotated[int, Field(ge=1, le=1, description="version of this file format")]
Rate = Annotated[float, Field(ge=0.001, le=1e6)]
LatencyUs = Annotated[float, Field(ge=0, le=1e6)]
TimeMs = Annotated[float, Field(ge=0, le=MAX_MS)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
PositiveCount = Annotated[int, Field(ge=1, le=MAX_COUNT)]
SIZE_PATTERN = r"^[0-9]+(\.[0-9]+)? ?(B|[kKMGT]i?B)$"
SizeText = Annotated[str, Field(max_length=40, pattern=SIZE_PATTERN)]


def size_in_bytes(value: object) -> object:
    """Text with a unit, such as `1.5 MB`, as bytes; whatever is no such text as it is."""
    size = bytes_of(value) if isinstance(value, str) and re.fullmatch(SIZE_PATTERN, value) else None
    return value if size is None else size


def or_text(number: Any) -> BeforeValidator:
    """Lets a field of a number of bytes take text with a unit, too."""
    return BeforeValidator(size_in_bytes, json_schema_input_type=number | SizeText)


_BYTES = Annotated[int, Field(ge=0, le=MAX_BYTES)]
_POSITIVE = Annotated[int, Field(ge=1, le=MAX_BYTES)]
Bytes = Annotated[_BYTES, or_text(_BYTES)]
PositiveBytes = Annotated[_POSITIVE, or_text(_POSITIVE)]
PartCount = Annotated[int, Field(ge=1, le=MAX_SERVERS)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]

_FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"
_LABEL = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
PRINTABLE = r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$"
_KIND_NAME = r"^[a-z][a-z0-9_-]*$"

PATTERN_WORDS = {
    _FILE_NAME: "letters, digits and . _ + - after a first letter or digit",
    _LABEL: "text on one line without control characters",
    PRINTABLE: "text without control characters",
    SIZE_PATTERN: "a size with its unit, such as 1.5 MB or 4GiB",
    _KIND_NAME: "lower-case letters, digits, _ and - after a first letter",
}
"""What the patterns ask for, in words."""

FileName = Annotated[str, Field(min_length=1, max_length=100, pattern=_FILE_NAME)]
Label = Annotated[str, Field(min_length=1, max_length=200, pattern=_LABEL)]
KindName = Annotated[str, Field(min_length=1, max_length=50, pattern=_KIND_NAME)]


def is_none(value: object) -> bool:
    """For `exclude_if`: a key that is left out of the file where there is nothing to say."""
    return value is None
