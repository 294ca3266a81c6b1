"""Fit the efficiencies of a device to the measured profiles and print them as a table for `devices.py`.

Run by hand: ``.venv/bin/python -m tests.support.calibrate``. Not part of the test run.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.optimize import least_squares

from tests.support.calibration import Comparison, compare, summarise
from tests.support.paths import INSTANCES
from topoopt.workloads.operators import A100, ClassRates, DeviceModel, Efficiency, Measurement, Profile, SplitDegrees

GPUS_PER_SERVER = 4
LOWEST, HIGHEST = (0.01, 0.02, 0.5), (0.99, 3.0, 60.0)
"""Bounds of compute, bandwidth, launch_us; a launch beyond 60 us would only mend the misfit of large kernels."""


def profiles() -> Iterator[tuple[str, str, dict[str, int], Profile]]:
    """Model, name, sizes and operator times of all measured profiles."""
    with (INSTANCES / "measured" / "operator-times.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for (model, name), group in itertools.groupby(rows, lambda row: (row["model"], row["profile"])):
        operators: dict[str, dict[int, Measurement]] = {}
        for row in group:
            times = (float(row["forward_ms"]), float(row["backward_ms"]))
            measured = Measurement(*times, int(row["gpu_memory_bytes"]))
            operators.setdefault(row["operator"], {})[int(row["parts"])] = measured
            servers, samples = int(row["servers"]), int(row["samples"])
        sizes = {key: int(value) for key, value in (item.split("=") for item in row["sizes"].split())}
        yield model, name, sizes, Profile(servers, samples, operators)


def all_comparisons(device: DeviceModel) -> list[Comparison]:
    """Every measurement beside the model."""
    return [
        row
        for model, _, sizes, profile in profiles()
        for row in compare(device, model, sizes, profile, GPUS_PER_SERVER)
    ]


def fit(rows: list[Comparison], rates: ClassRates, direction: int) -> Efficiency:
    """Efficiency of one class in one direction, of least Cauchy loss on log(model / measured)."""

    def residuals(logs: np.ndarray) -> list[float]:
        trial = Efficiency(*np.exp(logs))
        device = replace(A100, rates={rows[0].operator_class: ClassRates(trial, trial, rates.tensor_cores)})
        return [
            math.log(
                device.times_ms(row.spec, row.samples_per_gpu, SplitDegrees(row.parts))[direction]
                / row.measured_ms[direction]
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
    rows = all_comparisons(A100)
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
