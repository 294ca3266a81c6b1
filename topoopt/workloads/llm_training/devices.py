"""GPUs that language models are trained on: peaks of data sheets, and how much of them training reaches.

Efficiencies are what `topoopt calibrate` fits to every second one of the published runs in `instances/llm-training`;
docs/kinds/llm-training.md tells the errors on the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from topoopt.core.llm_training import ReachedRates, TrainingDevice

_A100 = ReachedRates(0.7461, 0.6, 3.286, 0.4682, 0.8541, 0.7919, 0.9089, 35.03, 300.0, 156.6, 112.8)
_H100 = ReachedRates(0.5989, 0.515, 2.261, 0.523, 0.814, 0.694, 0.95, 33.61, 346.3, 147.1, 76.66)

TRAINING_DEVICES: Mapping[str, TrainingDevice] = MappingProxyType(
    {
        "a100": TrainingDevice("a100", 312.0, None, 2039.0, _A100),
        "h100": TrainingDevice("h100", 989.4, 1978.9, 3352.0, _H100),
        "h800": TrainingDevice("h800", 989.4, 1978.9, 3352.0, _H100),
    }
)
"""Devices by name. An H800 is an H100 with fewer links inside the server, so it has the efficiencies of one."""
