"""Time models: how long an iteration takes on a network. A new one is one file, and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from topoopt.core.plugins import PlugIns

if TYPE_CHECKING:
    from topoopt.simulate.time_models.time_model import TimeModel

TIME_MODELS: Mapping[str, TimeModel] = PlugIns(
    {
        "rounds": "topoopt.simulate.time_models.rounds:MODEL",
        "hop": "topoopt.simulate.time_models.hop:MODEL",
        "flexnet": "topoopt.simulate.time_models.flexnet:MODEL",
        "fluid": "topoopt.simulate.time_models.fluid:MODEL",
    }
)
"""They are compiled, and loaded when they are asked for."""


def for_several_jobs() -> tuple[str, ...]:
    """Names of the models that run jobs together."""
    return tuple(name for name, model in TIME_MODELS.items() if model.first_iterations is not None)
