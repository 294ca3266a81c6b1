"""Public cases, read in place: bug reports and files of people who do this job, with the values that are right.

Cases of formats stand in `tests/formats/test_public_files.py`, of links with rates in `tests/kinds/network`, of
launches in `test_cli_launch.py`, of Clos fabrics in `tests/core/test_clos.py`, of parallel switches beside their kind.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_cases import run
from tests.support.paths import ROOT

PUBLIC = ROOT.parent / "shared" / "data" / "public_cases"

pytestmark = pytest.mark.skipif(not PUBLIC.exists(), reason="no folder of public cases beside the project")


def case(number: str, file: str) -> Path:
    """A file of a case."""
    (folder,) = PUBLIC.glob(f"{number}-*")
    return folder / file


def evaluated(number: str, file: str) -> dict[str, Any]:
    """What `llm evaluate` says of an instance."""
    done = run("llm", "evaluate", case(number, file), "--json")
    assert done.code in {0, 3}, done.stderr  # 3: it does not fit, which is said
    return done.json


def solved(number: str, file: str, folder: Path) -> dict[str, Any]:
    """What `solve` says of an instance."""
    done = run("solve", case(number, file), "-o", folder / "out", "--json")
    assert done.code in {0, 7}, done.stderr
    assert done.json["check"]["ok"]
    return done.json


def test_every_case_has_a_test() -> None:
    """A folder that no test names would be left out without a word."""
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    folders = [path.name for path in sorted(PUBLIC.iterdir()) if path.is_dir()]
    # Their values stand in tests/core/test_clos.py and in tests/kinds/parallel_circuits.
    elsewhere = {"47-sizing-page-that-does-not-add-up", "52-demand-over-parallel-switches"}
    numbers = {f'"{folder.partition("-")[0]}"' for folder in folders}
    named = {number for number in numbers if any(number in text for text in texts)}
    missing = [
        folder
        for folder in folders
        if f'"{folder.partition("-")[0]}"' not in named
        and folder not in elsewhere
        and not any(folder in text for text in texts)
    ]
    assert missing == []


def test_batch_that_replicas_do_not_divide() -> None:
    """1472 GPUs by 64 are 23 replicas, which do not divide 32 sequences."""
    done = run("llm", "evaluate", case("01", "simai-202.yaml"))
    assert done.code == 2
    assert all(number in done.stderr for number in ("1472", "23", "32"))


def test_direct_is_no_faster_than_the_vector_allows(tmp_path: Path) -> None:
    """2 x 7/8 x 100 MB over 50 GB/s are 3.5 ms, plus latencies."""
    document = solved("05", "switch-8.yaml", tmp_path)
    assert document["bound"]["value"] == pytest.approx(3500, rel=1e-3)
    assert 3500 <= document["objective"]["value"] <= 3501


def test_two_nodes_with_a_card_each(tmp_path: Path) -> None:
    """Each node sends the vector once over 12.5 GB/s: 80 ms for 1 GB."""
    document = solved("08", "two-nodes-one-nic.yaml", tmp_path)
    assert document["bound"]["value"] == pytest.approx(80_000, rel=1e-3)
    assert document["objective"]["value"] >= 80_000
    assert document["objective"]["value"] <= 1.02 * 80_000


def test_thirty_layers_on_four_stages() -> None:
    """All layers are there: 30 (12 h^2 + 13 h) + (51200 + 2048 + 2) h parameters."""
    document = evaluated("10", "thirty-layers.yaml")
    assert document["parameters"] == 6_259_507_200
    assert sorted(document["strategy"]["stage_layers"]) == [7, 7, 8, 8]


@pytest.mark.parametrize(
    ("number", "file", "parameters", "met"),
    [
        ("13", "moe-memory.yaml", 30_532_122_624, 3_353_032_704),
        ("27", "k2.yaml", 1_026_408_232_448, 32_861_500_928),
        ("29", "glm-4.5.yaml", 352_797_829_024, 33_632_266_144),
        ("29", "glm-air.yaml", 106_852_251_264, 13_424_129_664),
        ("31", "mistral.yaml", 7_241_732_096, 7_241_732_096),
        ("33", "qwen3-next.yaml", 79_674_391_296, None),
        ("53", "moonlight.yaml", 15_960_110_208, 2_914_776_192),
    ],
)
def test_parameters_of_published_models(number: str, file: str, parameters: int, met: int | None) -> None:
    """Counted tensor by tensor; `met` are those that a token meets."""
    document = evaluated(number, file)
    assert document["parameters"] == parameters
    assert met is None or document["met_parameters"] == met


def test_memory_of_experts() -> None:
    """7 642 626 048 parameters a rank, experts split by expert x expert_tensor alone: 128.12 GiB of state."""
    memory = evaluated("13", "moe-memory.yaml")["memory_gib"]
    state = memory["weights"] + memory["gradients"] + memory["optimizer"]
    assert state == pytest.approx(128.12, abs=0.01)


def test_stages_of_forty_six_layers() -> None:
    """Twelve, twelve, eleven, eleven in some order."""
    assert sorted(evaluated("29", "glm-air.yaml")["strategy"]["stage_layers"]) == [11, 11, 12, 12]


def test_a_window_is_counted() -> None:
    """48.70 GFLOP a token with the window of 4096, 68.43 without."""
    document = evaluated("31", "mistral.yaml")
    assert 1e3 * document["tflops_per_gpu"] / document["tokens_per_s_per_gpu"] == pytest.approx(48.70, abs=0.01)


@pytest.mark.parametrize(("file", "value"), [("allgather.yaml", 1e9 / 5.3333e9), ("all-to-all.yaml", None)])
def test_four_of_sixteen_on_a_torus(file: str, value: float | None, tmp_path: Path) -> None:
    """Idle ranks relay: an AllGather at 5.3333 GB/s, an All-to-All at 4/3 GB/s a pair."""
    document = solved("39", file, tmp_path)
    expected = 1e6 * (value if value is not None else 1 / 4 / (4 / 3))  # a fourth of 1 GB a pair
    assert document["bound"]["value"] == pytest.approx(expected, rel=2e-3)
    assert document["objective"]["value"] <= 1.02 * expected


def test_llama_on_eight_and_128() -> None:
    """Measured 6 667 tokens/s a GPU and 77.0 GiB on 8, 2.3 % and 15.0 GiB less on 128; both fit in 96 GB."""
    few, many = (evaluated("41", f"llama-8b-{gpus}.yaml") for gpus in (8, 128))
    assert few["tokens_per_s_per_gpu"] == pytest.approx(6667, rel=0.15)
    assert 0.95 <= many["tokens_per_s_per_gpu"] / few["tokens_per_s_per_gpu"] <= 1
    assert 14 <= few["memory_gib"]["total"] - many["memory_gib"]["total"] <= 16
    assert few["fits"]
    assert many["fits"]


def test_memory_on_b200() -> None:
    """12 layers of 70B, tensor 2, data 4: measured 60.68 GiB."""
    assert evaluated("45", "llama-70b-b200.yaml")["memory_gib"]["total"] == pytest.approx(60.68, rel=0.05)


def test_one_group_is_no_limit() -> None:
    """Two descriptions of one routing take the same time."""
    first, second = (evaluated("53", file) for file in ("moonlight.yaml", "moonlight-8-of-8.yaml"))
    assert first["iteration_time_s"] == second["iteration_time_s"]
    assert first["detail"]["expert_crossing_sent_bytes"] == second["detail"]["expert_crossing_sent_bytes"]
