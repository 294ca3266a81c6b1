"""Reading a solution file of any kind: parsed, validated by its schema, then by what the schema cannot state."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from topoopt.files.documents import Limits, parse_document
from topoopt.files.faults import Fault
from topoopt.files.findings import Findings
from topoopt.files.schema_faults import schema_faults

Model = TypeVar("Model", bound=BaseModel)


def read_checked(
    path: str | os.PathLike[str], model: type[Model], faults: Callable[[Model], Sequence[Fault]], limits: Limits
) -> Model:
    """The file as an instance of `model`.

    Raises:
        InputError: everything wrong with the file.
    """
    document = parse_document(path, limits)
    findings = Findings()
    file: Model | None = None
    try:
        file = model.model_validate(document.data)
        findings.add(faults(file))
    except ValidationError as error:
        findings.add(schema_faults(model, error))
    findings.refuse(document)
    if file is None:
        raise AssertionError("a solution file was neither read nor refused")
    return file
