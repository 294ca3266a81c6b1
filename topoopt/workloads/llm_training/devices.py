"""GPUs that language models are trained on: peaks of data sheets, and how much of them training reaches.

Efficiencies are what `topoopt calibrate` fits to every second one of the published runs in `instances/llm-training`;
docs/kinds/llm-training.md tells the errors on the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from topoopt.core.llm_training import ReachedRates, TrainingDevice

_A100 = ReachedRates(0.7388, 0.6, 2.984, 0.4736, 0.8575, 0.7902, 0.8697, 34.29, 67.0, 143.9, 107.9)
_H100 = ReachedRates(0.5936, 0.5192, 2.062, 0.5167, 0.802, 0.6616, 0.8146, 32.28, 52.73, 124.9, 69.75)

TRAINING_DEVICES: Mapping[str, TrainingDevice] = MappingProxyType(
    {
        "a100": TrainingDevice("a100", 312.0, None, 2039.0, _A100),
        "h100": TrainingDevice("h100", 989.4, 1978.9, 3352.0, _H100),
        "h800": TrainingDevice("h800", 989.4, 1978.9, 3352.0, _H100),
    }
)
"""Devices by name. An H800 is an H100 with fewer links inside the server, so it has the efficiencies of one."""
