"""Reading measured profiles: what is accepted, what is recovered, what is refused."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.paths import SHARED_DATA
from topoopt.core.errors import InputError
from topoopt.files import job_document as profile_file
from topoopt.files.job_document import read_profile
from topoopt.formats.flexnet.importer import infer_sizes, workload_from_profile

DATA = SHARED_DATA / "flexnet"


def measured(name: str) -> Path:
    path = DATA / name
    if not path.exists():
        pytest.skip("measured profiles are not here (../shared/data/flexnet)")
    return path


def entry(**changes: Any) -> dict[str, Any]:
    return {"name": "Dense_8_8", "pc_str": "2-1-4", "fw_time": 1.5, "bw_time": 2.5, "mem_req": 100, **changes}


def document(*entries: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"batch_size": 64, "ngpus": 4, "measurements": list(entries), **changes}


def write(folder: Path, content: object) -> Path:
    path = folder / "profile.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def refuse(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_profile(path)
    assert all(problem.file == str(path) for problem in caught.value.problems)
    return caught.value


def test_small_profile_is_read(tmp_path: Path) -> None:
    """Names, parts, times and memory arrive as written."""
    profile = read_profile(write(tmp_path, document(entry(), entry(pc_str="2-1-1", fw_time=5), entry(name="Flat"))))
    assert (profile.servers, profile.samples) == (4, 64)
    assert sorted(profile.operators) == ["Dense_8_8", "Flat"]
    assert {p: m.forward_ms for p, m in profile.operators["Dense_8_8"].items()} == {4: 1.5, 1: 5.0}
    assert profile.operators["Flat"][4].gpu_memory_bytes == 100


@pytest.mark.parametrize(
    ("file", "model", "expected"),
    [
        (
            "measures/dlrm16.json",
            "dlrm",
            {"tables": 16, "table_rows": 10**7, "embedding_dim": 256, "lookups": 100, "bottom_width": 1024,
             "bottom_layers": 7, "top_width": 2048, "top_layers": 15, "global_batch": 16_384},
        ),
        (
            "fig12/measure_1048576_128.json",
            "dlrm",
            {"tables": 128, "table_rows": 10**7, "embedding_dim": 128, "lookups": 100, "bottom_width": 2048,
             "bottom_layers": 7, "top_width": 4096, "top_layers": 15, "global_batch": 1_048_576},
        ),
        (
            "measures/candle_128.json",
            "candle",
            {"feature_width": 16384, "feature_layers": 16, "dense_width": 16384, "dense_layers": 8,
             "global_batch": 131_072},
        ),
        (
            "measures/transformer16.json",
            "bert",
            {"layers": 6, "hidden": 768, "heads": 12, "sequence": 256, "global_batch": 1024},
        ),
        (
            "measures/transformer128.json",
            "bert",
            {"layers": 12, "hidden": 1024, "heads": 16, "sequence": 64, "global_batch": 8192},
        ),
        ("measures/vgg32.json", "vgg", {"hidden": 4096, "classes": 1000, "image_size": 229, "global_batch": 8192}),
        ("measures/resnet128.json", "resnet", {"classes": 10, "image_size": 229, "global_batch": 65_536}),
        (
            "measures/ncf128.json",
            "ncf",
            {"tables": 32, "table_rows": 10**6, "gmf_dim": 64, "mlp_dim": 128, "lookups": 100, "mlp_width": 4096,
             "mlp_layers": 8, "global_batch": 65_536},
        ),
    ],
)  # fmt: skip
def test_sizes_are_recovered_from_measured_profiles(file: str, model: str, expected: dict[str, int]) -> None:
    """Sizes of the paper's jobs follow from operator names, memory figures and server count."""
    assert infer_sizes(model, read_profile(measured(file))) == expected


@pytest.mark.parametrize(
    ("file", "model", "operators", "total_ms"),
    [("vgg16", "vgg", 23, 100.48), ("transformer16", "bert", 61, 62.2), ("transformer32", "bert", 121, 124.0)],
)
def test_compute_of_measured_jobs_is_that_of_the_reference(
    file: str, model: str, operators: int, total_ms: float
) -> None:
    """Compute per server of data-parallel plans as published for the released task graphs."""
    workload = workload_from_profile(model, read_profile(measured(f"measures/{file}.json")))
    assert len(workload.operators) == operators
    total = sum(o.splits[0].forward_ms + o.splits[0].backward_ms for o in workload.operators)
    assert total == pytest.approx(total_ms, abs=0.06)


def test_candidates_are_the_measured_parts() -> None:
    """VGG's first convolutions were measured in 8 and 16 parts only; tables in one part; times as in the file."""
    vgg = workload_from_profile("vgg", read_profile(measured("measures/vgg16.json")))
    assert [s.parts for s in vgg.operators[0].splits] == [16, 8]
    dlrm = workload_from_profile("dlrm", read_profile(measured("measures/dlrm16.json")), element_sizes="flexnet")
    table = next(o for o in dlrm.operators if o.kind == "embedding")
    assert [(s.parts, s.server_memory_bytes) for s in table.splits] == [(1, 20_539_768_832)]
    assert (table.element_bytes, table.locally_reduced) == (8, False)
    assert dlrm.operators[0].splits[0].forward_ms == pytest.approx(0.109363)
    assert dlrm.operators[0].splits[0].server_memory_bytes == 4 * 12_591_104


