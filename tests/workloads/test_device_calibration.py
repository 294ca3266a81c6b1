"""The A100 model against the measured profiles; the figures of instances/README.md are recomputed."""

from __future__ import annotations

import re

import pytest

from tests.support.calibrate import all_comparisons, profiles
from tests.support.calibration import Comparison, compare, summarise
from tests.support.paths import ROOT
from topoopt.formats.flexnet.importer import workload_from_profile
from topoopt.workloads.models import build_workload
from topoopt.workloads.operators import DEVICES, Job, SplitDegrees, part_memory_bytes

README = (ROOT / "instances/README.md").read_text()


@pytest.fixture(scope="module")
def rows() -> list[Comparison]:
    return all_comparisons(DEVICES["a100"])


def test_readme_states_the_errors_of_the_model(rows: list[Comparison]) -> None:
    """Number, median and largest relative error per operator class, as printed in the README."""
    pattern = r"^\| (\w+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$"
    stated = {m[1]: (int(m[2]), m[3], m[4], m[5]) for m in re.finditer(pattern, README, re.MULTILINE)}
    computed = {
        name: (error.measurements, f"{error.median:.3f}", f"{error.largest:.2f}", f"{error.median_widest:.3f}")
        for name, error in summarise(rows).items()
    }
    assert stated == computed


def test_medians_stay_small(rows: list[Comparison]) -> None:
    """Half of all times are met within 7 %, convolutions within 22 %; the worst is off by a factor below 2.3."""
    errors = summarise(rows)
    assert all(error.median < 0.07 for name, error in errors.items() if name != "conv")
    assert errors["conv"].median < 0.22
    assert max(error.largest for error in errors.values()) < 1.3


def test_memory_estimate_equals_the_measured_figures(rows: list[Comparison]) -> None:
    """Dense, attention, concat, pool, add and table memory equal `mem_req` to the byte."""
    checked = 0
    for model, name, sizes, profile in profiles():
        job = Job(profile.samples, profile.servers, 4)
        specs = {row.spec.key: row.spec for row in compare(DEVICES["a100"], model, sizes, profile, 4)}
        for key, spec in specs.items():
            if spec.kind in {"conv", "relu"}:
                continue  # the reference counts their buffers once
            for parts, measured in profile.operators[key].items():
                gpus = 1 if spec.one_gpu else 4
                assert part_memory_bytes(spec, job, SplitDegrees(parts)) == measured.gpu_memory_bytes * gpus, (
                    name,
                    key,
                )
                checked += 1
    assert checked > 700


def test_readme_states_compute_of_data_parallelism() -> None:
    """Sums of operator times with all operators split over all servers, from profiles and from the model."""
    measured_profiles = {name: (model, sizes, profile) for model, name, sizes, profile in profiles()}
    pattern = r"^\| ([a-z]+\d+) \| ([\d.]+) \| ([\d.]+) \| ([+-]\d+) % \|$"
    stated = list(re.finditer(pattern, README, re.MULTILINE))
    assert len(stated) == 13
    for match in stated:
        model, sizes, profile = measured_profiles[match[1]]
        measured = workload_from_profile(model, profile)
        modelled = build_workload(model, sizes, servers=profile.servers, gpus_per_server=4, costs=DEVICES["a100"])
        sums = [
            sum(o.splits[0].forward_ms + o.splits[0].backward_ms for o in workload.operators if o.kind != "embedding")
            for workload in (measured, modelled)
        ]
        assert (match[2], match[3]) == (f"{sums[0]:.2f}", f"{sums[1]:.2f}")
        assert int(match[4]) == round(100 * (sums[1] / sums[0] - 1))
