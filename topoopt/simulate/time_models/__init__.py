"""Time models: how long an iteration takes on a network, by one table. A new one is one file, and its name here."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topoopt.simulate.time_models.time_model import TimeModel

_NAMES = ("rounds", "hop", "flexnet", "fluid")
"""Each is the name of a module of this folder that has a `MODEL`."""


class _TimeModels(Mapping[str, "TimeModel"]):
    """Loads a model when it is asked for: they are compiled, and names alone must cost nothing."""

    def __getitem__(self, name: str) -> TimeModel:
        if name not in _NAMES:
            raise KeyError(name)
        model: TimeModel = importlib.import_module(f"{__name__}.{name}").MODEL
        return model

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


TIME_MODELS: Mapping[str, TimeModel] = _TimeModels()


def for_several_jobs() -> tuple[str, ...]:
    """Names of the models that run jobs together."""
    return tuple(name for name, model in TIME_MODELS.items() if model.first_iterations is not None)
