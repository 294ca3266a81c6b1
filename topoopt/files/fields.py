"""Field types and parts of files: strict, bounded, every number finite; the section `search` is one.

A value of core goes into a model as it is (`Model.model_validate(value)`), and `build` makes it again of what a file
states. Fields of the same name hold the same thing; a part that is to look different in the file overrides
`attributes` and `arguments`. The annotated types here are lists in the file, and tuples, arrays or objects of core once
read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, Strict, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from topoopt.core.search_settings import AllReduceChoice, RobustGoal, SearchSettings

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
Bytes = Annotated[int, Field(ge=0, le=MAX_BYTES)]
Ways = Annotated[int, Field(ge=1, le=MAX_SERVERS)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]

_FILE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"
_LABEL = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
PRINTABLE = r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$"
_KIND_NAME = r"^[a-z][a-z0-9_-]*$"

PATTERN_WORDS = {
    _FILE_NAME: "letters, digits and . _ + - after a first letter or digit",
    _LABEL: "text on one line without control characters",
    PRINTABLE: "text without control characters",
    _KIND_NAME: "lower-case letters, digits, _ and - after a first letter",
}
"""What the patterns ask for, in words."""

FileName = Annotated[str, Field(min_length=1, max_length=100, pattern=_FILE_NAME)]
Label = Annotated[str, Field(min_length=1, max_length=200, pattern=_LABEL)]
KindName = Annotated[str, Field(min_length=1, max_length=50, pattern=_KIND_NAME)]


Item = TypeVar("Item")

Listed = Annotated[tuple[Item, ...], Strict(False)]
"""A list in the file, a tuple once read; what is in it stays strict."""


class FilePart(FileModel):
    """A mapping in a solution file that stands for a value of `core`, a dataclass."""

    core: ClassVar[type[Any]]

    @model_validator(mode="before")
    @classmethod
    def _of_core(cls, value: object) -> object:
        return cls.attributes(value) if isinstance(value, cls.core) else value

    @classmethod
    def attributes(cls, value: Any) -> dict[str, Any]:
        """What stands in the file, by its names there, for a value of core."""
        names = ((name, field.alias or name) for name, field in cls.model_fields.items())
        return {key: getattr(value, name) for name, key in names if hasattr(value, name)}

    def arguments(self) -> dict[str, Any]:
        """Arguments of `core` that the file states."""
        names = type(self).model_fields
        return {name: built(getattr(self, name)) for name in _arguments(self.core) if name in names}

    def build(self) -> Any:
        """The value of core."""
        return self.core(**self.arguments())


def _arguments(core: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(core) if field.init)


def is_none(value: object) -> bool:
    """For `exclude_if`: a key that is left out of the file where there is nothing to say."""
    return value is None


def is_empty(value: object) -> bool:
    """The same for lists."""
    return not value


def built(value: Any) -> Any:
    """The value of core that a field of a part stands for."""
    if isinstance(value, FilePart):
        return value.build()
    if isinstance(value, tuple | list) and value and isinstance(value[0], FilePart):
        return tuple(part.build() for part in value)
    return value


def _schema(
    listed: CoreSchema, kind: type[Any], read: Callable[[Any], Any], write: Callable[[Any], Any]
) -> CoreSchema:
    """What is of type `kind` passes; anything else must be as `listed`, and goes through `read`."""

    def take(value: object, inner: Callable[[object], Any]) -> Any:
        return value if isinstance(value, kind) else read(inner(value))

    written = core_schema.plain_serializer_function_ser_schema(write)
    return core_schema.no_info_wrap_validator_function(take, listed, serialization=written)


@dataclass(frozen=True)
class NameOf:
    """A name in the file, a member of an enumeration of names once read."""

    names: type[StrEnum]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Schema of the names, with the way to the member and back."""
        return handler(Annotated[self.names, Strict(False)])

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """What stands in the file, without the words of the code."""
        return {"enum": [name.value for name in self.names], "type": "string"}


