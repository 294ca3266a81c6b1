"""What exporters choose themselves is checked before it is written."""

from __future__ import annotations

from typing import Any

from topoopt.core.errors import CheckError
from topoopt.core.regional_circuits import SwitchedSteps
from topoopt.formats.exporter import Export
from topoopt.verify.regional_circuits import check_switched_steps


def check_choices(export: Export, solution: Any) -> None:
    """Whether the ports of circuits that change from step to step fit the solution.

    Raises:
        CheckError: they do not.
    """
    if isinstance(export.content, SwitchedSteps) and (wrong := check_switched_steps(solution, export.content)):
        raise CheckError("the checker rejects circuits of the steps:\n" + "\n".join(map(str, wrong)))
