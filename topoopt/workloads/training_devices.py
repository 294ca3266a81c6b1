"""Accelerators that language models are trained on: peaks, memory, and how much of both training reaches."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from topoopt.core.llm_training import ReachedRates, TrainingDevice

_A100 = ReachedRates(0.7388, 0.6, 2.984, 0.4736, 0.8575, 0.7902, 0.8697, 34.29, 67.0, 143.9, 107.9)
_H100 = ReachedRates(0.5936, 0.5192, 2.062, 0.5167, 0.802, 0.6616, 0.8146, 32.28, 52.73, 124.9, 69.75)

# Dense peaks in TFLOP/s (16 bits, 8 bits, 4 bits), GiB, GB/s of memory, GB/s of scale-up in one direction, GPUs of a
# scale-up domain, Gbit/s of the network a GPU, and whose efficiencies it has. None: it has none, or none is published.
# Figures of vendors' data sheets; memory of NVIDIA's is what their tools report as usable, others' as sold.
_ROWS: Mapping[str, tuple[float, float | None, float | None, float, float, float, int, float | None, ReachedRates]] = {
    "a100": (312.0, None, None, 80, 2039, 300, 8, 200, _A100),
    "a100-40": (312.0, None, None, 40, 1555, 300, 8, 200, _A100),
    "h100": (989.4, 1978.9, None, 80, 3352, 450, 8, 400, _H100),
    "h100-pcie": (756, 1513, None, 80, 2000, 64, 8, 400, _H100),
    "h100-nvl": (835, 1671, None, 94, 3900, 300, 2, 400, _H100),
    "h100-96": (989.4, 1978.9, None, 96, 2400, 450, 8, 400, _H100),
    "h800": (989.4, 1978.9, None, 80, 3352, 200, 8, 400, _H100),
    "h200": (989.4, 1978.9, None, 141, 4800, 450, 8, 400, _H100),
    "h20": (148, 296, None, 96, 4000, 450, 8, 400, _H100),
    "b100": (1750, 3500, 7000, 192, 8000, 900, 8, 400, _H100),
    "b200": (2250, 4500, 9000, 180, 7700, 900, 8, 400, _H100),
    "gb200": (2500, 5000, 10000, 185, 8000, 900, 72, 400, _H100),
    "b300": (2250, 4500, 13500, 268.5, 7700, 900, 8, 800, _H100),
    "gb300": (2500, 5000, 15000, 277.5, 8000, 900, 72, 800, _H100),
    "mi250x": (383, None, None, 128, 3277, 100, 8, 200, _A100),
    "mi300x": (1307.4, 2614.9, None, 192, 5300, 448, 8, 400, _H100),
    "mi325x": (1307.4, 2614.9, None, 256, 6000, 448, 8, 400, _H100),
    "mi355x": (2516.6, 5033.2, 10066.4, 288, 8000, 537.6, 8, 400, _H100),
    "tpu-v4": (275, None, None, 32, 1200, 282, 4096, None, _A100),
    "tpu-v5e": (197, None, None, 16, 819, 200, 256, 25, _A100),
    "tpu-v5p": (459, 459, None, 95, 2765, 600, 8960, 50, _H100),
    "tpu-v6e": (918, 918, None, 32, 1638, 400, 256, None, _H100),
    "tpu-v7x": (2307, 4614, None, 192, 7380, 600, 9216, None, _H100),
    "trainium2": (667, 1299, None, 96, 2900, 640, 64, 200, _H100),
    "trainium3": (671, 2517, 2517, 144, 4900, 1280, 144, None, _H100),
    "gaudi3": (1835, 1835, None, 128, 3670, 525, 8, 600, _H100),
}


def _device(name: str) -> TrainingDevice:
    matrix, eight, four, memory, memory_rate, scale_up, domain, network, reached = _ROWS[name]
    return TrainingDevice(name, matrix, eight, memory_rate, reached, four, memory, scale_up, domain, network)


TRAINING_DEVICES: Mapping[str, TrainingDevice] = MappingProxyType({name: _device(name) for name in _ROWS})
"""Devices by name. An H800 is an H100 with fewer links inside the server, so it has the efficiencies of one."""