@dataclass(frozen=True)
class ArrayOf:
    """Lists in the file, a numpy array once read.

    Attributes:
        item: type of an entry of the list; for tables a list or a tuple.
        dtype: of the array.
        shape: of the array, with -1 for the length of the list; None: as the lists are.
        most: entries of the list at most.
    """

    item: Any
    dtype: type[np.generic]
    shape: tuple[int, ...] | None = None
    most: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Schema of the list, with the way to the array and back."""

        def read(rows: list[Any]) -> NDArray[Any]:
            try:
                array: NDArray[Any] = np.array(rows, dtype=self.dtype)
            except ValueError:
                raise PydanticCustomError("ragged", "rows of different lengths") from None
            return array if self.shape is None else array.reshape(self.shape)

        listed = handler.generate_schema(Annotated[list[self.item], Field(max_length=self.most)])  # type: ignore[name-defined]
        return _schema(listed, np.ndarray, read, np.ndarray.tolist)


@dataclass(frozen=True)
class RowOf:
    """A list with the fields of a dataclass in order, an object of it once read.

    Attributes:
        core: the dataclass.
        row: type of the list, a tuple.
    """

    core: type[Any]
    row: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Schema of the list, with the way to the object and back."""
        names = _arguments(self.core)

        def write(value: Any) -> list[Any]:
            return [getattr(value, name) for name in names]

        listed = handler.generate_schema(Annotated[self.row, Strict(False)])
        return _schema(listed, self.core, lambda row: self.core(*row), write)


@dataclass(frozen=True)
class PairsOf:
    """A mapping in the file, a tuple of keys with their values once read."""

    value: Any
    key: Any = str
    most: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Schema of the mapping, with the way to the tuple and back."""
        mapping = handler.generate_schema(Annotated[dict[self.key, self.value], Field(max_length=self.most)])  # type: ignore[name-defined]
        return _schema(mapping, tuple, lambda entries: tuple(entries.items()), dict)


def table(*columns: NDArray[Any]) -> list[tuple[Any, ...]]:
    """Rows of plain numbers, of arrays of equal length."""
    return list(zip(*(column.tolist() for column in columns), strict=True))


def column(rows: tuple[Any, ...], index: int, dtype: type[np.generic]) -> NDArray[Any]:
    """One column of rows, as an array."""
    return np.array([row[index] for row in rows], dtype=dtype)


def _is_rings(value: object) -> bool:
    return value is AllReduceChoice.RINGS


# Not written where it is rings, so that the hash of an instance is the same as without.
AllReduceField = Annotated[
    AllReduceChoice,
    NameOf(AllReduceChoice),
    Field(
        exclude_if=_is_rings,
        description="what AllReduces run on: rings, trees, bfb (breadth-first broadcasts), or the best by size",
    ),
]


class SearchFile(FilePart):
    """How hard to search."""

    core = SearchSettings

    method: str = Field(default="auto", min_length=1, max_length=50, description="search method, or auto")
    budget: int | None = Field(default=None, ge=0, le=10**12, description="proposals of the search; null: the default")
    time_limit_s: float | None = Field(default=None, gt=0, le=1e7, description="wall-clock limit; null: none")
    seed: Seed = 0


class RobustGoalPart(FilePart):
    """Ask for the design whose worst single failure is best."""

    core = RobustGoal

    failures: Literal["single-link"] = Field(default="single-link", description="what fails")
    within_percent: float | None = Field(
        default=None, ge=0, le=1e6, description="how much worse it may be without failure than the best; null: any"
    )


class RobustSearchFile(SearchFile):
    """How hard to search, and whether for a robust design."""

    # Not written where none is asked for, so that the hash of an instance is the same with and without null.
    robust: RobustGoalPart | None = Field(
        default=None, exclude_if=is_none, description="stand single failures; null: not looked at"
    )
