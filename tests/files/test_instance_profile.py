"""Instances whose operator times come from a measured profile."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import SHARED_DATA
from tests.support.refused import errors, save
from topoopt.core.errors import InputError
from topoopt.core.job import CoOptimisation
from topoopt.kinds.files import read_instance

DATA = SHARED_DATA / "flexnet"


PROFILE: dict[str, Any] = {
    "batch_size": 32,
    "ngpus": 4,
    "measurements": [
        {"name": name, "pc_str": f"2-1-{parts}", "fw_time": 1.0 / parts, "bw_time": 2.0 / parts, "mem_req": 1000}
        for name, splits in {
            "Dense_8_8": (1, 2, 4),
            "Embed_100x8": (1,),
            "Concat_1": (4,),
            "Dense_24_8": (4,),
            "Dense_8_1": (4,),
        }.items()
        for parts in splits
    ],
}

PROFILE_INSTANCE: dict[str, Any] = {
    "schema_version": 1,
    "kind": "co-optimisation",
    "name": "measured",
    "cluster": {"servers": 4, "gpus_per_server": 2, "degree": 2, "link_gbps": 100},
    "workload": {
        "model": "dlrm",
        "sizes": {
            "tables": 2,
            "table_rows": 100,
            "embedding_dim": 8,
            "bottom_width": 8,
            "bottom_layers": 1,
            "top_width": 8,
            "top_layers": 1,
            "samples_per_gpu": 4,
        },
        "operator_times": {"profile": "sub/profile.json"},
    },
}


def profile_instance(folder: Path, profile: dict[str, Any]) -> Path:
    """An instance with a measured profile in a folder beside it."""
    (folder / "sub").mkdir(exist_ok=True)
    (folder / "sub" / "profile.json").write_text(json.dumps(profile))
    return save(folder / "a.json", PROFILE_INSTANCE)


def test_a_profile_is_found_from_the_folder_of_the_instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are those measured, wherever the program was started, and the memory of no device is assumed."""
    path = profile_instance(tmp_path, PROFILE)
    monkeypatch.chdir("/")
    instance = read_instance(path)
    dense = instance.workload.operators[0]
    assert [(split.parts, split.forward_ms, split.server_memory_bytes) for split in dense.splits] == [
        (4, 0.25, 2000),
        (2, 0.5, 2000),
        (1, 1.0, 2000),
    ]
    assert instance.cluster.gpu_memory_bytes is None


def test_the_hash_covers_what_is_in_the_profile(tmp_path: Path) -> None:
    """Two instances that name the same profile file differ when its content does."""
    one = read_instance(profile_instance(tmp_path, PROFILE)).sha256
    changed = copy.deepcopy(PROFILE)
    changed["measurements"][0]["fw_time"] = 1.25
    assert read_instance(profile_instance(tmp_path, changed)).sha256 != one
    assert read_instance(profile_instance(tmp_path, PROFILE)).sha256 == one


def test_a_missing_profile_entry_is_refused_with_the_line_that_names_the_profile(tmp_path: Path) -> None:
    """An operator that was never measured is named, with the keys there are; so is a profile for other servers."""
    lacking = copy.deepcopy(PROFILE)
    lacking["measurements"] = [entry for entry in lacking["measurements"] if entry["name"] != "Dense_24_8"]
    path = profile_instance(tmp_path, lacking)
    (problem,) = errors(path).problems
    assert problem.path == "workload.operator_times.profile"
    assert problem.value == "Dense_24_8"
    assert "Dense_8_8" in str(problem.allowed)
    assert problem.line == path.read_text().splitlines().index('   "profile": "sub/profile.json"') + 1
    other = profile_instance(tmp_path, {**PROFILE, "ngpus": 8})
    assert "another ngpus" in str(errors(other))


def test_a_broken_profile_is_reported_under_its_own_name(tmp_path: Path) -> None:
    """Faults inside the profile belong to the profile file; exit code 2 all the same."""
    broken = copy.deepcopy(PROFILE)
    broken["measurements"][0]["fw_time"] = -1
    path = profile_instance(tmp_path, broken)
    with pytest.raises(InputError) as caught:
        read_instance(path)
    assert [problem.file for problem in caught.value.problems] == [str(tmp_path / "sub" / "profile.json")]
    assert caught.value.problems[0].path == "measurements[0].fw_time"


def test_a_measured_profile_of_the_reference_is_read_where_it_is(tmp_path: Path) -> None:
    """The 16-server DLRM profile of the TopoOpt artifact fits the model's default sizes."""
    profile = DATA / "measures" / "dlrm16.json"
    if not profile.exists():
        pytest.skip(f"no measured profiles at {profile}")
    document = copy.deepcopy(PROFILE_INSTANCE)
    document["cluster"] |= {"servers": 16, "gpus_per_server": 4}
    document["workload"] |= {"sizes": {}, "operator_times": {"profile": str(profile)}, "element_sizes": "flexnet"}
    instance: CoOptimisation = read_instance(save(tmp_path / "a.json", document))
    tables = [operator for operator in instance.workload.operators if operator.kind == "embedding"]
    assert len(tables) == 16
    assert {operator.element_bytes for operator in tables} == {8}
    assert all([split.parts for split in operator.splits] == [1] for operator in tables)