def test_layer_counts_must_be_stated_for_other_clusters(tmp_path: Path) -> None:
    """A profile for six servers tells widths, not layer counts; stated ones are used, others asked for."""
    names = ["Dense_942_32", "Dense_5270_32", "Dense_2048_32", "Dense_32_32", "Concat_1", "Dense_162_64",
             "Dense_64_64", "Dense_64_1", "Dense_1_1"]  # fmt: skip
    profile = read_profile(
        write(tmp_path, document(*(entry(name=name, pc_str="2-1-6") for name in names), batch_size=48, ngpus=6))
    )
    with pytest.raises(InputError) as caught:
        workload_from_profile("candle", profile)
    assert [p.path for p in caught.value.problems] == ["sizes.feature_layers", "sizes.dense_layers"]
    workload = workload_from_profile("candle", profile, sizes={"feature_layers": 3, "dense_layers": 2})
    assert len(workload.operators) == 5 * 3 + 1 + 2 + 2
    assert workload.samples == 48


def test_missing_operator_is_named() -> None:
    """A profile without the one-wide layers of CANDLE is refused with their keys, each once."""
    profile = read_profile(measured("measures/candle16.json"))
    kept = {name: table for name, table in profile.operators.items() if name != "Dense_1_1"}
    broken = type(profile)(profile.servers, profile.samples, kept, "cut.json")
    with pytest.raises(InputError) as caught:
        workload_from_profile("candle", broken)
    assert [problem.value for problem in caught.value.problems] == ["Dense_1_1"]


def test_profile_of_another_model_is_refused() -> None:
    """A DLRM profile read as a transformer says what it is missing; models without rules are named."""
    profile = read_profile(measured("measures/dlrm16.json"))
    for model in ("bert", "vgg", "resnet", "ncf", "candle"):
        with pytest.raises(InputError, match=f"not a profile of {model}"):
            infer_sizes(model, profile)
    with pytest.raises(InputError, match="no profile rule"):
        infer_sizes("gpt", profile)


def test_all_issues_of_a_file_are_listed(tmp_path: Path) -> None:
    """Missing keys, negative and wrong-typed values, bad splits and duplicates come in one error."""
    path = write(
        tmp_path,
        document(
            entry(),
            entry(),
            entry(name="A", fw_time=-1),
            entry(name="B", mem_req=1.5),
            entry(name="C", pc_str="2-1-3"),
            entry(name="D", pc_str="2-4-1"),
            entry(name="E", pc_str="3-1-4"),
            {"name": "F"},
            entry(name="G", bw_time="fast"),
            entry(name="", pc_str=7),
            batch_size=0,
        ),
    )
    found = [(problem.path, problem.message) for problem in refuse(path).problems]
    paths = [where for where, _ in found]
    assert paths == [
        "batch_size",
        "measurements[1]",
        "measurements[2].fw_time",
        "measurements[3].mem_req",
        "measurements[4].pc_str",
        "measurements[5].pc_str",
        "measurements[6].pc_str",
        "measurements[7].pc_str",
        "measurements[7].fw_time",
        "measurements[7].bw_time",
        "measurements[7].mem_req",
        "measurements[8].bw_time",
        "measurements[9].name",
        "measurements[9].pc_str",
    ]
    assert found[1][1] == "measured twice"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"batch_size": NaN, "ngpus": 1, "measurements": []}',
        '{"batch_size": 1, "ngpus": 1, "measurements": [{"name": "a", "pc_str": "2-1-1", "fw_time": Infinity}]}',
        '{"batch_size": 1, "batch_size": 2, "ngpus": 1, "measurements": []}',
        '{"batch_size": 1, "ngpus": 1, "measurements": []}',
        '{"batch_size": 1, "ngpus": 1, "measurements": {}}',
        '{"batch_size": 1, "ngpus": 1}',
        '{"batch_size": 1e3, "ngpus": 1, "measurements": [3]}',
        '{"batch_size": ' + "9" * 5000 + "}",
        "[" * 100_000,
    ],
)
def test_broken_documents_are_refused(tmp_path: Path, text: str) -> None:
    """Whatever is wrong, the error is an InputError that names the file."""
    assert refuse(write(tmp_path, text)).problems


def test_infinite_time_is_refused(tmp_path: Path) -> None:
    """1e999 parses to infinity in JSON readers; it is out of range."""
    text = json.dumps(document(entry())).replace("1.5", "1e999")
    assert [p.path for p in refuse(write(tmp_path, text)).problems] == ["measurements[0].fw_time"]


def test_unreadable_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing files, folders, binary files and files above the size limit."""
    refuse(tmp_path / "missing.json")
    refuse(tmp_path)
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00{")
    refuse(binary)
    monkeypatch.setattr(profile_file, "MAX_BYTES", 50)
    assert "too large" in str(refuse(write(tmp_path, document(entry()))))


@given(
    st.dictionaries(
        st.sampled_from(["Dense_1_1", "Flat", "Concat_1"]),
        st.dictionaries(
            st.sampled_from([1, 2, 3, 6]),
            st.tuples(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 2**50)),
            min_size=1,
        ),
        min_size=1,
    )
)
@settings(max_examples=40)
def test_profiles_survive_the_file(table: dict[str, dict[int, tuple[float, float, int]]]) -> None:
    """Whatever is written in the format comes back exactly."""
    entries = [
        entry(name=name, pc_str=f"2-1-{parts}", fw_time=f, bw_time=b, mem_req=m)
        for name, rows in table.items()
        for parts, (f, b, m) in rows.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        profile = read_profile(write(Path(folder), document(*entries, ngpus=6)))
    assert {
        name: {p: (m.forward_ms, m.backward_ms, m.gpu_memory_bytes) for p, m in rows.items()}
        for name, rows in profile.operators.items()
    } == table
