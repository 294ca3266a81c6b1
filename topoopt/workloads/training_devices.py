"""Accelerators that language models are trained on: peaks, memory, and how much of both training reaches."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from topoopt.core.llm_training import NumberFormats, TrainingDevice
from topoopt.workloads.step_efficiencies import DEFAULT_SOFTWARE, reached_rates

# Dense peaks in TFLOP/s (16 bits, 8 bits, 4 bits), GiB, GB/s of memory, GB/s of scale-up in one direction, GPUs of a
# scale-up domain, and Gbit/s of the network a GPU. None: it has none, or none is published.
# Figures of vendors' data sheets; memory of NVIDIA's is what their tools report as usable, others' as sold.
_ROWS: Mapping[str, tuple[float, float | None, float | None, float, float, float, int, float | None]] = {
    "a100": (312.0, None, None, 80, 2039, 300, 8, 200),
    "a100-40": (312.0, None, None, 40, 1555, 300, 8, 200),
    "h100": (989.4, 1978.9, None, 80, 3352, 450, 8, 400),
    "h100-pcie": (756, 1513, None, 80, 2000, 64, 8, 400),
    "h100-nvl": (835, 1671, None, 94, 3900, 300, 2, 400),
    "h100-96": (989.4, 1978.9, None, 96, 2400, 450, 8, 400),
    "h800": (989.4, 1978.9, None, 80, 3352, 200, 8, 400),
    "h200": (989.4, 1978.9, None, 141, 4800, 450, 8, 400),
    "h20": (148, 296, None, 96, 4000, 450, 8, 400),
    "b100": (1750, 3500, 7000, 192, 8000, 900, 8, 400),
    "b200": (2250, 4500, 9000, 180, 7700, 900, 8, 400),
    "gb200": (2500, 5000, 10000, 185, 8000, 900, 72, 400),
    "b300": (2250, 4500, 13500, 268.5, 7700, 900, 8, 800),
    "gb300": (2500, 5000, 15000, 277.5, 8000, 900, 72, 800),
    "mi250x": (383, None, None, 128, 3277, 100, 8, 200),
    "mi300x": (1307.4, 2614.9, None, 192, 5300, 448, 8, 400),
    "mi325x": (1307.4, 2614.9, None, 256, 6000, 448, 8, 400),
    "mi355x": (2516.6, 5033.2, 10066.4, 288, 8000, 537.6, 8, 400),
    "tpu-v4": (275, None, None, 32, 1200, 282, 4096, None),
    "tpu-v5e": (197, None, None, 16, 819, 200, 256, 25),
    "tpu-v5p": (459, 459, None, 95, 2765, 600, 8960, 50),
    "tpu-v6e": (918, 918, None, 32, 1638, 400, 256, None),
    "tpu-v7x": (2307, 4614, None, 192, 7380, 600, 9216, None),
    "trainium2": (667, 1299, None, 96, 2900, 640, 64, 200),
    "trainium3": (671, 2517, 2517, 144, 4900, 1280, 144, None),
    "gaudi3": (1835, 1835, None, 128, 3670, 525, 8, 600),
}


def _device(name: str) -> TrainingDevice:
    matrix, eight, four, memory, memory_rate, scale_up, domain, network = _ROWS[name]
    reached = reached_rates(name, DEFAULT_SOFTWARE, NumberFormats())
    return TrainingDevice(name, matrix, eight, memory_rate, reached, four, memory, scale_up, domain, network, name)


TRAINING_DEVICES: Mapping[str, TrainingDevice] = MappingProxyType({name: _device(name) for name in _ROWS})
"""Devices by name, with what they reach in 16 bits with dense models."""
