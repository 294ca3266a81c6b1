"""Reading a file of any shape: parsed, validated by its schema, then by what the schema cannot state."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel

from topoopt.files.documents import Limits, parse_document
from topoopt.files.faults import Fault
from topoopt.files.findings import Findings

Model = TypeVar("Model", bound=BaseModel)


def read_checked(
    path: str | os.PathLike[str],
    model: type[Model],
    faults: Callable[[Model], Sequence[Fault]] = lambda _: (),
    limits: Limits | None = None,
) -> Model:
    """The file as an instance of `model`.

    Raises:
        InputError: everything wrong with the file.
    """
    document = parse_document(path, limits or Limits())
    findings = Findings()
    file = findings.shaped(model, document)
    findings.add(faults(file))
    return findings.settled(document, file)
