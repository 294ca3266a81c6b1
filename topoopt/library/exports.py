"""Exports are read back, compared and, where they are schedules of collectives, executed, before they are written."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from topoopt.core.errors import CheckError, InputError
from topoopt.core.step_circuits import SwitchedSteps
from topoopt.formats.exporter import Export, Exporter, check_export
from topoopt.verify.collective.order import OrderLimitError
from topoopt.verify.collective.program import execute
from topoopt.verify.regional_circuits.ports import check_switched_steps


def check_written(exporter: Exporter, export: Export, solution: Any) -> None:
    """Whether another program would read and do what the solution says.

    Raises:
        CheckError: it would not.
    """
    check_export(exporter, export)
    if isinstance(export.content, SwitchedSteps) and (wrong := check_switched_steps(solution, export.content)):
        raise CheckError("the checker rejects circuits of the steps:\n" + "\n".join(map(str, wrong)))
    if exporter.programs is None:
        return
    with tempfile.TemporaryDirectory(prefix="topoopt-export-") as folder:
        for name, data in export.files:
            (Path(folder) / name).write_bytes(data)
        try:
            found = [execute(program) for program in exporter.programs(Path(folder), solution)]
        except (InputError, OrderLimitError) as error:
            raise CheckError(f"the export cannot be executed: {error}") from error
    defects = [one for execution in found for one in execution.defects]
    if defects:
        raise CheckError(
            "the export does not do what it should: " + "; ".join(f"{d.law}: {d.message}" for d in defects)
        )
