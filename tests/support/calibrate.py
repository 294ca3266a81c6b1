"""Fit the efficiencies of a device to the measured profiles and print them as a table for `devices.py`.

Run by hand: ``.venv/bin/python tests/support/calibrate.py ../shared/data/flexnet``. Not part of the test run.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from topoopt.files.profile_file import read_profile
from topoopt.formats.flexnet.sizes import infer_sizes
from topoopt.workloads.calibration import Comparison, compare, summarise
from topoopt.workloads.device import ClassRates, DeviceModel, Efficiency
from topoopt.workloads.devices import A100
from topoopt.workloads.spec import Ways

PROFILES = {
    "dlrm": ["measures/dlrm*.json", "fig12/*.json"],
    "candle": ["measures/candle*.json"],
    "bert": ["measures/transformer*.json"],
    "vgg": ["measures/vgg*.json"],
    "resnet": ["measures/resnet*.json"],
    "ncf": ["measures/ncf*.json"],
}
GPUS_PER_SERVER = 4
LOWEST, HIGHEST = (0.01, 0.02, 0.5), (0.99, 3.0, 60.0)
"""Bounds of compute, bandwidth, launch_us; a launch beyond 60 us would only mend the misfit of large kernels."""


def all_comparisons(root: Path, device: DeviceModel) -> list[Comparison]:
    """Every measurement under the data folder beside the model."""
    rows = []
    for model, patterns in PROFILES.items():
        for path in sorted(path for pattern in patterns for path in root.glob(pattern)):
            profile = read_profile(path)
            sizes = infer_sizes(model, profile, gpus_per_server=GPUS_PER_SERVER)
            rows.extend(compare(device, model, sizes, profile, GPUS_PER_SERVER))
    return rows


def fit(rows: list[Comparison], rates: ClassRates, direction: int) -> Efficiency:
    """Efficiency of one class in one direction, of least Cauchy loss on log(model / measured)."""

    def residuals(logs: np.ndarray) -> list[float]:
        trial = Efficiency(*np.exp(logs))
        device = replace(A100, rates={rows[0].operator_class: ClassRates(trial, trial, rates.tensor_cores)})
        return [
            math.log(
                device.times_ms(row.spec, row.samples_per_gpu, Ways(row.parts))[direction] / row.measured_ms[direction]
            )
            for row in rows
        ]

    starts = [(0.9, 0.7, 5.0), (0.5, 0.5, 20.0), (0.3, 0.2, 10.0)]
    runs = [
        least_squares(residuals, np.log(start), bounds=(np.log(LOWEST), np.log(HIGHEST)), loss="cauchy", f_scale=0.1)
        for start in starts
    ]
    return Efficiency(*(float(v) for v in np.exp(min(runs, key=lambda run: run.cost).x)))


def main() -> None:
    """Print the fitted constants and the errors of the constants in use."""
    root = Path(sys.argv[1])
    rows = all_comparisons(root, A100)
    groups = defaultdict(list)
    for row in rows:
        groups[row.operator_class].append(row)
    for name, members in groups.items():
        for direction, label in enumerate(("forward", "backward")):
            e = fit(members, A100.rates[name], direction)
            print(f"{name:10} {label:8} Efficiency({e.compute:.3f}, {e.bandwidth:.3f}, {e.launch_us:.1f})")
    print("errors of the constants in use")
    for name, error in summarise(rows).items():
        print(
            f"{name:10} n={error.measurements:4} median {error.median:.3f} max {error.largest:.2f} "
            f"data-parallel median {error.median_widest:.3f}"
        )


if __name__ == "__main__":
    main()
