"""Time models: how long an iteration takes on a network, by one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from topoopt.core.process import PlugIns

if TYPE_CHECKING:
    from topoopt.simulate.time_models.evaluate import TimeModel

TIME_MODELS: Mapping[str, TimeModel] = PlugIns(
    {
        "rounds": "topoopt.simulate.time_models.evaluate:ROUNDS",
        "hop": "topoopt.simulate.time_models.evaluate:HOP",
        "flexnet": "topoopt.simulate.time_models.evaluate:FLEXNET",
        "fluid": "topoopt.simulate.time_models.evaluate:FLUID",
    }
)
"""Time models by name; a new one is one module and one line here."""


def for_several_jobs() -> tuple[str, ...]:
    """Names of the models that run jobs together."""
    return tuple(name for name, model in TIME_MODELS.items() if model.first_iterations is not None)
