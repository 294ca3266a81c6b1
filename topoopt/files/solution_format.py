"""Solution files of any kind: the same bytes for the same solution, read back as files of unknown origin."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from topoopt.core.errors import TopooptError
from topoopt.core.interrupts import end_if_interrupted
from topoopt.core.solution import SolutionHead
from topoopt.core.units import MIB
from topoopt.files.atomic import write_text_atomically
from topoopt.files.checked_file import read_checked
from topoopt.files.documents import Limits
from topoopt.files.faults import Fault
from topoopt.files.solution_head import SolutionHeadFile

Solution = TypeVar("Solution", bound=SolutionHead)

LIMITS = Limits(json_bytes=256 * MIB, json_nodes=16_000_000)
"""Solutions hold long tables."""


def _plain(value: object) -> object:
    """Numbers of numpy that slipped into a field of a plain type."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a solution holds a {type(value).__name__}")


_dump = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


@dataclass(frozen=True)
class SolutionFormat(Generic[Solution]):
    """How the solutions of a kind stand in files.

    Attributes:
        model: shape of the file; the order of its fields is that of the keys.
        faults: what the shape cannot state: indices in range, tables of fitting length.
        rows: keys of lists with a line of text for each entry.
        nested: keys of mappings with a line of text for each of their keys.
        limits: what a file may take.
    """

    model: type[SolutionHeadFile]
    faults: Callable[[Any], Sequence[Fault]]
    rows: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    limits: Limits = LIMITS

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the files."""
        return self.model.model_json_schema()

    def document(self, solution: Solution) -> dict[str, Any]:
        """Plain data of a solution, as they stand in its file.

        Raises:
            TopooptError: the solution does not fit its file: a number is NaN, infinite or out of range (a bug of what
                made it).
        """
        try:
            # Not strict: what comes from core may be a number of numpy.
            file = self.model.model_validate(solution, strict=False)
            document: dict[str, Any] = file.model_dump(mode="json", by_alias=True, fallback=_plain)
        except (ValidationError, PydanticSerializationError) as error:
            raise TopooptError(f"the solution cannot be written: {error}") from error
        end_if_interrupted()
        return document

    def text(self, solution: Solution) -> str:
        """JSON text, one line for each top-level key and each row of the long tables.

        Raises:
            TopooptError: as `document`.
        """
        document = self.document(solution)
        pieces = ["{\n"]
        try:
            for place, key in enumerate([*document]):
                pieces.append(",\n " if place else " ")
                # Plain data of a large job take more than their text, so they go as they are written.
                pieces.extend(self._entry(key, document.pop(key)))
        except ValueError as error:
            raise TopooptError(f"the solution cannot be written: {error}") from error
        pieces.append("\n}\n")
        return "".join(pieces)

    def _entry(self, key: str, value: object) -> Iterator[str]:
        yield f"{_dump(key)}: "
        if key in self.rows and isinstance(value, list) and value:
            for place, row in enumerate(value):
                yield f"{',' if place else '['}\n  {_dump(row)}"
            yield "\n ]"
        elif key in self.nested and isinstance(value, Mapping):
            yield "{\n" + ",\n".join(f"  {_dump(name)}: {_dump(item)}" for name, item in value.items()) + "\n }"
        else:
            yield _dump(value)

    def write(self, solution: Solution, path: str | os.PathLike[str]) -> None:
        """Write a solution file, whole or not at all.

        Raises:
            TopooptError: as `document`; WriteError: the file cannot be written.
        """
        write_text_atomically(path, self.text(solution))

    def read(self, path: str | os.PathLike[str]) -> Solution:
        """Read a solution file (JSON); whether it is right is for the checker to say.

        Raises:
            InputError: everything wrong with the file.
        """
        solution: Solution = read_checked(path, self.model, self.faults, self.limits).build()
        return solution
