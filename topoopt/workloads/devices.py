"""Devices with calibrated efficiencies.

The constants of `A100` are a robust least-squares fit (Cauchy loss on the logarithm of the time) to the measured
profiles of the TopoOpt artifact, made by `tests/support/calibrate.py`; the errors stand in `instances/README.md` and
are recomputed by the tests. Dense layers ran outside the tensor cores, convolutions and attention on them. Launch costs
were bounded by 60 us. Classes that are always memory-bound do not tell their compute efficiency: it is set to 0.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from topoopt.workloads.device import ClassRates, DeviceModel, Efficiency

A100 = DeviceModel(
    name="a100",
    peak_tflops=19.5,
    tensor_tflops=156.0,
    memory_gb_per_s=2039.0,
    memory_gib=80,
    rates=MappingProxyType(
        {
            "dense": ClassRates(Efficiency(0.908, 0.674, 10.9), Efficiency(0.935, 0.426, 24.2)),
            "conv": ClassRates(Efficiency(0.794, 0.219, 60.0), Efficiency(0.574, 0.147, 60.0), tensor_cores=True),
            "attention": ClassRates(Efficiency(0.667, 0.35, 28.6), Efficiency(0.667, 0.35, 57.3), tensor_cores=True),
            "embedding": ClassRates(Efficiency(0.9, 0.392, 2.4), Efficiency(0.9, 0.392, 5.2)),
            "pool": ClassRates(Efficiency(0.9, 0.408, 32.7), Efficiency(0.9, 0.356, 60.0)),
            "concat": ClassRates(Efficiency(0.9, 0.573, 3.2), Efficiency(0.9, 0.83, 3.2)),
            "binary": ClassRates(Efficiency(0.9, 0.656, 2.9), Efficiency(0.9, 0.657, 5.3)),
            "unary": ClassRates(Efficiency(0.9, 0.641, 0.5), Efficiency(0.9, 0.885, 0.5)),
            "softmax": ClassRates(Efficiency(0.9, 0.622, 6.2), Efficiency(0.9, 3.0, 3.7)),
        }
    ),
)

DEVICES: Mapping[str, DeviceModel] = MappingProxyType({"a100": A100})
"""Devices by name."""
